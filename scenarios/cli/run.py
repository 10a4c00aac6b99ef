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
from rich.text import Text

from scenarios.cli.link import check_study, export_study_points, refuse_without_learning, report_study
from scenarios.cli.progress import beside, shown_progress
from scenarios.engine.interruption import interruptible
from scenarios.engine.limits import room
from scenarios.engine.options import AS_USUAL, RunOptions
from scenarios.plan.own_code import with_own_code
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.report.figures.check import check_figures
from scenarios.report.tables.table_check import check_tables
from scenarios.schema.consistency import find_warnings
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.units import byte_size, duration
from scenarios.schema.loader import LoadedScenario, library_names, load_scenario
from scenarios.store.heartbeat import Heartbeat
from scenarios.store.log import LEVELS, logger, telling
from scenarios.studies.link.store import holds_link_study

if TYPE_CHECKING:
    from scenarios.store.store import Store

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
    with telling(level=options.log_level, traces=options.debug):
        return _run_scenario(source, out=out, overrides=overrides, trials=trials, seed=seed, options=options)


def _run_scenario(
    source: str,
    *,
    out: Path | None,
    overrides: Sequence[str],
    trials: int | None,
    seed: int | None,
    options: RunOptions,
) -> int:
    from scenarios.engine.cluster.choice import ClusterLostError, choose_engine, refuse_impossible
    from scenarios.engine.run import RUNS, RunOutcome, run_plan
    from scenarios.store.checkpoints import CHECKPOINTS, CheckpointPolicy

    refuse_impossible(options)
    loaded = load_scenario(source, overrides=overrides, trials=trials, seed=seed)
    refuse_without_learning(loaded)
    loaded, plan = with_own_code(loaded, expand(loaded), allowed=options.allow_code)
    check_figures(loaded)
    check_tables(loaded, plan)
    space = room(options.memory_limit, workers=options.workers or 1, elsewhere=options.scheduler is not None)
    folder = out if out is not None else RUNS / loaded.scenario.name
    for sentence in _warnings(plan):
        logger("scenario").warning(sentence)
    started = time.perf_counter()
    quiet = LEVELS[options.log_level] > LEVELS["info"]

    def compute() -> RunOutcome:
        with shown_progress(len(plan.points) * plan.trials, quiet=quiet) as shown:
            progress = beside(shown, Heartbeat(unit="trial-rounds"))
            checkpoints = CheckpointPolicy(
                folder=folder / CHECKPOINTS, rounds=options.checkpoint_rounds, minutes=options.checkpoint_minutes
            )
            engine = choose_engine(
                options, checkpoints=checkpoints, on_restored=progress.restored, worker_bytes=space.process_bytes
            )
            return run_plan(loaded, plan, folder=folder, engine=engine, progress=progress, room=space, options=options)

    try:
        with interruptible():
            outcome = compute()
    except (KeyboardInterrupt, ClusterLostError) as end:
        command = " ".join(["phyloop", *map(shlex.quote, sys.argv[1:])])
        why, code = ("stopped", 130) if isinstance(end, KeyboardInterrupt) else (str(end), 1)
        print(f"\nphyloop: {why}; every finished task is kept in {folder}. Go on with: {command}", file=sys.stderr)
        return code
    found = f", {outcome.found} found done" if outcome.found else ""
    if outcome.whole:
        print(f"all {outcome.planned} tasks are finished: 0 computed{found}; phyloop report draws figures again")
    else:
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
            f"phyloop: {outcome.failed} of {outcome.planned} tasks failed; the report names them and why, and "
            "--retry-failed computes them again.",
            file=sys.stderr,
        )
        return 1
    return 0


def _warnings(plan: Plan) -> list[str]:
    """Each warning about a point of the plan once."""
    return list(dict.fromkeys(sentence for point in plan.points for sentence in find_warnings(point.scenario)))


def check_scenario(
    source: str, *, overrides: Sequence[str], trials: int | None, seed: int | None, memory_limit: str | None = None
) -> None:
    """`phyloop check`."""
    from scenarios.cli.describe import describe, listings
    from scenarios.engine.estimate import estimate
    from scenarios.engine.limits import refuse_disk, refuse_memory
    from scenarios.engine.run import RUNS
    from scenarios.plan.own_code import functions_of
    from scenarios.report.computed_by import computed_by, links_on_air

    loaded = load_scenario(source, overrides=overrides, trials=trials, seed=seed)
    if loaded.scenario.measure is not None:
        check_study(loaded)
        if "learning" not in loaded.document:
            return
    plan = expand(loaded)
    check_figures(loaded)
    check_tables(loaded, plan)
    space = room(memory_limit)
    refuse_memory((point.scenario for point in plan.points), space, file=loaded.source)
    counts = ((point.scenario, plan.trials) for point in plan.points)
    refuse_disk(counts, RUNS / loaded.scenario.name, file=loaded.source)
    cost = estimate(plan, batch_bytes=space.batch_bytes)
    console = Console()
    console.print(
        f"[bold]{loaded.scenario.name}[/bold] is valid: {len(plan.points)} points x {plan.trials} trials = "
        f"{len(plan.points) * plan.trials} tasks, seed {plan.seed}",
        highlight=False,
    )
    for line in describe(plan.points[0].scenario):
        console.print(line, highlight=False, markup=False)
    if engine := computed_by(links_on_air(point.scenario for point in plan.points)):
        console.print(f"symbols computed by {engine}", highlight=False)
    console.print(
        f"about {duration(cost.seconds)} on 2 cores (good to a factor of two), "
        f"{cost.memory_bytes / 1e9:.1f} GB memory, {cost.disk_bytes / 1e6:.0f} MB on disk",
        highlight=False,
    )
    console.print(
        f"one task at most: {duration(cost.task_seconds)}, {cost.task_memory_bytes / 1e9:.1f} GB memory with the "
        f"libraries (of {byte_size(space.limit.limit_bytes)}), {byte_size(cost.task_disk_bytes)} on disk",
        highlight=False,
    )
    for function in functions_of(plan):
        console.print(f"learning.model {function} is code of its own: run asks for --allow-code", highlight=False)
    for sentence in _warnings(plan):
        console.print(f"warning: {sentence}", highlight=False, markup=False)
    for listing in listings(plan):
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in listing.heads:
            table.add_column(head, justify="left" if head in listing.left else "right", no_wrap=True)
        for row in listing.rows:
            table.add_row(*map(Text, row))
        console.print(f"\n{listing.title}", highlight=False)
        # A table cut to a narrow window loses digits: let long lines wrap instead.
        Console(width=max(console.width, 1000), soft_wrap=True).print(table)


def list_library() -> None:
    """`phyloop list`."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, description in library_names():
        table.add_row(f"[bold]{name}[/bold]", description.strip().split("\n")[0])
    Console().print(table)


def reload(folder: Path) -> tuple[LoadedScenario, Plan]:
    """The plan of a run, from what its folder keeps. ScenarioError if there is none."""
    from scenarios.store.store import Store
    from scenarios.store.stored import stored_scenario

    with Store.open_existing(folder) as store:
        loaded = stored_scenario(store)
    return loaded, expand(loaded)


def report_run(folder: Path) -> None:
    """`phyloop report`."""
    if holds_link_study(folder):
        report_study(folder)
        return
    from scenarios.engine.run import identify
    from scenarios.report.page import write_report
    from scenarios.store.store import Store

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
    from scenarios.engine.run import identify
    from scenarios.report.tables.export import export
    from scenarios.store.store import Store

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
    from scenarios.schema.schema import Scenario

    print(json.dumps(Scenario.model_json_schema(), indent=2))
