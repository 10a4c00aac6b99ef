"""Measure what is missing of a link study, store batches as they come, end with figures and a page."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from phy.measure.monte_carlo import Stop, StopReason, StopRule, why_stop
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.run import RUNS
from scenarios.engine.run_log import tell_end, tell_report, tell_start
from scenarios.report.page import ReportPaths
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario
from scenarios.store.files import Replacement
from scenarios.store.heartbeat import Heartbeat
from scenarios.store.log import USUAL, event, logged, logger
from scenarios.store.plain_files import RESOLVED, refuse_replaced
from scenarios.store.provenance import collect_provenance
from scenarios.store.records import Planned
from scenarios.studies.link.batches import Batch, Measured
from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint
from scenarios.studies.link.radio import PointRadio
from scenarios.studies.link.report import resolved_study_yaml, study_root, write_study_report
from scenarios.studies.link.results import PointResult, is_silent, result_of
from scenarios.studies.link.store import LinkStore

_log = logger("link")

COMMIT_EVERY_S = 1.0
"""An interruption, whatever it is, loses no more than this much work and the batch in hand [s]."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Hears how a study goes: a `curve` begins, a `batch` was added to a point, a `point` is done.

    `skipped`: points that are not needed, and the one below them that saw no error.
    """

    curve: Callable[[Curve], None] = lambda _: None
    batch: Callable[[LinkPoint, Measured], None] = lambda _, __: None
    point: Callable[[PointResult, int], None] = lambda _, __: None
    skipped: Callable[[Sequence[LinkPoint], LinkPoint], None] = lambda _, __: None


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """What a study came to: batches added now, points that needed none, points that time ended, and the report."""

    batches: int
    found: int
    timed: int
    report: ReportPaths


def study_folder(loaded: LoadedScenario) -> Path:
    """Where results go unless told: a scenario that also learns keeps the plain name for that."""
    return RUNS / (f"{loaded.scenario.name}-link" if "learning" in loaded.document else loaded.scenario.name)


def run_study(
    loaded: LoadedScenario,
    plan: LinkPlan,
    *,
    folder: Path,
    rule: StopRule,
    listener: Listener,
    log_level: str = USUAL,
) -> StudyOutcome:
    """Bring every point of the plan to where `rule` stops, from whatever `folder` holds, and write the report.

    Batches of a point are numbered and each is a pure function of its number, so that a study that was interrupted or
    asked for more later ends with the same counts as one that was not. Raises ScenarioError for a folder that cannot
    be used.
    """
    added = found = timed = 0
    name = loaded.scenario.name
    refuse_replaced(folder)
    with LinkStore.open(folder, scenario_name=name) as store, logged(folder, level=log_level):
        text = resolved_study_yaml(loaded)
        store.save_scenario(yaml=text, root=study_root(loaded))
        with Replacement(folder / RESOLVED) as file:
            file.write(text.encode())
        provenance = collect_provenance()
        run = store.record_run(provenance)
        ids = [point.point_id for curve in plan.curves for point in curve.points]
        ended = store.ended_points()
        here = len(ended.intersection(ids))
        planned = Planned(tasks=len(ids), found=here, others=len(ended) - here)
        store.note_plan(run, planned)
        tell_start(run, provenance, planned, missing=len(ids) - here, retry_failed=False)
        told = _Told(listener, Heartbeat(unit="points"))
        started, why = time.monotonic(), None
        try:
            told.heart.open(folder, run)
            told.heart.begin(len(ids))
            for curve in plan.curves:
                for batches, stop in _measure_curve(store, plan, curve, rule, told.listener()):
                    added, found = added + batches, found + (batches == 0)
                    timed += stop.reason == "time"
                store.note_plan(run, replace(planned, skipped=told.skipped))
        except BaseException as error:
            why = error
            raise
        finally:
            status = "done" if why is None else "interrupted" if isinstance(why, KeyboardInterrupt) else "failed"
            tell_end(run, status, why=why, computed=told.points, seconds=time.monotonic() - started)
            told.heart.end(status)
            # A disk that refused the batches refuses this too; what is to be told is why the study ended.
            with nullcontext() if why is None else suppress(ScenarioError, sqlite3.Error):
                store.finish_run(run, status=status)
        report = write_study_report(folder, plan, store=store)
        tell_report(report)
    return StudyOutcome(batches=added, found=found, timed=timed, report=report)


class _Told:
    """Hears of a study on its listener's behalf: for the log, and for whoever asks for the status."""

    def __init__(self, listener: Listener, heart: Heartbeat) -> None:
        self._listener, self.heart = listener, heart
        self._curve = ""
        self.points = self.skipped = 0

    def listener(self) -> Listener:
        return Listener(curve=self._begin, batch=self._batch, point=self._point, skipped=self._skip)

    def _begin(self, curve: Curve) -> None:
        self._curve = curve.label
        self._listener.curve(curve)

    def _batch(self, point: LinkPoint, measured: Measured) -> None:
        bits = measured.tally.bits
        self.heart.take(point.point_id, f"{self._where(point)}: {bits.observations} bits, {bits.errors} wrong")
        self._listener.batch(point, measured)

    def _point(self, result: PointResult, added: int) -> None:
        self.points += added > 0
        self.heart.put_down(result.point.point_id)
        (self.heart.advance if added else self.heart.restore)(1)
        fields = event("point-done", curve=self._curve, value_db=result.point.value_db, batches=added)
        _log.info("%s: %d batches", self._where(result.point), added, extra=fields)
        self._listener.point(result, added)

    def _skip(self, points: Sequence[LinkPoint], silent: LinkPoint) -> None:
        self.skipped += len(points)
        self.heart.restore(len(points))
        values = [point.value_db for point in points]
        fields = event("points-skipped", curve=self._curve, values_db=values, silent_at_db=silent.value_db)
        _log.info("%s: %d points not needed", self._curve, len(points), extra=fields)
        self._listener.skipped(points, silent)

    def _where(self, point: LinkPoint) -> str:
        return f"{self._curve}, {point.value_db:g} dB"


def _measure_curve(
    store: LinkStore, plan: LinkPlan, curve: Curve, rule: StopRule, listener: Listener
) -> Iterator[tuple[int, Stop]]:
    """Batches added to each point of one curve, from low values to high, and why it ended."""
    listener.curve(curve)
    silent: LinkPoint | None = None
    skipped: list[LinkPoint] = []
    warm = False
    for point in curve.points:
        measured, stop = store.read_point(point.point_id, num_devices=curve.num_devices, shape=curve.shape)
        if silent is not None and plan.measure.stop.skip_after_zero and not measured.tally.batches:
            skipped.append(point)
            continue
        before = measured.tally.batches
        reason = why_stop(measured.tally, rule=rule, elapsed_s=measured.seconds)
        if reason is None:
            radio = _radio(curve, point, plan.seed)
            if not warm:
                radio.batch(before)  # compiles: that is no time of this point, and would end a short one early
                warm = True
            measured, stop = _measure_point(store, radio, (curve, point), measured, rule, listener)
        elif stop is None or _ends_here(measured, rule, reason):
            # Killed before the note of why, or this rule would have ended it at the same batch as another did.
            stop = stop_for(reason, rule)
            store.write_batches(point.point_id, (), physics=point.physics, stop=stop)
        added = measured.tally.batches - before
        found = result_of(point, measured, stop, confidence=rule.confidence, independent=curve.independent)
        listener.point(found, added)
        yield added, stop
        if is_silent(measured, stop, independent=curve.independent):
            silent = silent or point
    if skipped and silent is not None:
        listener.skipped(skipped, silent)


def _ends_here(measured: Measured, rule: StopRule, reason: StopReason) -> bool:
    """Whether counting under `rule` alone would have ended with exactly these batches."""
    return reason != "time" and why_stop(measured.earlier, rule=rule, elapsed_s=0.0) is None


def _radio(curve: Curve, point: LinkPoint, seed: int) -> PointRadio:
    try:
        return PointRadio(curve, point, seed=seed)
    except ScenarioError as error:
        error.problem += f" (on the curve {curve.label})"
        raise


def _measure_point(
    store: LinkStore,
    radio: PointRadio,
    where: tuple[Curve, LinkPoint],
    measured: Measured,
    rule: StopRule,
    listener: Listener,
) -> tuple[Measured, Stop]:
    """Add batches until the rule stops; what is in hand is stored even if something goes wrong."""
    curve, point = where
    waiting: list[Batch] = []
    stop: Stop | None = None
    committed = time.monotonic()
    try:
        while stop is None:
            stop_if_asked()
            batch = radio.batch(measured.tally.batches)
            waiting.append(batch)
            measured = measured.with_batch(batch, curve.shape)
            reason = why_stop(measured.tally, rule=rule, elapsed_s=measured.seconds)
            stop = None if reason is None else stop_for(reason, rule)
            listener.batch(point, measured)
            if stop is None and time.monotonic() - committed >= COMMIT_EVERY_S:
                # Forgotten before they are written: an interrupt in between must not write them twice.
                ready, waiting = waiting, []
                store.write_batches(point.point_id, ready, physics=point.physics)
                committed = time.monotonic()
    finally:
        store.write_batches(point.point_id, waiting, physics=point.physics, stop=stop)
    return measured, stop


def stop_for(reason: StopReason, rule: StopRule) -> Stop:
    """The note of why a point ended, with the number of errors that was asked for."""
    targets = {"bit_errors": rule.bit_errors, "packet_errors": rule.packet_errors}
    return Stop(reason=reason, target=targets.get(reason))


def with_limits(rule: StopRule, *, max_seconds: float | None) -> StopRule:
    """The rule with another limit on time."""
    return rule if max_seconds is None else replace(rule, max_seconds=max_seconds)
