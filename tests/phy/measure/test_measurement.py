"""Counts and intervals against slow counting and against SciPy's exact tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phy.measure.counts import LinkCounts, count_errors, empty_counts, mask_padding, rate_interval

CASES = [
    (0, 1),
    (1, 1),
    (0, 50),
    (1, 50),
    (7, 50),
    (25, 50),
    (49, 50),
    (50, 50),
    (3, 1_000_000),
    (40_000, 10**6),
]


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
@pytest.mark.parametrize(("errors", "trials"), CASES)
def test_intervals_are_those_of_scipy(errors: int, trials: int, confidence: float) -> None:
    low, high = rate_interval(errors, trials, confidence=confidence)
    expected = stats.binomtest(errors, trials).proportion_ci(confidence, method="exact")
    # SciPy finds the exact limits by bisection to 2e-12 absolute (the default of brentq), we by inversion.
    assert low == pytest.approx(expected.low, rel=1e-10, abs=2e-12)
    assert high == pytest.approx(expected.high, rel=1e-10, abs=2e-12)


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3, 0.5])
@pytest.mark.parametrize("trials", [20, 200])
def test_clopper_pearson_covers_at_least_as_often_as_it_says(rate: float, trials: int) -> None:
    errors = np.arange(trials + 1)
    low, high = rate_interval(errors, trials, confidence=0.95)
    coverage = stats.binom.pmf(errors, trials, rate)[(low <= rate) & (rate <= high)].sum()
    assert coverage >= 0.95 - 1e-12  # exact sum over all outcomes, rounding only


def test_no_observation_has_no_interval() -> None:
    low, high = rate_interval([0, 0], [0, 10])
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] == 0.0
    assert 0.0 < high[1] < 1.0


def test_intervals_broadcast() -> None:
    low, high = rate_interval(np.zeros((3, 1), int), np.full(4, 10))
    assert low.shape == high.shape == (3, 4)


@pytest.mark.parametrize(("errors", "trials"), [(-1, 5), (6, 5), (1, 0)])
def test_more_errors_than_trials_are_refused(errors: int, trials: int) -> None:
    with pytest.raises(ValueError, match="between 0 and the number of trials"):
        rate_interval(errors, trials)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, -0.1, float("nan")])
def test_a_confidence_outside_zero_to_one_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        rate_interval(1, 5, confidence=confidence)


@settings(deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(0, 7),
    st.integers(0, 2**32 - 1),
)
def test_errors_are_those_counted_bit_by_bit(num_bytes: int, packet_bytes: int, spare: int, seed: int) -> None:
    num_bits = 8 * num_bytes - spare
    rng = np.random.default_rng(seed)
    sent, received = rng.integers(0, 256, (2, 3, num_bytes), dtype=np.uint8)
    received = np.where(rng.random((3, num_bytes)) < 0.7, sent, received)
    bit_errors, packet_errors, num_packets = count_errors(sent, received, num_bits=num_bits, packet_bytes=packet_bytes)
    for row in range(3):
        wrong = [
            sum((int(sent[row, i // 8]) ^ int(received[row, i // 8])) >> (7 - i % 8) & 1 for i in packet)
            for first in range(0, num_bits, 8 * packet_bytes)
            for packet in [range(first, min(first + 8 * packet_bytes, num_bits))]
        ]
        assert bit_errors[row] == sum(wrong)
        assert packet_errors[row] == sum(count > 0 for count in wrong)
        assert num_packets == len(wrong)


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_masking_clears_exactly_the_padding(num_bits: int, seed: int) -> None:
    payload = np.random.default_rng(seed).integers(0, 256, (2, 5), dtype=np.uint8)
    before = payload.copy()
    masked = np.unpackbits(mask_padding(payload, num_bits), axis=-1)
    assert np.array_equal(payload, before)
    assert np.array_equal(masked[:, :num_bits], np.unpackbits(payload, axis=-1)[:, :num_bits])
    assert not masked[:, num_bits:].any()


def some_counts(factor: int = 1) -> LinkCounts:
    ones = np.ones((1, 2))
    whole = ones.astype(np.int64)
    return LinkCounts(
        bits=whole * np.array([[100 * factor, 0]]),
        bit_errors=whole * np.array([[7 * factor, 0]]),
        packets=whole * np.array([[10 * factor, 0]]),
        packet_errors=whole * np.array([[2 * factor, 0]]),
        symbols=whole * np.array([[50 * factor, 0]]),
        transmit_energy=ones * factor,
        signal_energy=ones * np.array([[40.0 * factor, 0.0]]),
        noise_energy=ones * np.array([[4.0 * factor, 0.0]]),
        dropped=whole * factor,
        retransmissions=whole * factor,
        raw_bits=whole * np.array([[200 * factor, 0]]),
        raw_bit_errors=whole * np.array([[20 * factor, 0]]),
        airtime_s=ones * factor,
        energy_j=ones * factor,
    )


def test_counts_of_two_observations_add_up() -> None:
    total = some_counts() + some_counts(2)
    three = some_counts(3)
    for name in LinkCounts.__dataclass_fields__:
        assert np.array_equal(getattr(total, name), getattr(three, name))


def test_empty_counts_are_the_zero_of_addition() -> None:
    total = some_counts() + empty_counts(1, 2)
    for name in LinkCounts.__dataclass_fields__:
        assert np.array_equal(getattr(total, name), getattr(some_counts(), name))
        assert getattr(total, name).dtype == getattr(some_counts(), name).dtype


def test_rates_are_shares_and_nan_where_nothing_was_observed() -> None:
    counts = some_counts()
    np.testing.assert_array_equal(counts.bit_error_rate, [[0.07, np.nan]])
    np.testing.assert_array_equal(counts.packet_error_rate, [[0.2, np.nan]])
    np.testing.assert_array_equal(counts.snr_db, [[10.0, np.nan]])
