"""Audits as a study: each point of a sweep is one task, its games are its work."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from fl.base.errors import LearningError
from fl.base.words import plural
from privacy.audit.attack import Audited
from privacy.errors import PrivacyError
from scenarios.engine.study import Outcome, Progress, Study
from scenarios.files.replacement import writing
from scenarios.plan.identity import identity_of, physics
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.figures.style import write_picture
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.table import say
from scenarios.schema.errors import ScenarioError, told_by
from scenarios.schema.loader import LoadedScenario, as_yaml, resolved_root
from scenarios.store.rows import Batch, Row
from scenarios.store.store import Store, telling_damage
from scenarios.studies.audit.plan import AuditOptions, auditable, delta_of
from scenarios.studies.audit.results import FIGURE, Audits, draw_audit, print_audits
from scenarios.studies.folders import stored_scenario

_AUDITED = TypeAdapter(Audited)
_OPTIONS = TypeAdapter(AuditOptions)


class AuditStore(Store):
    """Run folder of an audit: each point is a task, its content what was `Audited`."""

    study = "audit"


class AuditStudy(Study):
    """One audit; see `scenarios.engine.study.Study`. A batch is a `Point`, its results also `Audited` or why not."""

    store = AuditStore
    units = "games"
    done_words = "points audited"

    def __init__(self, loaded: LoadedScenario, plan: Plan, *, options: AuditOptions) -> None:
        self.loaded, self.plan, self.options, self.name = loaded, plan, options, loaded.scenario.name
        self.points, self.left_out = auditable(loaded, plan, options)
        about = {"kind": "audit", "options": asdict(options)}
        self.ids = [identity_of({**physics(point.scenario), **about}) for point in self.points]
        self._audits = Audits(plan=plan, options=options)

    @classmethod
    def reload(cls, store: Store) -> Self:
        """Return the study of a run folder. ScenarioError if it holds no scenario, or options that no audit has."""
        loaded = stored_scenario(store)
        with telling_damage(store.path):
            options = _OPTIONS.validate_python(store.notes["options"])
        return cls(loaded, expand(loaded), options=options)

    def document(self) -> tuple[str, Mapping[str, Any]]:
        root = resolved_root(self.loaded, swept_paths=self.plan.swept_paths)
        return as_yaml(root), root

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[Point], int]:
        store.add(Row(options=asdict(self.options)))
        points = [point for point, one in zip(self.points, self.ids, strict=True) if one not in done]
        return points, len(points) * self.options.games

    def compute(
        self, batches: Iterable[Point], *, progress: Progress
    ) -> Generator[tuple[Point, Audited | None, str], None, None]:
        """See `Study`. A point that cannot be audited costs none of the others; alone it is an error."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        for point in batches:
            progress.taken(point.index, self._audits.label(point))
            try:
                yield point, self._audit(point, progress), ""
            except ScenarioError as error:
                if len(self.points) == 1:
                    raise
                print(f"phyloop: {error} Not audited; going on.", file=sys.stderr)
                yield point, None, str(error)

    def keep(self, store: Store, results: tuple[Point, Audited | None, str], *, progress: Progress) -> int:
        """See `Study`; writes the tables anew."""
        point, audited, reason = results
        batch = Batch(
            ids=[self.ids[self.points.index(point)]],
            numbers=[0],
            seconds=0.0,
            failures={0: reason} if audited is None else {},
        )
        found = None if audited is None else asdict(audited)
        store.add(Row(batch=batch), {"physics": physics(point.scenario), "audited": found})
        progress.settled(point.index)
        self.read(store).write(store.folder)
        return int(audited is not None)

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """See `Study`: the figure and the tables. ScenarioError if no point was audited."""
        audits = self.read(store)
        if not audits.done:
            problem = f"none of {plural(len(self.points), 'point')} could be audited, for the reasons above"
            remedy = "change what they say"
            raise ScenarioError(file=self.loaded.source, problem=problem, remedy=remedy)
        tables = audits.write(folder)
        with writing(folder, "figures"):
            figure = write_picture(partial(draw_audit, audits), folder / FIGURE, shows=audits)
        return ReportPaths(html=None, figures=(figure.svg,), tables=tables)

    def show_stored(self, store: Store, *, progress: Progress) -> None:
        """See `Study`."""
        del progress
        self.read(store)

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        print_audits(self._audits)
        if self._audits.failed:
            labels = "; ".join(self._audits.label(point) for point, _ in self._audits.failed)
            say(f"\nNot audited, each for its reason: {labels}.")
        found = f", {outcome.found} found done," if outcome.found else ""
        games = f"{plural(self.options.games, 'game')}{found} in {seconds:.0f} s, seed {self.plan.seed}"
        print(f"\n{plural(len(self._audits.done), 'point')} of {games}")

    # --- one point --------------------------------------------------------------------------------

    def _audit(self, point: Point, progress: Progress) -> Audited:
        from fl.audit.upload_game import build_game
        from privacy.audit.attack import audit

        scenario, options = point.scenario, self.options
        try:
            game = build_game(
                scenario.learning,
                link=scenario.link,
                privacy=scenario.mechanism,
                seed=scenario.seed,
                num_games=options.games,
                rounds=options.rounds,
            )
        except (LearningError, PrivacyError) as error:
            problem, remedy = told_by(error)
            problem = f"point {point.index + 1}: {problem}"
            raise ScenarioError(file=self.loaded.source, problem=problem, remedy=remedy) from error
        return audit(
            game,
            num_games=options.games,
            delta=delta_of(scenario, options),
            confidence=options.confidence,
            attack=options.attack,
            on_games=progress.advance,
        )

    def rows(self, store: Store) -> tuple[Iterable[Mapping[str, Any]], Sequence[str]]:
        """Rows and columns of the table of all bounds and claims."""
        audits = self.read(store)
        return audits.rows(), audits.columns

    def read(self, store: Store) -> Audits:
        """Read the audits that are stored, and the failures."""
        self._audits = Audits(plan=self.plan, options=self.options)
        tasks = store.read_tasks(self.ids)
        for point, task_id in zip(self.points, self.ids, strict=True):
            task = tasks.get(task_id)
            if task is not None and task.status == "failed":
                self._audits.failed.append((point, task.failure or ""))
            elif task is not None:
                kept = store.read(task, "audited")
                with telling_damage(store.path):
                    self._audits.done.append((point, _AUDITED.validate_python(kept)))
        return self._audits
