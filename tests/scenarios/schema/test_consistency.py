"""Keys that are valid alone and impossible together are refused, all else passes."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.schema.consistency.conflicts import check_consistency, find_conflicts
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.errors import ScenarioError
from scenarios.schema.schema import Scenario, validate_quickly


def scenario(**parts: Any) -> Scenario:
    return validate_quickly({"name": "a", **parts})


RAYLEIGH = {"fading": "rayleigh"}
TRUNCATED = {"policy": "truncated-inversion"}
ORTHOGONAL = {"scheme": "digital-orthogonal"}

IMPOSSIBLE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("link.modulation", {"scheme": "analog"}, {"modulation": "16qam"}),
    ("link.modulation", {"scheme": "digital"}, {"modulation": "analog"}),
    ("link.modulation", ORTHOGONAL, {"modulation": "analog"}),
    ("link.modulation", {"scheme": "digital"}, {"modulation": "qpsk"}),
    ("link.access", {"scheme": "digital"}, {"access": "orthogonal"}),
    ("link.access", {"scheme": "analog"}, {"access": "orthogonal"}),
    ("link.access", ORTHOGONAL, {"access": "superposition"}),
    ("link.error_model", {"scheme": "digital"}, {"error_model": "iid"}),
    ("link.error_model", {"scheme": "analog"}, {"error_model": "analytic"}),
    ("link.error_model", ORTHOGONAL, {"error_model": "analytic", "csi": {"error_variance": 0.1}}),
    (
        "link.error_model",
        ORTHOGONAL,
        {"error_model": "analytic", "channel": RAYLEIGH, "power": {"policy": "inversion"}},
    ),
    (
        "link.channel.coherence",
        ORTHOGONAL,
        {"power": TRUNCATED, "channel": {**RAYLEIGH, "coherence": "symbol"}},
    ),
    (
        "link.channel.coherence",
        ORTHOGONAL,
        {"power": TRUNCATED, "csi": {"error_variance": 0.1}, "channel": {"coherence": "packet"}},
    ),
    ("link.channel.gain", {"scheme": "digital"}, {"channel": {"gain": [1, 2]}}),
    ("learning.debias", {"scheme": "digital", "debias": True}, {}),
    ("learning.num_devices", {"num_devices": 30, "task": {"name": "gaussian-linear", "num_samples": 20}}, {}),
    ("learning.num_devices", {"num_devices": 570, "task": "logistic"}, {}),
]


@pytest.mark.parametrize(("key", "learning", "link"), IMPOSSIBLE)
def test_an_impossible_combination_names_its_key_and_a_remedy(
    key: str, learning: dict[str, Any], link: dict[str, Any]
) -> None:
    with pytest.raises(ScenarioError) as caught:
        check_consistency(scenario(learning=learning, link=link), where=lambda _: None)
    assert caught.value.key == key
    assert caught.value.value is not None
    assert caught.value.remedy


POSSIBLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *[(ORTHOGONAL, {"modulation": m}) for m in ("auto", "bpsk", "qpsk", "16qam", "64qam", "256qam")],
    *[({"scheme": s}, {"modulation": "16qam", "access": "orthogonal"}) for s in ("noiseless", "exact")],
    *[({"scheme": "noiseless"}, {"error_model": m}) for m in ("iid", "analytic")],
    ({"scheme": "digital"}, {"modulation": "bpsk", "access": "superposition"}),
    ({"scheme": "analog"}, {"modulation": "analog", "access": "superposition"}),
    (ORTHOGONAL, {"error_model": "analytic"}),
    (ORTHOGONAL, {"error_model": "analytic", "power": {"policy": "fixed"}, "channel": RAYLEIGH}),
    (ORTHOGONAL, {"error_model": "error_free", "csi": {"error_variance": 0.1}}),
    (ORTHOGONAL, {"error_model": "iid", "csi": {"error_variance": 0.1}, "channel": RAYLEIGH}),
    (ORTHOGONAL, {"power": TRUNCATED, "channel": {"coherence": "symbol"}}),
    (ORTHOGONAL, {"power": TRUNCATED, "channel": {**RAYLEIGH, "coherence": "run"}}),
    ({"scheme": "analog"}, {"power": TRUNCATED, "channel": {**RAYLEIGH, "coherence": "symbol"}}),
    ({**ORTHOGONAL, "debias": True}, {}),
    ({"num_devices": 2}, {"channel": {"gain": [1, 2]}}),
    ({"num_devices": 569, "task": "logistic"}, {}),
]


@pytest.mark.parametrize(("learning", "link"), POSSIBLE)
def test_a_possible_combination_has_no_conflict(learning: dict[str, Any], link: dict[str, Any]) -> None:
    assert list(find_conflicts(scenario(learning=learning, link=link))) == []


@pytest.mark.parametrize("scheme", ["noiseless", "exact", "digital", "analog", "digital-orthogonal"])
def test_privacy_crosses_all_schemes(scheme: str) -> None:
    assert list(find_conflicts(scenario(learning={"scheme": scheme}, privacy={"epsilon": 1}))) == []


def test_the_key_the_user_wrote_is_blamed() -> None:
    places = {"learning.scheme": ("f.yaml", 3)}
    with pytest.raises(ScenarioError) as caught:
        check_consistency(scenario(link={"modulation": "16qam"}), where=places.get)
    assert (caught.value.key, caught.value.file, caught.value.line) == ("learning.scheme", "f.yaml", 3)
    assert caught.value.value == "digital"


@pytest.mark.parametrize(
    ("scheme", "access", "modulation", "cap"),
    [
        ("digital", "superposition", "bpsk", "printed"),
        ("analog", "superposition", "analog", "printed"),
        ("digital-orthogonal", "orthogonal", "bpsk", "none"),
        ("noiseless", "auto", "auto", "none"),
        ("exact", "auto", "auto", "none"),
    ],
)
def test_auto_becomes_explicit(scheme: str, access: str, modulation: str, cap: str) -> None:
    made = resolve_auto(scenario(learning={"scheme": scheme}))
    assert (made.link.access, made.link.modulation, made.learning.lmc_cap) == (access, modulation, cap)
    assert resolve_auto(made) == made
    assert list(find_conflicts(made)) == []


def test_explicit_words_stay() -> None:
    made = resolve_auto(scenario(learning={**ORTHOGONAL, "lmc_cap": "printed"}, link={"modulation": "64qam"}))
    assert (made.link.access, made.link.modulation, made.learning.lmc_cap) == (
        "orthogonal",
        "64qam",
        "printed",
    )
