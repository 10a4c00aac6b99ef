"""Two tasks are the same exactly when they compute the same numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from fl.data.sets.own import FileData
from phy.config import LinkConfig
from phy.config.registry import Registry
from scenarios.cli.words.meanings import registry_at
from scenarios.plan.identity import AUTO_OF_BITS, canonical_json, physics, physics_json, task_ids
from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import SCHEMA_VERSION, Scenario, validate_quickly
from scenarios.schema.schema_keys import schema_keys

FULL: dict[str, Any] = {
    "name": "a",
    "link": {"channel": {"gain": [0.5] * 20}, "csi": {"error_variance": 0.1}},
    "learning": {"scheme": "digital-orthogonal", "step_size": 1e-4},
    "privacy": {"epsilon": 5},
}

TWO_OF_EACH: list[dict[str, tuple[Any, Any]]] = yaml.safe_load(Path(__file__).with_name("two_of_each.yaml").read_text())
PAIRS = [
    (number, key)
    for number, settings in enumerate(TWO_OF_EACH)
    for key, (one, other) in settings.items()
    if one != other
]


def own_keys() -> Iterator[tuple[str, Registry[Any], str, str]]:
    """Section, registry, word and key of parameters with a default, of registered things that the file leaves out."""
    listed, sections = {key for _, key in PAIRS}, {key.rpartition(".")[0] for key in schema_keys()}
    for path in sorted(one for one in sections if one.count(".") and not one.startswith("learning.downlink")):
        registry, around = registry_at(path), path.rpartition(".")[0]
        for cls in () if registry is None else registry.classes():
            for key, field in cls.model_fields.items():
                known = {f"{path}.{key}", f"{around}.{key}"} & (listed | {f"{path}.{registry.tag}"})
                if not known and not field.is_required() and cls is not FileData:  # tests/fl/data/test_own_files.py
                    yield path, registry, get_args(cls.model_fields[registry.tag].annotation)[0], key


OWN_KEYS = list(own_keys())


def nested(settings: dict[str, Any]) -> dict[str, Any]:
    """A scenario of dotted keys; a shorter key that is a word stands in place of all below it."""
    document: dict[str, Any] = {"name": "a"}
    for key in sorted(settings):
        *parents, leaf = key.split(".")
        here: Any = document
        for part in parents:
            here = here.setdefault(part, {}) if isinstance(here, dict) else here
        if isinstance(here, dict):
            here[leaf] = dict(settings[key]) if isinstance(settings[key], dict) else settings[key]
    return document


@pytest.mark.parametrize(("number", "key"), PAIRS, ids=lambda one: str(one))
def test_every_physics_key_changes_the_identity(number: int, key: str) -> None:
    settings = {name: one for name, (one, _) in TWO_OF_EACH[number].items()}
    there = nested(settings | {key: TWO_OF_EACH[number][key][1]})
    if key == "link.coding.code":
        there["link"]["coding"] = {"code": there["link"]["coding"]["code"]}
    assert physics_json(validate_quickly(there)) != physics_json(validate_quickly(nested(settings)))


def test_no_physics_key_is_left_out_of_these() -> None:
    parts = ("seed", "link", "learning", "privacy")
    keys = {key for key in schema_keys() if key.split(".")[0] in parts}
    leaves = {key for key in keys if not any(other.startswith(f"{key}.") for other in keys)}
    union_members = {"privacy.mechanism", "learning.partition.kind"}  # another has other keys, tested below
    # The task is tested below; a downlink is a link as `link` is, and one key of it is here.
    elsewhere = {key for key in leaves if key.startswith(("learning.task.", "learning.downlink."))}
    registered = {f"{path}.{key}" for path, registry, _, own in OWN_KEYS for key in (registry.tag, own)}
    elsewhere |= {f"learning.data.{key}" for key in FileData.model_fields}
    of_trace = ("file", "sha256", "order", "at_end", "users", "normalize")  # test_traces.py
    elsewhere |= {f"link.channel.{key}" for key in of_trace}
    assert leaves - union_members - elsewhere - registered <= {key for _, key in PAIRS}


@pytest.mark.parametrize(("path", "registry", "word", "key"), OWN_KEYS, ids=lambda one: getattr(one, "kind", one))
def test_a_parameter_of_a_registered_thing_changes_the_identity(
    path: str, registry: Registry[Any], word: str, key: str
) -> None:
    default = getattr(registry.read(word), key)
    other = not default if isinstance(default, bool) else default + 1 if isinstance(default, int) else 0.9375 * default
    head = {"learning.algorithm": "fedavg"} if path.startswith("learning.") else {}
    head |= {"link.channel.model": "trace"} if path == "link.channel.source" else {}
    one, two = (nested(head | {path: {registry.tag: word, key: value}}) for value in (default, other))
    assert physics_json(validate_quickly(one)) != physics_json(validate_quickly(two))


def test_another_mechanism_or_partition_changes_the_identity() -> None:
    noise, flips = {"mechanism": "gaussian", "epsilon": 1}, {"mechanism": "bit-flipping", "epsilon": 1, "kappa": 1}
    shares = ({"kind": "iid"}, {"kind": "labels", "labels_per_device": 2}, {"kind": "dirichlet", "alpha": 2})
    texts = {
        physics_json(
            validate_quickly(
                {"name": "a", "learning": {"algorithm": "fedavg", "partition": share}, "privacy": mechanism}
            )
        )
        for share in shares
        for mechanism in (noise, flips, "none")
    }
    assert len(texts) == 9


# Of the version in which their points had both digital steps, or that of a / K: runs of it must be found done.
OF_OLD = {
    "flmc-snr": "53a382487758290c54e97b77e75ab949d90d1b8defcd9aac82b200a1e26f01c6",
    "flmc-epsilon": "e74a01c02dcacab3fec7975812ba6896d7c21f866c17c5050c91c1b2a8a385fa",
    "flmc-coded-ofdm": "12669993b12a67ab8bc3c36b4dae242a04ec813f8f3b9abfe070578fa36f6e50",
}


def of_then(link: LinkConfig) -> LinkConfig:
    coding = link.coding if link.coding == "none" else link.coding.model_copy(update={"standard": "sionna"})
    return link.model_copy(update={"engine": "sionna", "coding": coding})


@pytest.mark.parametrize("name", OF_OLD)
def test_earlier_tasks_of_flmc_keep_their_identity(name: str) -> None:
    scenarios = (point.scenario for point in expand(load_scenario(name)).points)
    # There was one engine with its own conventions; what fused kernels compute now is computed anew.
    texts = "\n".join(physics_json(one.model_copy(update={"link": of_then(one.link)})) for one in scenarios)
    assert hashlib.sha256(texts.encode()).hexdigest() == OF_OLD[name]


def test_the_automatic_step_of_bits_is_not_the_longer_one_of_earlier_tasks() -> None:
    def step(scheme: str, size: Any) -> Any:
        return physics(validate_quickly({"name": "a", "learning": {"scheme": scheme, "step_size": size}}))["learning"]

    assert step("digital", "auto")["step_size"] == step("digital-orthogonal", "auto")["step_size"] == AUTO_OF_BITS
    assert step("analog", "auto")["step_size"] == "auto"
    assert step("digital", 8.28e-4)["step_size"] == 8.28e-4


def test_later_keys_of_attacks_are_left_out_at_their_default() -> None:
    learning = {"algorithm": "fedavg", "attack": {"kind": "ones", "share": 0.1}}
    attack = physics(validate_quickly({"name": "a", "learning": learning}))["learning"]["attack"]
    assert sorted(attack) == ["devices", "drawn", "factor", "kind", "share", "std"]
    assert physics(validate_quickly({"name": "a", "learning": {"algorithm": "fedavg"}}))["learning"]["attack"] is None
    assert "attack" not in physics(Scenario(name="a"))["learning"]


def test_a_missing_budget_is_left_out() -> None:
    assert sorted(physics(validate_quickly({"name": "a", "privacy": {"epsilon": 5}}))["privacy"]) == [
        "analog_cap",
        "delta",
        "digital_cap",
        "epsilon",
    ]


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        ({}, None),
        ({"model": "tdl-a"}, None),
        ({"model": "cdl-a", "movement": "space"}, None),
        ({"model": "cdl-a"}, "horizontal"),
    ],
)
def test_the_movement_is_left_out_unless_rays_move_as_they_did_not_in_earlier_tasks(channel: Any, told: Any) -> None:
    made = physics(validate_quickly({"name": "a", "link": {"channel": channel}}))
    assert made["link"]["channel"].get("movement") == told


def test_the_printed_form_of_bit_flipping_is_left_out_as_earlier_tasks_had_no_other() -> None:
    privacy = {"mechanism": "bit-flipping", "epsilon": 1, "kappa": 1}
    forms = [
        physics(validate_quickly({"name": "a", "learning": {"algorithm": "fedavg"}, "privacy": privacy | more}))
        for more in ({}, {"form": "corrected"})
    ]
    assert [one["privacy"].get("form") for one in forms] == [None, "corrected"]


def test_an_mcs_index_is_the_modulation_and_the_rate_it_stands_for() -> None:
    learning = {"scheme": "digital-orthogonal"}
    written = {"modulation": "qpsk", "coding": {"code": "ldpc5g", "rate": "679/1024"}}
    by_index = validate_quickly({"name": "a", "learning": learning, "link": {"mcs": 9}})
    assert physics_json(by_index) == physics_json(
        validate_quickly({"name": "a", "learning": learning, "link": written})
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
def test_keys_that_change_no_number_are_left_out(extra: dict[str, Any]) -> None:
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
    assert physics(scenario)["execution_mode"] == "xla-float32"
    assert physics(scenario)["schema_version"] == SCHEMA_VERSION == 2


def test_physics_survives_json() -> None:
    made = physics(validate_quickly(FULL))
    assert json.loads(canonical_json(made)) == made


@pytest.mark.parametrize("trial", [0, 1, 99_999])
def test_the_task_id_is_the_hash_of_the_canonical_json(trial: int) -> None:
    scenario = validate_quickly(FULL)
    plain = canonical_json({"physics": physics(scenario), "trial": trial})
    assert task_ids(physics_json(scenario), trials=(trial,))[0] == hashlib.sha256(plain.encode()).hexdigest()


def test_ids_of_many_trials_are_distinct() -> None:
    text = physics_json(Scenario(name="a"))
    assert len(set(task_ids(text, trials=range(100_000)))) == 100_000


LONG_LIST = {"code": "polar5g", "list_size": 32, "standard": "sionna"}


def engines_told(**link: Any) -> list[str | None]:
    """The engine in the identity of an uncoded link, of one with a long list of paths, of sums and of impaired ones."""
    parts = [
        {"link": link, "learning": {"scheme": "digital-orthogonal"}},
        {"link": link | {"coding": LONG_LIST}, "learning": {"scheme": "digital-orthogonal"}},
        {"link": link},
        {"link": link | {"impairments": {"phase_error_deg": 5.0}}},
    ]
    return [physics(validate_quickly({"name": "a", **part}))["link"].get("engine") for part in parts]


def test_the_fused_engine_is_part_of_the_identity_and_sionna_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks from before there were two engines are done where Sionna still computes them, and nowhere else."""
    monkeypatch.setattr("phy.engines.choice.sees_gpu", lambda: False)
    monkeypatch.setattr("phy.engines.choice.has_vectors", lambda: True)
    assert engines_told() == ["fused", None, "fused", None]
    assert engines_told(engine="sionna") == [None] * 4
    assert engines_told(engine="cuda")[0] == "cuda"
    monkeypatch.setattr("phy.engines.choice.sees_gpu", lambda: True)
    assert engines_told() == [None] * 4


def test_the_engine_of_a_downlink_is_part_of_the_identity_too() -> None:
    learning = {"algorithm": "fedavg", "downlink": {"engine": "fused"}}
    fused = physics(validate_quickly({"name": "a", "learning": learning}))["learning"]["downlink"]
    learning["downlink"] = {"engine": "sionna"}
    sionna = physics(validate_quickly({"name": "a", "learning": learning}))["learning"]["downlink"]
    assert fused == sionna | {"engine": "fused"}
