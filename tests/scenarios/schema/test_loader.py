"""Files, bases, overrides and the rules of YAML become one checked scenario."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pace import fastest_s

from scenarios.schema import loader
from scenarios.schema.errors import ScenarioError, mark_of
from scenarios.schema.loader import LoadedScenario, as_yaml, library_names, load_scenario, resolved_data
from scenarios.schema.schema import Scenario
from scenarios.schema.yaml_marks import parse_yaml


def load(folder: Path, text: str, **options: Any) -> LoadedScenario:
    file = folder / "s.yaml"
    file.write_text(text)
    return load_scenario(file, **options)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1.28e-4", 1.28e-4),
        ("8e3", 8e3),
        ("8E+3", 8e3),
        (".5", 0.5),
        ("5.", 5.0),
        ("-3", -3),
        ("010", 10),
        ("1_000", 1000),
        ("1:30", "1:30"),
        ("2022-01-01", "2022-01-01"),
        ("none", "none"),
        ("None", "None"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("'1'", "1"),
        ("1" * 64, int("1" * 64)),
        ("16qam", "16qam"),
        ("e4", "e4"),
        ("-", "-"),
        ("0x1f", "0x1f"),
    ],
)
def test_yaml_words_have_their_plain_meaning(text: str, value: object) -> None:
    marked = parse_yaml(f"x: {text}" if text != "-" else "x: '-'", file="f")
    assert marked is not None
    assert marked.data == {"x": value}
    assert type(marked.data["x"]) is type(value)


def test_an_alias_becomes_a_copy() -> None:
    marked = parse_yaml("a: &a {b: [1]}\nc: *a\n", file="f")
    assert marked is not None
    assert marked.data == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert marked.data["a"]["b"] is not marked.data["c"]["b"]
    assert marked.lines["c", "b", 0] == 1
    assert marked.lines["c",] == 2


def test_a_minimal_file_has_every_default(tmp_path: Path) -> None:
    loaded = load(tmp_path, "name: a\n")
    assert loaded.scenario == Scenario(name="a")
    assert loaded.source == tmp_path / "s.yaml"


def test_integers_pass_as_floats_and_lists_as_tuples(tmp_path: Path) -> None:
    loaded = load(tmp_path, "name: a\nlink: {channel: {gain: [1, 2]}, power: {snr_max_db: 20}}\n")
    assert loaded.scenario.link.channel.gain == (1.0, 2.0)
    assert type(loaded.scenario.link.power.snr_max_db) is float


def test_shorthands_are_written_out(tmp_path: Path) -> None:
    loaded = load(tmp_path, "name: a\nlabel: 5\nlearning: {task: logistic}\nlink: {power: {policy: flmc}}\n")
    assert loaded.scenario.label == "5"
    assert loaded.scenario.learning.task.name == "logistic"
    assert loaded.scenario.link.power.policy == "inversion"


def test_a_task_without_a_name_is_the_default_task(tmp_path: Path) -> None:
    assert load(tmp_path, "name: a\nlearning: {task: {num_samples: 50}}\n").scenario.learning.task.num_samples == 50


def test_the_file_wins_over_its_base_and_marks_name_the_source(tmp_path: Path) -> None:
    (tmp_path / "ground.yaml").write_text("name: ground\nseed: 7\nlearning:\n  rounds: 400\n  burn_in: 100\n")
    base = tmp_path / "base.yaml"
    base.write_text("base: ground.yaml\nlearning:\n  rounds: 500\nsweep:\n  learning.scheme: [digital]\n")
    loaded = load(
        tmp_path, "name: top\nbase: base.yaml\nlearning:\n  burn_in: 9\nsweep:\n  learning.rounds: [50, 60]\n"
    )
    learning = loaded.scenario.learning
    assert (loaded.scenario.name, loaded.scenario.seed) == ("top", 7)
    assert (learning.rounds, learning.burn_in) == (500, 9)
    assert loaded.scenario.sweep == {"learning.rounds": [50, 60]}
    assert loaded.marks["seed",] == (tmp_path / "ground.yaml", 2)
    assert loaded.marks["learning", "rounds"] == (base, 3)
    assert loaded.marks["learning", "burn_in"] == (tmp_path / "s.yaml", 4)
    assert ("sweep", "learning.scheme") not in loaded.marks
    assert "base" not in loaded.document


def test_notes_and_published_numbers_of_a_base_are_left_out(tmp_path: Path) -> None:
    report = load(tmp_path, "name: mine\nbase: cpa-table4\ntrials: 5\n").scenario.report
    assert report == load_scenario("cpa-table4").scenario.report.model_copy(update={"notes": "", "tables": ()})
    assert report.figures


@pytest.mark.parametrize(
    ("below", "above", "task"),
    [
        ("gaussian-linear", "{dimension: 7}", {"name": "gaussian-linear", "dimension": 7}),
        ("{dimension: 7}", "gaussian-linear", {"name": "gaussian-linear", "dimension": 7}),
        ("{dimension: 7}", "logistic", {"name": "logistic"}),
        ("{dimension: 7}", "{name: logistic, prior_variance: 2}", {"name": "logistic", "prior_variance": 2}),
        (
            "{dimension: 7}",
            "{num_samples: 50}",
            {"name": "gaussian-linear", "dimension": 7, "num_samples": 50},
        ),
    ],
)
def test_another_task_drops_the_keys_of_the_bases_task(
    below: str, above: str, task: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "base.yaml").write_text(f"name: b\nlearning: {{task: {below}}}\n")
    loaded = load(tmp_path, f"base: base.yaml\nlearning: {{task: {above}}}\n")
    assert loaded.document["learning"]["task"] == task


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "name: a\nlearning: {rounds: 400}\n",
        overrides=["learning.rounds=500", "privacy.epsilon=2", "learning.task.dimension=3", "label=x=y"],
        trials=3,
        seed=9,
    )
    scenario = loaded.scenario
    assert (scenario.learning.rounds, scenario.trials, scenario.seed, scenario.label) == (500, 3, 9, "x=y")
    assert scenario.privacy != "none"
    assert scenario.privacy.epsilon == 2.0
    assert scenario.learning.task.dimension == 3
    assert loaded.marks["learning", "rounds"] == ("--set", None)


def test_trials_from_the_command_line_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^--trials: trials = 0: must be at least 1; "):
        load(tmp_path, "name: a\n", trials=0)


@pytest.mark.parametrize(
    ("sweep", "override", "left"),
    [
        ("{learning.rounds: [300, 400]}", "learning.rounds=500", {}),
        (
            "{privacy.epsilon: [1, 2], learning.rounds: [300, 400]}",
            "privacy=none",
            {"learning.rounds": [300, 400]},
        ),
        (
            "{zip: {learning.rounds: [300, 400, 300], label: [a, b, c], privacy.epsilon: [1, 1, 2]}}",
            "label=z",
            {"zip": {"learning.rounds": [300, 400, 300], "privacy.epsilon": [1, 1, 2]}},
        ),
        (
            "{zip: {learning.rounds: [300, 400, 300], label: [a, b, c]}}",
            "label=z",
            {"zip": {"learning.rounds": [300, 400]}},
        ),
        ("{zip: {learning.rounds: [300]}}", "learning.rounds=500", {}),
        (
            "{zip: [{learning.rounds: [300]}, {label: [a]}]}",
            "learning.rounds=500",
            {"zip": [{"label": ["a"]}]},
        ),
        ("[{learning.rounds: [300]}, {label: [a]}]", "learning.rounds=500", [{"label": ["a"]}]),
    ],
)
def test_an_override_replaces_the_sweep_over_its_path(sweep: str, override: str, left: object, tmp_path: Path) -> None:
    assert load(tmp_path, f"name: a\nsweep: {sweep}\n", overrides=[override]).document["sweep"] == left


@pytest.mark.parametrize(
    ("sweep", "left"),
    [
        ("", {"learning.rounds": [3, 4]}),
        (
            "sweep: {learning.rounds: [5], learning.scheme: [analog]}",
            {"learning.scheme": ["analog"], "learning.rounds": [3, 4]},
        ),
        (
            "sweep: {zip: {learning.rounds: [5, 6], label: [a, b]}}",
            {"zip": {"label": ["a", "b"]}, "learning.rounds": [3, 4]},
        ),
        (
            "sweep: [{learning.rounds: [5]}, {label: [a]}]",
            [{"learning.rounds": [3, 4]}, {"label": ["a"]}],
        ),
        (
            "sweep: [{label: [a]}, {label: [b]}]",
            [{"label": ["a"], "learning.rounds": [3, 4]}, {"label": ["b"], "learning.rounds": [3, 4]}],
        ),
    ],
)
def test_an_override_of_the_sweep_replaces_a_list_or_adds_one(sweep: str, left: object, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"name: a\nlearning: {{burn_in: 1}}\n{sweep}\n")
    loaded = load_scenario(file, overrides=["sweep.learning.rounds=[3, 4]"])
    assert loaded.document["sweep"] == left


def test_what_an_override_leaves_of_a_sweep_has_the_line_of_the_list_that_became_shorter(tmp_path: Path) -> None:
    text = (
        "name: a\nsweep:\n- learning.rounds: [300]\n- learning.scheme:\n  - digital\n  - analog\n"
        "- zip:\n    label: [a, b, c]\n    privacy.epsilon:\n    - 1\n    - 1\n    - 2\n"
    )
    loaded = load(tmp_path, text, overrides=["learning.rounds=400", "label=x"])
    assert loaded.document["sweep"] == [
        {"learning.scheme": ["digital", "analog"]},
        {"zip": {"privacy.epsilon": [1, 2]}},
    ]
    assert mark_of(("sweep", 0, "learning.scheme", 1), loaded.marks)[1] == 2
    loaded = load(tmp_path, text, overrides=["label=x"])
    assert mark_of(("sweep", 1, "learning.scheme", 1), loaded.marks)[1] == 6
    assert mark_of(("sweep", 2, "zip", "privacy.epsilon", 1), loaded.marks)[1] == 7


def test_an_override_below_a_swept_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="privacy is swept as a whole; override privacy itself"):
        load(tmp_path, "name: a\nsweep: {privacy: [none]}\n", overrides=["privacy.epsilon=1"])


def test_the_resolved_file_loads_as_the_same_scenario(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "name: a\nprivacy: {epsilon: 1e-4}\nlink: {channel: {gain: [1, 2]}}\n"
        "sweep: [{learning.scheme: [analog]}]\nreport: {figures: [{x: a, y: b, series: [c, d]}]}\n",
    )
    text = as_yaml(resolved_data(loaded.scenario))
    assert "probe_bits: 4096" in text
    assert load(tmp_path, text).scenario == loaded.scenario


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "first-study.yaml").write_text("name: first\ndescription: >\n  a long\n  story\n")
    monkeypatch.setattr(loader, "LIBRARY", folder)
    return folder


def test_a_bare_name_is_a_scenario_of_the_library(library: Path, tmp_path: Path) -> None:
    assert load_scenario("first-study").source == library / "first-study.yaml"
    assert load(tmp_path, "name: mine\nbase: first-study\n").scenario.description == "a long story\n"


@pytest.mark.usefixtures("library")
def test_an_unknown_name_lists_close_ones() -> None:
    with pytest.raises(ScenarioError, match=r"did you mean first-study\? see phyloop list"):
        load_scenario("first-studdy")


@pytest.mark.usefixtures("library")
def test_the_library_is_listed_with_descriptions() -> None:
    assert library_names() == [("first-study", "a long story")]


def test_loading_needs_no_tensorflow_and_no_plotting() -> None:
    code = (
        "import sys, scenarios.schema.loader, scenarios.plan.plan\n"
        "print([m for m in ('tensorflow', 'sionna', 'scipy', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_loading_takes_milliseconds(tmp_path: Path) -> None:
    load(tmp_path, "name: a\n")
    assert fastest_s(lambda: load(tmp_path, "name: a\n"), repeats=5) < 0.1


@pytest.mark.parametrize(
    ("algorithm", "key", "name"), [("fedavg", "bits", "uniform"), ("flip-moments", "bound", "fixed-point")]
)
def test_a_codec_without_a_name_is_the_default_of_its_algorithm(algorithm: str, key: str, name: str) -> None:
    learning = {"algorithm": algorithm, "codec": {key: 4}}
    assert load_scenario({"learning": learning}).scenario.learning.codec.name == name  # type: ignore[attr-defined]


def test_a_codec_without_a_name_is_the_default_of_federated_averaging() -> None:
    loaded = load_scenario({"learning": {"algorithm": "fedavg", "codec": {"bits": 4}}})
    assert loaded.document["learning"]["codec"] == {"name": "uniform", "bits": 4}
