"""Results of a link study in its run folder, and their rates with intervals, point by point."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pydantic import TypeAdapter

from phy.measure.monte_carlo import LinkTally, RateEstimate, Stop, estimate_rates
from scenarios.files.plain_files import DATABASE
from scenarios.store.database import telling_damage
from scenarios.store.rows import NewBatch
from scenarios.store.store import Store
from scenarios.studies.link.batches import Measured, as_plain, from_plain

if TYPE_CHECKING:
    from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint


_STOP: TypeAdapter[Stop | None] = TypeAdapter(Stop | None)


class Rates(NamedTuple):
    """Bit and packet error rate of one device, or of all; None where nothing was observed."""

    bits: RateEstimate | None
    packets: RateEstimate | None


ENOUGH_SILENCE = 1000
"""Packets (transmissions, where they err together) without an error that make higher values not worth their time."""


@dataclass(frozen=True, kw_only=True)
class PointResult:
    """Everything measured at a point of a curve so far; `stop` None: more will follow."""

    curve: Curve
    point: LinkPoint
    measured: Measured
    stop: Stop | None = None

    @cached_property
    def rates(self) -> Rates:
        """Rates over all devices; without an error the limits are those of what is independent on the curve."""
        return self._rates(self.measured.tally, self.measured.last, self.stop)

    @cached_property
    def devices(self) -> tuple[Rates, ...]:
        """Rates of the devices one by one, as counted: no device of its own decided when to stop."""
        tallies = zip(self.measured.devices, self.measured.last_devices, strict=True)
        return tuple(self._rates(tally, last, None) for tally, last in tallies)

    def _rates(self, tally: LinkTally, last: LinkTally, stop: Stop | None) -> Rates:
        confidence = self.curve.measure.confidence
        return Rates(
            *estimate_rates(tally, last=last, stop=stop, confidence=confidence, independent=self.curve.independent)
        )

    def of(self, device: int | None) -> Rates:
        """Return the rates of one device, of all for None."""
        return self.rates if device is None else self.devices[device]

    @property
    def silent(self) -> bool:
        """True if no error was seen among all the bits that the rule allows, of enough independent packets.

        A point that time ended is not silent: how far it came depends on the machine.
        """
        bits, packets = self.measured.tally.bits, self.measured.tally.packets
        units = packets.clusters if self.curve.independent == "transmissions" else packets.observations
        ended = self.stop is not None and self.stop.reason == "max_bits"
        return ended and not bits.errors + packets.errors and units >= ENOUGH_SILENCE


@dataclass(frozen=True, kw_only=True)
class CurveResult:
    """The points of a curve that have been measured, in ascending order."""

    curve: Curve
    points: tuple[PointResult, ...]


class LinkStore(Store):
    """Run folder of a link study: each point is a task, stored again with all that was measured as it grows."""

    study = "link"


def write_point(store: Store, result: PointResult) -> None:
    """Store everything measured at a point so far."""
    measured, stop = result.measured, result.stop
    batch = NewBatch(
        ids=[result.point.point_id],
        numbers=[measured.tally.batches],
        about={"physics": result.point.physics, "measured": as_plain(measured)},
        seconds=measured.seconds,
        status="part" if stop is None else "done",
        extras=[None if stop is None else asdict(stop)],
    )
    store.add([batch])


def read_point(store: Store, curve: Curve, point: LinkPoint) -> PointResult:
    """Return everything measured at a point so far; nothing at all for one never begun.

    DamagedStoreError for counts that no link study wrote.
    """
    task = store.read_tasks([point.point_id]).get(point.point_id)
    if task is None:
        return PointResult(curve=curve, point=point, measured=Measured.nothing(curve.num_devices))
    blob = store.blob(task.batch)
    with telling_damage(store.folder / DATABASE):
        measured = from_plain(blob.about["measured"], num_devices=curve.num_devices)
        return PointResult(curve=curve, point=point, measured=measured, stop=_STOP.validate_python(task.extra))


def read_results(store: Store, plan: LinkPlan) -> tuple[CurveResult, ...]:
    """Return every curve of the plan, each with the points that hold a batch."""
    found = ((curve, [read_point(store, curve, point) for point in curve.points]) for curve in plan.curves)
    return tuple(
        CurveResult(curve=curve, points=tuple(one for one in points if one.measured.tally.batches))
        for curve, points in found
    )
