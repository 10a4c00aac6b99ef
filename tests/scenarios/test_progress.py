"""What a run says of its tasks while it goes on."""

from __future__ import annotations

from pathlib import Path

from command import SMALL, write_scenario

from scenarios.engine import InProcess
from scenarios.loader import load_scenario
from scenarios.plan import expand
from scenarios.run import Progress, run_plan


def stored_tasks(folder: Path, *, trials: int) -> list[int]:
    """Tasks told as stored, one number for each time, while the small scenario runs with so many trials."""
    scenario = write_scenario(folder.parent, SMALL.replace("trials: 6", f"trials: {trials}"))
    loaded = load_scenario(str(scenario), overrides=("learning.rounds=2", "learning.burn_in=0"))
    told: list[int] = []
    run_plan(loaded, expand(loaded), folder=folder, engine=InProcess(), progress=Progress(stored=told.append))
    return told


def test_tasks_found_done_are_told_as_stored_before_the_first_is_computed(tmp_path: Path) -> None:
    first, *rest = stored_tasks(tmp_path / "run", trials=1)
    assert (first, sum(rest)) == (0, 8)
    first, *rest = stored_tasks(tmp_path / "run", trials=2)
    assert (first, sum(rest)) == (8, 8)
    assert stored_tasks(tmp_path / "run", trials=2) == [16]
