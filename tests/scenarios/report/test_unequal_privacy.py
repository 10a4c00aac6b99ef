"""Schemes that are compared at unequal privacy: a warning of `check`, and the epsilon of each curve in the legend."""

from __future__ import annotations

from typing import Any

from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.plan.warnings import learning_warnings
from scenarios.report.figures.curves import arrange
from scenarios.report.settings import short_setting
from scenarios.report.tables.summaries import Mean, PointSummary
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import FigureConfig

Settings = dict[str, Any]

FREE = {"algorithm": "fedavg", "rounds": 2, "num_devices": 4}
SNR, SCHEME = "link.power.snr_max_db", "learning.aggregation"


def planned(schemes: list[Any], **sweep: Any) -> Plan:
    document: Settings = {"name": "a", "learning": FREE, "sweep": {SCHEME: schemes, SNR: [0, 10], **sweep}}
    return expand(load_scenario(document, trials=3))


def legend(plan: Plan, x: str = SNR) -> list[str]:
    mean = Mean(mean=0.5, low=0.4, high=0.6, trials=3)
    summaries = [PointSummary(point=p, done=3, failed=0, metrics={"test_accuracy": mean}) for p in plan.points]
    panels = arrange(FigureConfig(x=x, y="test_accuracy", series=SCHEME), plan, summaries).panels
    return [curve.label for _, curves in panels for curve in curves]


def warned(plan: Plan) -> str:
    return "\n".join(one for one in learning_warnings(plan) if "differ in their privacy" in one)


def test_schemes_with_and_without_an_epsilon_are_told_apart() -> None:
    plan = planned(["cpa", "probit", {"name": "sign", "epsilon": 2}])
    assert warned(plan).count("learning.aggregation") == 1
    for words in ("CPA: ε = 0.5 per number", "PRoBit: no ε", "signSGD: ε = 2 per number", "write one epsilon"):
        assert words in warned(plan)
    cpa, probit, sign = legend(plan)
    assert (cpa, probit) == ("CPA, ε = 0.5", "PRoBit, no ε")
    assert sign.count("ε = 2") == 1
    assert [short_setting(plan, point)[0] for point in plan.points[::2]] == [cpa, probit, sign]  # the terminal's words


def test_equal_epsilons_need_no_words() -> None:
    plan = planned(["probit", "sign"])
    assert warned(plan) == ""
    assert not any("ε" in label for label in legend(plan))
    assert warned(planned(["mean", "median"])) == ""


def test_one_scheme_over_its_epsilon_is_no_unequal_comparison() -> None:
    plan = planned([{"name": "cpa", "epsilon": 1}, {"name": "cpa", "epsilon": 2}])
    assert warned(plan) == ""
    assert [label.count("ε") for label in legend(plan)] == [1, 1]


def test_an_axis_of_epsilon_splits_no_curve() -> None:
    document: Settings = {
        "name": "a",
        "learning": FREE,
        "sweep": [
            {f"{SCHEME}.name": ["cpa"], f"{SCHEME}.epsilon": [1, 2]},
            {f"{SCHEME}.name": ["sign"], f"{SCHEME}.epsilon": [3, 4]},
        ],
    }
    plan = expand(load_scenario(document, trials=3))
    assert "CPA: ε = 1 per number and ε = 2 per number" in warned(plan)
    mean = Mean(mean=0.5, low=0.4, high=0.6, trials=3)
    summaries = [PointSummary(point=p, done=3, failed=0, metrics={"test_accuracy": mean}) for p in plan.points]
    config = FigureConfig(x=f"{SCHEME}.epsilon", y="test_accuracy", series=f"{SCHEME}.name")
    ((_, curves),) = arrange(config, plan, summaries).panels
    assert [len(curve.spots) for curve in curves] == [2, 2]


def kinds_warned(*mechanisms: Settings) -> list[str]:
    learning = FREE | {"local": {"clip": 1.0}, "codec": "fixed-point"}
    document: Settings = {"name": "a", "learning": learning, "sweep": [{"privacy": list(mechanisms)}]}
    return [one for one in learning_warnings(expand(load_scenario(document))) if "of different kinds" in one]


def test_epsilons_of_different_accountants_are_told_apart() -> None:
    flips: Settings = {"mechanism": "bit-flipping", "kappa": 0.02, "epsilon": 100}
    gaussian: Settings = {"mechanism": "gaussian", "epsilon": 100}
    (found,) = kinds_warned(flips, gaussian)
    assert "bit-flipping: Rényi of order 2" in found
    assert "privacy.budget" in found
    assert kinds_warned(flips, flips | {"epsilon": 200}) == []
    budget: Settings = {"budget": {"epsilon": 100, "delta": 1e-5}}
    assert kinds_warned({"mechanism": "bit-flipping", **budget}, {"mechanism": "gaussian", **budget}) == []


def test_a_mean_beside_one_private_scheme_is_the_comparison_without_privacy() -> None:
    assert warned(planned(["mean", "cpa"])) == ""
