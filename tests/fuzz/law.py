"""The law of input: a sentence or a valid scenario, never a traceback, within a second and 500 MB."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pace import OwnTime

from scenarios.cli.describe import describe, listings
from scenarios.engine.limits import estimate
from scenarios.plan.plan import expand
from scenarios.report.check import check_figures, check_tables
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.studies.link.plan import expand_link

SECONDS = 1.0
BYTES = 500 << 20
SECONDS_PER_POINT = 5e-3
"""A sweep of many points is a valid scenario, and takes as long as it takes."""
BUDGET_POINTS = 15
"""A search for the noise that keeps a budget adds up privacy-loss distributions, 50 ms of it."""


def outcome(read: Callable[[], int]) -> str:
    """The sentences that `read` ends in, empty if all is well; it returns the points that it made.

    Any other exception passes through. AssertionError for more than a second of computing, or 500 MB more than before.
    """
    memory = _peak_bytes()
    points, said = 0, ""
    try:
        with OwnTime() as own:
            points = read()
    except ScenarioError as error:
        said = str(error)
        for one in error.errors:
            assert "\n" not in str(one), one
            assert len(str(one)) < 5000, f"{len(str(one))} characters: {str(one)[:200]}"
    assert own.seconds < SECONDS + SECONDS_PER_POINT * points, f"{own.seconds:.1f} s for {points} points; {said[:200]}"
    assert _peak_bytes() - memory < BYTES
    return said


def read_scenario(path: Path, overrides: Sequence[str] = ()) -> int:
    """All that `phyloop check` asks of a scenario before it prints; the points of its sweep."""
    loaded = load_scenario(path, overrides=overrides)
    points = 0
    if loaded.scenario.measure is not None:
        study = expand_link(loaded)
        check_figures(loaded)
        points += study.num_points
        if "learning" not in loaded.document:
            return points
    return points + read_plan(loaded)


def read_plan(loaded: LoadedScenario) -> int:
    """The plan of a loaded scenario with what is told of it; its points, `BUDGET_POINTS` for one with a budget."""
    plan = expand(loaded)
    check_figures(loaded)
    check_tables(loaded, plan)
    if len(plan.points) <= 20:
        estimate(plan)
        list(describe(plan.points[0].scenario))
        assert all(one.table.rows for one in listings(plan))
    return sum(1 if one.scenario.budget is None else BUDGET_POINTS for one in plan.points)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
