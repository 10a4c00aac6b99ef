"""Link studies as a study: points of curves, each measured batch after batch until a rule stops it."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from phy.measure.monte_carlo import Stop, StopReason, StopRule, why_stop
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.study import Outcome, Progress, ReportPaths, Study
from scenarios.files.log import event, logger
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario
from scenarios.store.store import Store
from scenarios.studies.link.batches import Measured
from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint, expand_link
from scenarios.studies.link.radio import PointRadio
from scenarios.studies.link.report import resolved_study, write_study_report
from scenarios.studies.link.results import LinkStore, is_silent, read_point, read_results, result_of, write_point
from scenarios.studies.link.table import NAME, columns_of, csv_rows
from scenarios.studies.link.words import TIME_NOTE, UNBIASED_NOTE, curve_rows, in_hand, point_row
from scenarios.studies.stored import stored_scenario

COMMIT_EVERY_S = 1.0
"""A kill loses no more than this much work and the batch in hand [s]."""

_log = logger("link")


@dataclass(frozen=True, kw_only=True)
class PointBatch:
    """Work on one point: what is `measured` so far, and whether to compile first, which is no time of the point."""

    curve: Curve
    point: LinkPoint
    measured: Measured
    warm_up: bool


@dataclass(frozen=True, kw_only=True)
class PointState:
    """Everything measured at a point so far; `stop` None: more will follow."""

    point: LinkPoint
    measured: Measured
    stop: Stop | None


class LinkStudy(Study):
    """One link study; see `scenarios.engine.study.Study`. A batch is a `PointBatch`, its results a `PointState`."""

    store = LinkStore
    units = "points"
    done_words = "points measured"

    def __init__(
        self,
        loaded: LoadedScenario,
        plan: LinkPlan | None = None,
        *,
        max_seconds: float | None = None,
        rule: StopRule | None = None,
    ) -> None:
        self.loaded, self.name = loaded, loaded.scenario.name
        self.plan = plan or expand_link(loaded)
        rule = rule or self.plan.measure.rule()
        self.rule = rule if max_seconds is None else replace(rule, max_seconds=max_seconds)
        self.batches_added = self.points_found = self.points_timed = 0
        self.ids = [point.point_id for curve in self.plan.curves for point in curve.points]
        self._latest: PointState | None = None

    @classmethod
    def reload(cls, store: Store) -> Self:
        """The study of a run folder. ScenarioError if it holds no scenario."""
        return cls(stored_scenario(store))

    def document(self) -> tuple[str, Mapping[str, Any]]:
        """See `Study`."""
        return resolved_study(self.loaded)

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[PointBatch], int]:
        """See `Study`."""
        del done  # the rule says what is missing of a point
        return self._batches(store, progress), len(self.ids)

    def _batches(self, store: Store, progress: Progress) -> Iterator[PointBatch]:
        """Work on each curve from low values to high; values above a silent one may not be needed."""
        for curve in self.plan.curves:
            for text in curve_rows(self.plan, curve):
                progress.row(text)
            silent: LinkPoint | None = None
            skipped: list[LinkPoint] = []
            warm_up = True
            for point in curve.points:
                measured, stop = read_point(store, curve, point)
                if silent is not None and self.plan.measure.stop.skip_after_zero and not measured.tally.batches:
                    skipped.append(point)
                    continue
                before = measured.tally.batches
                reason = why_stop(measured.tally, rule=self.rule, elapsed_s=measured.seconds)
                if reason is None:
                    yield PointBatch(curve=curve, point=point, measured=measured, warm_up=warm_up)
                    warm_up = False
                    assert self._latest is not None  # computed before the next batch is asked for
                    measured, stop = self._latest.measured, self._latest.stop
                elif stop is None or self._ends_here(measured, reason):
                    # Killed before the note of why, or this rule alone ends the point with the same batches.
                    stop = self._stop(reason)
                    write_point(store, point, measured, stop)
                assert stop is not None
                self._tell(curve, point, measured, stop, added=measured.tally.batches - before, progress=progress)
                if is_silent(measured, stop, independent=curve.independent):
                    silent = silent or point
            if skipped and silent is not None:
                self._skip(curve, skipped, silent, progress)

    def compute(self, batches: Iterable[PointBatch], *, progress: Progress) -> Generator[PointState, None, None]:
        """See `Study`: yields the state of a point about every second, and when the rule stops it."""
        for batch in batches:
            curve, point, measured = batch.curve, batch.point, batch.measured
            radio = _radio(curve, point, self.plan.seed)
            if batch.warm_up:
                radio.batch(measured.tally.batches)
            stop: Stop | None = None
            kept, committed = measured, time.monotonic()
            try:
                while stop is None:
                    stop_if_asked()
                    measured = measured.with_batch(radio.batch(measured.tally.batches), curve.shape)
                    reason = why_stop(measured.tally, rule=self.rule, elapsed_s=measured.seconds)
                    stop = None if reason is None else self._stop(reason)
                    progress.taken(point.point_id, in_hand(curve, point, measured, limit_s=self.rule.max_seconds))
                    if stop is None and time.monotonic() - committed >= COMMIT_EVERY_S:
                        kept, committed = measured, time.monotonic()
                        yield PointState(point=point, measured=measured, stop=None)
            except GeneratorExit:
                raise
            except BaseException:
                if measured is not kept:  # an interrupted point keeps its batches
                    yield PointState(point=point, measured=measured, stop=None)
                raise
            self._latest = PointState(point=point, measured=measured, stop=stop)
            yield self._latest

    def keep(self, store: Store, results: PointState, *, progress: Progress) -> int:
        """See `Study`."""
        write_point(store, results.point, results.measured, results.stop)
        return int(results.stop is not None)

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """See `Study`."""
        return write_study_report(folder, self.plan, store=store)

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        """See `Study`."""
        print(f"\n{UNBIASED_NOTE}")
        if self.points_timed:
            print(f"\n{TIME_NOTE}")
        found = f", {self.points_found} points needed none" if self.points_found else ""
        print(f"\n{self.batches_added} batches measured{found} in {seconds:.0f} s")

    def columns(self) -> Mapping[str, Sequence[str]]:
        """See `Study`."""
        return {NAME: columns_of(self.plan)}

    def rows(self, store: Store, name: str) -> Iterator[str]:
        """See `Study`."""
        return csv_rows(self.plan, read_results(store, self.plan))

    # --- stopping, and what is shown of it --------------------------------------------------------

    def _ends_here(self, measured: Measured, reason: StopReason) -> bool:
        """Tell whether this rule alone ends a point with exactly these batches."""
        return reason != "time" and why_stop(measured.earlier, rule=self.rule, elapsed_s=0.0) is None

    def _stop(self, reason: StopReason) -> Stop:
        """Note why a point ended, with the number of errors that was asked for."""
        targets = {"bit_errors": self.rule.bit_errors, "packet_errors": self.rule.packet_errors}
        return Stop(reason=reason, target=targets.get(reason))

    def _tell(
        self, curve: Curve, point: LinkPoint, measured: Measured, stop: Stop, *, added: int, progress: Progress
    ) -> None:
        self.batches_added += added
        self.points_found += not added
        self.points_timed += stop.reason == "time"
        progress.settled(point.point_id)
        (progress.advance if added else progress.restored)(1)
        fields = event("point-done", curve=curve.label, value_db=point.value_db, batches=added)
        _log.info("%s, %g dB: %d batches", curve.label, point.value_db, added, extra=fields)
        result = result_of(point, measured, stop, confidence=self.rule.confidence, independent=curve.independent)
        progress.row(point_row(result, stored=not added))

    def _skip(self, curve: Curve, points: Sequence[LinkPoint], silent: LinkPoint, progress: Progress) -> None:
        self.skipped += len(points)
        progress.restored(len(points))
        values = [point.value_db for point in points]
        fields = event("points-skipped", curve=curve.label, values_db=values, silent_at_db=silent.value_db)
        _log.info("%s: %d points not needed", curve.label, len(points), extra=fields)
        listed = ", ".join(f"{value:g}" for value in values)
        progress.row(f"  skipped: {listed} dB, because no error was seen at {silent.value_db:g} dB")


def _radio(curve: Curve, point: LinkPoint, seed: int) -> PointRadio:
    try:
        return PointRadio(curve, point, seed=seed)
    except ScenarioError as error:
        error.problem += f" (on the curve {curve.label})"
        raise
