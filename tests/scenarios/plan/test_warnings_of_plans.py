"""Warnings about all sweep points together: swept keys without effect, and unequal use of the channel."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scenarios.cli.check import check_scenario
from scenarios.plan.plan import expand
from scenarios.plan.warnings import binding_caps, learning_warnings
from scenarios.schema.loader import load_scenario

FLMC = {"algorithm": "flmc", "scheme": "digital"}
FLAT = {"channel": {"gain": 1.0}, "power": {"snr_max_db": 30}}
FEDAVG = {"algorithm": "fedavg", "data": "digits", "model": "linear", "num_devices": 20, "rounds": 50}


def found(sweep: dict[str, Any], learning: dict[str, Any], **more: Any) -> list[str]:
    return learning_warnings(expand(load_scenario({"name": "a", "learning": learning, "sweep": sweep, **more})))


def test_a_swept_epsilon_that_the_lmc_cap_leaves_without_effect_is_the_first_warning() -> None:
    first, *_ = found({"privacy.epsilon": [20, 50]}, FLMC, link=FLAT, privacy={"epsilon": 5, "delta": 0.01})
    assert first.startswith("privacy.epsilon: no value of the sweep changes the receive amplitude, because the LMC cap")
    assert "write learning.lmc_cap: none" in first


@pytest.mark.parametrize(
    ("sweep", "learning", "names"),
    [
        ({"privacy.epsilon": [0.01, 0.1]}, FLMC, False),  # the privacy cap itself binds
        ({"privacy.epsilon": [0.01, 50]}, FLMC, False),  # one value of the sweep binds
        ({"link.power.snr_max_db": [20, 30]}, FLMC, True),  # the LMC cap lies below all powers
        ({"link.power.snr_max_db": [20, 30]}, {**FLMC, "lmc_cap": "none"}, True),  # privacy does
        ({"learning.step_size": [1e-3, 2e-3]}, {**FLMC, "lmc_cap": "none"}, False),  # a step acts beside its cap, too
    ],
)
def test_only_sweeps_whose_cap_never_binds_are_warned_of(sweep: Any, learning: Any, names: bool) -> None:
    sentences = found(sweep, learning, link=FLAT, privacy={"epsilon": 1, "delta": 0.01})
    assert any("no value of the sweep changes" in one for one in sentences) == names


def test_check_counts_what_limits_the_amplitude_unasked(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "name: a\nlink: {power: {snr_max_db: 30}}\nlearning: {algorithm: flmc}\nprivacy: {epsilon: 5, delta: 0.01}\n"
    (tmp_path / "s.yaml").write_text(f"{text}sweep: {{privacy.epsilon: [0.01, 1, 5, 20, 50]}}\n")
    plan = expand(load_scenario(tmp_path / "s.yaml"))
    counts = binding_caps(plan.points)
    assert counts == {"privacy": 1, "lmc": 4}
    check_scenario(str(tmp_path / "s.yaml"))
    said = " ".join(capsys.readouterr().out.split())
    assert "Receive amplitude A is limited by the privacy cap at 1 and the LMC cap at 4 of 5 sweep points." in said


def test_a_check_draws_no_data_that_take_long() -> None:
    learning = {**FLMC, "task": {"name": "gaussian-linear", "num_samples": 100_000, "dimension": 20}}
    plan = expand(load_scenario({"name": "a", "link": FLAT, "learning": learning}))
    assert binding_caps(plan.points) == {"depends on the data": 1}


def test_the_figure_that_check_proposes_for_equal_channel_uses_is_valid_and_silences_the_warning() -> None:
    sweep = {"learning.aggregation": ["mean", "probit"], "link.power.snr_max_db": [10, 20]}
    (warned,) = [one for one in found(sweep, FEDAVG) if "channel uses" in one]
    # 650 numbers of 8 bits, or of one, over QPSK from 20 devices
    assert "52,000 channel uses with mean and 6,500 with PRoBit" in warned
    document = yaml.safe_load(warned.partition("write ")[2])
    (figure,) = document["report"]["figures"]
    assert figure["budgets"] == [325_000]  # 50 rounds of 6,500
    assert figure["panels"] == "link.power.snr_max_db"
    assert not any("channel uses" in one for one in found(sweep, FEDAVG, **document))


@pytest.mark.parametrize(("access", "uses"), [("superposition", "325"), ("noma", "13,000")])
def test_channel_uses_count_two_numbers_of_a_sum_or_four_devices_at_once(access: str, uses: str) -> None:
    sentences = found({"link.access": ["orthogonal", access]}, FEDAVG, link={"noma": {"group_size": 4}})
    (warned,) = [one for one in sentences if "channel uses" in one]
    assert f"52,000 channel uses with orthogonal and {uses} with" in warned


@pytest.mark.parametrize("schemes", [["probit", "cpa"], ["mean", "median"]])
def test_schemes_with_equal_uploads_are_not_warned_of(schemes: list[str]) -> None:
    assert not any("channel uses" in one for one in found({"learning.aggregation": schemes}, FEDAVG))
