"""How the bits, promises and attackers of aggregations are counted and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attack_setting import attack_of
from one_bit_learning import FEDAVG, learnt, planned, scenario, with_scheme

from fl.models.federated import Piece
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.jopeq import JopeqScheme
from fl.schemes.laplace import LaplaceScheme
from fl.schemes.mvu import MvuScheme
from scenarios.cli.describe import describe, listings
from scenarios.schema.labels.labels import setting_cell, setting_label

# --- counted --------------------------------------------------------------------------------------

MADE = [
    CpaScheme(name="cpa"),
    CpaScheme(name="cpa", stages=3, dimension=2, rate_bits=2),
    JopeqScheme(name="jopeq"),
    JopeqScheme(name="jopeq", rate_bits=3),
    JopeqScheme(name="jopeq", rate_bits=2, dimension=2),
    MvuScheme(name="mvu", output_bits=3),
    LaplaceScheme(name="laplace"),
]


@pytest.mark.parametrize("scheme", MADE, ids=lambda one: one.name)
def test_the_bits_that_check_tells_are_those_that_the_scheme_sends(
    scheme: CpaScheme | JopeqScheme | MvuScheme | LaplaceScheme,
) -> None:
    config = learnt(scenario()).model_copy(update={"aggregation": scheme})
    num_values = config.num_values()
    assert num_values == 650
    coder = scheme.build(pieces=[Piece(name="w", shape=(num_values,), offset=0)])
    assert config.payload_bits() == coder.num_bits


# --- told -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ({"name": "cpa"}, "CPA"),
        ({"name": "cpa", "stages": 2}, "nested CPA"),
        ({"name": "cpa", "stages": 3}, "CPA, stages = 3"),
        ({"name": "cpa", "stages": 2, "epsilon": "none"}, "nested CPA without RR"),
        ({"name": "cpa", "decode": "unbiased", "channel": "agnostic"}, "CPA, unbiased decode, channel-agnostic"),
        ({"name": "probit"}, "PRoBit"),
        ({"name": "probit", "form": "exact"}, "PRoBit, exact bound"),
        (
            {"name": "sign", "epsilon": 0.5, "vote": "mean", "decode": "unbiased"},
            "signSGD + RR, ε = 0.5, mean of signs, unbiased decode",
        ),
        ({"name": "sign", "epsilon": 1.0}, "signSGD + RR, ε = 1"),
        ({"name": "sign", "epsilon": "none", "vote": "mean"}, "signSGD, mean of signs"),
        ({"name": "jopeq", "rate_bits": 2}, "JoPEQ, R = 2"),
        ({"name": "jopeq", "as_coded": True}, "JoPEQ, as coded"),
        ({"name": "geometric-median"}, "geometric median"),
    ],
)
def test_an_aggregation_is_called_as_its_paper_calls_it(scheme: dict[str, Any], words: str) -> None:
    written = learnt(with_scheme(**scheme)).aggregation.model_dump(mode="json")
    assert setting_cell("learning.aggregation", written) == words


def test_attackers_are_told_by_share_and_kind() -> None:
    attack = attack_of(kind="ones", share=0.2).model_dump(mode="json")
    assert setting_label("learning.attack", attack) == "20 % constant ones"
    assert setting_label("learning.attack", attack | {"share": 0.0}) == "no attack"


def test_check_tells_bits_promise_anonymity_and_attackers(tmp_path: Path) -> None:
    plan = planned(
        f"{FEDAVG}  num_devices: 10\n  attack: {{kind: invert, share: 0.25}}\n"
        "sweep:\n  learning.aggregation: [{name: cpa, stages: 2}, probit, "
        "{name: probit, bound: adaptive, epsilon: 1, l1_clip: 0.1}, {name: sign, epsilon: 0.5}, mvu, mean]\n",
        tmp_path,
    )
    told = " ".join(describe(plan.points[0].scenario))
    assert "1,300 bits per upload (nested CPA)" in told
    # 1 / (1 + e^0.5), and 3 points of 2 stages: (1 2/3)^2 of them are left on average.
    assert "epsilon 0.5 for every parameter in each round, and for each of the 2 stages" in told
    assert "wrong with probability 0.3775" in told
    assert "on average 2.778 (2.25 as printed)" in told
    assert "3 of 10 devices attack: inverted bits" in told
    assert "b = 0.05 throughout" in " ".join(describe(plan.points[1].scenario))
    # max |delta| + (1 + 1/epsilon) Delta_1 = 0.1 + 2 * 0.2.
    adaptive = " ".join(describe(plan.points[2].scenario))
    assert "b = 0.5 at first and at most, then adaptive" in adaptive
    # C / b - ln(1 - C / b), C / b = 0.2, for many numbers; less by 2e-5 for 650.
    assert "an upload spends 0.4231 of epsilon 1, 42% of that; form: exact spends all of it, with b = " in adaptive
    (listing,) = listings(plan)
    rows = [dict(zip(listing.table.columns, row, strict=True)) for row in listing.table.rows]
    assert [row["epsilon"] for row in rows] == ["0.5 per number", "", "1 per round", *["0.5 per number"] * 2, ""]
    assert [row["target p"] for row in rows] == ["0.3775", "", "", "0.3775", "", ""]
    assert [row["bits"] for row in rows] == ["1,300", "650", "650", "650", "650", "5,200"]


def test_check_tells_dropout_and_straggling(tmp_path: Path) -> None:
    part = "  num_devices: 20\n  participation: {devices_per_round: 6, dropout: 0.05, straggling: 0.3}\n"
    told = " ".join(describe(planned(f"{FEDAVG}{part}", tmp_path).points[0].scenario))
    assert "6 of them in a round, 5 % of uploads are never sent, 30 % of devices stop before their last step" in told
    assert "never sent" not in " ".join(describe(planned(FEDAVG, tmp_path).points[0].scenario))


@pytest.mark.parametrize("name", ["laplace", "jopeq"])
def test_an_epsilon_of_numbers_that_nobody_clips_is_told_as_published_and_not_proved(name: str, tmp_path: Path) -> None:
    plan = planned(f"{FEDAVG}sweep:\n  learning.aggregation: [{name}, {{name: {name}, as_coded: true}}]\n", tmp_path)
    clipped, as_coded = (" ".join(describe(point.scenario)) for point in plan.points)
    assert "epsilon 0.5 for every parameter in each round: as published and not proved" in as_coded
    assert "epsilon 0.5 for every parameter in each round" in clipped
    assert "as published" not in clipped
    (listing,) = listings(plan)
    rows = [dict(zip(listing.table.columns, row, strict=True)) for row in listing.table.rows]
    assert [row["epsilon"] for row in rows] == ["0.5 per number", "0.5 per number, as published"]
