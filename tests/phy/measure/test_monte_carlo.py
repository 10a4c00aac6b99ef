"""The stopping rule on counts written by hand, and by simulation what its estimates promise."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from phy.measure.counts import rate_interval
from phy.measure.monte_carlo import (
    ClusteredCounts,
    Independent,
    LinkTally,
    Stop,
    StopReason,
    StopRule,
    estimate_rate,
    estimate_rates,
    estimate_ratio,
    unbiased_rate,
    why_stop,
)


def independent(errors: int, observations: int, clusters: int = 1000) -> ClusteredCounts:
    """Counts whose spread between equal clusters is about binomial."""
    each = np.full(clusters, observations // clusters)
    spread = np.random.default_rng(1).multinomial(errors, np.full(clusters, 1.0 / clusters))
    return ClusteredCounts.of(spread.astype(np.int64), each)


def tally(*, bit_errors: int = 0, packet_errors: int = 0, sent_bits: int = 1_000_000) -> LinkTally:
    return LinkTally(
        bits=independent(bit_errors, sent_bits),
        packets=independent(packet_errors, max(sent_bits // 1000, 1000)),
        sent_bits=sent_bits,
        batches=1,
    )


# --- when to stop ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "rule", "elapsed_s", "expected"),
    [
        (tally(bit_errors=199), StopRule(bit_errors=200), 0.0, None),
        (tally(bit_errors=200), StopRule(bit_errors=200), 0.0, "bit_errors"),
        (tally(packet_errors=99), StopRule(packet_errors=100), 0.0, None),
        (tally(packet_errors=100), StopRule(packet_errors=100), 0.0, "packet_errors"),
        (tally(bit_errors=900, packet_errors=99), StopRule(bit_errors=200, packet_errors=100), 0.0, None),
        (tally(bit_errors=900, packet_errors=100), StopRule(bit_errors=200, packet_errors=100), 0.0, "packet_errors"),
        (tally(bit_errors=200, packet_errors=180), StopRule(bit_errors=200, packet_errors=100), 0.0, "bit_errors"),
        (tally(), StopRule(bit_errors=200, max_bits=1e6), 0.0, "max_bits"),
        (tally(sent_bits=999_000), StopRule(bit_errors=200, max_bits=1e6), 0.0, None),
        (tally(), StopRule(bit_errors=200, max_seconds=60.0), 59.9, None),
        (tally(), StopRule(bit_errors=200, max_seconds=60.0), 60.0, "time"),
        (tally(), StopRule(max_bits=1e6, max_seconds=60.0), 60.0, "max_bits"),
        (tally(bit_errors=200), StopRule(bit_errors=200, max_bits=1e6, max_seconds=1.0), 9.0, "bit_errors"),
        (LinkTally(), StopRule(bit_errors=1, relative_width=0.5, max_bits=1.0), 0.0, None),
        (tally(), StopRule(), 1e9, None),
    ],
)
def test_stops_exactly_where_the_rule_says(
    seen: LinkTally, rule: StopRule, elapsed_s: float, expected: StopReason | None
) -> None:
    assert why_stop(seen, rule=rule, elapsed_s=elapsed_s) == expected


def test_stops_on_the_relative_width_of_the_bit_error_rate() -> None:
    # The width of the interval of r rare errors is about 2 x 1.96 / sqrt(r) of the rate: 0.3 needs some 171.
    reached = [
        errors
        for errors in range(100, 300)
        if why_stop(tally(bit_errors=errors), rule=StopRule(relative_width=0.3), elapsed_s=0.0) == "relative_width"
    ]
    assert 165 <= reached[0] <= 195
    low, high = rate_interval(reached[0], 1_000_000)
    assert float(high - low) == pytest.approx(0.3 * reached[0] / 1e6, rel=0.08)


def test_errors_in_bursts_do_not_count_as_a_narrow_interval() -> None:
    # 1600 errors in 4 of 1000 clusters are four events, not 1600.
    errors = np.zeros(1000, np.int64)
    errors[:4] = 400
    burst = LinkTally(bits=ClusteredCounts.of(errors, np.full(1000, 1000)), sent_bits=1_000_000, batches=1)
    rule = StopRule(relative_width=0.3)
    assert why_stop(burst, rule=rule, elapsed_s=0.0) is None
    assert why_stop(tally(bit_errors=1600), rule=rule, elapsed_s=0.0) == "relative_width"


# --- counts ---------------------------------------------------------------------------------------


def test_counts_of_parts_add_up_to_counts_of_the_whole() -> None:
    rng = np.random.default_rng(3)
    n = rng.integers(0, 1 << 33, 60)  # squares beyond 64 bits
    e = rng.integers(0, n + 1)
    whole = ClusteredCounts.of(e, n)
    parts = ClusteredCounts.of(e[:7], n[:7]) + ClusteredCounts.of(e[7:], n[7:])
    assert parts == whole
    assert whole.products == sum(int(a) * int(b) for a, b in zip(e, n, strict=True))


def test_equal_clusters_of_one_observation_give_the_clopper_pearson_interval() -> None:
    e = np.zeros(5000, np.int64)
    e[:37] = 1
    found = estimate_rate(ClusteredCounts.of(e, np.ones(5000, np.int64)))
    # Between clusters of one bit the variance is binomial but for m / (m - 1).
    assert found.design_effect == pytest.approx(1.0, abs=3e-4)
    low, high = rate_interval(37, 5000)
    assert found.low == pytest.approx(float(low), rel=1e-3)
    assert found.high == pytest.approx(float(high), rel=1e-3)


def test_without_an_error_there_is_an_upper_limit_and_no_rate() -> None:
    found = estimate_rate(ClusteredCounts(observations=1000, clusters=10, squared_observations=100_000))
    assert found.rate is None
    assert found.low == 0.0
    assert found.high == pytest.approx(1.0 - 0.025 ** (1 / 1000))


def test_the_limit_after_silence_counts_what_is_independent() -> None:
    # 40 transmissions of 5 packets of 1000 bits: the exact chance to see nothing at the limit is 1 - 0.95.
    silent = LinkTally(
        bits=ClusteredCounts(observations=200_000, clusters=40), packets=ClusteredCounts(observations=200, clusters=40)
    )
    units = {"bits": (200_000, 200, 1.0), "packets": (200, 200, 0.5), "transmissions": (40, 40, 0.5)}
    for independent, (bit_units, packet_units, worst) in units.items():
        bits, packets = estimate_rates(silent, last=silent, stop=None, independent=independent)
        assert bits is not None
        assert packets is not None
        assert (1.0 - bits.high / worst) ** bit_units == pytest.approx(0.05)
        assert (1.0 - packets.high) ** packet_units == pytest.approx(0.05)


def test_bits_and_packets_that_share_a_draw_of_the_noise_count_as_one_in_the_limit_after_silence() -> None:
    silent = LinkTally(
        bits=ClusteredCounts(observations=200_000, clusters=40), packets=ClusteredCounts(observations=200, clusters=40)
    )
    bits, packets = estimate_rates(silent, last=silent, stop=None, independent="bits", unit=(4, 2))
    assert bits is not None
    assert packets is not None
    assert (1.0 - bits.high) ** 50_000 == pytest.approx(0.05)
    assert (1.0 - packets.high) ** 100 == pytest.approx(0.05)


def test_the_limit_after_silence_covers_fades_that_hold_for_a_packet() -> None:
    # QPSK over Rayleigh, Eb/N0 30 dB, one fade a packet of 1000 bits: BER 2.5e-4; of 200 packets most studies see no
    # error. A limit that took the 200,000 bits as independent, 1.5e-5, would miss the rate every time.
    rng, snr, covered, silent = np.random.default_rng(8), 1000.0, 0, 0
    truth = (1.0 - np.sqrt(snr / (1.0 + snr))) / 2.0
    for _ in range(200):
        errors = rng.binomial(1000, norm.sf(np.sqrt(2.0 * snr * rng.exponential(size=200))))
        if not errors.sum():
            tally = LinkTally(
                bits=ClusteredCounts.of(errors, np.full(200, 1000)),
                packets=ClusteredCounts.of(errors, np.ones(200, np.int64)),
            )
            bits, _ = estimate_rates(tally, last=tally, stop=None, independent="packets")
            assert bits is not None
            silent, covered = silent + 1, covered + (bits.high > truth)
    assert silent > 20
    assert covered == silent


def share_above_the_limit(independent: Independent, *, bad: float, repetitions: int = 3000) -> float:
    """Share of measurements whose upper limit is below the bit error rate; about 55 bits of a bad packet are wrong."""
    rng = np.random.default_rng(7)
    sent, bits, mean_wrong = 512, 1024, 55.0
    missed = 0
    for _ in range(repetitions):
        is_bad = rng.random(sent) < bad
        wrong = np.where(is_bad, np.minimum(rng.geometric(1.0 / mean_wrong, sent), bits), 0)
        counted = LinkTally(
            bits=ClusteredCounts.of(wrong, np.full(sent, bits)),
            packets=ClusteredCounts.of(is_bad.astype(np.int64), np.ones(sent, np.int64)),
            sent_bits=sent * bits,
            batches=1,
        )
        bit, _ = estimate_rates(counted, last=counted, stop=None, independent=independent)
        assert bit is not None
        missed += bit.high < bad * mean_wrong / bits
    return missed / repetitions


@pytest.mark.parametrize("bad", [0.001, 0.004, 0.02])
def test_a_few_bad_packets_leave_room_for_worse_ones(bad: float) -> None:
    # One side of a 95 % interval, and after silence its whole risk; four standard errors of 3000 measurements.
    allowed = 0.05 if (1.0 - bad) ** 512 > 0.01 else 0.025
    assert share_above_the_limit("packets", bad=bad) < allowed + 4.0 * np.sqrt(allowed / 3000)


def test_a_limit_that_takes_bits_as_independent_is_detected() -> None:
    # The planted fault: one packet with a wrong bit or two would bound the rate of packets with 55.
    assert share_above_the_limit("bits", bad=0.004) > 0.05 + 4.0 * np.sqrt(0.05 / 3000)


def test_one_cluster_alone_is_one_event() -> None:
    found = estimate_rate(ClusteredCounts.of(np.array([50]), np.array([1000])))
    low, high = rate_interval(1, 20)
    assert (found.low, found.high) == (pytest.approx(float(low)), pytest.approx(float(high)))


def test_no_observation_has_no_rate() -> None:
    with pytest.raises(ValueError, match="no observation"):
        estimate_rate(ClusteredCounts())
    assert estimate_rates(LinkTally(), last=LinkTally(), stop=None) == (None, None)


# --- the unbiased estimate ------------------------------------------------------------------------


def test_stopping_one_at_a_time_gives_the_classical_estimate() -> None:
    assert unbiased_rate(errors=7, observations=100, last_batch=1, target=7) == pytest.approx(6 / 99)


def test_one_batch_alone_gives_errors_over_observations() -> None:
    assert unbiased_rate(errors=30, observations=100, last_batch=100, target=7) == 0.3


@pytest.mark.parametrize(("batch", "target"), [(1, 2), (2, 2), (3, 2), (4, 3)])
def test_the_estimate_is_unbiased_by_counting_every_sequence(batch: int, target: int) -> None:
    # All sequences of up to `longest` bits, exactly; what is still running then has probability below the tolerance.
    p, longest = Fraction(1, 2), 20 // batch
    mean, left = 0.0, Fraction(0)
    states = {0: Fraction(1)}
    ways = [sum(1 for bits in product((0, 1), repeat=batch) if sum(bits) == k) for k in range(batch + 1)]
    for number in range(1, longest + 1):
        following: dict[int, Fraction] = {}
        for errors, chance in states.items():
            for more, count in enumerate(ways):
                total, weight = errors + more, chance * count * p**batch
                if total >= target:
                    n = number * batch
                    mean += float(weight) * unbiased_rate(errors=total, observations=n, last_batch=batch, target=target)
                else:
                    following[total] = following.get(total, Fraction(0)) + weight
        states = following
    left = sum(states.values(), Fraction(0))
    assert abs(mean - float(p)) < 3 * float(left) + 1e-9


def stopped(
    rng: np.random.Generator, *, rate: float, packets_per_batch: int, target: int
) -> tuple[LinkTally, LinkTally]:
    """Packets wrong with probability `rate`, in batches, until `target` are wrong; 1 to 9 bit errors in each."""
    total = LinkTally()
    while True:
        wrong = (rng.random(packets_per_batch) < rate).astype(np.int64)
        bit_errors = wrong * rng.integers(1, 10, packets_per_batch)
        last = LinkTally(
            bits=ClusteredCounts.of(bit_errors, np.full(packets_per_batch, 1000)),
            packets=ClusteredCounts.of(wrong, np.ones(packets_per_batch, np.int64)),
            sent_bits=1000 * packets_per_batch,
            batches=1,
        )
        total = total + last
        if total.packets.errors >= target:
            return total, last


def runs(rate: float, packets_per_batch: int, target: int, *, number: int) -> NDArray[np.float64]:
    """(bit rate, packet rate, packet rate as counted) over the true values, `[number, 3]`."""
    rng = np.random.default_rng(2022)
    rows = []
    for _ in range(number):
        total, last = stopped(rng, rate=rate, packets_per_batch=packets_per_batch, target=target)
        bits, packets = estimate_rates(total, last=last, stop=Stop(reason="packet_errors", target=target))
        assert bits is not None
        assert packets is not None
        counted = total.packets.errors / total.packets.observations
        rows.append((bits.rate / (rate * 0.005), packets.rate / rate, counted / rate))
    return np.array(rows)


@pytest.mark.parametrize("packets_per_batch", [pytest.param(2, marks=pytest.mark.slow), 12])
def test_bit_and_packet_error_rates_are_unbiased_where_the_plain_ratio_is_not(packets_per_batch: int) -> None:
    found = runs(0.05, packets_per_batch, 5, number=4000)
    off = (found.mean(axis=0) - 1.0) / (found.std(axis=0, ddof=1) / np.sqrt(len(found)))
    # Four standard errors; the plain ratio, about 1/5 too high at 5 errors, shows that a bias would be seen.
    assert np.all(np.abs(off[:2]) < 4.0), off
    assert off[2] > 8.0


def test_a_rate_stopped_on_something_else_is_left_as_counted() -> None:
    total, last = stopped(np.random.default_rng(1), rate=0.1, packets_per_batch=10, target=20)
    for stop in (None, Stop(reason="max_bits"), Stop(reason="time"), Stop(reason="relative_width")):
        bits, packets = estimate_rates(total, last=last, stop=stop)
        assert bits is not None
        assert packets is not None
        assert bits.rate == total.bits.errors / total.bits.observations
        assert packets.rate == total.packets.errors / total.packets.observations


def test_more_batches_than_the_target_needed_are_not_corrected() -> None:
    first, last = stopped(np.random.default_rng(1), rate=0.1, packets_per_batch=10, target=20)
    _, packets = estimate_rates(first + last, last=last, stop=Stop(reason="packet_errors", target=15))
    assert packets is not None
    assert packets.rate == (first + last).packets.errors / (first + last).packets.observations


# --- the interval ---------------------------------------------------------------------------------


def coverage(bursty: bool, *, clusters: int, number: int = 1500) -> tuple[float, float]:
    """Share of intervals that hold the true rate: this interval, and Clopper and Pearson's on the bits."""
    rng = np.random.default_rng(7)
    bits = 2000
    hits = plain = 0
    # Bursty: one cluster in five fades, and has 100 times the errors of the others.
    rates = (0.05, 0.0005, 0.2) if bursty else (0.0104, 0.0104, 0.2)
    truth = rates[0] * rates[2] + rates[1] * (1 - rates[2])
    for _ in range(number):
        faded = rng.random(clusters) < rates[2]
        errors = rng.binomial(bits, np.where(faded, rates[0], rates[1]))
        found = estimate_rate(ClusteredCounts.of(errors, np.full(clusters, bits)))
        hits += found.low <= truth <= found.high
        low, high = rate_interval(int(errors.sum()), clusters * bits)
        plain += bool(low <= truth <= high)
    return hits / number, plain / number


@pytest.mark.parametrize("clusters", [32, 64, 256])
def test_the_interval_covers_the_rate_of_bursty_errors(clusters: int) -> None:
    held, plain = coverage(True, clusters=clusters)
    # Standard error of a share near 0.95 over 1500: 0.0056; errors this skewed cost the interval up to 0.03.
    assert held > 0.91
    # The control: taken as independent, the same errors give an interval that misses most of the time.
    assert plain < 0.6


def test_the_interval_is_no_wider_than_needed_for_independent_errors() -> None:
    held, plain = coverage(False, clusters=64)
    assert 0.94 < held < 0.985
    assert plain > 0.94


def test_the_interval_covers_the_rate_under_its_own_stopping_rule() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(1000):
        total, last = stopped(rng, rate=0.02, packets_per_batch=16, target=20)
        _, packets = estimate_rates(total, last=last, stop=Stop(reason="packet_errors", target=20))
        assert packets is not None
        hits += packets.low <= 0.02 <= packets.high
    # 0.95 less four standard errors of a share over 1000.
    assert hits / 1000 > 0.95 - 4 * 0.007


def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says() -> None:
    """Packets sent until they arrive, over channels of one loss rate per cluster: arrivals per attempt."""
    rng, covered, repeats, clusters = np.random.default_rng(11), 0, 400, 60
    for _ in range(repeats):
        loss = rng.beta(2.0, 6.0, clusters)
        arrived = rng.integers(5, 40, clusters)
        attempts = arrived + rng.negative_binomial(arrived, 1.0 - loss)
        ratio, low, high = estimate_ratio(ClusteredCounts.of(arrived, attempts))
        assert ratio == arrived.sum() / attempts.sum()
        # Attempts per arrival are the mean of 1 / (1 - p) with p of a Beta(2, 6): 7 / 5.
        covered += low <= 5.0 / 7.0 <= high
    assert abs(covered / repeats - 0.95) < 4.0 * np.sqrt(0.95 * 0.05 / repeats)


def test_a_ratio_of_one_cluster_has_no_interval() -> None:
    with pytest.raises(ValueError, match="measure two"):
        estimate_ratio(ClusteredCounts.of(np.array([3]), np.array([5])))
