"""Two tasks are the same exactly when they compute the same numbers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from scenarios.plan.identity import canonical_json, physics, physics_json, task_id
from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario, validate_quickly
from scenarios.schema.schema import SCHEMA_VERSION, Scenario
from scenarios.schema.schema_keys import schema_keys

FULL: dict[str, Any] = {
    "name": "a",
    "link": {"channel": {"gain": [0.5] * 20}, "csi": {"error_variance": 0.1}},
    "learning": {"scheme": "digital-orthogonal", "step_size": 1e-4},
    "privacy": {"epsilon": 5},
}

# Scenarios that together write every key that determines numbers: a value, and another as valid beside the rest.
TWO_OF_EACH: tuple[dict[str, tuple[Any, Any]], ...] = (
    {
        "seed": (0, 1),
        "link.access": ("orthogonal", "noma"),
        "link.modulation": ("bpsk", "qpsk"),
        "link.channel.model": ("flat", "tdl-a"),
        "link.channel.gain": (0.5, 0.25),
        "link.channel.noise_power": (1.0, 2.0),
        "link.csi": ({"error_variance": 0.1}, "perfect"),
        "link.csi.error_variance": (0.1, 0.2),
        "link.receiver.num_antennas": (1, 2),
        "link.receiver.equalizer": ("lmmse", "zf"),
        "link.power.policy": ("inversion", "fixed"),
        "link.power.snr_max_db": (20.0, 20.125),
        "link.power.cutoff_db": (-10.0, -9.875),
        "link.error_model": ("measured", "iid"),
        "link.engine": ("fused", "sionna"),
        "link.bandwidth_hz": (1e6, 2e6),
        "link.packet_size_bytes": (2312, 100),
        "link.probe_bits": (4096, 8192),
        "learning.scheme": ("digital-orthogonal", "exact"),
        "learning.num_devices": (20, 21),
        "learning.rounds": (300, 301),
        "learning.burn_in": (200, 201),
        "learning.step_size": (1e-4, "auto"),
        "learning.gradient_bound": (30.0, 31.0),
        "learning.quantizer_slope": (0.05, 0.0625),
        "learning.lmc_cap": ("none", "printed"),
        "learning.debias": (False, True),
        "privacy": ({"epsilon": 5}, "none"),
        "privacy.epsilon": (5.0, 5.125),
        "privacy.delta": (0.01, 0.0125),
        "privacy.analog_tail": ("corrected", "as-printed"),
        "privacy.noise_tolerance_db": (0.0, 1.0),
        "privacy.listener_advantage_db": (0.0, 2.0),
    },
    {
        "privacy.mechanism": ("scheme", "scheme"),
        "privacy.budget.epsilon": (8.0, 9.0),
        "privacy.budget.delta": (1e-5, 1e-6),
        "privacy.budget.accountant": ("pld", "renyi"),
        "privacy.budget.calibrate": (True, False),
        "privacy.budget.schedule": ("uniform", "increasing"),
        "privacy.budget.ratio": (4.0, 5.0),
        "privacy.budget.action": ("stop", "silent"),
    },
    {
        "link.coding": ({"code": "ldpc5g"}, "none"),
        "link.coding.code": ("ldpc5g", "turbo"),
        "link.coding.rate": (0.5, 1 / 3),
        "link.coding.block_length": ("auto", 128),
        "link.coding.iterations": (20, 19),
        "link.coding.interleaver": ("none", "random"),
        "link.coding.demapper": ("app", "maxlog"),
        "link.packets.policy": ("retransmit", "retransmit-combine"),
        "link.packets.crc": ("crc16", "crc24a"),
        "link.packets.max_retransmissions": (3, 2),
        "link.channel.fading": ("rayleigh", "rician"),
        "link.channel.coherence": ("packet", "symbol"),
    },
    {"link.coding.code": ("ldpc5g", "polar5g"), "link.coding.check_update": ("boxplus-phi", "minsum")},
    {"link.coding.code": ("polar5g", "repetition"), "link.coding.list_size": (8, 4)},
    {"link.coding.code": ("convolutional", "repetition"), "link.coding.constraint_length": (5, 6)},
    {"link.mcs": (9, 8)},
    {"link.channel.fading": ("rician", "rayleigh"), "link.channel.rician_k_db": (6.0, 6.125)},
    {"link.channel.fading": ("nakagami", "rayleigh"), "link.channel.nakagami_m": (2.0, 2.5)},
    {
        "link.channel.model": ("tdl-a", "cdl-a"),
        "link.channel.coherence": ("round", "doppler"),
        "link.channel.delay_spread_s": (1e-7, 2e-7),
        "link.channel.carrier_frequency_hz": (3.5e9, 3.6e9),
        "link.channel.speed_m_s": (3.0, 4.0),
        "link.csi.estimator": ("ls", "lmmse"),
        "link.multiplexing": ("tdma", "ofdma"),
        "link.ofdm": ({"dc_null": False}, "none"),
        "link.ofdm.num_subcarriers": (72, 73),
        "link.ofdm.subcarrier_spacing_hz": (15e3, 30e3),
        "link.ofdm.cyclic_prefix_length": (6, 7),
        "link.ofdm.num_symbols": (14, 15),
        "link.ofdm.guard_carriers": ([0, 0], [0, 1]),
        "link.ofdm.dc_null": (False, True),
        "link.ofdm.pilot_symbols": ([2, 11], [3, 11]),
        "link.ofdm.domain": ("frequency", "time"),
        "link.impairments.phase_error_deg": (0.0, 5.0),
        "link.impairments.timing_offset_s": (0.0, 1e-7),
        "link.impairments.cfo_hz": (0.0, 10.0),
        "link.impairments.clipping_db": (6.0, 5.0),
    },
    {
        "link.channel.cell": ({"shadowing": True}, None),
        "link.channel.cell.scenario": ("umi", "uma"),
        "link.channel.cell.line_of_sight": ("by-chance", "never"),
        "link.channel.cell.min_distance_m": (35.0, 36.0),
        "link.channel.cell.radius_m": (250.0, 251.0),
        "link.channel.cell.reference_distance_m": (100.0, 101.0),
        "link.channel.cell.shadowing": (True, False),
        "link.channel.cell.positions_m": ([[40, 30]], [[40, 31]]),
    },
    {
        "link.noma.detector": ("sic", "ml"),
        "link.noma.group_size": (2, 4),
    },
    {"link.noma.ladder_db": ([0, -6], [0, -7])},
    {
        "link.power.policy": ("closed-loop", "closed-loop"),
        "link.power.loop.target": ("ber", "bler"),
        "link.power.loop.target_rate": (0.01, 0.02),
        "link.power.loop.db_per_decade": (3.0, 4.0),
        "link.power.loop.max_step_db": (3.0, 4.0),
        "link.power.loop.initial_snr_db": (0.0, 1.0),
        "link.power.loop.min_snr_db": (-30.0, -29.0),
    },
)
FEDAVG = {"learning.algorithm": ("fedavg", "fedavg")}
TWO_OF_EACH += (
    {
        **FEDAVG,
        "learning.data.name": ("mnist", "cifar10"),
        "learning.data.train_samples": (5000, 5001),
        "learning.data.test_samples": (500, 501),
        "learning.data.validation_samples": (100, 101),
        "learning.data.pixels": ("unit", "symmetric"),
        "learning.partition.kind": ("iid", "iid"),
        "learning.partition.samples_per_device": (10, 11),
        "learning.partition.disjoint": (True, False),
        "learning.model.name": ("linear", "mlp"),
        "learning.model.initial": ("keras", "pytorch"),
        "learning.model.outputs": (10, 12),
        "learning.local.optimizer": ("sgd", "adam"),
        "learning.local.learning_rate": (0.1, 0.2),
        "learning.local.steps": (2, 3),
        "learning.local.batch_size": (8, 9),
        "learning.local.beta1": (0.9, 0.8),
        "learning.local.beta2": (0.99, 0.98),
        "learning.local.clip": (1.0, 2.0),
        "learning.local.l2": (0.1, 0.2),
        "learning.local.proximal": (0.1, 0.2),
        "learning.local.keep_state": (True, False),
        "learning.codec.name": ("uniform", "uniform"),
        "learning.codec.bits": (4, 5),
        "learning.codec.bound": (1.0, 2.0),
        "learning.codec.stochastic": (True, False),
        "learning.codec.max_clipped": (0.1, 0.2),
        "learning.upload": ("model", "update"),
        "learning.weighting": ("samples", "equal"),
        "learning.participation.devices_per_round": (5, 6),
        "learning.participation.dropout": (0.1, 0.2),
        "learning.participation.straggling": (0.1, 0.2),
        "learning.downlink.bandwidth_hz": (1e6, 2e6),
        "learning.downlink_codec.name": ("uniform", "uniform"),
        "learning.downlink_codec.bits": (4, 5),
        "learning.downlink_codec.bound": (1.0, 2.0),
        "learning.downlink_codec.stochastic": (True, False),
        "learning.downlink_codec.max_clipped": (0.1, 0.2),
        "learning.receiver_limit": (4.0, 5.0),
        "learning.test_every": (1, 2),
    },
    {
        **FEDAVG,
        "learning.model.name": ("mlp", "mlp"),
        "learning.model.hidden": ([8], [9]),
        "learning.partition.kind": ("dirichlet", "dirichlet"),
        "learning.partition.alpha": (0.5, 0.6),
        "learning.local.optimizer": ("sgd", "sgd"),
        "learning.local.batch_size": (8, 8),
        "learning.local.momentum": (0.5, 0.6),
        "learning.codec.name": ("fixed-point", "fixed-point"),
        "learning.codec.fraction_bits": (23, 10),
        "learning.downlink.bandwidth_hz": (1e6, 1e6),
        "learning.downlink_codec.name": ("fixed-point", "binary32"),
    },
    {
        **FEDAVG,
        "learning.partition.kind": ("labels", "labels"),
        "learning.partition.labels_per_device": (2, 3),
        "learning.model.name": ("resnet18", "resnet18"),
        "learning.model.stem": ("cifar", "imagenet"),
        "learning.downlink.bandwidth_hz": (1e6, 1e6),
        "learning.downlink_codec.name": ("fixed-point", "fixed-point"),
        "learning.downlink_codec.fraction_bits": (23, 10),
    },
    {
        **FEDAVG,
        "learning.partition.kind": ("iid", "iid"),
        "learning.model.name": ("custom", "custom"),
        "learning.model.function": ("my.nets:one", "my.nets:other"),
        "learning.model.digest": ("a" * 64, "b" * 64),
    },
    {
        **FEDAVG,
        "learning.local.l2": (0.1, 0.1),
        "learning.local.clip": (1.0, 1.0),
        "learning.convergence_bound": (False, True),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("cpa", "cpa"),
        "learning.aggregation.epsilon": (0.5, "none"),
        "learning.aggregation.form": ("coded", "printed"),
        "learning.aggregation.decode": ("coded", "unbiased"),
        "learning.aggregation.rate_bits": (1, 2),
        "learning.aggregation.gamma": (0.05, 0.06),
        "learning.aggregation.radius": ("decaying", "scaled"),
        "learning.aggregation.gamma_decay": (0.9, 0.8),
        "learning.aggregation.dimension": (1, 2),
        "learning.aggregation.dither": (False, True),
        "learning.aggregation.stages": (1, 2),
        "learning.aggregation.codewords": ("balanced", "independent"),
        "learning.aggregation.negative_bins": ("keep", "zero"),
        "learning.aggregation.channel": ("native", "debias"),
        "learning.aggregation.confidence": (0.99, 0.9),
        "learning.attack.kind": ("gaussian", "ones"),
        "learning.attack.share": (0.2, 0.3),
        "learning.attack.drawn": ("without-replacement", "with-replacement"),
        "learning.attack.factor": (-4.0, -5.0),
        "learning.attack.std": (10.0, 20.0),
        "learning.personal.lam": (0.1, 0.2),
        "learning.personal.test_share": (0.2, 0.3),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("probit", "probit"),
        "learning.aggregation.bound": ("fixed", "adaptive"),
        "learning.aggregation.b": (10.0, 11.0),
        "learning.aggregation.epsilon": (1.0, 2.0),
        "learning.aggregation.l1_clip": (0.1, 0.2),
        "learning.aggregation.form": ("printed", "exact"),
        "learning.attack.kind": ("ones", "ones"),
        "learning.attack.devices": ([0, 1], [0, 2]),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("mvu", "mvu"),
        "learning.aggregation.clip": (0.05, 0.06),
        "learning.aggregation.input_bits": (1, 2),
        "learning.aggregation.output_bits": (1, 2),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("sign", "sign"),
        "learning.aggregation.vote": ("mean", "majority"),
        "learning.aggregation.decode": ("coded", "unbiased"),
        "learning.aggregation.step": (1.0, 0.5),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("laplace", "jopeq"),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("laplace", "laplace"),
        "learning.aggregation.as_coded": (False, True),
    },
    {
        **FEDAVG,
        "learning.upload": ("update", "update"),
        "learning.aggregation.name": ("jopeq", "jopeq"),
        "learning.aggregation.as_coded": (False, True),
    },
    {
        **FEDAVG,
        "learning.aggregation.name": ("trimmed-mean", "median"),
        "learning.aggregation.trim": (0.1, 0.2),
    },
    {
        "learning.attack.kind": ("jam", "sign-flip"),
        "learning.attack.share": (0.1, 0.2),
        "learning.attack.signal": ("ones", "random"),
    },
    {"learning.algorithm": ("flip-moments", "fedavg")},
    {
        "learning.algorithm": ("flip-moments", "flip-moments"),
        "learning.codec.name": ("fixed-point", "binary32"),
        "learning.largest": (1.0, 0.5),
        "learning.draws": (20, 21),
        "learning.flip_probability": (0.1, 0.2),
    },
    {
        "learning.algorithm": ("bit-distance", "bit-distance"),
        "learning.dimension": (100, 101),
        "learning.sensitivity": (1e-4, 2e-4),
        "learning.weights": ("normal", "uniform"),
        "learning.weight_std": (0.05, 0.06),
        "learning.num_pairs": (20, 21),
    },
    {
        "learning.algorithm": ("reconstruction", "reconstruction"),
        "learning.samples_per_device": (1, 2),
        "learning.num_devices": (20, 21),
    },
    {
        "privacy.mechanism": ("bit-flipping", "bit-flipping"),
        "privacy.epsilon": (1.0, 2.0),
        "privacy.order": (2.0, 3.0),
        "privacy.kappa": (0.02, "measured"),
        "privacy.kappa_pairs": (20, 21),
        "privacy.channel": ("native", "agnostic"),
        "privacy.confidence": (0.99, 0.9),
        "privacy.debias": (False, True),
        "privacy.cipher": ("none", "aes"),
    },
    {
        "privacy.budget.epsilon": (1.0, 2.0),
        "privacy.budget.delta": (1e-5, 1e-6),
        "privacy.budget.accountant": ("pld", "renyi"),
        "privacy.budget.schedule": ("increasing", "decreasing"),
        "privacy.budget.ratio": (4.0, 5.0),
        "privacy.budget.action": ("stop", "silent"),
    },
    {"privacy.mechanism": ("scheme", "scheme"), "privacy.budget.epsilon": (1.0, 2.0)}
    | {"privacy.budget.calibrate": (True, False)},
    {
        "privacy.mechanism": ("gaussian", "gaussian"),
        "privacy.epsilon": (1.0, 2.0),
        "privacy.calibration": ("printed", "dp-accounting"),
        "privacy.sensitivity": ("printed", "all-steps"),
    },
)
PAIRS = [
    (number, key)
    for number, settings in enumerate(TWO_OF_EACH)
    for key, (one, other) in settings.items()
    if one != other
]


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
    assert leaves - union_members - elsewhere <= {key for _, key in PAIRS}


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


# Of the version that knew one algorithm only: runs of it must be found done.
OF_OLD = {
    "flmc-snr": "f446fe15012d1c8da1431069545627621813aeaece558a340e44810fb3ffde6c",
    "flmc-epsilon": "406900deb8ebd9c09b8bb401d02c5e12c1d61dd75ade81c1780d5f4675764ae3",
    "flmc-coded-ofdm": "6c8f834fa24ef98c02b425cdfbfe323f6b757df172599bb3f86bf263cd34fde4",
}


@pytest.mark.parametrize("name", OF_OLD)
def test_earlier_tasks_of_flmc_keep_their_identity(name: str) -> None:
    scenarios = (point.scenario for point in expand(load_scenario(name)).points)
    # There was one engine; what fused kernels compute now is computed anew.
    of_then = (one.model_copy(update={"link": one.link.model_copy(update={"engine": "sionna"})}) for one in scenarios)
    texts = "\n".join(physics_json(one) for one in of_then)
    assert hashlib.sha256(texts.encode()).hexdigest() == OF_OLD[name]


def test_later_keys_of_attacks_are_left_out_at_their_default() -> None:
    learning = {"algorithm": "fedavg", "attack": {"kind": "ones", "share": 0.1}}
    attack = physics(validate_quickly({"name": "a", "learning": learning}))["learning"]["attack"]
    assert sorted(attack) == ["devices", "drawn", "factor", "kind", "share", "std"]
    assert physics(validate_quickly({"name": "a", "learning": {"algorithm": "fedavg"}}))["learning"]["attack"] is None
    assert "attack" not in physics(Scenario(name="a"))["learning"]


def test_a_missing_budget_is_left_out() -> None:
    assert sorted(physics(validate_quickly({"name": "a", "privacy": {"epsilon": 5}}))["privacy"]) == [
        "analog_tail",
        "delta",
        "epsilon",
    ]


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
    assert physics(scenario) != physics(scenario, execution_mode="eager-float32")
    assert physics(scenario)["schema_version"] == SCHEMA_VERSION == 2


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


def engines_told(**link: Any) -> list[str | None]:
    """The engine in the identity of an uncoded link, of one with a turbo code, of sums and of impaired ones."""
    parts = [
        {"link": link, "learning": {"scheme": "digital-orthogonal"}},
        {"link": link | {"coding": {"code": "turbo"}}, "learning": {"scheme": "digital-orthogonal"}},
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
    monkeypatch.setattr("phy.engines.choice.sees_gpu", lambda: True)
    assert engines_told() == [None] * 4


def test_the_engine_of_a_downlink_is_part_of_the_identity_too() -> None:
    learning = {"algorithm": "fedavg", "downlink": {"engine": "fused"}}
    fused = physics(validate_quickly({"name": "a", "learning": learning}))["learning"]["downlink"]
    learning["downlink"] = {"engine": "sionna"}
    sionna = physics(validate_quickly({"name": "a", "learning": learning}))["learning"]["downlink"]
    assert fused == sionna | {"engine": "fused"}
