"""Stopping rule of a Monte Carlo measurement of error rates, and the intervals of its results.

Pure functions of counts, free of TensorFlow and of clocks. A **batch** is the unit of simulation and of stopping: the
rule is asked after each whole batch. A **cluster** is one independent transmission inside a batch (its own fades,
noise and payload, all devices together); errors inside a cluster may depend on each other, clusters do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phy.measure.counts import Counts, rate_interval

StopReason = Literal["bit_errors", "packet_errors", "relative_width", "max_bits", "time"]
Independent = Literal["bits", "packets", "transmissions"]
"""The smallest unit of a link that errs independently of the next one of its kind."""

WORST_BIT_ERROR_RATE = 0.5
"""Of a packet in error, where its bits err together: what guessing gives."""
_FEW_UNITS_IN_ERROR = 20
"""Below, the spread between units in error is not known well enough to bound their bit error rate."""


@dataclass(frozen=True, kw_only=True)
class ClusteredCounts(Counts):
    """Errors among observations, and the sums over clusters that tell how bursty they are; adds up exactly.

    With e and n the errors and observations of one cluster, `squared_errors`, `squared_observations` and `products` are
    the sums of e^2, n^2 and e n. Python integers: no sum overflows and no order matters.
    """

    errors: int = 0
    observations: int = 0
    clusters: int = 0
    squared_errors: int = 0
    squared_observations: int = 0
    products: int = 0

    @classmethod
    def of(cls, errors: NDArray[np.int64], observations: NDArray[np.int64]) -> ClusteredCounts:
        """Counts of some clusters, both `[num_clusters]`."""
        exact = errors.size * int(max(errors.max(initial=0), observations.max(initial=0))) ** 2 < 1 << 63
        e, n = (errors, observations) if exact else (errors.astype(object), observations.astype(object))
        return cls(
            errors=int(e.sum()),
            observations=int(n.sum()),
            clusters=errors.size,
            squared_errors=int((e * e).sum()),
            squared_observations=int((n * n).sum()),
            products=int((e * n).sum()),
        )


@dataclass(frozen=True, kw_only=True)
class LinkTally(Counts):
    """Counts of several batches: payload bits that the receiver holds, packets offered.

    `arrived` counts packets that arrive without an error, and channel uses of all devices as observations. `sent_bits`
    counts payload bits offered by all devices, also those that were dropped or never sent.
    """

    bits: ClusteredCounts = ClusteredCounts()
    packets: ClusteredCounts = ClusteredCounts()
    arrived: ClusteredCounts = ClusteredCounts()
    sent_bits: int = 0
    batches: int = 0


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """Targets, which all have to be reached, and limits, each of which ends the measurement.

    - targets (None: no target): `bit_errors`, `packet_errors`, and `relative_width`, the width of the interval of
      the bit error rate over the rate;
    - limits: `max_bits` payload bits sent by all devices, `max_seconds` of computing [s].
    """

    bit_errors: int | None = None
    packet_errors: int | None = None
    relative_width: float | None = None
    max_bits: float = float("inf")
    max_seconds: float = float("inf")
    confidence: float = 0.95


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Reason for the end of a measurement; `target` is the target number of errors, if errors ended it."""

    reason: StopReason
    target: int | None = None


def why_stop(tally: LinkTally, *, rule: StopRule, elapsed_s: float) -> StopReason | None:
    """The reason to stop after the batches in `tally`, or None to go on; `elapsed_s` is computing time so far [s].

    Once every target is reached the reason is the one that was reached last: of those met, the one with the least to
    spare. Targets come before limits, so that a point is never called unfinished when it is not.
    """
    targets = list(_progress(tally, rule))
    if targets and all(share >= 1.0 for share, _ in targets):
        return min(targets)[1]
    if tally.sent_bits >= rule.max_bits:
        return "max_bits"
    return "time" if elapsed_s >= rule.max_seconds else None


def _progress(tally: LinkTally, rule: StopRule) -> Iterator[tuple[float, StopReason]]:
    """Share of each target in errors (an interval shrinks as one over their root), and its name."""
    if rule.bit_errors is not None:
        yield tally.bits.errors / rule.bit_errors, "bit_errors"
    if rule.packet_errors is not None:
        yield tally.packets.errors / rule.packet_errors, "packet_errors"
    if rule.relative_width is not None:
        yield _width_progress(tally.bits, rule.relative_width, rule.confidence), "relative_width"


def _width_progress(bits: ClusteredCounts, relative_width: float, confidence: float) -> float:
    if not bits.errors:
        return 0.0
    found = estimate_rate(bits, confidence=confidence)
    return (relative_width * bits.errors / bits.observations / (found.high - found.low)) ** 2


@dataclass(frozen=True, kw_only=True)
class RateEstimate:
    """An error rate with its interval; `rate` None where no error was seen and only `high` is known.

    `design_effect` is the variance of the rate over that of independent observations, at least 1.
    """

    errors: int
    observations: int
    rate: float | None
    low: float
    high: float
    design_effect: float


def estimate_ratio(counts: ClusteredCounts, *, confidence: float = 0.95) -> tuple[float, float, float]:
    """(r, its lower, its upper limit) of r = e / n, where e may exceed n: events per cost.

    With m clusters the variance of r is m / (m - 1) sum (e_i - r n_i)^2 / n^2 (Cochran, Sampling Techniques, 1977,
    eq. 6.13), and limits are those of Student's t. Raises ValueError for fewer than two clusters, or without a cost.
    """
    from scipy import special

    m, n = counts.clusters, counts.observations
    if m < 2 or n == 0:
        raise ValueError(f"{m} clusters of {n} observations in all tell no spread; measure two with some")
    r = counts.errors / n
    squares = counts.squared_errors - 2.0 * r * counts.products + r * r * counts.squared_observations
    half = float(special.stdtrit(m - 1, 0.5 + confidence / 2.0) * (max(squares, 0.0) * m / (m - 1)) ** 0.5 / n)
    return r, max(r - half, 0.0), r + half


def estimate_rate(counts: ClusteredCounts, *, confidence: float = 0.95, unbiased: float | None = None) -> RateEstimate:
    """Rate and interval of errors that come in bursts; `unbiased` replaces errors / observations as the rate.

    The interval is that of Korn and Graubard ("Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data", Survey Methodology 1998): Clopper and Pearson's on the effective sample
    n / deff, with deff >= 1 the variance between clusters over the binomial one, widened by the ratio of Student
    quantiles where clusters are few. A single cluster has no known spread: its errors count as one.
    Without any error the observations count as independent. If they are not, `high` is `silent_limit` instead.
    Raises ValueError without any observation.
    """
    from scipy import special

    e, n = counts.errors, counts.observations
    if n == 0:
        raise ValueError("no observation has no error rate; leave the point out")
    deff = _design_effect(counts)
    if e and counts.clusters > 1:
        upper = 0.5 + confidence / 2.0
        spread = special.stdtrit(counts.clusters - 1, upper) / special.stdtrit(max(n - 1, 1), upper)
        deff = max(deff * spread**2, 1.0)
    low, high = rate_interval(e / deff, n / deff, confidence=confidence)
    rate = (e / n if unbiased is None else unbiased) if e else None
    return RateEstimate(errors=e, observations=n, rate=rate, low=float(low), high=float(high), design_effect=deff)


def silent_limit(units: int, *, confidence: float = 0.95, worst: float = 1.0) -> float:
    """One-sided upper limit of an error rate after `units` >= 1 independent units without an error.

    `worst` (1 - (1 - confidence)^(1 / units)): a share q of bad units hides with chance (1 - q)^units, and each of them
    holds at most the share `worst` of errors.
    """
    return float(-worst * np.expm1(np.log1p(-confidence) / units))


def _design_effect(counts: ClusteredCounts) -> float:
    """Variance of errors / observations between clusters over its binomial value, at least 1."""
    e, n, m = counts.errors, counts.observations, counts.clusters
    if e == 0 or e == n:
        return 1.0
    if m < 2:
        return float(e)
    # Ratio estimator: the residual of a cluster is e_i - (e / n) n_i. Over n^2 in integers, exact until the division.
    residuals = n * n * counts.squared_errors - 2 * e * n * counts.products + e * e * counts.squared_observations
    return max(residuals / (e * (n - e)) / n * m / (m - 1), 1.0)


def unbiased_rate(*, errors: int, observations: int, last_batch: int, target: int) -> float:
    """Error rate when whole batches were drawn until `target` errors were reached; `last_batch` observations ended it.

    errors / observations is too high then: stopping prefers lucky finds. Sampling one at a time, (r - 1) / (n - 1) is
    unbiased (Haldane 1945). With batches the same argument (Girshick, Mosteller and Savage, "Unbiased estimates for
    certain binomial sampling problems", 1946) gives

        E[J] / m,    P(J = j) ~ C(m, j) C(b, r - j),    max(0, r - b) <= j <= min(target - 1, r)

    with r errors among n observations, b of them in the last batch, m = n - b: the share of errors that one would
    expect before the last batch, knowing that they were fewer than `target`. It is (r - 1) / (n - 1) at b = 1, and
    errors / observations if the first batch was enough. Exact for independent observations and a rule with this one
    target; where errors come in bursts it removes the part of the bias that independent errors would have.
    Raises ValueError for counts at which this rule does not stop.
    """
    from scipy import special

    before = observations - last_batch
    if errors < target or target < 1 or before < 0:
        raise ValueError(f"{errors} errors among {observations} observations do not reach a target of {target}")
    if before == 0:
        return errors / observations
    j = np.arange(max(0, errors - last_batch), min(target - 1, errors, before) + 1, dtype=float)
    if j.size == 0:
        raise ValueError(f"{errors} errors reached the target {target} before the last batch of {last_batch}")

    def log_choose(n: float, k: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0))

    log_weight = log_choose(before, j) + log_choose(last_batch, errors - j)
    weight = np.exp(log_weight - log_weight.max())
    return float((weight * j).sum() / weight.sum() / before)


def estimate_rates(
    tally: LinkTally,
    *,
    last: LinkTally,
    stop: Stop | None,
    confidence: float = 0.95,
    independent: Independent = "bits",
    unit: tuple[int, int] = (1, 1),
) -> tuple[RateEstimate | None, RateEstimate | None]:
    """Bit and packet error rate of a point that ended with the batch `last` for the reason `stop`.

    None where nothing was observed. Stopped on errors, that rate is `unbiased_rate`. Stopped on packet errors, the bit
    error rate is corrected by the same factor, which is exact for independent packets: given which packets are wrong,
    errors per wrong packet are unbiased, and the rate is their mean times the packet error rate. Stopped on bit errors
    the packet error rate is left as counted, and so are both in all other cases.

    Without an error the upper limit is `silent_limit` of what is `independent`. Packets count as one unit each, or as
    one per transmission. Bits do if they are independent; else the limit is that of the packets that the receiver
    holds (of transmissions), half of whose bits may be wrong. `unit`: so many bits, and so many packets, share one
    draw of the noise, and count as one. With fewer than 20 packets in error, whose bits err
    together, the upper limit of the bit error rate is at least `_few_errors_limit`.
    """
    bits, packets = tally.bits, tally.packets
    bit_rate = packet_rate = None
    if stop is not None and stop.target is not None:
        if stop.reason == "packet_errors":
            packet_rate = _unbiased(packets, last.packets, stop.target)
            if packet_rate is not None and bits.observations:
                factor = packet_rate * packets.observations / packets.errors
                bit_rate = factor * bits.errors / bits.observations
        elif stop.reason == "bit_errors":
            bit_rate = _unbiased(bits, last.bits, stop.target)
    found = [
        estimate_rate(counts, confidence=confidence, unbiased=rate) if counts.observations else None
        for counts, rate in ((bits, bit_rate), (packets, packet_rate))
    ]
    held = max(packets.observations - packets.errors, 1)
    units = [bits.observations // unit[0] if independent == "bits" else held, packets.observations // unit[1]]
    if independent == "transmissions":
        units = [min(unit, packets.clusters) for unit in units]
    worst = 1.0 if independent == "bits" else WORST_BIT_ERROR_RATE
    bit, packet = (
        replace(one, high=silent_limit(max(unit, 1), confidence=confidence, worst=share))
        if one is not None and not one.errors
        else one
        for one, unit, share in zip(found, units, (worst, 1.0), strict=True)
    )
    few = 0 < packets.errors < _FEW_UNITS_IN_ERROR and independent != "bits"
    if bit is not None and bit.errors and few:
        limit = _few_errors_limit(bits, in_error=min(packets.errors, units[1]), units=units[1], confidence=confidence)
        bit = replace(bit, high=max(bit.high, limit))
    return bit, packet


def _few_errors_limit(bits: ClusteredCounts, *, in_error: int, units: int, confidence: float) -> float:
    """Upper limit of the bit error rate with few units in error, of which one may be far from typical.

    Clopper and Pearson's upper limit of the share of units in error, times their mean bit error rate with one more unit
    at `WORST_BIT_ERROR_RATE`: one packet with one wrong bit does not say that the next has as few.
    """
    _, high = rate_interval(in_error, units, confidence=confidence)
    errors_in_units = bits.errors * units / bits.observations
    return float(high) * (errors_in_units + WORST_BIT_ERROR_RATE) / (in_error + 1)


def _unbiased(counts: ClusteredCounts, last: ClusteredCounts, target: int) -> float | None:
    """The unbiased rate, None where these counts are not those of a stop at `target`."""
    if counts.errors < target or counts.errors - last.errors >= target:
        return None
    return unbiased_rate(
        errors=counts.errors, observations=counts.observations, last_batch=last.observations, target=target
    )
