"""How scenarios of several algorithms are written: shorthands, overrides, sweeps, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sentences import sentence_about

from fl.algorithms.codec_studies.config import FlipMomentsConfig
from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.flmc.config import FlmcConfig
from fl.data.data_set import PartitionConfig
from fl.models.kinds.networks import ModelConfig
from fl.schemes.codecs.codec import codecs
from fl.schemes.codecs.partwise import FixedPoint
from phy.config.conflict import listing
from privacy.config import BitFlippingConfig, GaussianConfig, PrivacyConfig
from scenarios.plan.plan import expand
from scenarios.schema.loader import LoadedScenario, as_yaml, load_scenario, resolved_data
from scenarios.schema.schema import Scenario

FEDAVG = "name: a\nlearning:\n  algorithm: fedavg\n"


def loaded(text: str, folder: Path, *overrides: str) -> LoadedScenario:
    file = folder / "s.yaml"
    file.write_text(text)
    return load_scenario(file, overrides=overrides)


def fedavg(text: str, folder: Path, *overrides: str) -> FedAvgConfig:
    learning = loaded(text, folder, *overrides).scenario.learning
    assert isinstance(learning, FedAvgConfig)
    return learning


def test_without_an_algorithm_it_is_flmc_and_without_a_mechanism_an_amplitude_bound(tmp_path: Path) -> None:
    scenario = loaded("name: a\nlearning: {rounds: 300}\nprivacy: {epsilon: 5}\n", tmp_path).scenario
    assert isinstance(scenario.learning, FlmcConfig)
    assert isinstance(scenario.privacy, PrivacyConfig)


@pytest.mark.parametrize(
    ("written", "attribute", "meant"),
    [
        ("model: mlp", "model", ModelConfig(name="mlp")),
        ("model: {name: mlp, hidden: [7, 5]}", "model", ModelConfig(name="mlp", hidden=(7, 5))),
        (
            "partition: {kind: labels, labels_per_device: 2}",
            "partition",
            PartitionConfig(kind="labels", labels_per_device=2),
        ),
        ("partition: iid", "partition", PartitionConfig()),
        ("codec: fixed-point", "codec", FixedPoint()),
        ("downlink_codec: fixed-point\n  downlink: {}", "downlink_codec", FixedPoint()),
    ],
)
def test_a_bare_word_and_a_mapping_select_the_same_kind(
    written: str, attribute: str, meant: Any, tmp_path: Path
) -> None:
    assert getattr(fedavg(f"{FEDAVG}  {written}\n", tmp_path), attribute) == meant


def test_the_resolved_scenario_loads_again_as_the_same(tmp_path: Path) -> None:
    text = (
        f"{FEDAVG}  model: {{name: mlp, hidden: [7]}}\n  downlink: {{power: {{snr_max_db: 3}}}}\n  codec: uniform\n"
        "privacy: {mechanism: bit-flipping, epsilon: 5, kappa: measured}\n"
    )
    scenario = loaded(text, tmp_path).scenario
    again = loaded(as_yaml(resolved_data(scenario)), tmp_path).scenario
    assert again == scenario


def test_overrides_reach_into_bare_words(tmp_path: Path) -> None:
    text = f"{FEDAVG}  model: mlp\n  codec: fixed-point\n"
    made = fedavg(text, tmp_path, "learning.model.hidden=[4, 3]", "learning.codec.bound=2", "learning.data=mnist")
    assert made.model.hidden == (4, 3)
    assert made.codec == FixedPoint(bound=2.0)
    assert made.data.name == "mnist"
    assert fedavg(text, tmp_path, "learning.model=cnn2").model.name == "cnn2"


def test_a_codec_that_is_not_named_is_the_default_of_its_algorithm(tmp_path: Path) -> None:
    moments = loaded("name: a\nlearning: {algorithm: flip-moments, codec: {bound: 2}}\n", tmp_path).scenario.learning
    assert isinstance(moments, FlipMomentsConfig)
    assert moments.codec == FixedPoint(bound=2.0)


def test_another_kind_drops_the_keys_of_the_base(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        f"{FEDAVG}  data: {{name: mnist, train_samples: 100}}\n  model: {{name: mlp, hidden: [5]}}\n"
        "  partition: {kind: labels, labels_per_device: 2}\n  codec: {name: uniform, bits: 3}\n"
        "privacy: {mechanism: bit-flipping, epsilon: 1, kappa: 2}\n"
    )
    other = loaded(
        "base: base.yaml\nlearning: {model: cnn2, partition: iid, codec: fixed-point, data: digits}\n"
        "privacy: {mechanism: gaussian, epsilon: 3}\n",
        tmp_path,
    ).scenario
    assert isinstance(other.learning, FedAvgConfig)
    assert other.learning.model == ModelConfig(name="cnn2")
    assert other.learning.partition == PartitionConfig()
    assert other.learning.codec == FixedPoint()
    assert other.privacy == GaussianConfig(mechanism="gaussian", epsilon=3.0)
    same = loaded("base: base.yaml\nlearning: {codec: {bits: 5}}\nprivacy: {kappa: 1}\n", tmp_path).scenario
    assert isinstance(same.learning, FedAvgConfig)
    assert same.learning.codec.bits_per_value == 5
    assert isinstance(same.privacy, BitFlippingConfig)
    assert (same.privacy.epsilon, same.privacy.kappa) == (1.0, 1.0)
    another = loaded("base: base.yaml\nlearning: {algorithm: flmc}\nprivacy: none\n", tmp_path).scenario
    assert another.learning == FlmcConfig()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "name: a\nlearning:\n  algorithm: fedav\n",
            "s.yaml:3: learning.algorithm = fedav: must be bit-distance, fedavg, ",
        ),
        (
            f"{FEDAVG}  scheme: analog\n",
            "s.yaml:4: learning.scheme = analog: unknown key; it belongs to learning.algorithm flmc only: leave it "
            "out, or change learning.algorithm.",
        ),
        (
            "name: a\nlearning:\n  codec: uniform\n",
            "s.yaml:3: learning.codec: codec belongs to algorithm bit-distance, fedavg, flip-moments or "
            "reconstruction, and no algorithm is written; add algorithm: fedavg under learning.",
        ),
        (
            f"{FEDAVG}  codec: {{name: fixed-point, bits: 3}}\n",
            "s.yaml:4: learning.codec.bits = 3: unknown key; it belongs to learning.codec uniform only: leave it out, ",
        ),
        (
            f"{FEDAVG}  codec: fixedpoint\n",
            f"s.yaml:4: learning.codec = fixedpoint: must be {listing(codecs.words())}; ",
        ),
        (
            f"{FEDAVG}  codec: {{name: fixed-point, fraction_bits: 24}}\n",
            "s.yaml:4: learning.codec.fraction_bits = 24: must be 10, 23 or 52; write for example 10.",
        ),
        (f"{FEDAVG}  model: mlq\n", "s.yaml:4: learning.model = mlq: must be cnn2, cnn3, emnist-cnn, "),
        (f"{FEDAVG}  model: my.nets:build\n", "s.yaml:4: learning.model = my.nets:build: must be cnn2, "),
        (
            f"{FEDAVG}  rounds: 0\n",
            "s.yaml:4: learning.rounds = 0: must be at least 1; write 1 or more.",
        ),
        (
            f"{FEDAVG}  local: {{stepz: 3}}\n",
            "s.yaml:4: learning.local.stepz = 3: unknown key; did you mean learning.local.steps.",
        ),
        (
            f"{FEDAVG}  local: {{optimizer: sgd}}\n",
            "s.yaml:4: learning.local: sgd needs batch_size; write for example batch_size: 32.",
        ),
        (
            f"{FEDAVG}  downlink: perfect\n",
            "s.yaml:4: learning.downlink = perfect: must be ideal or a mapping that describes a link; ",
        ),
        (
            f"{FEDAVG}  downlink: {{channel: {{noise_power: 0}}}}\n",
            "s.yaml:4: learning.downlink.channel.noise_power = 0: must be above ",
        ),
        (
            "name: a\nprivacy:\n  mechanism: gausian\n  epsilon: 1\n",
            "s.yaml:3: privacy.mechanism = gausian: must be bit-flipping, device-noise, gaussian, ",
        ),
        (
            "name: a\nprivacy:\n  mechanism: bit-flipping\n  epsilon: 1\n",
            "s.yaml:2: privacy.kappa: the key is missing; ",
        ),
        (
            "name: a\nprivacy:\n  mechanism: bit-flipping\n  epsilon: 1\n  kappa: much\n",
            "s.yaml:5: privacy.kappa = much: must be a number above 0, or measured; ",
        ),
        (
            "name: a\nprivacy: {epsilon: 1, kappa: 2}\n",
            "s.yaml:2: privacy.kappa: kappa belongs to mechanism bit-flipping, and no mechanism is written; "
            "add mechanism: bit-flipping under privacy.",
        ),
        (
            f"{FEDAVG}sweep:\n  learning.burn_in: [1]\n",
            "s.yaml:5: learning.burn_in = 1: unknown key; it belongs to learning.algorithm flmc ",
        ),
        (
            f"{FEDAVG}sweep:\n  learning.locl.steps: [1]\n",
            "s.yaml:5: learning.locl.steps: the sweep names a path that does not ",
        ),
        (
            f"{FEDAVG}sweep:\n  learning.model: [mlp, {{name: cnn2, hidden: [3]}}]\n",
            "s.yaml:5: learning.model.hidden: hidden belongs to model mlp, the model is cnn2 (at the sweep ",
        ),
    ],
)
def test_a_mistake_raises_one_sentence_with_its_line(text: str, sentence: str, tmp_path: Path) -> None:
    said = sentence_about(text, tmp_path)
    assert said.startswith(sentence), said
    assert "tagged" not in said
    assert "Config" not in said


def test_keys_of_the_algorithm_can_be_swept(tmp_path: Path) -> None:
    text = (
        f"{FEDAVG}sweep:\n  learning.model: [linear, mlp]\n  learning.codec.bound: [1, 2]\n"
        "  learning.codec.name: [uniform]\n  learning.local.steps: [1, 3]\n"
    )
    plan = expand(loaded(text, tmp_path))
    made = [point.scenario.learning for point in plan.points]
    assert {(one.model.name, one.codec.bound, one.local.steps) for one in made} == {
        (model, bound, steps) for model in ("linear", "mlp") for bound in (1.0, 2.0) for steps in (1, 3)
    }


def test_whole_algorithms_and_mechanisms_can_be_swept(tmp_path: Path) -> None:
    text = (
        "name: a\nsweep:\n"
        "  - learning: [{scheme: exact}, {algorithm: fedavg, rounds: 3}]\n"
        "  - learning: [{algorithm: fedavg, codec: fixed-point, local: {clip: 1}}]\n"
        "    privacy: [none, {mechanism: bit-flipping, epsilon: 2, kappa: 0.02}, {mechanism: gaussian, epsilon: 2}]\n"
    )
    scenarios: list[Scenario] = [point.scenario for point in expand(loaded(text, tmp_path)).points]
    assert [one.learning.algorithm for one in scenarios] == ["flmc", *["fedavg"] * 4]
    assert [getattr(one.privacy, "mechanism", "none") for one in scenarios[2:]] == ["none", "bit-flipping", "gaussian"]
