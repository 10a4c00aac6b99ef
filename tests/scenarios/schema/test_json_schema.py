"""The JSON Schema of scenario files: it accepts every valid file, and refuses wrong keys and types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from scenarios.schema.json_schema import json_schema
from scenarios.schema.yaml_marks import parse_yaml, read_yaml

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("scenarios/library/*.yaml"), *ROOT.glob("scenarios/studies/verify/cards/*.yaml")])
FILES += sorted([*ROOT.glob("scenarios/templates/[fl]*.yaml"), *ROOT.glob("examples/*.yaml")])


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    found = json_schema()
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_scenario_of_the_library_is_accepted(path: Path, schema: Draft202012Validator) -> None:
    data = read_yaml(path).data
    data.pop("plugins", None) and pytest.skip("a plug-in registers the words of this one")
    assert [error.message for error in schema.iter_errors(data)] == []


@pytest.mark.parametrize(
    "text",
    [
        "base: flmc-snr\nname: a\nprivacy: {epsilon: 1}",
        "name: a\nlearning: {task: logistic}",
        "name: a\nlearning: {algorithm: fedavg, model: mlp, codec: fixed-point, aggregation: sign}",
        "name: a\nlearning: {algorithm: fedavg, aggregation: {name: cpa, epsilon: none}}",
        "name: a\nlink: {coding: {code: ldpc5g, rate: 1/2}}",
        "name: a\nlink: {coding: none, channel: {fading: rayleigh}, csi: {estimator: ls}}",
        "name: a\nlabel: 5",
        "name: a\nsweep: [{learning.scheme: [analog]}, {zip: {seed: [1], label: [a]}}]".replace("seed", "link.csi"),
        "name: a\nmeasure: {values: {start: 0, stop: 5}, stop: {bit_errors: 10}}",
    ],
)
def test_shorthands_and_bases_are_accepted(text: str, schema: Draft202012Validator) -> None:
    assert [error.message for error in schema.iter_errors(data_of(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "name: a\nlearning: {sheme: analog}",
        "name: a\nlearning: {algorithm: fedavg, aggregation: {name: cpa, epsilonn: 1}}",
        "name: a\nlink: {coding: {code: ldpc5g, rate: a half}}",
        "name: a\nlink: {channel: {gain: high}}",
        "name: a\nsweep: {learning.sheme: [analog]}",
        "name: a\ntrials: many",
        "nam: a",
    ],
)
def test_wrong_keys_and_types_are_refused(text: str, schema: Draft202012Validator) -> None:
    assert not schema.is_valid(data_of(text))


def test_every_key_has_a_description(schema: Draft202012Validator) -> None:
    parts = {"": schema.schema, **schema.schema["$defs"]}
    keys = [(part, key, about) for part, one in parts.items() for key, about in one.get("properties", {}).items()]
    assert len(keys) > 200
    assert [(part, key) for part, key, about in keys if not about.get("description")] == []


def data_of(text: str) -> Any:
    marked = parse_yaml(text, file="s.yaml")
    assert marked is not None
    return marked.data
