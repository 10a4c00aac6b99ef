"""Results of a link study in its run folder, and their rates with intervals, point by point."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, get_args

from phy.measure.monte_carlo import Independent, RateEstimate, Stop, StopReason, estimate_rates
from scenarios.files.plain_files import DATABASE
from scenarios.store.blobs import pack
from scenarios.store.database import telling_damage
from scenarios.store.folder import NewBatch
from scenarios.store.store import Store
from scenarios.studies.link.batches import Measured, as_plain, from_plain

if TYPE_CHECKING:
    from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint


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
    """Tell whether no error was seen among all the bits that the rule allows, of enough independent packets.

    A point that time ended is not silent: how far it came depends on the machine.
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


class LinkStore(Store):
    """Run folder of a link study: each point is a task, stored again with all that was measured as it grows."""

    study = "link"


def write_point(store: Store, point: LinkPoint, measured: Measured, stop: Stop | None) -> None:
    """Store everything measured at a point so far; `stop` None: more will follow."""
    about = {"physics": point.physics, "measured": as_plain(measured)}
    batch = NewBatch(
        ids=[point.point_id],
        numbers=[measured.tally.batches],
        blob=pack({}, about=about),
        seconds=measured.seconds,
        status="part" if stop is None else "done",
        extras=[None if stop is None else asdict(stop)],
    )
    store.add([batch])


def read_point(store: Store, curve: Curve, point: LinkPoint) -> tuple[Measured, Stop | None]:
    """Everything measured at a point so far, and why it ended; nothing at all for one never begun.

    DamagedStoreError for counts that no link study wrote.
    """
    task = store.read_tasks([point.point_id]).get(point.point_id)
    if task is None:
        return Measured.nothing(curve.num_devices), None
    blob = store.blob(task.batch)
    with telling_damage(store.folder / DATABASE):
        measured = from_plain(blob.about["measured"], num_devices=curve.num_devices)
        stop = None if task.extra is None else Stop(**task.extra)
        if stop is not None and (stop.reason not in get_args(StopReason) or not isinstance(stop.target, int | None)):
            raise ValueError("a note of why a point ended that phyloop does not write")
    return measured, stop


def read_results(store: Store, plan: LinkPlan) -> tuple[CurveResult, ...]:
    """Every curve of the plan, each with the points that hold a batch."""
    return tuple(
        CurveResult(
            curve=curve,
            points=tuple(
                result_of(point, measured, stop, confidence=plan.measure.confidence, independent=curve.independent)
                for point in curve.points
                for measured, stop in [read_point(store, curve, point)]
                if measured.tally.batches
            ),
        )
        for curve in plan.curves
    )
