"""Error rates for reference checks: batch after batch, until every interval is as narrow as it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from phy.measure.monte_carlo import ClusteredCounts
from scenarios.studies.link.batches import Measured
from scenarios.studies.link.plan import LinkPoint, expand_link
from scenarios.studies.link.radio import PointRadio
from scenarios.studies.verify.check import Check, Reference

if TYPE_CHECKING:
    from scenarios.schema.loader import LoadedScenario
    from scenarios.studies.verify.expected import Expected


def measure_link(loaded: LoadedScenario, expected: Sequence[Expected], *, resolves_db: float) -> Iterator[Check]:
    """Compare every point of every curve with every known answer; `measure.stop.max_bits` ends the measurement."""
    plan = expand_link(loaded)
    for curve in plan.curves:
        found: list[tuple[LinkPoint, Measured]] = []
        for point in curve.points:
            references = [ref for one in expected for ref in one.references(curve, point)]
            radio = PointRadio(curve, point, seed=plan.seed)
            measured = Measured.nothing(curve.num_devices)
            while not _fine(measured, references, resolves_db) and (
                measured.tally.sent_bits < plan.measure.stop.max_bits
            ):
                measured = measured + radio.batch(measured.tally.batches)
            found.append((point, measured))
            where = ", ".join(filter(None, [curve.label if len(plan.curves) > 1 else "", f"{point.value_db:g} dB"]))
            for ref in references:
                yield ref.check(_counts(measured, ref), resolves_db=resolves_db, where=where)
        for one in expected:
            yield from one.over_curve(curve, found)


def _fine(measured: Measured, references: Sequence[Reference], resolves_db: float) -> bool:
    """Return True if every interval is narrow enough."""
    return bool(measured.tally.batches) and all(
        ref.width_db(_counts(measured, ref)) <= resolves_db for ref in references
    )


def _counts(measured: Measured, ref: Reference) -> ClusteredCounts:
    tally = measured.tally if ref.device is None else measured.devices[ref.device]
    return tally.packets if ref.packets else tally.bits
