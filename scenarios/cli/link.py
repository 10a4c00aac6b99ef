"""What `phyloop link` does, and what the other commands do with a link study."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from scenarios.engine.interruption import interruptible
from scenarios.report.computed_by import computed_by
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.store.log import USUAL, logger, telling
from scenarios.studies.link.closed_form import has_closed_form
from scenarios.studies.link.figures import check_study_figures
from scenarios.studies.link.plan import LinkPlan, expand_link, rate_warning
from scenarios.studies.link.words import TIME_NOTE, UNBIASED_NOTE, axis_sentence, stop_sentence


def link_scenario(
    source: str,
    *,
    out: Path | None,
    overrides: Sequence[str],
    seed: int | None,
    max_seconds: float | None,
    log_level: str = USUAL,
    debug: bool = False,
) -> int:
    """`phyloop link`; returns the exit code."""
    with telling(level=log_level, traces=debug):
        return _link_scenario(
            source, out=out, overrides=overrides, seed=seed, max_seconds=max_seconds, log_level=log_level
        )


def _link_scenario(
    source: str,
    *,
    out: Path | None,
    overrides: Sequence[str],
    seed: int | None,
    max_seconds: float | None,
    log_level: str,
) -> int:
    from scenarios.studies.link.live import live_table
    from scenarios.studies.link.run import StudyOutcome, run_study, study_folder, with_limits

    loaded = load_scenario(source, overrides=overrides, seed=seed)
    plan = expand_link(loaded)
    check_study_figures(loaded, plan)
    folder = out if out is not None else study_folder(loaded)
    rule = with_limits(plan.measure.rule(), max_seconds=max_seconds)
    for sentence in dict.fromkeys(_warnings(plan)):
        logger("scenario").warning(sentence)
    started = time.perf_counter()

    def measure() -> StudyOutcome:
        with live_table(plan, rule) as listener:
            return run_study(loaded, plan, folder=folder, rule=rule, listener=listener, log_level=log_level)

    try:
        with interruptible():
            outcome = measure()
    except KeyboardInterrupt:
        command = " ".join(["phyloop", *map(shlex.quote, sys.argv[1:])])
        print(f"\nphyloop: stopped; every batch so far is kept in {folder}. Go on with: {command}", file=sys.stderr)
        return 130
    print(f"\n{UNBIASED_NOTE}")
    if outcome.timed:
        print(f"\n{TIME_NOTE}")
    found = f", {outcome.found} points needed none" if outcome.found else ""
    print(f"\n{outcome.batches} batches measured{found} in {time.perf_counter() - started:.0f} s")
    for path in outcome.report.figures:
        if path.suffix == ".png":
            print(f"figure  {path}")
    print(f"report  {outcome.report.html}")
    return 0


def refuse_without_learning(loaded: LoadedScenario) -> None:
    """Raise ScenarioError for a scenario that only measures a link: `phyloop run` has nothing to learn there."""
    if loaded.scenario.measure is not None and "learning" not in loaded.document:
        raise ScenarioError(
            problem="this scenario has a measure: section and no learning:, so there is nothing to learn",
            remedy="use phyloop link, or add learning:",
            file=loaded.source,
        )


def check_study(loaded: LoadedScenario) -> None:
    """`phyloop check` of the `measure:` part."""
    plan = expand_link(loaded)
    check_study_figures(loaded, plan)
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
    for sentence in dict.fromkeys(_warnings(plan)):
        say(f"warning: {sentence}")


def _warnings(plan: LinkPlan) -> list[str]:
    from phy.links.conflicts import link_warnings

    hurts = [sentence for curve in plan.curves for sentence in link_warnings(curve.link)]
    rates = [rate_warning(curve, plan.measure.over) for curve in plan.curves]
    return [*hurts, *(sentence for sentence in rates if sentence is not None)]


def reload_study(folder: Path) -> LinkPlan:
    """The plan of a study, from what its folder keeps. ScenarioError if there is none."""
    from scenarios.store.stored import stored_scenario
    from scenarios.studies.link.store import LinkStore

    with LinkStore.open_existing(folder) as store:
        return expand_link(stored_scenario(store))


def report_study(folder: Path) -> None:
    """`phyloop report` of a study."""
    from scenarios.studies.link.report import write_study_report
    from scenarios.studies.link.store import LinkStore

    plan = reload_study(folder)
    with LinkStore.open_existing(folder) as store:
        paths = write_study_report(folder, plan, store=store)
    print(f"report  {paths.html}")


def export_study_points(folder: Path, out: Path) -> None:
    """`phyloop export` of a study."""
    from scenarios.studies.link.export import export_study

    print(export_study(folder, out, plan=reload_study(folder)))
