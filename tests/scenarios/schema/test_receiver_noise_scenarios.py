"""Scenarios in which the receiver's noise protects sums: what is refused, with the key and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.schema.consistency.conflicts import find_conflicts
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.shorthand import normalise

BARE = {"mechanism": "receiver-noise", "epsilon": 2.0}
NOISE = {**BARE, "clip": 1.0}
BUDGET = {"mechanism": "receiver-noise", "clip": 1.0, "budget": {"epsilon": 8.0}}
CPA = {"epsilon": "none", "channel": "agnostic"}
SIGN = {"aggregation": {"name": "sign", "epsilon": "none"}}


def scenario(learning: Any = None, privacy: Any = NOISE, **link: Any) -> Scenario:
    given = {"algorithm": "fedavg", **(learning or {})}
    document = {"name": "a", "learning": given, "privacy": privacy, "link": {"access": "superposition", **link}}
    normalise(document, left_out=())
    return validate_quickly(document)


@pytest.mark.parametrize(
    ("key", "word", "made"),
    [
        ("privacy.mechanism", "every device on its own", scenario(access="orthogonal")),
        ("link.error_model", "error_free", scenario(error_model="error_free")),
        ("link.receiver.num_antennas", "several antennas", scenario(receiver={"num_antennas": 4})),
        ("link.impairments", "out of step", scenario(impairments={"phase_error_deg": 5})),
        ("link.power.policy", "power of payloads", scenario(power={"policy": "mse-optimal"})),
        ("link.receiver.scaling", "power of payloads", scenario(receiver={"scaling": "mmse"})),
        ("link.power.budget", "power of payloads", scenario(power={"budget": {"energy_j": 1.0}})),
        ("privacy.budget", "before the run", scenario(None, BUDGET, csi={"error_variance": 0.1})),
        (
            "learning.aggregation.name",
            "protects its bits",
            scenario({"aggregation": {"name": "sign", "epsilon": 0.5}}, BARE),
        ),
        ("privacy.clip", "one power", scenario(SIGN)),
        ("privacy.clip", "norm of what", scenario({"aggregation": {"name": "cpa", **CPA}}, BARE)),
        ("privacy.clip", "is missing", scenario(None, BARE)),
        ("privacy.mechanism", "flmc bounds", scenario({"algorithm": "flmc"})),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_the_noise_cannot_protect_is_one_conflict(key: str, word: str, made: Scenario) -> None:
    (found,) = find_conflicts(made)
    assert found.keys[0] == key
    assert word in found.problem


@pytest.mark.parametrize("made", [scenario(), scenario(None, BUDGET), scenario(SIGN, BARE)])
def test_what_the_noise_can_protect_is_admitted(made: Scenario) -> None:
    assert list(find_conflicts(made)) == []


@pytest.mark.parametrize("privacy", [{**BUDGET, "epsilon": 2.0}, {"mechanism": "device-noise", "clip": 1.0}])
def test_epsilon_of_a_round_comes_from_one_place(privacy: Any) -> None:
    with pytest.raises(Exception, match="epsilon of a round"):
        scenario(None, privacy)
