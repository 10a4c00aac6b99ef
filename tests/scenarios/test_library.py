"""Every library scenario runs end to end, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from phy.monte_carlo import StopRule
from scenarios.engine import InProcess
from scenarios.link_study.plan import expand_link
from scenarios.link_study.run import Listener, run_study
from scenarios.loader import library_names, load_scenario
from scenarios.plan import expand
from scenarios.run import Progress, run_plan

NAMES = [name for name, _ in library_names() if load_scenario(name).scenario.measure is None]
STUDIES = [name for name, _ in library_names() if name not in NAMES]
TINY = ("learning.rounds=6", "learning.burn_in=3", "link.probe_bits=64")


def test_the_library_holds_the_five_scenarios_of_flmc() -> None:
    assert {"flmc-snr", "flmc-epsilon", "flmc-quantizer", "flmc-rayleigh", "flmc-error-models"} <= set(NAMES)


def test_the_library_holds_a_link_without_a_code() -> None:
    assert "link-uncoded" in STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_a_library_study_is_measured_to_its_report(name: str, tmp_path: Path) -> None:
    tiny = ("measure.values=[0, 20]", "measure.bits_per_batch=128", "link.packet_size_bytes=16")
    loaded = load_scenario(name, overrides=tiny)
    plan = expand_link(loaded)
    rule = StopRule(max_bits=1.0)
    outcome = run_study(loaded, plan, folder=tmp_path, rule=rule, listener=Listener())
    assert outcome.batches + outcome.found <= plan.num_points
    assert outcome.batches > 0
    assert len(outcome.report.figures) == 2 * max(len(loaded.scenario.report.figures), 2)
    assert outcome.report.html.stat().st_size > 10_000


@pytest.mark.parametrize("name", NAMES)
def test_a_library_scenario_runs_to_its_report(name: str, tmp_path: Path) -> None:
    loaded = load_scenario(name, overrides=TINY, trials=2)
    plan = expand(loaded)
    outcome = run_plan(loaded, plan, folder=tmp_path, engine=InProcess(), progress=Progress())
    assert outcome.computed == outcome.planned == 2 * len(plan.points)
    assert outcome.failed == 0
    assert len(outcome.report.figures) == 2 * len(loaded.scenario.report.figures) > 0
    assert outcome.report.html.stat().st_size > 10_000
