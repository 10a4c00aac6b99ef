"""Findings: what a run that learnt nothing, diverged or received nothing says, and silence where it learnt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command import write_scenario
from learning_run import run_scenario
from one_bit_learning import scenario

from fl.algorithms.learning import PointFacts
from scenarios.report.findings import failed_trials
from scenarios.schema.schema import validate_quickly

Settings = dict[str, Any]

GUESSED = {"test_accuracy": 0.11, "best_accuracy": 0.13, "test_loss": 2.3, "empty_rounds": 0.0}
LEARNT = {"test_accuracy": 0.8, "best_accuracy": 0.82, "test_loss": 0.7, "empty_rounds": 0.0}
FELL = {"test_accuracy": 0.35, "best_accuracy": 0.8, "test_loss": 9.0, "empty_rounds": 0.0}
SILENT = GUESSED | {"empty_rounds": 50.0}
STARVED = {"policy": "truncated-inversion", "cutoff_db": 10, "budget": {"energy_j": 1e-7}}


def said(
    metrics: Mapping[str, float],
    learning: Settings | None = None,
    *,
    rates: Mapping[str, float] | None = None,
    growth: float = 1.0,
    flmc: bool = False,
    **parts: Any,
) -> str:
    """The findings of a sweep point, a line each."""
    made = validate_quickly({"name": "a", "learning": learning or {}}) if flmc else scenario(learning, **parts)
    facts = PointFacts(link=made.link, mechanism=made.mechanism, metrics=metrics, rates=rates or {}, growth=growth)
    return "\n".join(made.learning.findings(facts))


# What is planted, and the words of the cause and of the key that the finding must have.
PLANTED: dict[str, tuple[str, str, str]] = {
    "many wrong bits": (said(GUESSED, rates={"bit_error_rate": 0.2}), "20.0% of the bits", "link.power.snr_max_db"),
    "a small epsilon": (said(GUESSED, {"aggregation": "cpa"}), "epsilon 0.5", "learning.aggregation.epsilon"),
    "wrong bits that a code corrects": (
        said(GUESSED, {"codec": {"name": "fixed-point", "bound": 2.0}}, rates={"bit_error_rate": 0.07}),
        "7.0% of the bits",
        "or add link.coding, or lower learning.codec.bound",
    ),
    "a mechanism": (
        said(GUESSED, privacy={"mechanism": "gaussian", "epsilon": 0.1}),
        "the privacy mechanism adds more noise",
        "privacy.epsilon",
    ),
    "more noise of the channel than of a mechanism": (
        said(
            GUESSED | {"sigma": 0.001},
            {"codec": {"name": "fixed-point", "bound": 2.0}},
            rates={"bit_error_rate": 0.03},
            privacy={"mechanism": "gaussian", "epsilon": 50},
        ),
        "3.0% of the bits",
        "link.power.snr_max_db",
    ),
    "more errors of the channel than bit flipping asks for": (
        said(
            GUESSED | {"target_bit_error_rate": 0.013, "kappa": 0.02},
            {"codec": {"name": "fixed-point", "bound": 1.0}},
            rates={"bit_error_rate": 0.0377},
            privacy={"mechanism": "bit-flipping", "epsilon": 30, "kappa": 0.02},
        ),
        "3.8% of the bits",
        "link.power.snr_max_db",
    ),
    "more flips than errors of the channel": (
        said(
            GUESSED | {"target_bit_error_rate": 0.2, "kappa": 0.02},
            {"codec": {"name": "fixed-point", "bound": 1.0}},
            rates={"bit_error_rate": 0.0377},
            privacy={"mechanism": "bit-flipping", "epsilon": 1, "kappa": 0.02},
        ),
        "the privacy mechanism adds more noise",
        "privacy.epsilon",
    ),
    "a budget": (
        said(
            GUESSED, {"aggregation": "probit"}, privacy={"mechanism": "scheme", "budget": {"epsilon": 1, "delta": 1e-5}}
        ),
        "the privacy mechanism adds more noise",
        "privacy.budget.epsilon",
    ),
    "a majority of attackers": (
        said(GUESSED, {"rounds": 5, "attack": {"kind": "invert", "share": 0.6}, "aggregation": "median"}),
        "guessing among 10 classes: devices attack with kind invert; no aggregation withstands half",
        "learning.attack.share",
    ),
    "attackers": (said(GUESSED, {"attack": {"kind": "ones", "share": 0.4}}), "kind ones", "median"),
    "most rounds without an update": (
        said(
            GUESSED | {"empty_rounds": 40.0},
            rates={"packet_error_rate": 0.9},
            link={"packets": {"policy": "drop"}},
            privacy={"mechanism": "gaussian", "epsilon": 10},
        ),
        "no update arrived in 40 rounds: 90% of the packets",
        "link.power.snr_max_db",
    ),
    "more attackers than are trimmed": (
        said(GUESSED, {"attack": {"kind": "ones", "share": 0.2}, "aggregation": "trimmed-mean"}),
        "kind ones",
        "learning.aggregation.trim: 0.2",
    ),
    "attackers that a median withstands": (
        said(GUESSED, {"attack": {"kind": "ones", "share": 0.2}, "aggregation": "median"}),
        "steps are too few",
        "learning.local.learning_rate",
    ),
    "flips of one half": (
        said(
            GUESSED | {"target_bit_error_rate": 0.5, "kappa": 30.0},
            {"rounds": 20},
            privacy={"mechanism": "bit-flipping", "epsilon": 5, "kappa": "measured", "order": 3},
        ),
        "flipped with probability 0.500",
        "privacy.epsilon far above 300, at which",
    ),
    "a bound that epsilon hardly lowers": (
        said(GUESSED, {"aggregation": {"name": "probit", "epsilon": 5, "l1_clip": 0.01}}),
        "epsilon 5 adds more noise",
        "learning.num_devices or learning.rounds",
    ),
    "long steps": (said(GUESSED | {"test_loss": 40.0}), "above the 2.3 of guessing", "learning.local.learning_rate"),
    "no number as a loss": (said(GUESSED | {"test_loss": float("nan")}), "guessing", "learning.local.learning_rate"),
    "long steps of signs": (
        said(GUESSED | {"test_loss": 40.0}, {"aggregation": {"name": "sign", "epsilon": "none"}}),
        "steps are too long",
        "learning.aggregation.step",
    ),
    "few rounds alone": (
        said(GUESSED, {"rounds": 2}),
        "guessing among 10 classes: steps are too few",
        "learning.rounds",
    ),
    "few rounds": (
        said(GUESSED | {"test_loss": 40.0}, {"rounds": 2}),
        "2 rounds are few, raise learning.rounds first; otherwise test loss 40",
        "learning.local.learning_rate",
    ),
    "a fall": (said(FELL), "fell from 80.0% to 35.0%", "learning.local.learning_rate"),
    "lost packets": (
        said(SILENT, rates={"packet_error_rate": 0.99}, link={"packets": {"policy": "drop"}}),
        "99% of the packets",
        "link.packet_size_bytes",
    ),
    "silent devices": (
        said(SILENT, link={"power": {"policy": "truncated-inversion", "cutoff_db": 10}}),
        "keeps devices in a fade silent",
        "link.power.cutoff_db",
    ),
    "a spent budget": (
        said(SILENT, link={"access": "superposition", "power": {"budget": {"energy_j": 2e-3, "spread": "greedy"}}}),
        "devices have spent 0.002 J",
        "link.power.budget.energy_j, or write link.power.budget.spread: even",
    ),
    "a budget spent under truncated inversion": (
        said(SILENT, link={"access": "superposition", "power": STARVED}),
        "devices have spent 1e-07 J",
        "link.power.budget.energy_j",
    ),
    "noise beside updates of little energy": (
        said(GUESSED | {"expected_mse": 4.0, "alignment_mse": 0.0}, link={"access": "superposition", "power": STARVED}),
        "rounds at full power take",
        "link.power.budget.energy_j above 1e-07",
    ),
    "updates that a divisor shrinks": (
        said(GUESSED | {"aggregation_bias": -0.98}, link={"access": "superposition", "receiver": {"scaling": "mmse"}}),
        "shrinks updates by 98%",
        "link.receiver.scaling: unbiased",
    ),
    "noise of a sum": (
        said(GUESSED | {"expected_mse": 4.0, "alignment_mse": 0.0}, link={"access": "superposition"}),
        "standard deviation 2;",
        "link.power.snr_max_db above 20, or write another link.power.policy",
    ),
    "failures with numbers of their own": (
        failed_trials(
            [f"round {n}: {20 + 1.5 * n:.1f}% of the values of device {n} lie beyond 2" for n in range(3)], of=3
        ),
        "3 of 3 trials failed: 20.0% of the values of device 0",
        "beyond 2",
    ),
    "failures": (
        failed_trials(("round 3: NaN; lower x", "round 4: NaN; lower x", "before round 0: no data"), of=3),
        "2 of 3 trials failed: NaN",
        "lower x",
    ),
    "jammers": (
        said({"mse": 5.0}, {"attack": {"kind": "jam", "share": 0.2}}, growth=30.0, flmc=True),
        "devices attack with kind jam",
        "learning.attack",
    ),
    "samples that run away": (
        said({"mse": 5.0, "active_cap": 1.0}, growth=30.0, flmc=True),
        "30 times as far from the truth",
        "link.power.snr_max_db",
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_cause_is_named_with_the_key_to_change(case: str) -> None:
    sentence, cause, key = PLANTED[case]
    assert cause in sentence, sentence
    assert key in sentence.partition(": ")[2], sentence


@pytest.mark.parametrize("metrics", [LEARNT, FELL | {"test_accuracy": 0.7}, {}])
def test_nothing_is_said_of_a_point_that_learnt(metrics: Mapping[str, float]) -> None:
    assert said(metrics, {"aggregation": "cpa"}, rates={"bit_error_rate": 0.2, "packet_error_rate": 0.9}) == ""


def printed(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a run of a scenario into `folder / "out"` prints on standard error, a line each."""
    assert run_scenario(str(write_scenario(folder, text)), out=folder / "out") == 0
    return capsys.readouterr().err.splitlines()


def test_the_finding_is_printed_and_stands_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "name: s\ntrials: 1\nlink: {power: {snr_max_db: -10}}\n"
        "learning: {algorithm: fedavg, rounds: 3, num_devices: 4}\n"
    )
    words = "of the bits arrived wrong; raise link.power.snr_max_db above -10."
    assert any(words in line for line in printed(text, tmp_path, capsys))
    assert (tmp_path / "out" / "report.html").read_text().count(words) == 1


def test_a_code_below_its_threshold_is_named_once_for_all_sweep_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "name: s\ntrials: 1\nlink: {access: orthogonal, coding: {code: ldpc5g}}\n"
        "learning: {algorithm: fedavg, rounds: 2, num_devices: 4}\nsweep: {link.power.snr_max_db: [-8, -6, 20]}\n"
    )
    (line,) = (line for line in printed(text, tmp_path, capsys) if "makes errors worse" in line)
    assert line.startswith("phyloop: P₀/N₀ = -8 dB and 1 more: ")
    assert "link.power.snr_max_db above -8, lower link.coding.rate, or write link.coding: none" in line


def test_a_swept_key_without_effect_is_named_and_one_with_effect_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # P0/N0 is fixed, so that a larger noise power comes with a larger transmit power.
    text = (
        "name: s\ntrials: 2\nlink: {channel: {noise_power: 1.0}}\n"
        "learning: {algorithm: fedavg, rounds: 2, num_devices: 4}\n"
        "sweep: {link.channel.noise_power: [1, 4], link.power.snr_max_db: [-3, 0]}\n"
    )
    (line,) = (line for line in printed(text, tmp_path, capsys) if "every trial has the same" in line)
    assert line.startswith(
        "phyloop: link.channel.noise_power is swept, and every trial has the same test_accuracy at all its values"
    )
