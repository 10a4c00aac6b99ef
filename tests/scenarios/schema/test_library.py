"""Every library scenario runs end to end, small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from learning_run import run_plan

from fl.data.data_set import data_sets
from phy.config.registry import registries
from phy.measure.monte_carlo import StopRule
from scenarios.engine.batch import InProcess
from scenarios.engine.limits import estimate
from scenarios.engine.run import run_study
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import Point
from scenarios.schema.loader import library_names, load_scenario
from scenarios.studies.link.plan import expand_link
from scenarios.studies.link.study import LinkStudy

DIGITS = data_sets.read("digits")
NAMES = [name for name, _ in library_names() if load_scenario(name).scenario.measure is None]
STUDIES = [name for name, _ in library_names() if name not in NAMES]
FETCHED = [name for name in NAMES if getattr(load_scenario(name).scenario.learning, "data", DIGITS).name != "digits"]
"""On images that do not come with phyloop, most of them days long."""
FLMC = ("learning.rounds=6", "learning.burn_in=3")
OTHERS = {
    "attack-inversion": ("learning.rounds=1", "learning.num_devices=20", "link.power.snr_max_db=10"),
    "attack-membership": ("learning.rounds=1", "learning.num_devices=20", "link.power.snr_max_db=10"),
    "bitflip-epochs": (
        "sweep=[{label: [T = 500], learning.local.steps: [1, 2]}, {label: [E = 10], learning.local.steps: [3, 4]}]",
        "learning.rounds=2",
    ),
    "bitflip-kappa": ("learning.dimension=100", "learning.num_pairs=2"),
    "bitflip-moments": ("learning.rounds=5", "learning.draws=20"),
    "fedavg-digits": ("learning.rounds=2", "link.power.snr_max_db=10"),
}
"""What makes a scenario small where two rounds do not."""


def tiny(name: str) -> tuple[str, ...]:
    usual = FLMC if load_scenario(name).scenario.learning.algorithm == "flmc" else ("learning.rounds=2",)
    return ("link.probe_bits=64", *OTHERS.get(name, usual))


def test_the_library_holds_the_five_scenarios_of_flmc() -> None:
    assert {"flmc-snr", "flmc-epsilon", "flmc-quantizer", "flmc-rayleigh", "flmc-error-models"} <= set(NAMES)


def test_the_library_holds_a_link_without_a_code() -> None:
    assert "link-uncoded" in STUDIES


LATER = {
    "fedavg-bursts",
    "flmc-analog-ofdm",
    "flmc-bursts",
    "flmc-coded-ofdm",
    "flmc-error-models",
    "flmc-rayleigh",
    "link-coded-tdl",
    "link-noma-sic",
}
"""Those that compile for a minute: for the slow tests."""


def later(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in LATER else name


@pytest.mark.parametrize("name", [later(name) for name in STUDIES])
def test_a_library_study_is_measured_to_its_report(name: str, tmp_path: Path) -> None:
    tiny = ("measure.values=[0, 20]", "measure.bits_per_batch=128", "link.packet_size_bytes=16")
    loaded = load_scenario(name, overrides=tiny)
    plan = expand_link(loaded)
    rule = StopRule(max_bits=1.0)
    study = LinkStudy(loaded, plan, rule=rule)
    outcome = run_study(study, folder=tmp_path)
    assert 0 < study.batches_added <= plan.num_points
    assert len(outcome.report.figures) == max(len(loaded.scenario.report.figures), 2)
    assert outcome.report.html is not None
    assert outcome.report.html.stat().st_size > 10_000


@pytest.mark.parametrize("name", [later(name) for name in NAMES if name not in FETCHED])
def test_a_library_scenario_runs_to_its_report(name: str, tmp_path: Path) -> None:
    overrides = tiny(name)
    trials = 2 if set(FLMC) <= set(overrides) else 1
    loaded = load_scenario(name, overrides=overrides, trials=trials)
    plan = expand(loaded)
    outcome = run_plan(loaded, plan, folder=tmp_path, engine=InProcess(), progress=Progress())
    assert outcome.computed == outcome.planned == trials * len(plan.points)
    assert outcome.failed == 0
    dealt = len({p.scenario.learning.model_dump_json(include={"partition"}) for p in plan.points if has_shares(p)})
    attacked = len({p.scenario.label for p in plan.points if p.scenario.learning.algorithm == "reconstruction"})
    assert len(outcome.report.figures) == len(loaded.scenario.report.figures) + dealt + attacked > 0
    assert outcome.report.html is not None
    assert outcome.report.html.stat().st_size > 10_000


def has_images(point: Point) -> bool:
    return point.scenario.learning.algorithm == "fedavg"


def has_shares(point: Point) -> bool:
    """Devices whose images differ, which are drawn."""
    return has_images(point) and point.scenario.learning.partition.kind != "iid"


@pytest.mark.parametrize("name", FETCHED)
def test_a_scenario_on_missing_images_can_be_planned(name: str) -> None:
    loaded = load_scenario(name)
    plan = expand(loaded)
    assert all(has_images(point) for point in plan.points)
    assert estimate(plan).memory_bytes > 0


def test_every_parameter_of_a_registered_thing_is_described() -> None:
    missing = [
        f"{kind} {cls.__name__}.{name}"
        for kind, registry in registries().items()
        for cls in registry.classes()
        for name, field in cls.model_fields.items()
        if name != registry.tag and not field.description and kind != "reference check"  # written by us alone
    ]
    assert missing == []
