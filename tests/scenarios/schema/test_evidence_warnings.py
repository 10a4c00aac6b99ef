"""What the channel's noise is worth as privacy is said before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fl.algorithms.fedavg.config import FedAvgConfig
from phy.config import LinkConfig
from privacy.config import BitFlippingBudget, BitFlippingConfig, SchemeBudget
from scenarios.schema.consistency.warnings import find_warnings
from scenarios.schema.labels.labels import format_value
from scenarios.schema.loader import load_scenario

BASE: dict[str, Any] = {
    "name": "evidence",
    "link": {"modulation": "qpsk", "power": {"policy": "fixed", "snr_max_db": 6}},
    "learning": {
        "algorithm": "fedavg",
        "num_devices": 10,
        "rounds": 40,
        "upload": "update",
        "aggregation": {"name": "cpa", "epsilon": 0.5},
    },
}


def said(tmp_path: Path, *, link: dict[str, Any] | None = None, **aggregation: Any) -> list[str]:
    learning = {**BASE["learning"], "aggregation": {**BASE["learning"]["aggregation"], **aggregation}}
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**BASE, "link": {**BASE["link"], **(link or {})}, "learning": learning}))
    return [s for s in find_warnings(load_scenario(str(path)).scenario) if "delta" in s or "proof" in s]


def test_a_warning_names_the_confidence_that_costs_little_delta(tmp_path: Path) -> None:
    assert said(tmp_path) == []
    (sentence,) = said(tmp_path, confidence=0.99)
    assert "level 0.99 in each of 40 rounds costs delta 0.4" in sentence
    wanted = float(sentence.rpartition("confidence: ")[2].partition(" ")[0])
    assert 40 * (1.0 - wanted) == pytest.approx(1e-6, rel=1e-3)
    assert said(tmp_path, confidence=wanted) == []


@pytest.mark.parametrize(
    "link",
    [{"coding": {"code": "convolutional", "rate": 0.5}}, {"modulation": "16qam"}, {"packets": {"policy": "drop"}}],
    ids=["coded", "bits that share an axis", "lost packets"],
)
def test_a_warning_says_that_channel_errors_have_no_proof(tmp_path: Path, link: dict[str, Any]) -> None:
    (sentence,) = said(tmp_path, link=link)
    assert "without a proof" in sentence
    assert "own flips only" in sentence
    assert ("unless errors counted in the run pass the test" in sentence) == ("packets" not in link)


@pytest.mark.parametrize("changes", [{"channel": "agnostic"}, {"channel": "debias"}, {"epsilon": "none"}])
def test_no_warning_where_channel_errors_do_not_count(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert said(tmp_path, **changes) == []


@pytest.mark.parametrize(("budget", "delta"), [(None, 1e-5), ({"epsilon": 100.0, "delta": 1e-3}, 1e-3)])
def test_a_confidence_left_out_costs_a_tenth_of_delta(budget: dict[str, float] | None, delta: float) -> None:
    config = FedAvgConfig(aggregation={"name": "cpa", "gamma": 0.1}, rounds=40)
    privacy = None if budget is None else SchemeBudget(mechanism="scheme", budget=budget)
    link = LinkConfig().resolve(access="orthogonal", modulation="qpsk")
    confidence = config.settled(link=link, privacy=privacy).aggregation.confidence
    assert 40 * (1.0 - confidence) == pytest.approx(0.1 * delta, rel=1e-6)


def test_the_level_of_a_proof_is_shown_with_its_digits() -> None:
    assert format_value(0.99999998) == "1 - 2e-8"
    assert format_value(1.0) == "1"


def test_bit_flipping_takes_the_confidence_that_costs_little_delta_unasked() -> None:
    flips = BitFlippingConfig(mechanism="bit-flipping", epsilon=5.0, kappa=0.02)
    level = flips.settled(num_rounds=40, counts=True).level
    assert 40 * (1.0 - level) == pytest.approx(1e-6, rel=1e-3)
    assert flips.settled(num_rounds=40, counts=False).level == flips.level == 0.99
    budget = {"epsilon": 5.0, "delta": 1e-3}
    within = BitFlippingBudget(mechanism="bit-flipping", budget=budget, channel="native")
    assert 40 * (1.0 - within.settled(num_rounds=40, counts=True).level) == pytest.approx(1e-4, rel=1e-3)


def test_no_warning_of_evidence_where_confidence_is_auto(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    learning = {**BASE["learning"], "aggregation": "mean", "codec": "fixed-point", "local": {"clip": 1.0, "steps": 1}}
    privacy = {"mechanism": "bit-flipping", "epsilon": 50.0, "kappa": 0.02}
    for confidence, costly in (("auto", False), (0.99, True)):
        settings = {**BASE, "learning": learning, "privacy": {**privacy, "confidence": confidence}}
        path.write_text(yaml.safe_dump(settings))
        found = find_warnings(load_scenario(str(path)).scenario)
        assert any("costs delta" in one for one in found) == costly
