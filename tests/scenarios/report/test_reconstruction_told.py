"""An attack on uploads as a scenario: what check says, what it refuses, and the picture on the page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import make_plan

from fl.base.results import TrialResult
from scenarios.cli.describe import describe, listings
from scenarios.engine.limits import estimate
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.report.check import check_figures
from scenarios.report.figures.images import (
    MOST_ROWS,
    ImageRow,
    draw_attacks,
    reconstruction_figure,
)
from scenarios.report.figures.style import write_picture
from scenarios.report.page import write_report
from scenarios.schema.consistency.conflicts import find_conflicts
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store

ATTACK = "name: a\ntrials: 2\nlearning:\n  algorithm: reconstruction\n"
NOISE = {"mechanism": "gaussian", "epsilon": 10.0}


def planned(text: str, folder: Path) -> Plan:
    (folder / "s.yaml").write_text(text)
    return expand(load_scenario(folder / "s.yaml"))


def greys(count: int = 3, *, seed: int = 0, channels: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, channels))


def test_check_tells_how_many_games_and_what_one_upload_is(tmp_path: Path) -> None:
    plan = planned(f"{ATTACK}  rounds: 3\nprivacy: {{mechanism: gaussian, epsilon: 10}}\n", tmp_path)
    told = " ".join(describe(plan.points[0].scenario))
    assert "an attack on 300 uploads per trial, 1 image behind each" in told
    assert "650 parameters, one step, 8 bits per parameter (uniform)" in told
    (listing,) = listings(plan)
    row = dict(zip(listing.table.columns, listing.table.rows[0], strict=True))
    assert (row["numbers"], row["bits"], row["mechanism"]) == ("650", "5,200", "gaussian, printed")
    # 2 eta G / n = 2 for one round: Li et al. 2025 (23) at delta 1/4.
    assert float(row["sigma"]) == pytest.approx(2.0 * np.sqrt(2.0 * np.log(1.25 / 0.25)) / 10.0, rel=1e-3)
    larger = planned(f"{ATTACK}  rounds: 30\n", tmp_path)
    assert estimate(larger).memory_bytes > estimate(plan).memory_bytes


@pytest.mark.parametrize(
    ("settings", "key", "sentence"),
    [
        ({"learning.num_devices": 800}, "learning.num_devices", "need 1600 images that differ, there are 1437"),
        (
            {"learning.data": {"train_samples": 150}},
            "learning.num_devices",
            "need 200 images that differ, there are 150",
        ),
        ({"privacy": {"epsilon": 5.0}}, "privacy.budget", "this privacy is that of a whole run"),
        ({"privacy": NOISE, "learning.local": {"clip": None}}, "privacy.mechanism", "clipped"),
        ({"privacy": NOISE, "learning.aggregation": {"name": "cpa"}}, "privacy.mechanism", "makes its own bits"),
        ({"link.access": "superposition"}, "link.access", "detects the bits of every device on its own"),
    ],
)
def test_what_cannot_be_attacked_is_told_in_a_sentence(settings: dict[str, Any], key: str, sentence: str) -> None:
    scenario = make_plan([settings], trials=1, learning={"algorithm": "reconstruction"}).points[0].scenario
    found = next(iter(find_conflicts(scenario)))
    assert found.keys[0] == key
    assert sentence in found.problem
    assert found.remedy


def test_an_attack_as_it_comes_has_no_conflict_and_its_quantities_may_be_drawn(tmp_path: Path) -> None:
    figures = "[{x: round, y: recognised_share}, {x: link.power.snr_max_db, y: membership_auc}]"
    plan = planned(f"{ATTACK}sweep: {{link.power.snr_max_db: [0, 9]}}\nreport: {{figures: {figures}}}\n", tmp_path)
    assert not list(find_conflicts(plan.points[0].scenario))
    check_figures(load_scenario(tmp_path / "s.yaml"))
    planned(f"{ATTACK}report: {{figures: [{{x: link.power.snr_max_db, y: test_accuracy}}]}}\n", tmp_path)
    with pytest.raises(ScenarioError, match="mean_correlation"):
        check_figures(load_scenario(tmp_path / "s.yaml"))


def test_the_picture_has_originals_first_and_a_row_for_every_setting_and_is_the_same_every_time(tmp_path: Path) -> None:
    rows = [ImageRow(setting=f"ε = {k}", images=greys(seed=k), told="0.50, 3 %") for k in (1, 2)]
    figure = reconstruction_figure(greys(), rows, title="Costs $5", told="correlation")
    assert len(figure.axes) == 3
    first = figure.axes[0].images[0]
    drawn = np.asarray(first.get_array())
    scale = drawn.shape[0] // 8
    # The middle of every magnified pixel is the pixel.
    middle = drawn[scale // 2 :: scale, scale // 2 :: scale][:8, :8]
    assert (middle == greys()[0, :, :, 0]).all()
    heights = [axes.get_position().y0 for axes in figure.axes]
    assert heights == sorted(heights, reverse=True)
    assert {"original", "ε = 1", "ε = 2", "0.50, 3 %"} <= {text.get_text() for text in figure.texts}
    # Dark is ink, in grey as in colour; and nothing is stretched from row to row.
    assert all((axes.images[0].norm.vmin, axes.images[0].norm.vmax) == (0, 255) for axes in figure.axes)
    ink = first.to_rgba(np.array([[0.0, 128.0, 255.0]]))[0, :, :3].mean(axis=1)
    assert (np.diff(ink) < 0).all()
    make = partial(reconstruction_figure, greys(), rows, title="t", told="")
    files = [write_picture(make, tmp_path / name, shows=rows) for name in "ab"]
    assert files[0].svg.read_bytes() == files[1].svg.read_bytes()
    colours = reconstruction_figure(greys(channels=3), [], title="", told="")
    assert np.asarray(colours.axes[0].images[0].get_array()).shape[2] == 3


def attacked(trial: int, *, seed: int) -> TrialResult:
    pictures = {} if trial else {"original": greys(), "rebuilt": greys(seed=seed)}
    metrics = {"mean_correlation": 0.05 if seed == 3 else 0.5, "recognised_share": 0.25, "membership_auc": 0.75}
    return TrialResult(trial=trial, metrics=metrics, rounds={}, pictures=pictures)


def test_the_page_shows_a_picture_for_every_label_of_what_the_store_kept(tmp_path: Path) -> None:
    points = [{"label": label, "link.power.snr_max_db": float(snr)} for label in ("a", "b") for snr in (0, 10)]
    points += [{"label": "many", "link.power.snr_max_db": float(snr)} for snr in range(MOST_ROWS + 1)]
    plan = make_plan(points, trials=2, learning={"algorithm": "reconstruction"})
    ids = plan.task_ids
    with Store.open(tmp_path, scenario_name="fake") as store:
        for point, tasks in zip(plan.points[:-1], ids, strict=False):  # the last has not run yet
            results = {task: attacked(trial, seed=point.index) for trial, task in enumerate(tasks)}
            store.write(results, physics={"point": point.index}, seconds=1.0)
        kept = store.read_series(ids[1], "pictures")
        assert (kept[ids[1][0]]["rebuilt"] == greys(seed=1)).all()
        assert kept[ids[1][1]] == {}
        drawn = draw_attacks(tmp_path, plan, store=store)
        store.save_scenario(yaml="name: fake\n", root={})
        paths = write_report(tmp_path, plan, store=store)
    # What would be the second picture of the last label has nothing in it yet.
    assert [one.svg.name for one in drawn] == [f"reconstruction-{k}.svg" for k in (1, 2, 3)]
    assert drawn[0].title.startswith("a: ")
    assert "one of each label" in drawn[0].caption
    page = paths.html.read_text()
    assert page.count("images rebuilt from one upload</h3>") == 3
    assert "a failure is no proof of privacy" in page
    svg = drawn[0].svg.read_text()
    assert svg.count("<image") == 3
    assert drawn[1].svg.read_text().count("<image") == 2
    assert drawn[1].caption.endswith("because the correlation is below 0.1: P₀/N₀ = 10 dB.")


def test_other_algorithms_have_no_such_section(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=1)
    with Store.open(tmp_path, scenario_name="fake") as store:
        assert draw_attacks(tmp_path, plan, store=store) == ()
        store.save_scenario(yaml="name: fake\n", root={})
        page = write_report(tmp_path, plan, store=store).html.read_text()
    assert "What an attacker makes" not in page
