"""Test of the burst counts of a link against independent bit flips.

The textbook shortcut flips every bit of a device independently at that device's mean rate. Three counts of
`phy.measure.burstiness` tell it from a link: errors per packet that are not binomial, neighbours that err together, and
places in the symbol's label that err at other rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phy.measure.burstiness import Burstiness

CONFIDENCE = 0.95
SIGNIFICANCE = 0.01
"""Chance that independent flips are called bursty, shared by the three tests (Bonferroni)."""

FEWEST_ERRORS = 30
FEWEST_PACKETS_IN_ERROR = 20
TOLERATED_VARIANCE = 0.10
TOLERATED_CORRELATION = 0.02
TOLERATED_LABEL_RATIO = 1.10
"""A significant difference below these sizes does not make independent flips unfair."""

WIDEST_INTERVAL = 1.5
"""A variance ratio that may still be this large has not been measured."""

_FEW = 25.0
"""Below so many expected coincidences their number is Poisson rather than normal."""


@dataclass(frozen=True, kw_only=True)
class Independence:
    """Result of the test over all devices.

    - `outcome`: whether independent flips describe the link, or the errors are too few to tell;
    - `bits`, `errors`, `packets`: among how much;
    - `bad_packets`: packets in error, or the fewest that the sums allow where their number was not given
      (`bad_packets_counted` False): the sum over devices of (sum e)^2 / sum e^2, rounded up;
    - `variance_ratio` and its 95 % interval `low`, `high`: errors per packet against binomial ones, each device
      about its own mean; None where no device has two full packets and errors in them, or with fewer than 20 packets
      in error;
    - `lag1_correlation`: of neighbouring error indicators, each device about its own rate;
    - `run_length`, `independent_run_length`: wrong bits per run, and what independent flips would give;
    - `label_rates`: error rate per place in the label;
    - `p_values`: of packets, neighbours and label, small where independence does not explain the counts.
    """

    outcome: Literal["fair", "unfair", "unknown"]
    bits: int
    errors: int
    packets: int
    bad_packets: int
    bad_packets_counted: bool
    variance_ratio: float | None
    low: float | None
    high: float | None
    lag1_correlation: float
    run_length: float
    independent_run_length: float
    label_rates: tuple[float, ...]
    p_values: tuple[float, float, float]


def assess(bursts: Burstiness, *, bad_packets: int | None = None) -> Independence:
    """Test the counts `[..., num_devices]` against independent flips at each device's mean rate.

    `bad_packets` is the number of packets in error of all devices, if it is known. Fewer than 20 tell nothing.

    Axes before the devices (trials) are added up first: the mean rate is that over all of them.

    - Packets: sum over devices of sum_i (X_i - mean)^2 over its expectation (N - 1) n p (1 - p), by chi-square
      with the degrees of freedom that match its variance under independence (Satterthwaite, Biometrics Bulletin
      1946), or, where fewer than 25 coincidences of two errors in a packet are expected, by the Poisson law of
      their number. The interval follows from the same law where independence explains the ratio. Where it does not,
      the sum of squares rests on the packets in error alone: chi-square with (sum e)^2 / sum e^2 degrees of freedom,
      the number of packets in error if all are equally bad and fewer if a few hold most errors.
    - Neighbours: adjacent pairs of errors against sum of pairs p^2, of variance pairs p^2 (1 - p)^2.
    - Label: errors per place against bits p, chi-square with one degree of freedom less than places.
    """
    from scipy import special

    one = bursts.over_trials()
    errors, bits = int(one.bit_errors.sum()), int(one.bits.sum())
    effective = _effective_packets(one)
    bad = math.ceil(effective - 1e-9) if bad_packets is None else bad_packets
    few = bad < FEWEST_PACKETS_IN_ERROR
    ratio, low, high, packets_p = (None, None, None, 1.0) if few else _packets(one, effective, special)
    rate = np.nan_to_num(one.bit_error_rate)
    pairs, together = float((one.pairs * rate**2).sum()), int(one.in_a_row[..., 1].sum())
    deviation = float(np.sqrt((one.pairs * (rate * (1.0 - rate)) ** 2).sum()))
    correlation = (together - pairs) / max(float((one.pairs * rate * (1.0 - rate)).sum()), 1e-300)
    labels = one.label_errors.sum(axis=0), one.label_bits.sum(axis=0)
    tests = (
        packets_p,
        _two_sided(together, expected=pairs, deviation=deviation, special=special),
        _labels_p(one, special),
    )
    runs = errors - together
    rates = tuple(float(e / max(b, 1)) for e, b in zip(*labels, strict=True))
    small = [p < SIGNIFICANCE / 3 for p in tests]
    uneven = min(rates) * TOLERATED_LABEL_RATIO < max(rates)
    unfair = (
        (small[0] and ratio is not None and abs(ratio - 1.0) > TOLERATED_VARIANCE)
        or (small[1] and abs(correlation) > TOLERATED_CORRELATION)
        or (small[2] and uneven)
    )
    outcome: Literal["fair", "unfair", "unknown"] = "fair"
    if few or errors < FEWEST_ERRORS or (not unfair and (high is None or high > WIDEST_INTERVAL)):
        outcome = "unknown"
    elif unfair:
        outcome = "unfair"
    mean_rate = errors / max(bits, 1)
    return Independence(
        outcome=outcome,
        bits=bits,
        errors=errors,
        packets=int(one.packets.sum()),
        bad_packets=bad,
        bad_packets_counted=bad_packets is not None,
        variance_ratio=ratio,
        low=low,
        high=high,
        lag1_correlation=correlation,
        run_length=errors / runs if runs else np.nan,
        independent_run_length=1.0 / (1.0 - mean_rate) if mean_rate < 1.0 else np.inf,
        label_rates=rates,
        p_values=tests,
    )


def _effective_packets(one: Burstiness) -> float:
    """The sum over devices of (sum e)^2 / sum e^2: by Cauchy and Schwarz never above the packets in error."""
    errors = one.packet_errors.astype(float)
    return float((errors**2 / np.maximum(one.packet_errors_squared, 1)).sum())


def _packets(one: Burstiness, effective: float, special: Any) -> tuple[float | None, float | None, float | None, float]:
    """(variance ratio, its interval, p-value) over devices with two packets and an error."""
    s: NDArray[np.float64] = one.packet_errors.astype(float)
    use = (one.packets > 1) & (s > 0) & (s < one.packet_bits)
    if not use.any():
        return None, None, None, 1.0
    s, n_packets, squares = s[use], one.packets[use], one.packet_errors_squared[use].astype(float)
    p = s / one.packet_bits[use]
    binomial = one.packet_bits[use] / n_packets * p * (1.0 - p)
    expected = float(((n_packets - 1) * binomial).sum())
    ratio = float((squares - s * s / n_packets).sum()) / expected
    tail = (1.0 - CONFIDENCE) / 2.0
    coincidences = float((squares - s).sum() / 2.0)
    chance = coincidences - (ratio - 1.0) * expected / 2.0
    if chance < _FEW:
        few = special.chdtri(2 * coincidences, 1.0 - tail) / 2.0 if coincidences else 0.0
        many = special.chdtri(2 * coincidences + 2, tail) / 2.0
        limits = (ratio + 2.0 * (c - coincidences) / expected for c in (few, many))
        p_value = _two_sided(int(coincidences), expected=max(chance, 1e-300), deviation=None, special=special)
        if p_value < SIGNIFICANCE / 3:
            return ratio, *_chi_square_limits(ratio, effective, special), p_value
        return ratio, max(next(limits), 0.0), next(limits), p_value
    # Variance of each device's sum given its errors, 2 (N - 1) (1 - 1 / S) binomial^2: one error has no information.
    variance = float((2.0 * (n_packets - 1) * (1.0 - 1.0 / s) * binomial**2).sum())
    freedom = 2.0 * expected**2 / variance
    above = float(special.chdtrc(freedom, freedom * ratio))
    p_value = min(1.0, 2.0 * min(above, 1.0 - above))
    if p_value < SIGNIFICANCE / 3:
        freedom = min(freedom, effective)
    return ratio, *_chi_square_limits(ratio, freedom, special), p_value


def _chi_square_limits(ratio: float, freedom: float, special: Any) -> tuple[float, float]:
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = (float(freedom * ratio / special.chdtri(freedom, q)) for q in (tail, 1.0 - tail))
    return low, high


def _two_sided(count: int, *, expected: float, deviation: float | None, special: Any) -> float:
    """Chance of a count as far off: normal, or Poisson where few are expected (then never too small)."""
    if expected >= _FEW and deviation is not None:
        return float(2.0 * special.ndtr(-abs(count - expected) / deviation))
    if expected <= 0.0:
        return 1.0 if count == 0 else 0.0
    at_most = float(special.pdtr(count, expected))
    at_least = 1.0 if count == 0 else float(special.pdtrc(count - 1, expected))
    return min(1.0, 2.0 * min(at_most, at_least))


def _labels_p(one: Burstiness, special: Any) -> float:
    """Chi-square of the errors per place in the label, each device at its own rate."""
    places = one.label_bits.shape[-1]
    total = np.maximum(one.label_bits.sum(axis=-1, keepdims=True), 1)
    rate = one.label_errors.sum(axis=-1, keepdims=True) / total
    expected, variance = (one.label_bits * rate).sum(axis=0), (one.label_bits * rate * (1.0 - rate)).sum(axis=0)
    if places == 1 or expected.min() < 5.0 or variance.min() <= 0.0:
        return 1.0
    statistic = float(((one.label_errors.sum(axis=0) - expected) ** 2 / variance).sum())
    return float(special.chdtrc(places - 1, statistic))


def verdict(bursts: Burstiness, *, bad_packets: int | None = None) -> str:
    """One sentence with the result of the test and its numbers.

    `bad_packets` as in `assess`.
    """
    found = assess(bursts, bad_packets=bad_packets)
    bad = f"{'' if found.bad_packets_counted or not found.errors else 'at least '}{found.bad_packets:,} in error"
    if found.outcome == "unknown":
        seen = f"{found.errors:,} errors in {found.packets:,} full packets ({found.bits:,} bits), {bad}"
        few = "packets in error" if found.errors >= FEWEST_ERRORS else "errors"
        return f"Too few {few} to tell whether independent flips describe this link: {seen}."
    parts = []
    if found.variance_ratio is not None:
        parts.append(
            f"errors per packet vary {_short(found.variance_ratio)} times as much as binomial ones (95 % interval "
            f"{_short(found.low)} to {_short(found.high)}, {found.packets:,} packets, {bad})"
        )
    parts.append(
        f"neighbouring errors correlate by {found.lag1_correlation:.2g} (runs of {found.run_length:.4g} wrong bits "
        f"instead of {found.independent_run_length:.4g})"
    )
    rates = found.label_rates
    if len(rates) > 1:
        uneven = found.p_values[2] < SIGNIFICANCE / 3 and min(rates) * TOLERATED_LABEL_RATIO < max(rates)
        alike = f"range from {min(rates):.2g} to {max(rates):.2g}" if uneven else "are alike"
        parts.append(f"error rates of the bits of a symbol {alike}")
    describe = "describe" if found.outcome == "fair" else "do not describe"
    reasons = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"Independent flips {describe} this link: {reasons}."


def _short(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
