"""The contract of aggregation schemes. Its functions raise AssertionError with the numbers that break it.

A scheme that sends numbers through `learning.codec` has no coder: its aggregate is checked in place of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import NDArray

from fl.audit.upload_game import scheme_game
from fl.base.checkpoints import State
from fl.base.errors import LearningError
from fl.models.federated import Piece
from fl.schemes.coders.air import Heard, qpsk_symbols
from fl.schemes.coders.coder import Coder, Senders
from fl.schemes.scheme import Scheme
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose
from privacy.audit.attack import Audited, audit
from scenarios.contracts.codec import check_payload
from scenarios.store.checkpoints import read_checkpoint, write_checkpoint

_PIECES = (Piece(name="kernel", shape=(12, 5), offset=0), Piece(name="bias", shape=(5,), offset=60))
_NUM_VALUES = 65
_DEVICES = np.array([0, 3, 4, 11, 12, 90_000])
_SIZE = 0.01
_ROUNDS = 300
_STANDARD_ERRORS = 5.0
_BLOCKS = (slice(0, 1), slice(1, 4), slice(4, 6))

Bits = NDArray[np.uint8]
Floats = NDArray[np.float32]


def _updates(round_index: int = 0) -> Floats:
    drawn = np.random.default_rng(round_index).uniform(-_SIZE, _SIZE, (len(_DEVICES), _NUM_VALUES))
    return drawn.astype(np.float32)


def _context(round_index: int = 0) -> UplinkContext:
    return UplinkContext(seed=5, trials=(1,), round_index=round_index)


def _begun(coder: Coder, round_index: int = 0) -> Coder:
    coder.begin(_context(round_index), devices=_DEVICES, flip_rate=np.zeros(len(_DEVICES)))
    return coder


def _coder(scheme: Scheme) -> Coder:
    return _begun(scheme.build(pieces=_PIECES))


def _encoded(coder: Coder, round_index: int = 0, blocks: Iterable[slice] = (slice(None),)) -> Bits:
    updates, context = _updates(round_index), _context(round_index)
    parts = [coder.encode(updates[part], devices=_DEVICES[part], context=context) for part in blocks]
    return np.concatenate(parts, axis=1)


def _update(
    scheme: Scheme,
    coder: Coder,
    payload: Bits,
    *,
    round_index: int = 0,
    known: NDArray[np.bool_] | None = None,
    blocks: Iterable[slice] = (slice(None),),
) -> Floats:
    count = len(_DEVICES)
    response = scheme.response
    factor = np.full(count, 1.0 - 2.0 * ((response.flip_target if response else None) or 0.0))
    weights = np.arange(1.0, count + 1.0) / (count * (count + 1) / 2)
    gathering = coder.gather(
        Senders(devices=_DEVICES, context=_context(round_index), weights=weights, factor=factor, known=known)
    )
    for part in blocks:
        gathering.add(payload[:, part], known=None if known is None else known[part])
    return gathering.update()


def the_payload_has_the_bits_that_are_declared(scheme: Scheme) -> None:
    """The payload has upload_bits bits for every device, and its padding is zero."""
    check_payload(_encoded(_coder(scheme)), (1, len(_DEVICES)), num_bits=scheme.upload_bits(_NUM_VALUES))


def the_same_seed_gives_the_same_bits(scheme: Scheme) -> None:
    """Two coders encode the same updates of a round to the same bits, and make the same update of them."""
    coders = [_coder(scheme), _coder(scheme)]
    first, second = (_encoded(coder) for coder in coders)
    assert np.array_equal(first, second), "two coders with one seed send other bits"
    updates = [_update(scheme, coder, first) for coder in coders]
    assert np.array_equal(updates[0], updates[1], equal_nan=True), "two coders make other updates of the same bits"
    shape, kind = updates[0].shape, str(updates[0].dtype)
    right = shape == (_NUM_VALUES,) and kind == "float32"
    assert right, f"the update is {kind} {shape}, it must be float32 ({_NUM_VALUES},)"


def any_blocks_of_devices_give_the_same(scheme: Scheme) -> None:
    """Devices in blocks of any size have the same bits and the same update (a scheme `in_blocks`)."""
    if not scheme.in_blocks:
        return
    whole, apart = _coder(scheme), _coder(scheme)
    payload = _encoded(whole)
    assert np.array_equal(payload, _encoded(apart, blocks=_BLOCKS)), "bits depend on the block that a device is in"
    together, in_blocks = _update(scheme, whole, payload), _update(scheme, apart, payload, blocks=_BLOCKS)
    assert np.array_equal(together, in_blocks), "the update depends on the blocks in which bits arrive"


def a_device_has_the_same_bits_alone(scheme: Scheme) -> None:
    """The bits of a device do not depend on the other devices of the round."""
    payload, alone = _encoded(_coder(scheme)), _encoded(_coder(scheme), blocks=(slice(3, 4),))
    assert np.array_equal(payload[:, 3:4], alone), "the bits of a device depend on the other devices"


def the_update_is_unbiased_where_declared(scheme: Scheme) -> None:
    """The mean update over 300 rounds is the weighted mean within 5 standard errors (a scheme that is `unbiased`)."""
    if not scheme.unbiased:
        raise SkipTest("the scheme is not `unbiased`")
    response, num_bits, found = scheme.response, scheme.upload_bits(_NUM_VALUES), []
    updates, weights = _updates(), np.arange(1.0, len(_DEVICES) + 1.0)
    for index in range(_ROUNDS):
        coder, context = _begun(scheme.build(pieces=_PIECES), index), _context(index)
        payload = coder.encode(updates, devices=_DEVICES, context=context)
        if response is not None and response.flip_target is not None:
            probability = np.full((1, len(_DEVICES)), response.flip_target)
            keys = context.keys(Purpose.BIT_FLIPS)
            payload = flip_bits(payload, probability=probability, num_bits=num_bits, keys=keys)
        found.append(_update(scheme, coder, payload, round_index=index))
    error = np.asarray(found, np.float64) - weights @ updates / weights.sum()
    limit = _STANDARD_ERRORS * error.std(axis=0) / np.sqrt(_ROUNDS) + 1e-6 * _SIZE
    worst = int(np.argmax(np.abs(error.mean(axis=0)) / limit))
    mean = float(error.mean(axis=0)[worst])
    assert abs(mean) <= limit[worst], f"number {worst} is {mean:.3g} off on average, at most {limit[worst]:.3g}"


def bits_that_did_not_arrive_do_not_count(scheme: Scheme) -> None:
    """Bits that did not arrive change nothing, and without any bit the update is zero."""
    payload, num_bits = _encoded(_coder(scheme)), scheme.upload_bits(_NUM_VALUES)
    known = np.ones((len(_DEVICES), num_bits), bool)
    known[2] = False
    found = []
    for bits in (payload, payload.copy()):
        coder = _coder(scheme)
        _encoded(coder)
        if bits is not payload:
            bits[:, 2] ^= 0xFF
        found.append(_update(scheme, coder, bits, known=known))
    assert np.array_equal(found[0], found[1]), "bits that did not arrive change the update"
    coder = _coder(scheme)
    nothing = _update(scheme, coder, _encoded(coder), known=~(known | True))
    assert not nothing.any(), "without any bit the update must be zero"


def numbers_that_are_not_finite_are_refused(scheme: Scheme) -> None:
    """NaN and infinity raise LearningError with the number of the device."""
    for bad in (np.nan, np.inf):
        updates = _updates()
        updates[5, 7] = bad
        said = ""
        try:
            _coder(scheme).encode(updates, devices=_DEVICES, context=_context())
        except LearningError as error:
            said = str(error)
        remedy = "it must raise LearningError; call checked_updates of fl.schemes.coders.coder"
        assert said, f"{bad} is encoded, {remedy}"
        assert str(_DEVICES[5]) in said, f"the error does not name device {_DEVICES[5]}: {said}"


def a_restored_coder_continues_bit_for_bit(scheme: Scheme) -> None:
    """A coder restored from state() after two rounds goes on with the same bits and updates."""
    coder = scheme.build(pieces=_PIECES)
    for index in range(2):
        _update(scheme, coder, _encoded(_begun(coder, index), index), round_index=index)
    other = scheme.build(pieces=_PIECES)
    other.restore(_read_again(coder.state()))
    for index in range(2, 4):
        payloads = [_encoded(_begun(one, index), index) for one in (coder, other)]
        assert np.array_equal(payloads[0], payloads[1]), f"round {index + 1} sends other bits after a restart"
        updates = [_update(scheme, one, payloads[0], round_index=index) for one in (coder, other)]
        assert np.array_equal(updates[0], updates[1]), f"round {index + 1} has another update after a restart"


def audit_scheme(
    scheme: Scheme, *, num_games: int = 4000, rounds: int = 1, confidence: float = 1.0 - 1e-6, seed: int = 1
) -> Audited:
    """Audit a scheme with bits of its own over an error-free link, at delta 0."""
    run: dict[str, Any] = {"num_devices": 1, "num_games": num_games, "seed": seed}
    link = LinkConfig(error_model="error_free")
    game = scheme_game(scheme, num_values=None, link=link, rounds=rounds, num_rounds=rounds, **run)
    return audit(game, num_games=num_games, delta=0.0, confidence=confidence)


def the_epsilon_stands_in_an_audit(scheme: Scheme) -> None:
    """No epsilon of the scheme is refuted by 4000 games over an error-free link, at confidence 1 - 1e-6."""
    if scheme.own_epsilon is None or scheme.as_published:
        raise SkipTest("the scheme has no epsilon")
    found = audit_scheme(scheme)
    for claim in filter(found.refuted, found.claims):
        least = found.result.epsilon_lower
        raise AssertionError(f"epsilon {claim.epsilon:g} per {claim.scope} is refuted: it is at least {least:.4g}")


def the_air_without_noise_gives_the_same_update(scheme: Scheme) -> None:
    """The sum of all symbols stands for the update of the bits, or for the weighted mean of numbers.

    Symbols have a mean power of at most 1. Only for a scheme with `air_modulations`; in a vote all weights are equal.
    """
    form = scheme.over_air(_NUM_VALUES) if scheme.air_modulations else None
    if form is None:
        raise SkipTest("its uploads do not add up in the air")
    count, updates = len(_DEVICES), _updates()
    weights = np.arange(1.0, count + 1.0) if scheme.uses_codec else np.ones(count)
    response = scheme.response
    factor = np.full(count, 1.0 - 2.0 * ((response.flip_target if response else None) or 0.0))
    senders = Senders(devices=_DEVICES, context=_context(), weights=weights / weights.sum(), factor=factor)
    payload = form.send(updates, senders).payload
    symbols = qpsk_symbols(payload, num_bits=_NUM_VALUES) if form.bits else payload
    power = float((np.abs(symbols) ** 2).mean(axis=1).max())
    assert power <= 1.0 + 1e-5, f"the symbols of a device have a mean power of {power:.6g}, at most 1 is allowed"
    heard = Heard(total=symbols.sum(axis=0, dtype=np.complex128), noise_power=0.0)
    found = form.send(updates, senders).read(heard)
    if scheme.uses_codec:
        wanted = weights @ updates / weights.sum()
    else:
        coder = _coder(scheme)
        wanted = coder.aggregate(coder.encode(updates, devices=_DEVICES, context=_context()), senders)
    worst = float(np.abs(found - wanted).max())
    assert worst <= 1e-5 * np.abs(wanted).max(), f"the sum in the air stands for an update that is {worst:.3g} off"


def missing_numbers_do_not_count(scheme: Scheme) -> None:
    """Numbers that did not arrive change nothing, and where none arrived the aggregate stays as it is."""
    values, otherwise = _updates(), np.full(_NUM_VALUES, _SIZE / 2.0, np.float32)
    weights, known = np.arange(1.0, len(values) + 1.0), np.ones(values.shape, bool)
    known[2], known[:, 7] = False, False
    other = np.where(known, values, np.float32(3.0 * _SIZE))
    found = [scheme.aggregate(one, weights=weights, known=known, otherwise=otherwise) for one in (values, other)]
    assert np.shape(found[0]) == (_NUM_VALUES,), f"the aggregate has shape {np.shape(found[0])}, not ({_NUM_VALUES},)"
    assert np.array_equal(found[0], found[1]), "numbers that did not arrive change the aggregate; use `known`"
    assert np.isclose(found[0][7], otherwise[7]), "a number of which nothing arrived must be that of `otherwise`"


def the_aggregate_is_the_mean_where_declared(scheme: Scheme) -> None:
    """The aggregate of numbers that all arrived is their weighted mean (a scheme that is `unbiased`)."""
    if not scheme.unbiased:
        raise SkipTest("the scheme is not `unbiased`")
    values, weights = _updates(), np.arange(1.0, len(_DEVICES) + 1.0)
    found = scheme.aggregate(values, weights=weights, known=None, otherwise=np.zeros(_NUM_VALUES, np.float32))
    worst = float(np.abs(found - weights @ values / weights.sum()).max())
    assert worst <= 1e-5 * _SIZE, f"the aggregate is {worst:.3g} off the weighted mean"


def _read_again(state: State) -> State:
    """A state as a run that is resumed reads it from its checkpoint."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "state.ckpt")
        try:
            write_checkpoint(path, about={}, state=state)
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"a checkpoint cannot hold the state ({error}); keep arrays, numbers, words"
            ) from error
        return read_checkpoint(path)[1]


OWN_BITS = (
    the_payload_has_the_bits_that_are_declared,
    the_same_seed_gives_the_same_bits,
    any_blocks_of_devices_give_the_same,
    a_device_has_the_same_bits_alone,
    the_update_is_unbiased_where_declared,
    bits_that_did_not_arrive_do_not_count,
    numbers_that_are_not_finite_are_refused,
    a_restored_coder_continues_bit_for_bit,
    the_epsilon_stands_in_an_audit,
    the_air_without_noise_gives_the_same_update,
)
"""Checks of a scheme with a coder of its own."""

NUMBERS = (
    missing_numbers_do_not_count,
    the_aggregate_is_the_mean_where_declared,
    the_air_without_noise_gives_the_same_update,
)
"""Checks of a scheme that sends numbers through `learning.codec`."""
