"""From stored batches to rates with intervals, point by point."""

from __future__ import annotations

from dataclasses import dataclass

from phy.measure.monte_carlo import Independent, RateEstimate, Stop, estimate_rates
from scenarios.studies.link.batches import Measured
from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint
from scenarios.studies.link.store import LinkStore


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Bit and packet error rate of one device, or of all; None where nothing was observed."""

    bits: RateEstimate | None
    packets: RateEstimate | None


@dataclass(frozen=True, kw_only=True)
class PointResult:
    """One point that has been measured, finished or not (then `stop` is None).

    `rates` over all devices; `devices` one by one, there as counted: no device of its own decided when to stop.
    """

    point: LinkPoint
    measured: Measured
    stop: Stop | None
    rates: Rates
    devices: tuple[Rates, ...]

    def of(self, device: int | None) -> Rates:
        """The rates of one device, of all for None."""
        return self.rates if device is None else self.devices[device]


@dataclass(frozen=True, kw_only=True)
class CurveResult:
    """The points of a curve that have been measured, in ascending order."""

    curve: Curve
    points: tuple[PointResult, ...]


ENOUGH_SILENCE = 1000
"""Packets (transmissions, where they err together) without an error that make higher values not worth their time."""


def is_silent(measured: Measured, stop: Stop | None, *, independent: Independent) -> bool:
    """Whether no error was seen among all the bits that the rule allows, of enough independent packets.

    A point that time ended is not: how far it came says nothing of the link.
    """
    tally = measured.tally
    units = tally.packets.clusters if independent == "transmissions" else tally.packets.observations
    errors = tally.bits.errors + tally.packets.errors
    return stop is not None and stop.reason == "max_bits" and not errors and units >= ENOUGH_SILENCE


def result_of(
    point: LinkPoint, measured: Measured, stop: Stop | None, *, confidence: float, independent: Independent
) -> PointResult:
    """Rates and intervals of one point of a curve; without an error the limits are those of what is `independent`."""
    bits, packets = estimate_rates(
        measured.tally, last=measured.last, stop=stop, confidence=confidence, independent=independent
    )
    per_device = (
        estimate_rates(tally, last=last, stop=None, confidence=confidence, independent=independent)
        for tally, last in zip(measured.devices, measured.last_devices, strict=True)
    )
    return PointResult(
        point=point,
        measured=measured,
        stop=stop,
        rates=Rates(bits=bits, packets=packets),
        devices=tuple(Rates(bits=b, packets=p) for b, p in per_device),
    )


def read_results(store: LinkStore, plan: LinkPlan) -> tuple[CurveResult, ...]:
    """Every curve of the plan, each with the points that hold a batch."""
    return tuple(
        CurveResult(
            curve=curve,
            points=tuple(
                result_of(point, measured, stop, confidence=plan.measure.confidence, independent=curve.independent)
                for point in curve.points
                for measured, stop in [
                    store.read_point(point.point_id, num_devices=curve.num_devices, shape=curve.shape)
                ]
                if measured.tally.batches
            ),
        )
        for curve in plan.curves
    )
