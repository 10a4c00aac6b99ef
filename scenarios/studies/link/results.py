"""Results of a link study in its run folder, and their rates with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from phy.measure.monte_carlo import RateEstimate, Stop, estimate_rates
from scenarios.store.rows import Batch, Row
from scenarios.store.store import Store, telling_damage
from scenarios.studies.link.measure import Measured
from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint

_STOP: TypeAdapter[Stop | None] = TypeAdapter(Stop | None)
_MEASURED = TypeAdapter(Measured)

ENOUGH_SILENCE = 1000
"""Packets (transmissions, where they err together) without an error that make higher values not worth their time."""


@dataclass(frozen=True, kw_only=True)
class PointResult:
    """Everything measured at a point of a curve so far; `stop` None: more will follow."""

    curve: Curve
    point: LinkPoint
    measured: Measured
    stop: Stop | None = None

    def rates(self, device: int | None = None) -> tuple[RateEstimate | None, RateEstimate | None]:
        """Bit and packet error rate over all devices, or of one; None where nothing was observed.

        One device has its rate as counted: no device of its own decided when to stop. Without an error the limits are
        those of what is independent on the curve.
        """
        row, stop = (0, self.stop) if device is None else (1 + device, None)
        tally, last = self.measured.tallies[row], self.measured.last[row]
        confidence, independent = self.curve.measure.confidence, self.curve.independent
        return estimate_rates(tally, last=last, stop=stop, confidence=confidence, independent=independent)

    @property
    def silent(self) -> bool:
        """True if no error was seen among all the bits that the rule allows, of enough independent packets.

        A point that time ended is not silent: how far it came depends on the machine.
        """
        bits, packets = self.measured.tally.bits, self.measured.tally.packets
        units = packets.clusters if self.curve.independent == "transmissions" else packets.observations
        ended = self.stop is not None and self.stop.reason == "max_bits"
        return ended and not bits.errors + packets.errors and units >= ENOUGH_SILENCE


Results = Sequence[Sequence[PointResult]]
"""Points of each curve of a plan that have a batch, in ascending order."""


class LinkStore(Store):
    """Run folder of a link study: each point is a task, stored again with all that was measured as it grows."""

    study = "link"


def write_point(store: Store, result: PointResult) -> None:
    """Store everything measured at a point so far."""
    measured, stop = result.measured, result.stop
    plain = to_jsonable_python(measured, fallback=np.ndarray.tolist)
    batch = Batch(
        ids=[result.point.point_id],
        numbers=[measured.tally.batches],
        seconds=measured.seconds,
        status="part" if stop is None else "done",
    )
    stopped = None if stop is None else asdict(stop)
    store.add(Row(batch=batch), {"physics": result.point.physics, "measured": plain, "stop": stopped})


def read_point(store: Store, curve: Curve, point: LinkPoint) -> PointResult:
    """Return everything measured at a point so far; DamagedStoreError for counts that no link study wrote."""
    task = store.read_tasks([point.point_id]).get(point.point_id)
    if task is None:
        return PointResult(curve=curve, point=point, measured=Measured.nothing(curve.num_devices))
    kept = store.read(task)
    with telling_damage(store.path):
        measured, stop = _MEASURED.validate_python(kept["measured"]), _STOP.validate_python(kept["stop"])
        return PointResult(curve=curve, point=point, measured=measured, stop=stop)


def read_results(store: Store, plan: LinkPlan) -> Results:
    """Return the points of each curve that have a batch."""
    found = [[read_point(store, curve, point) for point in curve.points] for curve in plan.curves]
    return [[one for one in points if one.measured.tally.batches] for points in found]
