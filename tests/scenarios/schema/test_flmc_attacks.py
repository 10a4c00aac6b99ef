"""Attacks on Langevin Monte Carlo as they are written: refused, told, run, stored and drawn."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from attack_setting import attack_of
from learning_run import export, run_plan
from sentences import sentence_about

from scenarios.cli.describe import describe
from scenarios.engine.batch import InProcess
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import is_shown
from scenarios.schema.consistency.conflicts import find_conflicts
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.labels.labels import setting_label
from scenarios.schema.loader import as_yaml, load_scenario, resolved_data
from scenarios.schema.schema import FigureConfig, Scenario, validate_quickly

JAM = "name: a\nlearning:\n  attack: {kind: jam, share: 0.2}\n"


def scenario(attack: dict[str, Any], *, scheme: str = "digital", **parts: Any) -> Scenario:
    learning = {"scheme": scheme, "attack": {"share": 0.1, **attack}}
    return validate_quickly({"name": "a", "learning": learning, **parts})


IMPOSSIBLE: list[tuple[str, str, Scenario]] = [
    ("learning.attack.kind", "scheme exact has none", scenario({"kind": "sign-flip"}, scheme="exact")),
    ("learning.attack.kind", "labels of images", scenario({"kind": "labels"})),
    ("learning.attack.kind", "add up in the air", scenario({"kind": "jam"}, scheme="digital-orthogonal")),
    ("learning.attack.kind", "acts on bits", scenario({"kind": "random"}, scheme="analog")),
    ("link.error_model", "full power of a radio", scenario({"kind": "jam"}, link={"error_model": "error_free"})),
    ("learning.attack.devices", "there are only 20", scenario({"kind": "jam", "share": None, "devices": [1, 20]})),
    ("learning.attack.factor", "leaves signs", scenario({"kind": "sign-flip", "factor": 1.0})),
    ("learning.attack.signal", "belongs to attack.kind jam", scenario({"kind": "ones", "signal": "noise"})),
    ("learning.attack.std", "belongs to attack.kind gaussian", scenario({"kind": "jam", "std": 3.0})),
]


@pytest.mark.parametrize(("key", "word", "made"), IMPOSSIBLE, ids=lambda one: one if isinstance(one, str) else "")
def test_an_impossible_attack_is_one_conflict(key: str, word: str, made: Scenario) -> None:
    (found,) = find_conflicts(resolve_auto(made))
    assert found.keys[0] == key
    assert word in found.problem
    assert found.remedy


def test_more_attackers_than_devices_are_refused_with_their_line(tmp_path: Path) -> None:
    text = "name: a\nlearning:\n  num_devices: 3\n  attack: {kind: jam, devices: [0, 1, 2, 3]}\n"
    said = sentence_about(text, tmp_path)
    assert said.startswith("s.yaml:4: learning.attack.devices = [0, 1, 2, 3]: attack.devices names 4 devices up to ")
    assert said.endswith("there are only 3, from 0 to 2; write devices: [0, 1, 2].")
    assert "must be at most 1" in sentence_about(JAM.replace("0.2", "1.01"), tmp_path)


def test_federated_averaging_allows_no_jammer(tmp_path: Path) -> None:
    said = sentence_about("name: a\nlearning:\n  algorithm: fedavg\n  attack: {kind: jam, share: 0.2}\n", tmp_path)
    assert "write link.access: superposition, or kind: random, which sends random bits" in said


@pytest.mark.parametrize("scheme", ["analog", "digital"])
@pytest.mark.parametrize("signal", ["random", "ones", "noise"])
def test_a_jammer_is_allowed_over_superposition(scheme: str, signal: str) -> None:
    assert list(find_conflicts(resolve_auto(scenario({"kind": "jam", "signal": signal}, scheme=scheme)))) == []


def test_check_shows_the_attackers() -> None:
    told = " ".join(describe(scenario({"kind": "jam", "share": 0.2, "signal": "ones"})))
    assert "4 of 20 devices attack: jamming (all in one direction), each at the full power of its radio" in told
    assert "1 of 20 devices attack: flipped sign" in " ".join(describe(scenario({"kind": "sign-flip", "share": 0.05})))
    assert "attack" not in " ".join(describe(Scenario(name="a")))


def test_the_label_of_jammers_has_share_and_signal() -> None:
    written = attack_of(kind="jam", share=0.2, signal="ones").model_dump(mode="json")
    assert setting_label("learning.attack", written) == "20 % jamming, all in one direction"
    assert setting_label("learning.attack", written | {"signal": "random"}) == "20 % jamming"


def test_attackers_take_memory() -> None:
    plain, jammed = (one.learning for one in (Scenario(name="a"), scenario({"kind": "jam"})))
    link = resolve_auto(Scenario(name="a")).link
    assert jammed.bytes_per_trial(link) > plain.bytes_per_trial(link)


def test_a_share_swept_is_run_and_stored_with_its_attackers(tmp_path: Path) -> None:
    text = JAM.replace("share: 0.2", "share: 0, signal: ones")
    (tmp_path / "s.yaml").write_text(f"{text}sweep:\n  learning.attack.share: [0, 0.1, 0.3]\n")
    loaded = load_scenario(tmp_path / "s.yaml", overrides=("learning.rounds=6", "learning.burn_in=3"), trials=2)
    plan = expand(loaded)
    outcome = run_plan(loaded, plan, folder=tmp_path, engine=InProcess(), progress=Progress())
    assert (outcome.computed, outcome.failed) == (6, 0)
    assert "signal: ones" in as_yaml(resolved_data(loaded.scenario))
    export(tmp_path, tmp_path / "csv", plan=plan, tables=["all"])
    with (tmp_path / "csv" / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = {(row["learning.attack.share"], float(row["num_attackers"])) for row in rows}
    assert found == {("0.0", 0.0), ("0.1", 2.0), ("0.3", 6.0)}
    assert len(rows) == 3 * 2 * 6


def test_a_figure_keeps_points_by_equal_numbers_however_they_are_written() -> None:
    (first, second) = expand(
        load_scenario("flmc-jammer", overrides=("sweep=[{link.power.snr_max_db: [15, 25]}]",))
    ).points
    for wanted in (25, 25.0, [5, 25]):
        figure = FigureConfig(x="learning.attack.share", y="mse", where={"link.power.snr_max_db": wanted})
        assert [is_shown(figure, point) for point in (first, second)] == [False, True]
