"""Link studies as a study: points of curves, each measured batch after batch until a rule stops it."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from fl.base.words import plural
from phy.measure.monte_carlo import Stop, StopReason, StopRule, why_stop
from scenarios.engine.compiling import compiling_s, told
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.study import Outcome, Progress, Study
from scenarios.files.log import event, logger
from scenarios.report.figures.drawing import Drawing
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.table import say
from scenarios.schema.errors import printable
from scenarios.schema.loader import LoadedScenario, as_yaml
from scenarios.store.store import Store
from scenarios.studies.folders import stored_scenario
from scenarios.studies.link import tables
from scenarios.studies.link.plan import LinkCurve, LinkPlan, LinkPoint, expand_link
from scenarios.studies.link.report import drawings, gaps, write_study_report
from scenarios.studies.link.results import LinkStore, PointRadio, PointResult, read_point, read_results, write_point

COMMIT_EVERY_S = 1.0
"""A kill loses at most this much work and the current batch [s]."""

_log = logger("link")


class LinkStudy(Study):
    """One link study; see `scenarios.engine.study.Study`. Batches and their results are points as measured so far."""

    store = LinkStore
    units = "points"
    done_words = "points measured"

    def __init__(
        self,
        loaded: LoadedScenario,
        plan: LinkPlan | None = None,
        *,
        rule: StopRule | None = None,
    ) -> None:
        self.loaded, self.name = loaded, loaded.scenario.name
        self.plan = plan or expand_link(loaded)
        self.rule = rule or self.plan.measure.rule()
        self.batches_added = self.points_found = self.points_timed = 0
        self.sending_s, self._compiled_before_s = 0.0, compiling_s()
        self.ids = [point.point_id for curve in self.plan.curves for point in curve.points]
        self._latest: PointResult | None = None

    @classmethod
    def reload(cls, store: Store) -> Self:
        """Return the study of a run folder. ScenarioError if it holds no scenario."""
        return cls(stored_scenario(store))

    def document(self) -> tuple[str, Mapping[str, Any]]:
        """See `Study`: measuring it gives the same points; no learning where the file has none."""
        unused = {"learning", "privacy", "trials"} - self.loaded.document.keys()
        root = self.loaded.scenario.model_dump(mode="json", exclude_none=True, exclude=unused)
        return as_yaml(root), root

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[PointResult], int]:
        del done  # the rule says what is missing of a point
        return self._batches(store, progress), len(self.ids)

    def settled(self, store: Store) -> bool:
        """See `Study`: the rule ends every point where it stands, for the reason that is stored."""
        return all(
            skipped or (found.stop is not None and found.stop == self._end_of(found))
            for curve in self.plan.curves
            for found, skipped in self._points(store, curve)
        )

    def show_stored(self, store: Store, *, progress: Progress) -> None:
        """See `Study`."""
        assert not [*self._batches(store, progress)]

    def _points(self, store: Store, curve: LinkCurve) -> Iterator[tuple[PointResult, bool]]:
        """Yield the points of a curve from low values to high; True: those above a silent one may not be needed.

        A point is read when it is asked for: after the one before it has been measured.
        """
        silent = False
        for point in curve.points:
            found = read_point(store, curve, point)
            skipped = silent and self.plan.measure.stop.skip_after_zero and not found.measured.tally.batches
            yield found, skipped
            silent = silent or (not skipped and read_point(store, curve, point).silent)

    def _end_of(self, found: PointResult) -> Stop | None:
        """Why the rule ends a point where it stands, or the stored reason if that holds as well; None: it goes on."""
        reason = why_stop(found.measured.tally, rule=self.rule, elapsed_s=found.measured.seconds)
        if reason is None or found.stop is None:
            return None if reason is None else self._stop(reason)
        # This rule alone ends the point with exactly these batches, or an earlier rule has.
        exactly = reason != "time" and why_stop(found.measured.earlier, rule=self.rule, elapsed_s=0.0) is None
        return self._stop(reason) if exactly else found.stop

    def _batches(self, store: Store, progress: Progress) -> Iterator[PointResult]:
        """Work on the points of each curve of which the rule wants more."""
        for curve in self.plan.curves:
            for text in tables.curve_rows(self.plan, curve):
                progress.row(text)
            silent: LinkPoint | None = None
            left_out: list[LinkPoint] = []
            for stored, skipped in self._points(store, curve):
                if skipped:
                    left_out.append(stored.point)
                    continue
                found, before = stored, stored.measured.tally.batches
                stop = self._end_of(found)
                if stop is None:
                    yield found
                    assert self._latest is not None  # computed before the next batch is asked for
                    found = self._latest
                elif found.stop != stop:  # killed before the note of why, or another rule ended it
                    found = replace(found, stop=stop)
                    write_point(store, found)
                self._show(found, added=found.measured.tally.batches - before, progress=progress)
                if found.silent:
                    silent = silent or found.point
            if left_out and silent is not None:
                self._skip(curve, left_out, silent, progress)

    def compute(self, batches: Iterable[PointResult], *, progress: Progress) -> Generator[PointResult, None, None]:
        """See `Study`: yields everything measured at a point about every second, and when the rule stops it."""
        compiled: LinkCurve | None = None
        for so_far in batches:
            latest = kept = replace(so_far, stop=None)
            radio = PointRadio(latest.curve, latest.point)
            if latest.curve is not compiled:  # compiling is no time of the point
                radio.batch(latest.measured.tally.batches)
                compiled = latest.curve
            committed = time.monotonic()
            try:
                while latest.stop is None:
                    stop_if_asked()
                    measured = latest.measured + radio.batch(latest.measured.tally.batches)
                    reason = why_stop(measured.tally, rule=self.rule, elapsed_s=measured.seconds)
                    latest = replace(latest, measured=measured, stop=None if reason is None else self._stop(reason))
                    progress.taken(latest.point.point_id, tables.in_hand(latest, limit_s=self.rule.max_seconds))
                    if latest.stop is None and time.monotonic() - committed >= COMMIT_EVERY_S:
                        kept, committed = latest, time.monotonic()
                        yield kept
            except (Exception, KeyboardInterrupt):
                if latest is not kept:  # an interrupted point keeps its batches
                    yield replace(latest, stop=None)
                raise
            self._latest = latest
            self.sending_s += latest.measured.seconds - so_far.measured.seconds
            yield latest

    def keep(self, store: Store, results: PointResult, *, progress: Progress) -> int:
        write_point(store, results)
        return int(results.stop is not None)

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        return write_study_report(folder, self.plan, store=store)

    def drawings(self, store: Store) -> Iterator[Drawing]:
        """Yield the figures of the study."""
        return drawings(self.plan, read_results(store, self.plan))

    def rows(self, store: Store) -> tuple[Iterable[Mapping[str, Any]], Sequence[str]]:
        """Rows and columns of the table of all points."""
        return tables.point_rows(self.plan, read_results(store, self.plan)), tables.columns_of(self.plan)

    def shown(self, store: Store) -> Mapping[str, Any]:
        return {"answers": tuple(f"{head}: {text}" for head, text in gaps(self.plan, read_results(store, self.plan)))}

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        for sentence in outcome.answers:
            say(f"\n{printable(sentence)}")
        say(f"\n{tables.UNBIASED_NOTE}")
        if self.points_timed:
            say(f"\n{tables.TIME_NOTE}")
        found = f", {plural(self.points_found, 'point')} needed none" if self.points_found else ""
        sending = f"{self.sending_s:.0f} s of sending, as in column [s]"
        parts = ", ".join(filter(None, (sending, told(compiling_s() - self._compiled_before_s))))
        took = f"{seconds:.0f} s" + (f": {parts}, the rest starting and drawing" if self.batches_added else "")
        say(f"\n{plural(self.batches_added, 'batch', 'batches')} measured{found} in {took}")

    # --- stopping, and what is shown of it --------------------------------------------------------

    def _stop(self, reason: StopReason) -> Stop:
        """Note why a point ended, with the number of errors that was asked for."""
        targets = {"bit_errors": self.rule.bit_errors, "packet_errors": self.rule.packet_errors}
        return Stop(reason=reason, target=targets.get(reason))

    def _show(self, found: PointResult, *, added: int, progress: Progress) -> None:
        self.batches_added += added
        self.points_found += not added
        self.points_timed += found.stop is not None and found.stop.reason == "time"
        progress.settled(found.point.point_id)
        (progress.advance if added else progress.restored)(1)
        label, value_db = found.curve.label, found.point.value_db
        fields = event("point-done", curve=label, value_db=value_db, batches=added)
        _log.info("%s, %g dB: %d batches", label, value_db, added, extra=fields)
        for text in (tables.screen_row(found, stored=not added), *tables.device_rows(found)):
            progress.row(text)

    def _skip(self, curve: LinkCurve, points: Sequence[LinkPoint], silent: LinkPoint, progress: Progress) -> None:
        self.skipped += len(points)
        progress.restored(len(points))
        values = [point.value_db for point in points]
        fields = event("points-skipped", curve=curve.label, values_db=values, silent_at_db=silent.value_db)
        _log.info("%s: %d points not needed", curve.label, len(points), extra=fields)
        listed = ", ".join(f"{value:g}" for value in values)
        progress.row(f"  skipped: {listed} dB, because no error was seen at {silent.value_db:g} dB")
