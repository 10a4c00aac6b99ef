"""PRoBit: what devices send, what the server estimates and how well, and what liars can do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles.probit_estimate import error_bound, estimate_variance, influence_bound, printed_error
from probit_setting import CONTEXT, DEVICES, MANY, Array, equal, probit, some_updates

from fl.base.errors import LearningError
from fl.schemes.coders import stochastic_bits as kernels
from fl.schemes.coders.coder import Senders
from phy.fading.block_taps import UplinkContext
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose, threefry


def oracle_bits(updates: Array, *, bounds: Array, limits: Array, devices: Array, context: UplinkContext) -> Array:
    """Bits `[K, M]`, number by number: 23 upper bits of the word of (position, device) against (1 + delta / b) / 2."""
    key = context.keys(Purpose.ROUNDING)[0]
    out = np.zeros(updates.shape, np.uint8)
    for row, device in enumerate(devices):
        for column in range(updates.shape[1]):
            block, within = divmod(column, 64)
            half, lane = divmod(within, 32)
            counter = (np.uint32(32 * block + lane), np.uint32(device))
            with np.errstate(over="ignore"):
                word = int(threefry((key[0], key[1]), counter)[half])
            signed = word - (1 << 32) if word >= 1 << 31 else word
            uniform = ((signed >> 9) + 0.5) / 2.0**22
            delta = min(max(float(updates[row, column]), -limits[row]), limits[row])
            out[row, column] = uniform < delta / bounds[row]
    return out


@pytest.mark.parametrize("num_values", [1, 63, 64, 200])
def test_bits_are_those_of_a_slow_oracle_for_any_number_of_a_device(num_values: int) -> None:
    updates = some_updates(5, num_values, size=0.08)
    scheme = probit(num_values, b=0.05)
    found = scheme.encode(updates, devices=DEVICES, context=CONTEXT)
    expected = oracle_bits(updates, bounds=np.full(5, 0.05), limits=np.full(5, 0.05), devices=DEVICES, context=CONTEXT)
    np.testing.assert_array_equal(np.unpackbits(found[0], axis=1, count=num_values), expected)
    assert found.shape == (1, 5, -(-num_values // 8))
    if num_values % 8:
        assert not (found[..., -1] & (0xFF >> num_values % 8)).any()


@pytest.mark.parametrize("with_gaps", [False, True])
def test_the_aggregate_is_that_of_a_slow_oracle_with_weights_factors_and_gaps(with_gaps: bool) -> None:
    rng = np.random.default_rng(3)
    num_values, b = 77, 0.05
    bits = rng.integers(0, 2, (5, num_values), dtype=np.uint8)
    weights, factor = rng.dirichlet(np.ones(5)), rng.uniform(0.3, 1.0, 5)
    known = rng.random((5, num_values)) < 0.6 if with_gaps else None
    if known is not None:
        known[:, 10] = False
    expected = np.zeros(num_values)
    for column in range(num_values):
        heard = [k for k in range(5) if known is None or known[k, column]]
        if heard:
            votes = [weights[k] * b / factor[k] * (2 * int(bits[k, column]) - 1) for k in heard]
            expected[column] = sum(votes) / sum(weights[k] for k in heard)
    found = probit(num_values, b=b).aggregate(
        np.packbits(bits, axis=1)[None],
        Senders(devices=DEVICES, context=CONTEXT, weights=weights, factor=factor, known=known),
    )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_equal_devices_give_the_maximum_likelihood_estimate_as_printed() -> None:
    bits = np.random.default_rng(2).integers(0, 2, (12, 40), dtype=np.uint8)
    ones = bits.sum(axis=0)
    found = probit(40, b=0.3).aggregate(
        np.packbits(bits, axis=1)[None],
        Senders(devices=np.arange(12), context=CONTEXT, weights=equal(12), factor=np.ones(12)),
    )
    np.testing.assert_allclose(found, (2.0 * ones - 12) / 12 * 0.3, rtol=1e-6, atol=1e-9)


def test_neither_chunks_nor_company_change_a_bit_or_the_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    num_values = 700
    updates = some_updates(5, num_values)
    scheme = probit(num_values, b=0.06)
    weights, factor = np.random.default_rng(1).dirichlet(np.ones(5)), np.array([1.0, 0.9, 0.77, 0.6, 0.3])

    def outcome() -> tuple[Array, Array]:
        sent = scheme.encode(updates, devices=DEVICES, context=CONTEXT)
        mean = scheme.aggregate(sent, Senders(devices=DEVICES, context=CONTEXT, weights=weights, factor=factor))
        return sent, mean

    sent, mean = outcome()
    monkeypatch.setattr(kernels, "_CELLS_AT_ONCE", 300)
    monkeypatch.setattr(kernels, "_MOST_COLUMNS", 128)
    again, mean_again = outcome()
    np.testing.assert_array_equal(again, sent)
    np.testing.assert_array_equal(mean_again, mean)
    order = np.array([4, 2, 0])
    few = scheme.encode(updates[order], devices=DEVICES[order], context=CONTEXT)
    np.testing.assert_array_equal(few[0], sent[0, order])
    later = UplinkContext(seed=8, trials=(1,), round_index=5)
    other = np.bitwise_count(scheme.encode(updates, devices=DEVICES, context=later) ^ sent).sum()
    assert other > 5 * num_values // 4


@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_the_estimate_has_the_mean_and_the_variance_of_the_closed_form(flip: float) -> None:
    b, levels = 0.05, np.array([0.04, -0.05, 0.0, 0.013, 0.031])
    updates = np.repeat(levels[:, None], MANY, axis=1).astype(np.float32)
    weights, factor = np.array([0.4, 0.1, 0.2, 0.1, 0.2]), np.full(5, 1.0 - 2.0 * flip)
    scheme = probit(MANY, b=b)
    sent = scheme.encode(updates, devices=DEVICES, context=CONTEXT)
    heard = flip_bits(sent, probability=np.full((1, 5), flip), num_bits=MANY, keys=CONTEXT.keys(Purpose.BIT_FLIPS))
    found = scheme.aggregate(heard, Senders(devices=DEVICES, context=CONTEXT, weights=weights, factor=factor)).astype(
        float
    )
    variance = float(estimate_variance(updates[:, :1], b=b, weights=weights, factor=factor)[0])
    deviation = found - weights @ levels
    assert abs(deviation.mean()) < 4.0 * np.sqrt(variance / MANY)
    squares = deviation**2
    assert abs(squares.mean() - variance) < 4.0 * squares.std() / np.sqrt(MANY)


def test_the_error_of_fixed_updates_is_b_squared_less_their_mean_square_over_the_devices() -> None:
    updates, b = some_updates(40, 3000, seed=6), 0.05
    closed = (b**2 - np.mean(updates.astype(float) ** 2, axis=0)).sum() / 40
    assert estimate_variance(updates, b=b).sum() == pytest.approx(closed, rel=1e-9)
    scheme = probit(3000, b=b)
    errors = []
    for index in range(12):
        context = UplinkContext(seed=1, trials=(0,), round_index=index)
        given: Any = {"devices": np.arange(40), "context": context}
        sent = scheme.encode(updates, **given)
        found = scheme.aggregate(sent, Senders(weights=equal(40), factor=np.ones(40), **given))
        errors.append(np.sum((found - updates.mean(axis=0, dtype=float)) ** 2))
    assert abs(np.mean(errors) - closed) < 4.0 * np.std(errors, ddof=1) / np.sqrt(12)
    # What is printed takes the deltas for draws around their mean: too large by their spread.
    assert printed_error(updates.mean(axis=0), b=b, num_devices=40) > closed + 10 * 4.0 * np.std(errors) / np.sqrt(12)
    norms = np.sqrt(errors)
    assert norms.mean() < error_bound(b, num_devices=40, num_values=3000)


def test_lemma_2_as_printed_fails_where_b_is_larger_than_privacy_asks_for() -> None:
    num_values, count, epsilon, sensitivity = 400, 20, 1.0, 0.01
    b = 40 * sensitivity
    scheme = probit(num_values, b=b)
    given: Any = {"devices": np.arange(count), "context": CONTEXT}
    sent = scheme.encode(np.zeros((count, num_values), np.float32), **given)
    error = np.linalg.norm(scheme.aggregate(sent, Senders(weights=equal(count), factor=np.ones(count), **given)))
    printed = np.sqrt(2.0 * b * num_values / count * (1.0 + 1.0 / epsilon) * sensitivity)
    # ||b|| / sqrt(M) exceeds it by sqrt(b / (2 (1 + 1/eps) Delta_1)) = 3.2.
    assert error > 2.5 * printed
    assert error < 1.2 * error_bound(b, num_devices=count, num_values=num_values)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_no_bits_of_a_share_of_devices_move_a_number_by_more_than_twice_share_and_b(share: float) -> None:
    count, num_values, b = 20, 300, 0.05
    rng = np.random.default_rng(4)
    scheme = probit(num_values, b=b)
    given: Any = {"devices": np.arange(count), "context": CONTEXT, "weights": equal(count), "factor": np.ones(count)}
    liars = slice(0, int(share * count))
    limit = influence_bound(share, b=b)
    assert limit == pytest.approx(2.0 * share * b)
    for updates in (some_updates(count, num_values), np.full((count, num_values), -b, np.float32)):
        honest = scheme.encode(updates, devices=np.arange(count), context=CONTEXT)
        before = scheme.aggregate(honest, Senders(**given))
        moved = []
        for lie in (honest[:, liars] ^ 0xFF, np.full_like(honest[:, liars], 0xFF), rng.bytes(honest[:, liars].size)):
            sent = honest.copy()
            sent[:, liars] = (
                np.frombuffer(lie, np.uint8).reshape(sent[:, liars].shape) if isinstance(lie, bytes) else lie
            )
            moved.append(np.abs(scheme.aggregate(sent, Senders(**given)) - before).max())
        assert max(moved) <= limit * (1.0 + 1e-5)
        # Inverted bits reach it wherever honest bits agree.
        assert max(moved) == pytest.approx(float(limit), rel=1e-5) or np.abs(updates).max() < b


def test_an_update_that_is_not_a_number_names_its_device() -> None:
    updates = some_updates(5, 30)
    updates[2, 7] = np.nan
    with pytest.raises(LearningError, match="device 4000000"):
        probit(30, b=0.05).encode(updates, devices=DEVICES, context=CONTEXT)


def test_a_round_of_which_nothing_arrived_moves_nothing_and_teaches_nothing() -> None:
    scheme = probit(30, b=0.05, bound="adaptive")
    given: Any = {"weights": equal(5), "factor": np.ones(5), "known": np.zeros((5, 30), bool)}
    sent = scheme.encode(some_updates(5, 30), devices=DEVICES, context=CONTEXT)
    found = scheme.aggregate(sent, Senders(devices=DEVICES, context=CONTEXT, **given))
    np.testing.assert_array_equal(found, 0.0)
    assert scheme.state() == {"next_b": 0.05}
