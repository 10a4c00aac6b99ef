"""A sweep becomes the points it says, each a checked scenario."""
# ruff: noqa: E501 (whole sentences on one line, as the user sees them)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pace import OwnTime

from privacy.config import PrivacyConfig
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, value_of
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario


def plan(folder: Path, text: str, **options: Any) -> Plan:
    file = folder / "s.yaml"
    file.write_text("name: a\n" + text)
    return expand(load_scenario(file, **options))


def settings(text: str, folder: Path, **options: Any) -> list[tuple[object, ...]]:
    return [tuple(point.settings.values()) for point in plan(folder, text, **options).points]


def refusal(text: str, folder: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        plan(folder, text)
    return str(caught.value).removeprefix(f"{folder}/")


def test_no_sweep_is_one_point_with_nothing_left_at_auto(tmp_path: Path) -> None:
    made = plan(tmp_path, "trials: 7\nseed: 3\n")
    (point,) = made.points
    assert (made.trials, made.seed, made.swept_paths, point.settings) == (7, 3, (), {})
    link, learning = point.scenario.link, point.scenario.learning
    assert (link.access, link.modulation, learning.lmc_cap) == ("superposition", "bpsk", "printed")


def test_lists_multiply_the_first_path_slowest(tmp_path: Path) -> None:
    text = "sweep:\n  learning.scheme: [digital, analog]\n  link.power.snr_max_db: [0, 5]\n"
    assert settings(text, tmp_path) == [("digital", 0), ("digital", 5), ("analog", 0), ("analog", 5)]
    made = plan(tmp_path, text)
    assert made.swept_paths == ("learning.scheme", "link.power.snr_max_db")
    assert [point.index for point in made.points] == [0, 1, 2, 3]
    assert made.points[3].scenario.link.power.snr_max_db == 5.0
    assert made.points[3].scenario.sweep == {}


def test_zipped_paths_step_together(tmp_path: Path) -> None:
    text = "sweep:\n  zip: {learning.scheme: [digital, analog], label: [D, A]}\n  learning.rounds: [300, 400]\n"
    assert settings(text, tmp_path) == [
        ("digital", "D", 300),
        ("digital", "D", 400),
        ("analog", "A", 300),
        ("analog", "A", 400),
    ]


def test_several_zips_multiply(tmp_path: Path) -> None:
    text = "sweep:\n  zip:\n  - {learning.scheme: [digital, analog], label: [D, A]}\n  - {learning.rounds: [300, 400], learning.burn_in: [1, 2]}\n"
    assert settings(text, tmp_path)[1] == ("digital", "D", 400, 2)
    assert len(settings(text, tmp_path)) == 4


def test_a_list_of_blocks_is_their_union_in_order(tmp_path: Path) -> None:
    text = "sweep:\n- {learning.rounds: [300, 400]}\n- {learning.scheme: [analog], privacy.epsilon: [1, 2]}\n"
    made = plan(tmp_path, text)
    assert [point.settings for point in made.points] == [
        {"learning.rounds": 300},
        {"learning.rounds": 400},
        {"learning.scheme": "analog", "privacy.epsilon": 1},
        {"learning.scheme": "analog", "privacy.epsilon": 2},
    ]
    assert made.swept_paths == ("learning.rounds", "learning.scheme", "privacy.epsilon")


def test_an_override_replaces_a_swept_path(tmp_path: Path) -> None:
    text = "sweep: {learning.scheme: [digital, analog], learning.rounds: [300, 400]}\n"
    assert settings(text, tmp_path, overrides=["learning.scheme=exact"]) == [(300,), (400,)]


def test_values_may_be_mappings_and_paths_may_go_into_none_and_bare_names(tmp_path: Path) -> None:
    made = plan(tmp_path, "sweep: {privacy: [none, {epsilon: 5, delta: 0.02}]}\n")
    assert [value_of(point, "privacy.epsilon") for point in made.points] == [None, 5.0]
    text = "learning: {task: gaussian-linear}\nsweep: {privacy.epsilon: [3], learning.task.dimension: [2]}\n"
    (point,) = plan(tmp_path, text).points
    assert value_of(point, "privacy") == PrivacyConfig(epsilon=3.0).model_dump(mode="json")
    assert value_of(point, "privacy.delta") == 0.01
    assert value_of(point, "learning.task.dimension") == 2


def test_points_share_no_data_with_each_other_or_the_root(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: a\nlearning: {burn_in: 7}\nsweep:\n- {learning.rounds: [300]}\n- {learning: [{task: logistic}]}\n"
    )
    loaded = load_scenario(file)
    before = repr(loaded.document)
    first, second = expand(loaded).points
    assert repr(loaded.document) == before
    assert first.scenario.learning.burn_in == 7
    assert second.scenario.learning.burn_in == 200
    assert second.settings == {"learning": {"task": "logistic"}}


def test_values_are_plain_data(tmp_path: Path) -> None:
    (point,) = plan(tmp_path, "learning: {num_devices: 2}\nlink: {channel: {gain: [1, 2]}}\n").points
    assert value_of(point, "link.channel.gain") == [1.0, 2.0]
    assert value_of(point, "link.csi.error_variance") is None
    assert value_of(point, "no.such") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("  learning.rounds: []\n", "s.yaml:3: learning.rounds = []: must be a list of at least one value; add values, or leave it out."),
        ("  learning.rounds: 5\n", "s.yaml:3: learning.rounds = 5: must be a list of at least one value; write learning.rounds: [5]."),
        ("  learning.rounds:\n  - 300\n  - 300\n", "s.yaml:5: learning.rounds = 300: value 2 of the list repeats value 1; write each value once."),
        ("  learning.rounds: [300]\n  zip: {learning.rounds: [300]}\n", "s.yaml:4: learning.rounds: the path is swept twice in one block; keep one of them (the other is on line 3)."),
        ("  privacy: [none]\n  privacy.epsilon: [300]\n", "s.yaml:4: privacy.epsilon: swept beside privacy, one inside the other; leave privacy.epsilon out of the sweep, or privacy."),
        ("  zip: {learning.rounds: [300, 400], label: [a]}\n", "s.yaml:3: sweep.zip: lists that are zipped must have one length, but learning.rounds has 2, label has 1; "
        "write zip: {learning.rounds: [300, 400], label: [a, \"400\"]}, or the lists outside zip for all combinations."),
        ("  zip: 5\n", "s.yaml:3: sweep.zip = 5: must be a mapping of dotted paths to lists of one length, or a list of such mappings; write for example zip: {learning.scheme: [analog, digital], label: [A, B]}."),
        ("  seed: [1, 2]\n", "s.yaml:3: seed: seed cannot be swept; leave it out, and raise trials: every trial has "
                             "its own random numbers."),
        ("  trials: [1, 2]\n", "s.yaml:3: trials: trials cannot be swept; leave it out: every point gets the same number of trials."),
        ("  report.notes: [a]\n", "s.yaml:3: report.notes: report cannot be swept; keep one report for all points."),
        ("  num_samples: [1200]\n", "s.yaml:3: num_samples: the sweep names a path that does not exist; did you mean learning.task.num_samples."),
        ("  label: [a, b]\n", "s.yaml:2: sweep: the same task twice, point 1 (label = a) and point 2 (label = b) compute the same numbers; remove one, or change more than its label."),
        ("- {}\n- link.access: [auto]\n", "s.yaml:2: sweep: the same task twice, point 1 (nothing set) and point 2 (link.access = auto) compute the same numbers; remove one, or change more than its label."),
        ("  learning.rounds: [300]\n  learning.scheme: [digital, analogue]\n", "s.yaml:4: learning.scheme = analogue: must be analog, digital, digital-orthogonal, exact or noiseless (at the sweep point learning.rounds = 300); did you mean analog."),
        ("  privacy:\n  - none\n  - epsilon: 5\n    delta: 2\n", "s.yaml:6: privacy.delta = 2: must be below 1 (at the sweep point privacy = {epsilon: 5, delta: 2}); write 0.02 for 2 %."),
        ("  link.modulation: [bpsk, 16qam]\n", "s.yaml:3: link.modulation = 16qam: scheme digital sends one-bit "
                                               "gradients that add up, which 16qam cannot carry; write modulation: "
                                               "auto."),
    ],
)  # fmt: skip
def test_a_bad_sweep_raises_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    assert refusal(f"sweep:\n{text}", tmp_path) == sentence


def test_all_wrong_paths_of_a_sweep_are_reported_at_once(tmp_path: Path) -> None:
    text = "sweep:\n- {learning.round: [300], learning.rounds: 5}\n- zip: [{num_samples: [1200], trials: [2]}, 5]\n"
    keys = [line.split(": ")[1].split(" = ")[0] for line in refusal(text, tmp_path).splitlines()]
    assert keys == ["learning.round", "learning.rounds", "num_samples", "trials", "sweep.zip"]


def test_a_value_behind_a_misspelt_path_is_reported_beside_it(tmp_path: Path) -> None:
    text = refusal("sweep: {learning.num_device: [10, ten]}\n", tmp_path)
    assert [line.split(": ")[1] for line in text.splitlines()] == ["learning.num_device", "learning.num_devices = ten"]


def test_a_conflict_names_the_key_in_the_file_and_the_sweep_point(tmp_path: Path) -> None:
    text = "link: {modulation: 16qam}\nsweep: {learning.scheme: [digital-orthogonal, digital]}\n"
    assert refusal(text, tmp_path).startswith(
        "s.yaml:2: link.modulation = 16qam: scheme digital sends one-bit gradients that add up, which 16qam cannot carry "
        "(at the sweep point learning.scheme = digital); "
    )


def test_too_many_points_are_refused_before_they_are_made(tmp_path: Path) -> None:
    numbers = list(range(1, 401))
    text = f"sweep: {{learning.task.dimension: {numbers}, learning.num_devices: {numbers}}}\n"
    assert "160,000 points, more than 100,000" in refusal(text, tmp_path)


def test_a_thousand_points_take_less_than_a_second(tmp_path: Path) -> None:
    values = [step / 10 for step in range(1000)]
    with OwnTime() as own:
        assert len(plan(tmp_path, f"sweep: {{link.power.snr_max_db: {values}}}\n").points) == 1000
    assert own.seconds < 1.0


def test_a_key_swept_beside_its_section_has_the_whole_product_as_its_remedy(tmp_path: Path) -> None:
    """The remedy is a list to paste, with which the file is read."""
    kinds = "[none, {mechanism: gaussian}, {mechanism: bit-flipping, kappa: 0.02}]"
    learning = "learning: {algorithm: fedavg, data: digits, model: linear, local: {clip: 1.0}}\n"
    with pytest.raises(ScenarioError) as refused:
        plan(tmp_path, f"{learning}sweep:\n  zip: {{privacy: {kinds}}}\n  privacy.epsilon: [1, 10]\n")
    remedy = str(refused.value).partition("; write ")[2].removesuffix(", alone.")
    assert remedy == (
        "privacy: [none, {mechanism: gaussian, epsilon: 1}, {mechanism: bit-flipping, kappa: 0.02, epsilon: 1}, "
        "{mechanism: gaussian, epsilon: 10}, {mechanism: bit-flipping, kappa: 0.02, epsilon: 10}]"
    )
    assert len(plan(tmp_path, f"{learning}sweep:\n  {remedy}\n").points) == 5
