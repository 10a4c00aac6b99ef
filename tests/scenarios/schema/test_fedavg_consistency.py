"""Combinations that federated averaging and its privacy cannot be, what will hurt, and what `auto` stands for."""

from __future__ import annotations

from typing import Any

import pytest
from own_network import own_network

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.schemes.codecs.partwise import FixedPoint, Uniform
from scenarios.schema.consistency.conflicts import find_conflicts
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.consistency.warnings import find_warnings
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.shorthand import normalise

FLIPS = {"mechanism": "bit-flipping", "epsilon": 10, "kappa": 0.02}
NOISE = {"mechanism": "gaussian", "epsilon": 10}
CLIPPED = {"codec": "fixed-point", "local": {"clip": 1.0, "steps": 1}}


def scenario(learning: dict[str, Any] | None = None, **parts: Any) -> Scenario:
    document = {"name": "a", "learning": {"algorithm": "fedavg", **(learning or {})}, **parts}
    normalise(document, left_out=())
    return validate_quickly(document)


IMPOSSIBLE: list[tuple[str, str, Scenario]] = [
    ("privacy", "without a mechanism", scenario(CLIPPED, privacy={"epsilon": 1})),
    ("privacy.mechanism", "flmc bounds", scenario({"algorithm": "flmc"}, privacy=FLIPS)),
    ("privacy.mechanism", "flmc bounds", scenario({"algorithm": "flmc", "scheme": "exact"}, privacy=NOISE)),
    ("privacy", "studies a codec", scenario({"algorithm": "flip-moments"}, privacy=NOISE)),
    ("privacy.mechanism", "clipped", scenario({"codec": "fixed-point"}, privacy=FLIPS)),
    ("privacy.mechanism", "clipped", scenario({}, privacy=NOISE)),
    ("learning.codec.name", "exponent bits", scenario({"codec": "binary32", "local": {"clip": 1.0}}, privacy=FLIPS)),
    (
        "privacy.kappa",
        "fraction bits",
        scenario({**CLIPPED, "codec": "uniform"}, privacy={**FLIPS, "kappa": "measured"}),
    ),
    *(
        (
            "learning.local.optimizer",
            "full-batch",
            scenario({"codec": "uniform", "local": {"clip": 1.0, "optimizer": "sgd", "batch_size": 4}}, privacy=one),
        )
        for one in (FLIPS, NOISE)
    ),
    ("link.packets.policy", "drops packets", scenario(CLIPPED, privacy=FLIPS, link={"packets": {"policy": "drop"}})),
    *(
        (key, word, scenario(learning, privacy=privacy, link={"access": "superposition", **link}))
        for key, word, learning, privacy, link in (
            ("link.access", "needs what every device sends", {"aggregation": "median"}, "none", {}),
            ("link.access", "needs what every device sends", {"aggregation": "laplace"}, "none", {}),
            ("link.modulation", "adds up analog symbols, the modulation is qpsk", {}, "none", {"modulation": "qpsk"}),
            ("link.modulation", "adds up bpsk or qpsk", {"aggregation": "sign"}, "none", {"modulation": "analog"}),
            ("learning.aggregation.channel", "nobody sees in a sum", {"aggregation": "probit"}, "none", {}),
            ("privacy.mechanism", "nobody sees in a sum", {**CLIPPED, "codec": "uniform"}, FLIPS, {}),
            ("learning.receiver_limit", "nobody sees in a sum", {"receiver_limit": 1.0}, "none", {}),
            ("learning.attack.kind", "sends none over the air", {"attack": {"kind": "ones", "share": 0.2}}, "none", {}),
            (
                "learning.attack.kind",
                "error_model error_free has none",
                {"attack": {"kind": "jam", "share": 0.2}},
                "none",
                {"error_model": "error_free"},
            ),
            ("link.error_model", "flips detected bits", {}, "none", {"error_model": "iid"}),
        )
    ),
    ("link.power.budget", "send over the air together", scenario(link={"power": {"budget": {"energy_j": 1.0}}})),
    ("link.receiver.scaling", "divides a sum over the air", scenario(link={"receiver": {"scaling": "mmse"}})),
    ("link.power.policy", "minimises the error of a sum", scenario(link={"power": {"policy": "mse-optimal"}})),
    (
        "link.power.budget",
        "a budget under policy inversion takes one channel gain per device and round",
        scenario(
            link={
                "access": "superposition",
                "channel": {"fading": "rayleigh", "coherence": "symbol"},
                "power": {"budget": {"energy_j": 1.0}},
            }
        ),
    ),
    ("learning.attack.kind", "the access is", scenario({"attack": {"kind": "jam", "share": 0.2}})),
    ("link.modulation", "sends bits", scenario(link={"modulation": "analog"})),
    ("learning.downlink.modulation", "sends bits", scenario({"downlink": {"modulation": "analog"}})),
    ("link.access", "on its own", scenario({"algorithm": "flip-moments"}, link={"access": "superposition"})),
    ("link.channel.gain", "has length 2", scenario(link={"channel": {"gain": [1, 2]}})),
    ("learning.downlink.channel.gain", "has length 2", scenario({"downlink": {"channel": {"gain": [1, 2]}}})),
    ("link.error_model", "perfect csi", scenario(link={"error_model": "analytic", "csi": {"error_variance": 0.1}})),
    ("learning.downlink_codec", "ideal", scenario({"downlink_codec": "uniform"})),
    ("learning.data.train_samples", "1437", scenario({"data": {"name": "digits", "train_samples": 1438}})),
    (
        "learning.data.validation_samples",
        "438 images held out",
        scenario({"data": {"name": "digits", "train_samples": 1000, "validation_samples": 438}}),
    ),
    (
        "learning.data.validation_samples",
        "one of 1437",
        scenario({"data": {"name": "digits", "validation_samples": 1437}}),
    ),
    ("learning.partition.samples_per_device", "72", scenario({"partition": {"samples_per_device": 72}})),
    ("learning.num_devices", "1,438", scenario({"num_devices": 1438})),
    (
        "learning.partition.labels_per_device",
        "11",
        scenario({"partition": {"kind": "labels", "labels_per_device": 11}}),
    ),
    ("learning.model.name", "8 x 8", scenario({"model": "cnn3"})),
    ("learning.model.outputs", "9", scenario({"model": {"name": "resnet18", "outputs": 9}, "data": "cifar10"})),
    ("learning.largest", "clips", scenario({"algorithm": "flip-moments", "largest": 1.5})),
]


@pytest.mark.parametrize(("key", "word", "made"), IMPOSSIBLE)
def test_an_impossible_combination_names_its_key_and_a_remedy(key: str, word: str, made: Scenario) -> None:
    found = list(find_conflicts(made))
    assert [one.keys[0] for one in found] == [key]
    assert word in found[0].problem
    assert found[0].remedy


POSSIBLE = [
    scenario(),
    scenario(CLIPPED, privacy=FLIPS),
    scenario({**CLIPPED, "codec": "uniform", "upload": "update"}, privacy=FLIPS),
    scenario(CLIPPED, privacy={**FLIPS, "channel": "agnostic"}, link={"packets": {"policy": "drop"}}),
    scenario(CLIPPED, privacy={**FLIPS, "kappa": "measured"}, link={"error_model": "error_free"}),
    scenario({"local": {"clip": 1.0}}, privacy=NOISE, link={"packets": {"policy": "drop"}}),
    scenario({"partition": {"samples_per_device": 1437, "disjoint": False}}),
    scenario(link={"error_model": "analytic"}),
    scenario(link={"access": "noma"}),
    scenario(link={"access": "superposition"}),
    scenario({"aggregation": "sign"}, link={"access": "superposition", "modulation": "qpsk"}),
    *(
        scenario({"aggregation": aggregation}, link={"access": "superposition", "power": power})
        for aggregation in ("mean", "sign", "type-based")
        for power in ({"policy": "mse-optimal"}, {"budget": {"energy_j": 1.0, "spread": "greedy"}})
    ),
    scenario({"attack": {"kind": "jam", "share": 0.2}}, link={"access": "superposition"}),
    scenario({"local": {"clip": 1.0}}, privacy=NOISE, link={"access": "superposition"}),
    scenario({"downlink": {"coding": {"code": "ldpc5g"}}, "downlink_codec": "uniform"}),
    scenario({"algorithm": "flip-moments", "codec": "binary32", "largest": 3.0}),
    scenario({"algorithm": "bit-distance"}, link={"access": "superposition"}),
]


def test_a_network_of_unknown_size_may_be_sent_over_a_coded_link() -> None:
    with own_network():
        assert list(find_conflicts(scenario({"model": "own-network"}, link={"coding": {"code": "ldpc5g"}}))) == []


@pytest.mark.parametrize("made", POSSIBLE)
def test_a_possible_combination_has_no_conflict(made: Scenario) -> None:
    assert list(find_conflicts(made)) == []
    assert list(find_conflicts(resolve_auto(made))) == []


@pytest.mark.parametrize("algorithm", ["fedavg", "flip-moments"])
def test_numbers_travel_as_qpsk_bits_device_by_device(algorithm: str) -> None:
    made = resolve_auto(scenario({"algorithm": algorithm}))
    assert (made.link.access, made.link.modulation) == ("orthogonal", "qpsk")
    assert resolve_auto(made) == made
    explicit = resolve_auto(scenario({"algorithm": algorithm}, link={"access": "noma", "mcs": 9}))
    assert (explicit.link.access, explicit.link.modulation) == ("noma", "qpsk")


def test_a_downlink_has_the_codec_of_the_uplink_by_default() -> None:
    learning = resolve_auto(scenario({"codec": "fixed-point", "downlink": {"mcs": 5}})).learning
    assert isinstance(learning, FedAvgConfig)
    assert learning.downlink_codec == FixedPoint()
    assert learning.downlink != "ideal"
    assert (learning.downlink.access, learning.downlink.modulation) == ("orthogonal", "qpsk")
    told = resolve_auto(scenario({"codec": "fixed-point", "downlink": {}, "downlink_codec": "uniform"})).learning
    assert isinstance(told, FedAvgConfig)
    assert told.downlink_codec == Uniform()


def warned(made: Scenario) -> str:
    return " | ".join(find_warnings(made))


@pytest.mark.parametrize(("epsilon", "hopeless"), [(0.99, True), (1.0, True), (1.01, False)])
def test_a_warning_names_an_epsilon_that_needs_error_rate_one_half(epsilon: float, hopeless: bool) -> None:
    # Theorem 1 reaches 1/2 where (lambda - 1) eps = K kappa, here 50 times 0.02.
    made = scenario({**CLIPPED, "rounds": 50}, privacy={**FLIPS, "epsilon": epsilon})
    assert ("nothing can be learnt; raise epsilon above 1," in warned(made)) == hopeless


def test_a_higher_order_moves_the_epsilon_that_needs_error_rate_one_half() -> None:
    made = scenario({**CLIPPED, "rounds": 100}, privacy={**FLIPS, "epsilon": 0.9, "order": 3.0})
    assert "raise epsilon above 1," in warned(made)


@pytest.mark.parametrize(("probe_bits", "packet_size_bytes", "short"), [(4096, 2312, True), (4096, 51, False)])
def test_a_warning_names_a_probe_of_few_packets(probe_bits: int, packet_size_bytes: int, short: bool) -> None:
    link = {"ofdm": {}, "csi": {"estimator": "ls"}, "probe_bits": probe_bits, "packet_size_bytes": packet_size_bytes}
    assert ("probe_bits: 184960 or more" in warned(scenario(CLIPPED, privacy=FLIPS, link=link))) == short
    assert "probe_bits" not in warned(scenario(CLIPPED, privacy={**FLIPS, "channel": "agnostic"}, link=link))
    assert "probe_bits" not in warned(scenario(CLIPPED, privacy=FLIPS, link={**link, "csi": "perfect"}))


def test_harmful_combinations_give_a_warning() -> None:
    fast = {"channel": {"fading": "rayleigh", "coherence": "packet"}}
    assert "different fades" in warned(scenario(CLIPPED, privacy=FLIPS, link=fast))
    coded = {"channel": {"model": "awgn"}, "coding": {"code": "convolutional", "rate": 0.5}}
    assert "whole packets" in warned(scenario(CLIPPED, privacy=FLIPS, link=coded))
    assert warned(scenario(CLIPPED, privacy={**FLIPS, "epsilon": 1000, "channel": "agnostic"}, link=fast)) == ""
    several = {"codec": "fixed-point", "local": {"clip": 1.0, "steps": 3}}
    assert "one local step, there are 3" in warned(scenario(several, privacy=FLIPS))
    assert warned(scenario(several, privacy={**NOISE, "epsilon": 1000, "sensitivity": "all-steps"})) == ""
    assert "1e38" in warned(scenario({"codec": "binary32"}))
    assert warned(scenario({"codec": "binary32"}, link={"packets": {"policy": "drop"}})) == ""
    assert warned(scenario({"codec": "binary32", "receiver_limit": 5.0})) == ""
    assert warned(scenario()) == ""


def test_missing_images_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHYLOOP_DATA", raising=False)
    said = warned(scenario({"data": "emnist", "codec": "fixed-point"}))
    assert said.startswith("learning.data: emnist")
    assert "PHYLOOP_DATA" in said


@pytest.mark.parametrize(("hidden", "hopeless"), [([16], False), ([4096], True)])
def test_a_warning_names_noise_that_hides_all_steps(hidden: list[int], hopeless: bool) -> None:
    scenario = Scenario.model_validate(
        {
            "name": "a",
            "learning": {
                "algorithm": "fedavg",
                "model": {"name": "mlp", "hidden": hidden},
                "local": {"clip": 1.0, "steps": 1},
                "rounds": 5,
            },
            "privacy": {"mechanism": "gaussian", "epsilon": 5.0},
        }
    )
    assert any("may stay at guessing" in one for one in find_warnings(scenario)) == hopeless


@pytest.mark.parametrize(("dimension", "short"), [(5, True), (64, False)])
def test_a_warning_names_a_code_longer_than_an_upload(dimension: int, short: bool) -> None:
    learning = {"scheme": "digital-orthogonal", "task": {"name": "gaussian-linear", "dimension": dimension}}
    coding = {"code": "ldpc5g", "rate": 0.5}
    scenario = Scenario.model_validate({"name": "a", "learning": learning, "link": {"coding": coding}})
    found = [one for one in find_warnings(scenario) if one.startswith("link.coding")]
    assert [one.partition(",")[0] for one in found] == ["link.coding: 5 bits of an upload take 24 on the air"] * short


ENERGY = {
    "enough": ("even", 1.01, "never limits a device, because 10 rounds at full power take"),
    "nearly enough": ("even", 0.9, None),
    "a unit mistaken": ("even", 1e-3, "30 dB below full power in a round"),
    "part of a round": ("greedy", 0.05, "is spent before the end of one round at full power"),
    "some rounds": ("greedy", 0.3, None),
}


@pytest.mark.parametrize(("spread", "share", "words"), ENERGY.values(), ids=ENERGY)
def test_a_warning_compares_an_energy_budget_with_full_power(spread: str, share: float, words: str | None) -> None:
    """650 numbers, two in a symbol of a microsecond, at 20 dB over N0 = 1, ten rounds."""

    def made(energy_j: float) -> Scenario:
        power = {"snr_max_db": 20, "budget": {"energy_j": energy_j, "spread": spread}}
        learning = {"algorithm": "fedavg", "data": "digits", "model": "linear", "rounds": 10}
        return Scenario.model_validate(
            {"name": "a", "learning": learning, "link": {"access": "superposition", "power": power}}
        )

    link = made(1.0).link
    full_j = 10 * 325 * link.symbol_s * 100.0 * link.channel.noise_power
    found = [one for one in find_warnings(made(share * full_j)) if one.startswith("link.power.budget.energy_j")]
    assert len(found) == (words is not None)
    assert all(str(words) in one for one in found)


@pytest.mark.parametrize(("epsilon", "bound", "warned"), [(1.0, 0.5, True), (1.0, 8.0, False), (100.0, 0.5, False)])
def test_a_warning_names_a_bound_that_holds_the_noise(epsilon: float, bound: float, warned: bool) -> None:
    """At epsilon 1 over 40 rounds sigma is about 2, four times the default bound."""
    made = scenario(
        {"data": "digits", "model": "linear", "rounds": 40, "num_devices": 10, "codec": {"bound": bound}}
        | {"local": {"clip": 1.0, "steps": 1, "learning_rate": 0.5}},
        privacy={"mechanism": "gaussian", "epsilon": epsilon},
    )
    found = [one for one in find_warnings(made) if one.startswith("learning.codec.bound")]
    assert len(found) == warned
    for sentence in found:
        held = float(sentence.partition("write bound: ")[2].partition(",")[0])
        sigma = float(sentence.partition("standard deviation ")[2].partition(" ")[0])
        assert held == pytest.approx(4 * sigma, rel=0.05)


@pytest.mark.parametrize("mechanism", [{"mechanism": "gaussian"}, {"mechanism": "bit-flipping", "kappa": 0.02}])
def test_the_epsilon_that_a_warning_of_noise_names_is_enough(mechanism: dict[str, Any]) -> None:
    """The warning is gone at that epsilon, and there at half of it."""

    def warned(epsilon: float) -> list[str]:
        made = scenario(
            {"data": "digits", "model": "linear", "rounds": 40, "num_devices": 4, "codec": {"bound": 0.5}}
            | {"local": {"clip": 1.0, "steps": 1, "learning_rate": 0.1}},
            privacy={**mechanism, "epsilon": epsilon},
        )
        return [one for one in find_warnings(made) if "may stay at guessing" in one]

    (sentence,) = warned(0.5)
    named = float(sentence.partition("raise epsilon to ")[2].split(",")[0].split(" ")[0])
    assert ("the channel's own bit error rate" in sentence) == (mechanism["mechanism"] == "bit-flipping")
    assert warned(named) == []
    assert warned(named / 2.0) != []


@pytest.mark.parametrize(("epsilon", "warned"), [(30, True), (50, False)])
def test_an_epsilon_that_measured_kappa_turns_into_fair_coins_is_warned_of(epsilon: float, warned: bool) -> None:
    made = scenario(
        {"data": "digits", "model": "linear", "rounds": 40, "codec": "fixed-point", "local": {"clip": 1.0}},
        privacy={"mechanism": "bit-flipping", "kappa": "measured", "epsilon": epsilon},
    )
    found = [one for one in find_warnings(made) if one.startswith("privacy.kappa")]
    assert len(found) == warned
    assert all("raise epsilon far above 40" in one and "kappa: 0.02" in one for one in found)


@pytest.mark.parametrize(
    ("coherence", "count"), [("round", 8), ("run", 40)], ids=["channels_drawn_anew", "channels_that_last"]
)
def test_zf_needs_an_antenna_per_device_that_the_link_simulates(coherence: str, count: int) -> None:
    def found(num_antennas: int) -> list[str]:
        link = {
            "access": "superposition",
            "channel": {"model": "flat", "fading": "rayleigh", "coherence": coherence},
            "receiver": {"combining": "zf", "num_antennas": num_antennas},
        }
        learning = {"num_devices": 40, "participation": {"devices_per_round": 8}}
        return [one.problem for one in find_conflicts(scenario(learning, link=link))]

    assert found(count) == []
    problem = f"zf aligns {count} devices with as many antennas at least, the receiver has {count - 1}"
    assert found(count - 1) == [problem]


def test_zf_for_more_devices_than_antennas_are_allowed_has_a_remedy_that_is_valid() -> None:
    link = {"access": "superposition", "channel": {"fading": "rayleigh"}, "receiver": {"combining": "zf"}}
    (found,) = find_conflicts(scenario({"num_devices": 65}, link=link))
    assert found.remedy == "write combining: mmse"


@pytest.mark.parametrize("there", [True, False])
def test_bfloat16_is_warned_of_where_the_processor_has_none(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.schema.consistency.warnings.has_bfloat16", lambda: there)
    made = scenario({"model": "mlp", "local": {"precision": "bfloat16"}})
    assert ("AVX-512 BF16" in warned(made)) == (not there)
