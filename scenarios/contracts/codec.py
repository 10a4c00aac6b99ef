"""The contract of codecs. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.base.errors import LearningError
from fl.base.words import plural
from fl.schemes.codecs.codec import Codec
from phy.numerics.random import Purpose, round_keys

_SHAPE = (2, 3, 1001)


def _values(codec: Codec) -> NDArray[np.float32]:
    drawn = np.random.default_rng(1).uniform(-1.0, 1.0, _SHAPE)
    return (drawn * (codec.value_range or 1.0)).astype(np.float32)


def _keys(trials: int = _SHAPE[0], index: int = 1) -> NDArray[np.uint32]:
    return round_keys(7, tuple(range(trials)), Purpose.ROUNDING, index)


def check_payload(payload: NDArray[np.uint8], shape: tuple[int, ...], *, num_bits: int) -> None:
    """Raise AssertionError unless a payload has `num_bits` per sender, in whole bytes and with zeros behind them."""
    assert payload.dtype == np.uint8, f"the payload is {payload.dtype}, it must be uint8"
    wanted = (*shape, -(-num_bits // 8))
    assert payload.shape == wanted, f"the payload has shape {payload.shape}, {plural(num_bits, 'bit')} need {wanted}"
    padding = np.unpackbits(payload, axis=-1)[..., num_bits:]
    assert not padding.any(), f"{int(padding.sum())} bits beyond the {num_bits} that are declared are one"


def the_payload_has_the_bits_that_are_declared(codec: Codec) -> None:
    """The payload has bits_per_value bits for every number, and its padding is zero."""
    payload = codec.encode(_values(codec), keys=_keys()).payload
    check_payload(payload, _SHAPE[:2], num_bits=codec.bits_per_value * _SHAPE[2])


def the_same_keys_give_the_same_bits(codec: Codec) -> None:
    """Encoding twice with the same keys gives the same bits."""
    first, second = (codec.encode(_values(codec), keys=_keys()).payload for _ in range(2))
    assert np.array_equal(first, second), "encoding twice with the same keys gives other bits"


def a_trial_has_the_same_bits_alone(codec: Codec) -> None:
    """A trial has the same bits alone as side by side with others."""
    values = _values(codec)
    together = codec.encode(values, keys=_keys()).payload
    alone = codec.encode(values[1:], keys=_keys()[1:]).payload
    assert np.array_equal(together[1:], alone), "the bits of a trial depend on the trials beside it"


def decoded_numbers_are_near(codec: Codec) -> None:
    """Decoding without bit errors gives numbers whose mean error is within 5 standard errors, or 1e-6, of zero."""
    values = _values(codec)
    decoded = codec.decode(codec.encode(values, keys=_keys()).payload, num_values=_SHAPE[2])
    assert decoded.shape == _SHAPE, f"decoding gives shape {decoded.shape}, it must give {_SHAPE}"
    error = decoded.astype(np.float64) - values
    limit = 5.0 * error.std() / np.sqrt(error.size) + 1e-6 * (codec.value_range or 1.0)
    assert abs(error.mean()) <= limit, f"decoded numbers are {error.mean():.3g} off on average, at most {limit:.3g}"


def numbers_beyond_the_range_are_clipped_and_counted(codec: Codec) -> None:
    """Numbers beyond value_range are clipped to it and counted."""
    if codec.value_range is None:
        return
    values = np.zeros((1, 1, 8), np.float32)
    values[..., :3] = 4.0 * codec.value_range
    encoded = codec.encode(values, keys=_keys(1))
    largest = float(np.abs(codec.decode(encoded.payload, num_values=8)).max())
    assert encoded.clipped.tolist() == [[3]], f"3 of 8 numbers lie beyond the range, {encoded.clipped} are counted"
    assert largest <= codec.value_range, f"a decoded number is {largest:g}, beyond value_range {codec.value_range:g}"


def numbers_that_are_not_finite_are_refused(codec: Codec) -> None:
    """NaN and infinity raise LearningError."""
    for bad in (np.nan, np.inf):
        values = np.zeros((1, 1, 8), np.float32)
        values[0, 0, 5] = bad
        try:
            codec.encode(values, keys=_keys(1))
        except LearningError:
            continue
        raise AssertionError(f"{bad} is encoded, it must raise LearningError (of fl.base.errors)")


CHECKS = (
    the_payload_has_the_bits_that_are_declared,
    the_same_keys_give_the_same_bits,
    a_trial_has_the_same_bits_alone,
    decoded_numbers_are_near,
    numbers_beyond_the_range_are_clipped_and_counted,
    numbers_that_are_not_finite_are_refused,
)
