"""Every library scenario runs end to end, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.engine import InProcess
from scenarios.loader import library_names, load_scenario
from scenarios.plan import expand
from scenarios.run import Progress, run_plan

NAMES = [name for name, _ in library_names()]
TINY = ("learning.rounds=6", "learning.burn_in=3", "link.probe_bits=64")


def test_the_library_holds_the_five_scenarios_of_flmc() -> None:
    assert {"flmc-snr", "flmc-epsilon", "flmc-quantizer", "flmc-rayleigh", "flmc-error-models"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_library_scenario_runs_to_its_report(name: str, tmp_path: Path) -> None:
    loaded = load_scenario(name, overrides=TINY, trials=2)
    plan = expand(loaded)
    outcome = run_plan(loaded, plan, folder=tmp_path, engine=InProcess(), progress=Progress())
    assert outcome.computed == outcome.planned == 2 * len(plan.points)
    assert outcome.failed == 0
    assert len(outcome.report.figures) == 2 * len(loaded.scenario.report.figures) > 0
    assert outcome.report.html.stat().st_size > 10_000
