"""Two tasks are the same exactly when they compute the same numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.identity import canonical_json, physics, physics_json, task_id
from scenarios.loader import validate_quickly
from scenarios.schema import Scenario

FULL: dict[str, Any] = {
    "name": "a",
    "link": {"channel": {"gain": [0.5] * 20}, "csi": {"error_variance": 0.1}},
    "learning": {"scheme": "digital-orthogonal", "step_size": 1e-4},
    "privacy": {"epsilon": 5},
}

# Another valid value for every leaf of `physics(FULL)` that no generic step (next number, not) finds.
OTHER_WORDS: dict[str, str] = {
    "access": "superposition",
    "modulation": "qpsk",
    "model": "awgn",
    "fading": "rayleigh",
    "coherence": "run",
    "policy": "fixed",
    "error_model": "iid",
    "scheme": "exact",
    "lmc_cap": "printed",
    "analog_tail": "as-printed",
}
ONLY_CHOICE = {("link", "coding"), ("learning", "algorithm")}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    here = copy
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return copy


BASE = {
    key: value for key, value in physics(validate_quickly(FULL)).items() if not key.endswith(("version", "mode"))
}
LEAVES = [
    (path, value) for path, value in leaves(BASE) if path not in ONLY_CHOICE and path[:2] != ("learning", "task")
]


@pytest.mark.parametrize(
    ("path", "value"), LEAVES, ids=lambda one: ".".join(map(str, one)) if isinstance(one, tuple) else ""
)
def test_every_physics_key_changes_the_identity(path: tuple[Any, ...], value: Any) -> None:
    if isinstance(value, bool):
        other: Any = not value
    elif isinstance(value, str):
        other = OTHER_WORDS[path[-1]]
    else:
        other = value + (1 if isinstance(value, int) else 0.125)
    assert physics_json(validate_quickly({"name": "a", **changed(BASE, path, other)})) != physics_json(
        validate_quickly(FULL)
    )


@pytest.mark.parametrize(
    "task",
    ["logistic", {"name": "gaussian-linear", "dimension": 6}, {"name": "gaussian-linear", "num_samples": 9}],
)
def test_the_task_is_part_of_the_identity(task: Any) -> None:
    assert physics(validate_quickly({"name": "a", "learning": {"task": task}})) != physics(Scenario(name="a"))


@pytest.mark.parametrize(
    "extra",
    [
        {"name": "b"},
        {"label": "x"},
        {"description": "x"},
        {"trials": 5},
        {"report": {"notes": "x", "figures": [{"x": "a", "y": "b"}]}},
        {"sweep": {"learning.scheme": ["analog"]}},
    ],
)
def test_what_changes_no_number_is_left_out(extra: dict[str, Any]) -> None:
    assert physics(validate_quickly({**FULL, **extra})) == physics(validate_quickly(FULL))


@pytest.mark.parametrize(
    "same",
    [
        {"link": {"access": "superposition", "modulation": "bpsk"}},
        {"learning": {"lmc_cap": "printed", "rounds": 300}},
        {"link": {"channel": {"noise_power": 1}, "power": {"snr_max_db": 20, "policy": "flmc"}}},
        {"learning": {"task": "gaussian-linear"}},
    ],
)
def test_writing_a_default_out_changes_nothing(same: dict[str, Any]) -> None:
    assert physics_json(validate_quickly({"name": "a", **same})) == physics_json(Scenario(name="a"))


def test_minus_zero_is_zero() -> None:
    texts = [
        physics_json(validate_quickly({"name": "a", "link": {"power": {"snr_max_db": zero}}}))
        for zero in (0, 0.0, -0.0)
    ]
    assert len(set(texts)) == 1


def test_the_execution_mode_and_the_schema_version_are_part_of_it() -> None:
    scenario = Scenario(name="a")
    assert physics(scenario) != physics(scenario, execution_mode="eager-float32")
    assert physics(scenario)["schema_version"] == 1


def test_physics_survives_json() -> None:
    made = physics(validate_quickly(FULL))
    assert json.loads(canonical_json(made)) == made


@pytest.mark.parametrize("trial", [0, 1, 99_999])
def test_the_task_id_is_the_hash_of_the_canonical_json(trial: int) -> None:
    scenario = validate_quickly(FULL)
    plain = canonical_json({"physics": physics(scenario), "trial": trial})
    assert task_id(physics_json(scenario), trial) == hashlib.sha256(plain.encode()).hexdigest()


def test_ids_of_many_trials_are_distinct() -> None:
    text = physics_json(Scenario(name="a"))
    assert len({task_id(text, trial) for trial in range(100_000)}) == 100_000
