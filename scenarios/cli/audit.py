"""What `phyloop audit` does."""

from __future__ import annotations

import errno
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fl.tasks.base import LearningError
from privacy.errors import PrivacyError
from scenarios.cli.link import refuse_without_learning
from scenarios.cli.progress import shown_progress
from scenarios.engine.interruption import interruptible
from scenarios.plan.own_code import with_own_code
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.claims.table import claim_cells
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.studies.audit.plan import AuditOptions, auditable, delta_of
from scenarios.studies.audit.results import REFUTED, Failure, PointAudit, point_label, renyi_orders, write_results


def audit_scenario(
    source: str,
    *,
    out: Path | None,
    overrides: Sequence[str],
    seed: int | None,
    options: AuditOptions,
    allow_code: bool = False,
) -> int:
    """`phyloop audit`; returns the exit code, 1 where a point could not be audited.

    Tables are written anew after every point: what is finished is kept, whatever becomes of the next one.
    """
    from scenarios.engine.run import RUNS
    from scenarios.studies.audit.figure import write_audit_figure

    loaded = load_scenario(source, overrides=overrides, seed=seed)
    refuse_without_learning(loaded)
    loaded, plan = with_own_code(loaded, expand(loaded), allowed=allow_code)
    points, left_out = auditable(loaded, plan, options)
    for reason in left_out:
        print(f"phyloop: {reason}: not audited.", file=sys.stderr)
    folder = out if out is not None else RUNS / f"{loaded.scenario.name}-audit"
    _writable(folder)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    started = time.perf_counter()
    with interruptible(), shown_progress(len(points), stored="points audited") as progress:
        progress.start(len(points) * options.games)
        audits: list[PointAudit] = []
        failures: list[Failure] = []
        for point in points:
            try:
                audits.append(_audit_point(loaded, point, options, progress.advance))
            except ScenarioError as error:
                if len(points) == 1:
                    raise
                failures.append(Failure(point=point, reason=str(error)))
                print(f"phyloop: {error} Not audited; going on.", file=sys.stderr)
            paths = write_results(folder, plan, audits, failures, options=options, name=loaded.scenario.name)
            progress.stored(1)
    if not audits:
        raise ScenarioError(
            file=loaded.source,
            problem=f"none of {len(points)} points could be audited, for the reasons above",
            remedy="change what they say",
        )
    figure = write_audit_figure(folder, plan, audits)
    _tell(plan, audits)
    if failures:
        print(f"\nNot audited, each for its reason: {'; '.join(point_label(plan, one.point) for one in failures)}.")
    print(
        f"\n{len(audits)} points of {options.games:,} games in {time.perf_counter() - started:.0f} s, seed {plan.seed}"
    )
    print(f"figure  {figure['png']}")
    for path in paths:
        print(f"table   {path}")
    return 1 if failures else 0


def _audit_point(
    loaded: LoadedScenario, point: Point, options: AuditOptions, heard: Callable[[int], None]
) -> PointAudit:
    from fl.audit.attack import audit
    from fl.audit.build import build_game

    scenario = point.scenario
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
            file=loaded.source,
            problem=f"point {point.index + 1}: {problem}",
            remedy=remedy.removesuffix(".") or "change it",
        ) from error
    audited = audit(
        game,
        num_games=options.games,
        delta=delta_of(scenario, options),
        confidence=options.confidence,
        attack=options.attack,
        on_games=heard,
    )
    return PointAudit(point=point, audited=audited)


def _writable(folder: Path) -> None:
    """Refuse before the games are played, not after; makes the folder."""
    if folder.exists() and not folder.is_dir():
        raise ScenarioError(file=folder, problem="is a file, not a folder", remedy="name a folder with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ScenarioError(
            file=folder,
            problem=f"the audit cannot be written here ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error


def _tell(plan: Plan, audits: Sequence[PointAudit]) -> None:
    """The table: of each point the lower bound, then the claims, each with its labels and the verdict."""
    notes: list[str] = []
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, right in (
        *(("point", False), ("", False), ("ε", True), ("δ", True), ("accountant", False)),
        *(("neighbours differ in", False), ("per", False), ("standing", False), ("source", False), ("verdict", False)),
    ):
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    for one in audits:
        audited, game = one.audited, one.audited.game
        for result in (audited.result, audited.gaussian):
            if result is None:
                continue
            how = f"{audited.attack} attack" + (", Gaussian form" if result.form == "gaussian" else "")
            errors = f"{result.false_positives:,}+{result.false_negatives:,} errors of "
            judged = f"{result.num_null + result.num_alternative:,} judged"
            table.add_row(
                escape(point_label(plan, one.point)) if result is audited.result else "",
                "at least",
                f"{result.epsilon_lower:.4g}",
                f"{result.delta:.3g}",
                how,
                f"{game.unit}, replace-one",
                f"{game.scope}" + (f" x {game.rounds} rounds" if game.rounds > 1 else ""),
                f"{100.0 * result.confidence:g} % confidence",
                errors + judged,
                "",
            )
        for order in renyi_orders(audited):
            bound = f"{audited.result.renyi_lower(order):.4g}"
            table.add_row("", "at least", bound, f"Rényi order {order:g}", f"{audited.attack} attack, the same errors")
        for claim in audited.claims:
            scope, epsilon, delta, _, accountant, unit, _, standing, source = claim_cells(claim, notes=notes)
            verdict = one.verdict(claim)
            table.add_row(
                "",
                "claimed",
                epsilon if math.isfinite(claim.epsilon) else "infinite",
                delta,
                accountant,
                unit,
                scope,
                standing,
                source,
                f"[bold]{verdict}[/bold]" if verdict == REFUTED else verdict,
            )
    console = Console()
    Console(width=max(console.width, 1000), soft_wrap=True).print(table)
    for sentence in _games_in_words(plan, audits):
        console.print(sentence, highlight=False, markup=False)
    for number, note in enumerate(notes, start=1):
        console.print(f"\\[{number}] {note}", highlight=False)
    if any(not math.isfinite(claim.epsilon) for one in audits for claim in one.audited.claims):
        console.print("Where infinity is claimed nothing is promised: no audit can refute it.", highlight=False)
    console.print("Each bound has its confidence by itself; points share random numbers.", highlight=False)


def _games_in_words(plan: Plan, audits: Sequence[PointAudit]) -> list[str]:
    """A sentence for each kind of game and the rounds it lasts, with the points it was played for if there are more."""
    found: dict[str, list[str]] = {}
    for one in audits:
        game = one.audited.game
        found.setdefault(f"{game.worlds}; {game.when}", []).append(point_label(plan, one.point))
    if len(found) == 1:
        return [f"Game: {words}." for words in found]
    return [f"Game for {'; '.join(dict.fromkeys(labels))}: {words}." for words, labels in found.items()]
