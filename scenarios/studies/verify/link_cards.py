"""Cards that measure error rates: batch after batch, until every interval is as narrow as the card asks."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, log1p
from typing import TYPE_CHECKING

from phy.measure.monte_carlo import ClusteredCounts, estimate_rate
from scenarios.studies.link.batches import Measured
from scenarios.studies.link.closed_form import bit_error_rate
from scenarios.studies.link.plan import Curve, LinkPoint, expand_link
from scenarios.studies.link.radio import PointRadio
from scenarios.studies.verify.check import CONFIDENCE, Check, Reference
from scenarios.studies.verify.config import DiversityOrder
from scenarios.studies.verify.references import LinkExpectation, references

if TYPE_CHECKING:
    from scenarios.schema.loader import LoadedScenario

_WIDEST_ORDER = 0.9
"""An interval of a diversity order narrower than this holds one whole number at most."""


def measure_link(
    loaded: LoadedScenario, expected: tuple[LinkExpectation | DiversityOrder, ...], *, resolves_db: float
) -> Iterator[Check]:
    """Every expectation at every point of every curve; `measure.stop.max_bits` ends what never gets there."""
    plan = expand_link(loaded)
    for curve in plan.curves:
        found: list[tuple[LinkPoint, Measured]] = []
        for point in curve.points:
            refs = [
                one
                for kind in expected
                if not isinstance(kind, DiversityOrder)
                for one in references(kind, curve, point)
            ]
            radio = PointRadio(curve, point, seed=plan.seed)
            measured = Measured.nothing(curve.num_devices)
            while not _fine(measured, refs, resolves_db) and measured.tally.sent_bits < plan.measure.stop.max_bits:
                measured = measured.with_batch(radio.batch(measured.tally.batches), curve.shape)
            found.append((point, measured))
            where = ", ".join(filter(None, [curve.label if len(plan.curves) > 1 else "", f"{point.value_db:g} dB"]))
            for ref in refs:
                yield ref.check(_counts(measured, ref), resolves_db=resolves_db, where=where)
        if any(isinstance(kind, DiversityOrder) for kind in expected):
            yield _diversity(curve, found)


def _fine(measured: Measured, refs: list[Reference], resolves_db: float) -> bool:
    """Whether there is data, and every reference is told apart from its neighbours."""
    return bool(measured.tally.batches) and all(ref.width_db(_counts(measured, ref)) <= resolves_db for ref in refs)


def _counts(measured: Measured, ref: Reference) -> ClusteredCounts:
    tally = measured.tally if ref.device is None else measured.devices[ref.device]
    return tally.packets if ref.packets else tally.bits


def _diversity(curve: Curve, found: list[tuple[LinkPoint, Measured]]) -> Check:
    """-d log(BER) / d log(1 + SNR) between the first and the last point."""
    (first, at_first), (last, at_last) = found[0], found[-1]
    num_antennas = curve.budget.num_antennas
    snr = [10.0 ** (point.esno_db / 10.0) for point in (first, last)]
    if curve.link.modulation != "bpsk" or curve.link.channel.fading != "rayleigh" or snr[0] >= snr[1]:
        raise ValueError("the slope is that of BPSK over Rayleigh fading between two values")
    run = log1p(snr[1]) - log1p(snr[0])
    known = [bit_error_rate(curve, point.esno_db) for point in (first, last)]
    if known[0] is None or known[1] is None:
        raise ValueError("the slope is that of a link with a closed form")
    slope = log(float(known[0] / known[1])) / run
    above, below = (estimate_rate(one.tally.bits, confidence=CONFIDENCE) for one in (at_first, at_last))
    if above.rate is None or below.rate is None:
        raise ValueError("a slope needs errors at both of its ends")
    low, high = log(above.low / below.high) / run, log(above.high / max(below.low, 1e-300)) / run
    return Check(
        what=f"{curve.label}, {first.value_db:g} to {last.value_db:g} dB: slope of order {num_antennas}",
        measured=log(above.rate / below.rate) / run,
        low=low,
        high=high,
        expected=(slope, slope),
        resolves=f"{high - low:.2f} of an order",
        enough=high - low <= _WIDEST_ORDER,
        errors=at_first.tally.bits.errors + at_last.tally.bits.errors,
        observations=at_first.tally.bits.observations + at_last.tally.bits.observations,
    )
