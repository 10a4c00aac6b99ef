"""What each command does, once its arguments are read."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from scenarios.consistency import find_warnings
from scenarios.errors import ScenarioError
from scenarios.figure_check import check_figures
from scenarios.interruption import interruptible
from scenarios.link_study.commands import check_study, export_study_points, refuse_without_learning, report_study
from scenarios.link_study.store import holds_link_study
from scenarios.loader import LoadedScenario, library_names, load_scenario, validate_quickly
from scenarios.plan import Plan, expand
from scenarios.progress import shown_progress
from scenarios.run_options import AS_USUAL, RunOptions
from scenarios.table_check import check_tables

if TYPE_CHECKING:
    from scenarios.store import Store

NOTICES_SHOWN = 20


def run_scenario(
    source: str,
    *,
    out: Path | None,
    overrides: Sequence[str],
    trials: int | None,
    seed: int | None,
    options: RunOptions = AS_USUAL,
) -> int:
    """`phyloop run`; returns the exit code."""
    from scenarios.engine import InProcess
    from scenarios.run import RUNS, run_plan

    loaded = load_scenario(source, overrides=overrides, trials=trials, seed=seed)
    refuse_without_learning(loaded)
    plan = expand(loaded)
    check_figures(loaded)
    check_tables(loaded, plan)
    folder = out if out is not None else RUNS / loaded.scenario.name
    for sentence in _warnings(plan):
        print(f"phyloop: warning: {sentence}.", file=sys.stderr)
    started = time.perf_counter()
    try:
        with interruptible(), shown_progress(len(plan.points) * plan.trials) as progress:
            outcome = run_plan(loaded, plan, folder=folder, engine=InProcess(), progress=progress)
    except KeyboardInterrupt:
        command = " ".join(["phyloop", *map(shlex.quote, sys.argv[1:])])
        print(
            f"\nphyloop: stopped; every finished task is kept in {folder}. Go on with: {command}",
            file=sys.stderr,
        )
        return 130
    found = f", {outcome.found} found done" if outcome.found else ""
    print(f"{outcome.planned} tasks: {outcome.computed} computed{found} in {time.perf_counter() - started:.0f} s")
    for path in outcome.report.figures:
        if path.suffix == ".png":
            print(f"figure  {path}")
    for path in outcome.report.tables:
        if path.suffix == ".md":
            print(f"table   {path}")
    print(f"report  {outcome.report.html}")
    for sentence in outcome.notices[:NOTICES_SHOWN]:
        print(f"phyloop: {sentence}.", file=sys.stderr)
    if len(outcome.notices) > NOTICES_SHOWN:
        print(f"phyloop: so in {len(outcome.notices)} trials in all.", file=sys.stderr)
    if outcome.failed:
        print(
            f"phyloop: {outcome.failed} of {outcome.planned} tasks failed; the report names them and why.",
            file=sys.stderr,
        )
        return 1
    return 0


def _warnings(plan: Plan) -> list[str]:
    """Each warning about a point of the plan once."""
    return list(dict.fromkeys(sentence for point in plan.points for sentence in find_warnings(point.scenario)))


def check_scenario(source: str, *, overrides: Sequence[str], trials: int | None, seed: int | None) -> None:
    """`phyloop check`."""
    from scenarios.computed_by import computed_by, links_on_air
    from scenarios.describe import describe, listings
    from scenarios.estimate import estimate

    loaded = load_scenario(source, overrides=overrides, trials=trials, seed=seed)
    if loaded.scenario.measure is not None:
        check_study(loaded)
        if "learning" not in loaded.document:
            return
    plan = expand(loaded)
    check_figures(loaded)
    check_tables(loaded, plan)
    cost = estimate(plan)
    console = Console()
    console.print(
        f"[bold]{loaded.scenario.name}[/bold] is valid: {len(plan.points)} points x {plan.trials} trials = "
        f"{len(plan.points) * plan.trials} tasks, seed {plan.seed}",
        highlight=False,
    )
    for line in describe(plan.points[0].scenario):
        console.print(line, highlight=False)
    if engine := computed_by(links_on_air(point.scenario for point in plan.points)):
        console.print(f"symbols computed by {engine}", highlight=False)
    console.print(
        f"about {_duration(cost.seconds)} on 2 cores (good to a factor of two), "
        f"{cost.memory_bytes / 1e9:.1f} GB memory, {cost.disk_bytes / 1e6:.0f} MB on disk",
        highlight=False,
    )
    for sentence in _warnings(plan):
        console.print(f"warning: {sentence}", highlight=False)
    for listing in listings(plan):
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in listing.heads:
            table.add_column(head, justify="left" if head in listing.left else "right", no_wrap=True)
        for row in listing.rows:
            table.add_row(*row)
        console.print(f"\n{listing.title}", highlight=False)
        # A table cut to a narrow window loses digits: let long lines wrap instead.
        Console(width=max(console.width, 1000), soft_wrap=True).print(table)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def list_library() -> None:
    """`phyloop list`."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, description in library_names():
        table.add_row(f"[bold]{name}[/bold]", description.strip().split("\n")[0])
    Console().print(table)


def reload(folder: Path) -> tuple[LoadedScenario, Plan]:
    """The plan of a run, from what its folder keeps. ScenarioError if there is none."""
    from scenarios.store import Store

    with Store.open_existing(folder) as store:
        root = dict(store.read_scenario().root)
    loaded = LoadedScenario(scenario=validate_quickly(root), document=root, marks={}, source=folder)
    return loaded, expand(loaded)


def report_run(folder: Path) -> None:
    """`phyloop report`."""
    if holds_link_study(folder):
        report_study(folder)
        return
    from scenarios.report import write_report
    from scenarios.run import identify
    from scenarios.store import Store

    _, plan = reload(folder)
    ids = identify(plan)
    with Store.open_existing(folder) as store:
        _refuse_foreign(store, folder, ids)
        paths = write_report(folder, plan, task_ids=ids, store=store)
    print(f"report  {paths.html}")


def export_run(folder: Path, out: Path) -> None:
    """`phyloop export`."""
    if holds_link_study(folder):
        export_study_points(folder, out)
        return
    from scenarios.export import export
    from scenarios.run import identify
    from scenarios.store import Store

    _, plan = reload(folder)
    ids = identify(plan)
    with Store.open_existing(folder) as store:
        _refuse_foreign(store, folder, ids)
    for path in export(folder, out, plan=plan, task_ids=ids):
        print(path)


def _refuse_foreign(store: Store, folder: Path, ids: Sequence[Sequence[str]]) -> None:
    """Raise ScenarioError where tasks are stored and none is of the plan: empty pictures must not replace theirs."""
    stored = store.count_tasks()
    if stored and not store.read_tasks([one for point in ids for one in point]):
        raise ScenarioError(
            file=folder,
            problem=f"none of the {stored} tasks stored here is one that this version of phyloop would compute",
            remedy="keep the pictures and tables there are, or run the scenario again into a new folder",
        )


def print_schema() -> None:
    """`phyloop schema`."""
    from scenarios.schema import Scenario

    print(json.dumps(Scenario.model_json_schema(), indent=2))
