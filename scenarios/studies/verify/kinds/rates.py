"""Known error rates: closed forms of uncoded links, bounds on codes, and published curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import exp, log, log1p, log2, sqrt
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from phy.config import BITS_PER_SYMBOL, CRC_BITS, Frozen, LinkConfig
from phy.measure.monte_carlo import estimate_rate
from scenarios.studies.link.level import theory
from scenarios.studies.link.measure import Measured
from scenarios.studies.link.plan import Curve, LinkPoint
from scenarios.studies.verify.cards import EXPECTED, Decibels, Expected
from scenarios.studies.verify.check import CONFIDENCE, Check, Reference

Quantity = Literal["bit_error_rate", "packet_error_rate"]
_WIDEST_ORDER = 0.9
"""An interval of a diversity order narrower than this holds one whole number at most."""


class _OfLink(Expected):
    """A known error rate of a link."""

    of_link = True


def _reference(
    quantity: Quantity, rate: Callable[[float], float], *, better_db: float = 0.0, worse_db: float = 0.0, of: str = ""
) -> tuple[Reference]:
    packets = quantity == "packet_error_rate"
    what = ("PER" if packets else "BER") + of
    return (Reference(what=what, packets=packets, rate=rate, better_db=better_db, worse_db=worse_db),)


def _linear(decibels: float) -> float:
    return float(10.0 ** (decibels / 10.0))


# --- closed forms ---------------------------------------------------------------------------------


@EXPECTED.register
class ClosedForm(_OfLink):
    """The closed form of `phyloop link`; with `as_if`, that of the link with these keys of `link:` replaced.

    `worse_db`: a loss that the model of the channel brings and the claim explains.
    """

    kind: Literal["closed-form"]
    quantity: Quantity = "bit_error_rate"
    as_if: dict[str, Any] = Field(default_factory=dict)
    worse_db: Decibels = 0.0

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        like = _as_if(curve, self.as_if)

        def rate(shift_db: float) -> float:
            found = theory(like, self.quantity, point.esno_db + shift_db)
            if found is None:
                raise ValueError(f"no closed form of the {self.quantity} is known for {curve.label}")
            return float(found)

        return _reference(self.quantity, rate, worse_db=self.worse_db)


def _as_if(curve: Curve, changes: Mapping[str, Any]) -> Curve:
    """Return the same curve with keys of its link replaced."""
    if not changes:
        return curve
    written: dict[str, Any] = curve.link.model_dump(mode="json", exclude_none=True)
    for key, value in changes.items():
        written[key] = {**written[key], **value} if isinstance(value, dict) else value
    scenario = curve.point.scenario.model_copy(update={"link": LinkConfig.model_validate(written)})
    return replace(curve, point=replace(curve.point, scenario=scenario))


@EXPECTED.register
class DiversityOrder(_OfLink):
    """Slope of BPSK over L independent Rayleigh antennas between the first and the last value, as in the closed form.

    Measured against log(1 + SNR) per antenna, where it is L and a little: the order without going to high SNR.
    """

    kind: Literal["diversity-order"]

    def over_curve(self, curve: Curve, found: Sequence[tuple[LinkPoint, Measured]]) -> Iterator[Check]:
        """See `Expected`: -d log(BER) / d log(1 + SNR) between the first and the last point."""
        (first, at_first), (last, at_last) = found[0], found[-1]
        snr = [_linear(point.esno_db) for point in (first, last)]
        if curve.link.modulation != "bpsk" or curve.link.channel.law.rician_k != 0.0 or snr[0] >= snr[1]:
            raise ValueError("the slope is that of BPSK over Rayleigh fading between two values")
        run = log1p(snr[1]) - log1p(snr[0])
        known = [theory(curve, "bit_error_rate", point.esno_db) for point in (first, last)]
        if known[0] is None or known[1] is None:
            raise ValueError("the slope is that of a link with a closed form")
        slope = log(float(known[0] / known[1])) / run
        above, below = (estimate_rate(one.tally.bits, confidence=CONFIDENCE) for one in (at_first, at_last))
        if above.rate is None or below.rate is None:
            raise ValueError("a slope needs errors at both of its ends")
        low, high = log(above.low / below.high) / run, log(above.high / max(below.low, 1e-300)) / run
        order = f"slope of order {curve.budget.num_antennas}"
        yield Check(
            what=f"{curve.label}, {first.value_db:g} to {last.value_db:g} dB: {order}",
            measured=log(above.rate / below.rate) / run,
            low=low,
            high=high,
            expected=(slope, slope),
            resolves=f"{high - low:.2f} of an order",
            enough=high - low <= _WIDEST_ORDER,
            errors=above.errors + below.errors,
            observations=above.observations + below.observations,
        )


@EXPECTED.register
class Cancellation(_OfLink):
    """Exact error rates of both users under successive cancellation over AWGN."""

    kind: Literal["successive-cancellation"]

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        from phy.measure.theory import sic_bit_error_rates

        link = curve.link
        if curve.num_devices != 2 or link.access != "noma" or link.noma.detector != "sic" or link.channel.fades:
            raise ValueError("the exact rates of cancellation are those of two users over AWGN, detected by sic")
        shares = np.array(link.noma.power_shares)

        def rate(device: int, shift_db: float) -> float:
            energies = _linear(point.esno_db + shift_db) * shares
            return float(sic_bit_error_rates(*energies, bits_per_symbol=link.bits_per_symbol)[device])

        return [
            Reference(what=f"BER of device {device + 1}", packets=False, rate=partial(rate, device), device=device)
            for device in range(2)
        ]


@EXPECTED.register
class Retransmission(_OfLink):
    """Residual packet error rate PER^(n+1) of uncoded packets sent up to n times again over AWGN."""

    kind: Literal["retransmission"]

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        return _reference("packet_error_rate", lambda shift_db: _residual(curve.link, point.esno_db + shift_db))


def _residual(link: LinkConfig, esno_db: float) -> float:
    from phy.measure.theory import awgn_bit_error_rate

    if link.coding != "none" or link.channel.fades or link.bits_per_symbol > 2 or link.packets.policy != "retransmit":
        raise ValueError("PER^(n+1) holds for uncoded BPSK and QPSK packets over AWGN under policy retransmit")
    payload_bits = 8 * link.packet_size_bytes
    crc = link.packets.crc_name(payload_bits)
    bits = payload_bits + (CRC_BITS[crc] if crc else 0)
    wrong = awgn_bit_error_rate(_linear(esno_db), bits_per_symbol=link.bits_per_symbol)
    once = -np.expm1(bits * np.log1p(-wrong))
    return float(once ** (1 + link.packets.max_retransmissions))


@EXPECTED.register
class InterferenceFloor(_OfLink):
    """Rayleigh fading with the interference that `phyloop check` predicts for a prefix too short, as noise.

    An approximation, hence `tolerance_db`: the interference is not Gaussian and fades partly with the signal.
    """

    kind: Literal["interference-floor"]
    tolerance_db: Decibels

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        from phy.config.delays import interference_share, power_delay_profile
        from phy.measure.theory import fading_bit_error_rate

        link = curve.link
        if link.ofdm == "none" or not link.channel.selective:
            raise ValueError("interference between symbols needs OFDM over a channel with delays")
        delays, powers = power_delay_profile(link.channel.model)
        useful_s = 1.0 / link.ofdm.subcarrier_spacing_hz
        delays_s = delays * link.channel.delay_spread_s
        share = interference_share(delays_s, powers, prefix_s=link.ofdm.prefix_s, useful_s=useful_s)

        def rate(shift_db: float) -> float:
            esno = _linear(shift_db) / (1.0 / _linear(point.esno_db) + share)
            return float(fading_bit_error_rate(esno, bits_per_symbol=link.bits_per_symbol))

        return _reference("bit_error_rate", rate, better_db=self.tolerance_db, worse_db=self.tolerance_db)


# --- bounds on codes ------------------------------------------------------------------------------


class _Bound(_OfLink):
    """A bound on the error rate of a code over BPSK or QPSK without fading."""

    within_db: Decibels

    @staticmethod
    def snr(curve: Curve, esno_db: float) -> float:
        """Return amplitude^2 over noise variance of one coded bit."""
        link = curve.link
        if link.bits_per_symbol > 2 or link.channel.fades:
            raise ValueError("bounds of codes are for BPSK and QPSK over AWGN")
        return 2.0 / BITS_PER_SYMBOL[link.modulation] * _linear(esno_db)


@EXPECTED.register
class FiniteLength(_Bound):
    """The normal approximation to the best code of this length: not better, and at most `within_db` worse."""

    kind: Literal["finite-length"]

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        from scenarios.studies.link.plan import packet_plan

        plan, payload_bits = packet_plan(curve.link), 8 * curve.link.packet_size_bytes

        def rate(shift_db: float) -> float:
            snr, information_bits = self.snr(curve, point.esno_db + shift_db), payload_bits + plan.crc_bits
            return best_packet_error_rate(snr, coded_bits=plan.coded_bits, information_bits=information_bits)

        return _reference("packet_error_rate", rate, worse_db=self.within_db, of=", best code")


@EXPECTED.register
class UnionBound(_Bound):
    """Union bound of Viterbi decoding on the bit error rate: not worse, and at most `within_db` better.

    `bit_weights`: information bits on all paths of weight `free_distance`, `free_distance + 2`, and so on.
    """

    kind: Literal["union-bound"]
    free_distance: Annotated[int, Field(ge=1)]
    bit_weights: Annotated[tuple[int, ...], Field(min_length=1)]

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        def rate(shift_db: float) -> float:
            snr = self.snr(curve, point.esno_db + shift_db)
            return union_bound(snr, free_distance=self.free_distance, bit_weights=self.bit_weights)

        return _reference("bit_error_rate", rate, better_db=self.within_db, of=", union bound")


def best_packet_error_rate(snr: float, *, coded_bits: int, information_bits: int) -> float:
    """Normal approximation to the smallest block error rate of any binary code over the real AWGN channel.

        Q((n C - k + log2(n) / 2) / sqrt(n V))

    with C and V the mean and variance of 1 - log2(1 + exp(-L)), L ~ N(2 s, 4 s), at `snr` s = amplitude^2 over noise
    variance of one coded bit (Polyanskiy, Poor and Verdu, "Channel coding rate in the finite blocklength regime", IEEE
    Trans. Inf. Theory 2010, (223) with the term of their (296)). The mean is taken by Gauss-Hermite with 120 nodes.
    """
    from scipy import special

    nodes, weights = _gauss_hermite()
    llr = 2.0 * snr + 2.0 * np.sqrt(snr) * nodes
    density = 1.0 - np.logaddexp(0.0, -llr) / np.log(2.0)
    capacity = float(weights @ density)
    dispersion = float(weights @ (density - capacity) ** 2)
    margin = coded_bits * capacity - information_bits + log2(coded_bits) / 2.0
    return float(special.ndtr(-margin / sqrt(coded_bits * dispersion)))


@cache
def _gauss_hermite() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of the mean over N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    return nodes, weights / weights.sum()


def union_bound(snr: float, *, free_distance: int, bit_weights: Sequence[int]) -> float:
    """Union bound on the bit error rate of a terminated or endless rate 1/v code: sum_d B_d Q(sqrt(d s)).

    `snr` s = amplitude^2 over noise variance of a coded bit; `bit_weights` B_d for d = free_distance, + 2, and so on
    (Viterbi, "Convolutional codes and their performance in communication systems", IEEE Trans. Commun. 1971).
    """
    from scipy import special

    weights = np.arange(len(bit_weights)) * 2 + free_distance
    return float(min(np.asarray(bit_weights, float) @ special.ndtr(-np.sqrt(weights * snr)), 0.5))


# --- published curves -----------------------------------------------------------------------------


class PublishedPoint(Frozen):
    """One point of a published curve, `errors` among `observations` at `value_db` on the axis of `measure.over`."""

    value_db: float
    errors: Annotated[int, Field(ge=1)]
    observations: Annotated[int, Field(ge=1)]


@EXPECTED.register
class Published(_OfLink):
    """A published curve, straight lines of log(rate) over decibels between its points.

    `tolerance_db` allows for the counts behind it and for details that its source leaves open.
    """

    kind: Literal["published"]
    quantity: Quantity = "packet_error_rate"
    tolerance_db: Decibels
    points: Annotated[tuple[PublishedPoint, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _falls(self) -> Published:
        for one, other in zip(self.points, self.points[1:], strict=False):
            falls = one.errors / one.observations > other.errors / other.observations
            if not (one.value_db < other.value_db and falls):
                raise ValueError("points must go up in value_db and down in rate; sort them")
        return self

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        points = [(one.value_db, one.errors / one.observations) for one in self.points]
        if not points[0][0] <= point.value_db <= points[-1][0]:
            raise ValueError(f"nothing is published at {point.value_db:g} dB")

        def rate(shift_db: float) -> float:
            return log_linear(point.value_db + shift_db, points)

        return _reference(self.quantity, rate, better_db=self.tolerance_db, worse_db=self.tolerance_db)


def log_linear(x: float, points: Sequence[tuple[float, float]]) -> float:
    """Return exp of the straight lines through (x, log y), the first and last of them prolonged; at most 1."""
    at, logs = np.array(points).T[0], np.log(np.array(points).T[1])
    piece = int(np.clip(np.searchsorted(at, x) - 1, 0, len(at) - 2))
    slope = (logs[piece + 1] - logs[piece]) / (at[piece + 1] - at[piece])
    return min(exp(logs[piece] + slope * (x - at[piece])), 1.0)
