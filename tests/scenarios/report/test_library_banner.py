"""A run that differs from the library scenario of its name says so, and compares only sweep points that agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_runs import library_run

from scenarios.plan.plan import expand
from scenarios.report.library import difference
from scenarios.report.published import agreeing
from scenarios.schema.loader import library_names, load_scenario, resolved_root
from scenarios.studies.link.study import LinkStudy

LEARNING = [name for name, _ in library_names() if load_scenario(name).scenario.measure is None]


def differs(name: str, *overrides: str, trials: int | None = None, seed: int | None = None) -> str:
    loaded = load_scenario(name, overrides=overrides, trials=trials, seed=seed)
    return difference(resolved_root(loaded, swept_paths=expand(loaded).swept_paths))


@pytest.mark.parametrize("name", LEARNING)
def test_a_library_scenario_as_it_is_differs_in_nothing(name: str) -> None:
    assert differs(name) == ""
    plan = expand(load_scenario(name))
    assert agreeing(plan) == {point.index: point for point in plan.points}


@pytest.mark.parametrize(
    ("name", "overrides", "changed", "sentence"),
    [
        ("cpa-table4", ["learning.rounds=5"], {"trials": 1}, "trials 1 (3), rounds 5 (30)"),
        ("cpa-table4", [], {"seed": 7}, "seed 7 (2023)"),
        ("cpa-table4", ["report.figures=[]"], {}, ""),
        ("cpa-table5", ["learning.num_devices=10"], {}, "num_devices 10 (swept), sweep points 10 (24)"),
        ("bitflip-bound", ["sweep={link.power.snr_max_db: [1, 2, 3, 4]}"], {}, "other values in the sweep"),
        ("flmc-rayleigh", ["privacy=none"], {}, "privacy none (ε = 5, by (16), by (21))"),
        (
            "cpa-table5",
            ["learning.aggregation=mean", "sweep={learning.num_devices: [2]}"],
            {},
            "local.learning_rate 1 (swept), aggregation mean (swept), sweep points 1 (24)",
        ),
        (
            "flmc-snr",
            [
                "learning.num_devices=7",
                "learning.rounds=3",
                "learning.burn_in=1",
                "learning.gradient_bound=1",
                "learning.quantizer_slope=1",
                "link.channel.gain=1",
            ],
            {"trials": 2},
            "trials 2 (30), channel.gain 1 (0.04), num_devices 7 (20), rounds 3 (300), burn_in 1 (200), "
            "gradient_bound 1 (30) and 1 more",
        ),
    ],
)
def test_a_changed_run_names_its_settings_with_those_of_the_library(
    name: str, overrides: list[str], changed: dict[str, int], sentence: str
) -> None:
    assert differs(name, *overrides, **changed) == (f"differs from {name}: {sentence}" if sentence else "")


def test_a_link_study_names_its_changes_too() -> None:
    assert difference(LinkStudy(load_scenario("link-uncoded")).document()[1]) == ""
    changed = LinkStudy(load_scenario("link-uncoded", overrides=["measure.stop.bit_errors=50"]))
    assert difference(changed.document()[1]) == "differs from link-uncoded: stop.bit_errors 50 (500)"


def test_a_scenario_of_another_name_is_compared_with_none() -> None:
    loaded = load_scenario({"base": "cpa-table4", "name": "mine", "trials": 1})
    assert difference(loaded.document) == ""
    assert agreeing(expand(loaded)) is None


def test_points_agree_whatever_their_seed_and_trials() -> None:
    assert len(agreeing(expand(load_scenario("cpa-table4", trials=1, seed=7))) or ()) == 9
    assert agreeing(expand(load_scenario("cpa-table4", overrides=["learning.rounds=5"]))) == {}
    part = expand(
        load_scenario(
            "cpa-table5",
            overrides=[
                "sweep={learning.num_devices: [10, 11], label: [CPA]}",
                "learning.aggregation={name: cpa, gamma: 0.05}",
            ],
        )
    )
    found = agreeing(part)
    assert found is not None
    assert {index: point.settings["label"] for index, point in found.items()} == {0: "CPA"}


def page(folder: Path, name: str, *overrides: str, trials: int | None = None) -> str:
    return library_run(folder, name, *overrides, trials=trials)[1].read_text()


def test_the_page_of_a_reduced_run_has_a_banner_and_neither_notes_nor_published_numbers(tmp_path: Path) -> None:
    own = page(tmp_path / "own", "cpa-table4")
    assert "differs from" not in own
    assert "<h2>Notes</h2>" in own
    assert "Published numbers beside ours" in own
    reduced = page(tmp_path / "reduced", "cpa-table4", "learning.rounds=5", trials=1)
    assert "This run differs from cpa-table4: trials 1 (3), rounds 5 (30)." in reduced
    assert "<h2>Notes</h2>" not in reduced
    assert "Published numbers beside ours" not in reduced
    fewer = page(tmp_path / "fewer", "cpa-table4", trials=1)
    assert "This run differs from cpa-table4: trials 1 (3)." in fewer
    assert "<h2>Notes</h2>" not in fewer
    assert "Published numbers beside ours" in fewer
    noted = page(tmp_path / "noted", "cpa-table4", "report.notes=Mine.", trials=1)
    assert "Mine." in noted
