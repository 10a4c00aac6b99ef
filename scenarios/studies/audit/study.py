"""Audits as a study: each point of a sweep is one task, its games are its work."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter
from rich.console import Console
from rich.markup import escape

from fl.tasks.base import LearningError
from privacy.errors import PrivacyError
from scenarios.engine.study import Outcome, Progress, ReportPaths, Study
from scenarios.files.plain_files import DATABASE
from scenarios.plan.identity import canonical_json, physics
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.claims.table import claim_cells
from scenarios.report.tables.cells import csv_row
from scenarios.report.terminal import print_table
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, as_yaml, resolved_root
from scenarios.store.blobs import pack
from scenarios.store.database import telling_damage
from scenarios.store.folder import NewBatch
from scenarios.store.store import Store
from scenarios.studies.audit.figure import write_audit_figure
from scenarios.studies.audit.plan import AuditOptions, audit_options, auditable, delta_of
from scenarios.studies.audit.results import (
    CSV,
    REFUTED,
    Audit,
    Failure,
    GameFacts,
    PointAudit,
    columns,
    point_label,
    rows,
    write_results,
)
from scenarios.studies.stored import stored_scenario

OPTIONS = "options"
"""Record of the options in the store."""

_AUDIT = TypeAdapter(Audit)
_OPTIONS = TypeAdapter(AuditOptions)
_HEADS = ("point", "", "ε", "δ", "accountant", "neighbours differ in", "per", "standing", "source", "verdict")


class AuditStore(Store):
    """Run folder of an audit: each point is a task, its extra the audit as plain JSON."""

    study = "audit"


@dataclass(frozen=True, kw_only=True)
class Audited:
    """One point and its audit, or the reason why there is none."""

    point: Point
    result: Audit | str


class AuditStudy(Study):
    """One audit; see `scenarios.engine.study.Study`. A batch is a `Point`, its results are `Audited`."""

    store = AuditStore
    units = "games"
    done_words = "points audited"

    def __init__(self, loaded: LoadedScenario, plan: Plan, *, options: AuditOptions) -> None:
        self.loaded, self.plan, self.options, self.name = loaded, plan, options, loaded.scenario.name
        self.points, self.left_out = auditable(loaded, plan, options)
        about = {"kind": "audit", "options": asdict(options)}
        texts = (canonical_json({**physics(point.scenario), **about}) for point in self.points)
        self.ids = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        self._audits: list[PointAudit] = []
        self._failures: list[Failure] = []

    @classmethod
    def reload(cls, store: Store) -> Self:
        """The study of a run folder. ScenarioError if it holds no scenario, or options that no audit has."""
        loaded = stored_scenario(store)
        with telling_damage(store.folder / DATABASE):
            options = _OPTIONS.validate_python(store.record(OPTIONS))
        return cls(loaded, expand(loaded), options=audit_options(**asdict(options)))

    def document(self) -> tuple[str, Mapping[str, Any]]:
        """See `Study`."""
        root = resolved_root(self.loaded, swept_paths=self.plan.swept_paths)
        return as_yaml(root), root

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[Point], int]:
        """See `Study`."""
        store.add((), records={OPTIONS: asdict(self.options)})
        points = [point for point, one in zip(self.points, self.ids, strict=True) if one not in done]
        return points, len(points) * self.options.games

    def compute(self, batches: Iterable[Point], *, progress: Progress) -> Generator[Audited, None, None]:
        """See `Study`. A point that cannot be audited costs none of the others; alone it is an error."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        for point in batches:
            progress.taken(point.index, point_label(self.plan, point))
            try:
                yield Audited(point=point, result=self._audit(point, progress))
            except ScenarioError as error:
                if len(self.points) == 1:
                    raise
                print(f"phyloop: {error} Not audited; going on.", file=sys.stderr)
                yield Audited(point=point, result=str(error))

    def keep(self, store: Store, results: Audited, *, progress: Progress) -> int:
        """See `Study`; writes the tables anew."""
        found, task_id = results.result, self.ids[self.points.index(results.point)]
        failed = isinstance(found, str)
        batch = NewBatch(
            ids=[task_id],
            numbers=[0],
            blob=pack({}, about={"physics": physics(results.point.scenario)}),
            seconds=0.0,
            failures={0: found} if isinstance(found, str) else {},
            extras=[None if isinstance(found, str) else asdict(found)],
        )
        store.add([batch])
        progress.settled(results.point.index)
        self._read(store)
        write_results(store.folder, self.plan, self._audits, self._failures, options=self.options)
        return int(not failed)

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """See `Study`: the figure and the tables. ScenarioError if no point was audited."""
        self._read(store)
        if not self._audits:
            raise ScenarioError(
                file=self.loaded.source,
                problem=f"none of {len(self.points)} points could be audited, for the reasons above",
                remedy="change what they say",
            )
        tables = write_results(folder, self.plan, self._audits, self._failures, options=self.options)
        figure = write_audit_figure(folder, self.plan, self._audits)
        return ReportPaths(html=None, figures=(figure["png"], figure["svg"]), tables=tables)

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        """See `Study`: of each point the lower bound, then the claims, each with its labels and the verdict."""
        _print_audits(self.plan, self._audits)
        if self._failures:
            labels = "; ".join(point_label(self.plan, one.point) for one in self._failures)
            print(f"\nNot audited, each for its reason: {labels}.")
        found = f", {outcome.found} found done," if outcome.found else ""
        games = f"{self.options.games:,} games{found} in {seconds:.0f} s, seed {self.plan.seed}"
        print(f"\n{len(self._audits)} points of {games}")

    def columns(self) -> Mapping[str, Sequence[str]]:
        """See `Study`."""
        return {CSV: columns(self.plan)}

    def rows(self, store: Store, name: str) -> Iterator[str]:
        """See `Study`."""
        self._read(store)
        for row in rows(self.plan, self._audits, self._failures):
            yield csv_row(row.get(column) for column in columns(self.plan))

    # --- one point --------------------------------------------------------------------------------

    def _audit(self, point: Point, progress: Progress) -> Audit:
        from fl.audit.attack import audit
        from fl.audit.build import build_game

        scenario, options = point.scenario, self.options
        try:
            game = build_game(
                scenario.learning,
                link=scenario.link,
                privacy=None if scenario.privacy == "none" else scenario.privacy,
                seed=scenario.seed,
                num_games=options.games,
                rounds=options.rounds,
            )
        except (LearningError, PrivacyError) as error:
            problem, _, remedy = str(error).partition("; ")
            raise ScenarioError(
                file=self.loaded.source,
                problem=f"point {point.index + 1}: {problem}",
                remedy=remedy.removesuffix(".") or "change it",
            ) from error
        audited = audit(
            game,
            num_games=options.games,
            delta=delta_of(scenario, options),
            confidence=options.confidence,
            attack=options.attack,
            on_games=progress.advance,
        )
        facts = GameFacts(scope=game.scope, unit=game.unit, worlds=game.worlds, rounds=game.rounds, when=game.when)
        return Audit(
            result=audited.result,
            gaussian=audited.gaussian,
            claims=audited.claims,
            attack=audited.attack,
            num_games=audited.num_games,
            game=facts,
        )

    def _read(self, store: Store) -> None:
        """Read the audits that are stored, and the failures."""
        self._audits, self._failures = [], []
        tasks = store.read_tasks(self.ids)
        for point, task_id in zip(self.points, self.ids, strict=True):
            task = tasks.get(task_id)
            if task is not None and task.status == "failed":
                self._failures.append(Failure(point=point, reason=task.failure or ""))
            elif task is not None:
                with telling_damage(store.folder / DATABASE):
                    self._audits.append(PointAudit(point=point, audit=_AUDIT.validate_python(task.extra)))


def _print_audits(plan: Plan, audits: Sequence[PointAudit]) -> None:
    notes: list[str] = []
    table: list[tuple[str, ...]] = []
    for one in audits:
        audit, game = one.audit, one.audit.game
        for result in filter(None, (audit.result, audit.gaussian)):
            how = f"{audit.attack} attack" + (", Gaussian form" if result.form == "gaussian" else "")
            errors = f"{result.false_positives:,}+{result.false_negatives:,} errors of "
            table.append(
                (
                    escape(point_label(plan, one.point)) if result is audit.result else "",
                    "at least",
                    f"{result.epsilon_lower:.4g}",
                    f"{result.delta:.3g}",
                    how,
                    f"{game.unit}, replace-one",
                    game.scope + (f" x {game.rounds} rounds" if game.rounds > 1 else ""),
                    f"{100.0 * result.confidence:g} % confidence",
                    errors + f"{result.num_null + result.num_alternative:,} judged",
                    "",
                )
            )
        for order in audit.orders:
            bound = f"{audit.result.renyi_lower(order):.4g}"
            how = f"{audit.attack} attack, the same errors"
            table.append(("", "at least", bound, f"Rényi order {order:g}", how, *("",) * 5))
        for claim in audit.claims:
            scope, epsilon, delta, _, accountant, unit, _, standing, source = claim_cells(claim, notes=notes)
            epsilon = epsilon if math.isfinite(claim.epsilon) else "infinite"
            verdict = audit.verdict(claim)
            verdict = f"[bold]{verdict}[/bold]" if verdict == REFUTED else verdict
            table.append(("", "claimed", epsilon, delta, accountant, unit, scope, standing, source, verdict))
    print_table(_HEADS, [head in "εδ" and bool(head) for head in _HEADS], table, markup=True)
    console = Console()
    for sentence in _games_in_words(plan, audits):
        console.print(sentence, highlight=False, markup=False)
    for number, note in enumerate(notes, start=1):
        console.print(f"\\[{number}] {note}", highlight=False)
    if any(not math.isfinite(claim.epsilon) for one in audits for claim in one.audit.claims):
        console.print("Where infinity is claimed nothing is promised: no audit can refute it.", highlight=False)
    console.print("Each bound has its confidence by itself; points share random numbers.", highlight=False)


def _games_in_words(plan: Plan, audits: Sequence[PointAudit]) -> list[str]:
    """A sentence for each kind of game and its rounds, with the points it was played for if there are more kinds."""
    kinds: dict[str, list[str]] = {}
    for one in audits:
        game = one.audit.game
        kinds.setdefault(f"{game.worlds}; {game.when}", []).append(point_label(plan, one.point))
    if len(kinds) == 1:
        return [f"Game: {words}." for words in kinds]
    return [f"Game for {'; '.join(dict.fromkeys(labels))}: {words}." for words, labels in kinds.items()]
