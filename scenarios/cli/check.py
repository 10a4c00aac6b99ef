"""`phyloop check`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from scenarios.engine.limits import room
from scenarios.engine.study import default_folder
from scenarios.plan.plan import expand
from scenarios.report.check import check_figures, check_tables
from scenarios.report.settings import computed_by, links_on_air
from scenarios.report.tables.table import Table as TextTable
from scenarios.schema.labels.units import byte_size
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.studies.learning import learning_warnings


def check_scenario(
    source: str, *, overrides: Sequence[str], trials: int | None, seed: int | None, memory_limit: str | None = None
) -> None:
    """`phyloop check`."""
    from scenarios.cli.describe import describe, listings
    from scenarios.engine.limits import estimate, refuse_disk, refuse_memory
    from scenarios.plan.own_code import functions_of

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
    refuse_disk(counts, default_folder(loaded, "run"), file=loaded.source)
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
        f"about {cost.memory_bytes / 1e9:.1f} GB memory, {cost.disk_bytes / 1e6:.0f} MB on disk; time: phyloop run "
        "measures its first batches and shows the time left",
        highlight=False,
    )
    console.print(
        f"one task at most: {cost.task_memory_bytes / 1e9:.1f} GB memory with the "
        f"libraries (of {byte_size(space.limit.limit_bytes)}), {byte_size(cost.task_disk_bytes)} on disk",
        highlight=False,
    )
    for function in functions_of(plan):
        console.print(f"learning.model {function} is code of its own: run asks for --allow-code", highlight=False)
    for sentence in learning_warnings(plan):
        console.print(f"warning: {sentence}", highlight=False, markup=False)
    for listing in listings(plan):
        console.print(f"\n{listing.title}", highlight=False)
        TextTable(columns=listing.heads, rows=listing.rows, left=listing.left).print()


def check_study(loaded: LoadedScenario) -> None:
    """`phyloop check` of the `measure:` part."""
    from scenarios.studies.link.level import has_closed_form
    from scenarios.studies.link.plan import expand_link, study_warnings
    from scenarios.studies.link.tables import axis_sentence, stop_sentence

    plan = expand_link(loaded)
    check_figures(loaded)
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    name, seed = loaded.scenario.name, plan.seed
    curves = f"{len(plan.curves)} curve{'s' if len(plan.curves) != 1 else ''}"
    values = len(plan.measure.levels)
    say(f"{name} is valid: {curves} x {values} values = {plan.num_points} points to measure, seed {seed}")
    say(axis_sentence(plan))
    say(f"symbols computed by {computed_by(curve.link for curve in plan.curves)}")
    stopping = stop_sentence(plan)
    say(f"{stopping[0].upper()}{stopping[1:]}.")
    closed = sum(has_closed_form(curve.link) for curve in plan.curves)
    say(f"Closed forms are drawn beside {closed} of {curves}.")
    for sentence in study_warnings(plan):
        say(f"warning: {sentence}")
