"""A key that changes no number is named before the run."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.schema.loader import load_scenario, resolved_root
from scenarios.studies.check import check

RAYLEIGH: dict[str, Any] = {"fading": "rayleigh"}
BUDGET = {"mechanism": "scheme", "budget": {"epsilon": 10, "delta": 1e-5}}
SIGN = {"algorithm": "fedavg", "aggregation": {"name": "sign", "epsilon": 0.5}}

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a K factor of Rayleigh fading": (
        {"link": {"channel": {**RAYLEIGH, "rician_k_db": 6}}},
        "link.channel.rician_k_db: has no effect, because it belongs to fading rician, and the fading is rayleigh; "
        "leave it out, or write fading: rician",
    ),
    "a delay spread of a flat channel": (
        {"link": {"channel": {"delay_spread_s": 1e-6}}},
        "link.channel.delay_spread_s: has no effect, because it belongs to the tdl and cdl models, and the model is "
        "flat; leave it out, or write for example model: tdl-a",
    ),
    "a reference distance of absolute gains": (
        {
            "link": {"channel": {"cell": {"reference_distance_m": 50}}, "power": {"transmit_power_dbm": 10}},
            "learning": {"algorithm": "fedavg"},
        },
        "link.channel.cell.reference_distance_m: has no effect, because gains are absolute under "
        "power.transmit_power_dbm; leave it out",
    ),
    "a threshold without truncation": (
        {"link": {"power": {"policy": "inversion", "cutoff_db": -5}}},
        "link.power.cutoff_db: has no effect, because it belongs to policy truncated-inversion, and the policy is "
        "inversion; leave it out, or write policy: truncated-inversion",
    ),
    "a contraction of an even spread": (
        {
            "link": {"access": "superposition", "power": {"budget": {"energy_j": 1, "contraction": 0.9}}},
            "learning": {"algorithm": "fedavg"},
        },
        "link.power.budget.contraction: has no effect, because it belongs to spread convergence, and the spread is "
        "even; leave it out, or write spread: convergence",
    ),
    "groups of orthogonal devices": (
        {"link": {"noma": {"group_size": 2}}, "learning": {"algorithm": "fedavg"}},
        "link.noma: has no effect, because the access is orthogonal; leave it out, or write access: noma",
    ),
    "a codec of a scheme with bits of its own": (
        {"learning": {**SIGN, "codec": "uniform"}},
        "learning.codec: has no effect, because aggregation sign makes its own bits; leave it out, or write "
        "aggregation: mean",
    ),
    "a proximal term beside that of personal models": (
        {"learning": {"algorithm": "fedavg", "local": {"proximal": 0.5}, "personal": {}}},
        "learning.local.proximal: has no effect, because learning.personal.lam takes its place; leave it out",
    ),
    "a limit on numbers where bits are received": (
        {"learning": {**SIGN, "receiver_limit": 1.0}},
        "learning.receiver_limit: has no effect, because aggregation sign receives single bits, which need no limit; "
        "leave it out",
    ),
    "an epsilon that the budget sets": (
        {"learning": SIGN, "privacy": BUDGET},
        "learning.aggregation.epsilon: has no effect, because privacy.budget sets the epsilon of a round; leave it "
        "out, or write privacy.budget.calibrate: false for a budget that only watches",
    ),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.replace(" ", "_"))
def test_a_key_without_effect_is_named(case: str) -> None:
    document, sentence = CASES[case]
    assert sentence in check(document).warnings


def test_a_key_that_one_sweep_point_reads_is_not_named() -> None:
    document = {"link": {"channel": {"rician_k_db": 3}}, "sweep": {"link.channel.fading": ["rayleigh", "rician"]}}
    assert not [sentence for sentence in check(document).warnings if "no effect" in sentence]


def test_defaults_that_a_run_writes_out_are_not_named() -> None:
    written_out = resolved_root(load_scenario({"link": {"channel": RAYLEIGH}}), swept_paths=())
    assert not [sentence for sentence in check(written_out).warnings if "no effect" in sentence]


def test_a_batch_of_more_samples_than_a_device_has_is_named() -> None:
    learning = {"algorithm": "fedavg", "data": "digits", "local": {"optimizer": "sgd", "batch_size": 5000}}
    assert any(sentence.startswith("learning.local.batch_size:") for sentence in check({"learning": learning}).warnings)


def test_a_section_for_the_other_command_is_named() -> None:
    both = check(
        {"learning": {"num_devices": 4}, "measure": {"values": [0]}, "link": {"modulation": "bpsk", "access": "auto"}}
    )
    assert [line.partition(":")[0] for line in both.verdict.splitlines()] == [
        "scenario is valid for phyloop link",
        "scenario is valid for phyloop run",
    ]


def test_numbers_that_pyyaml_reads_as_text_are_numbers() -> None:
    loaded = load_scenario({"link": {"channel": {"delay_spread_s": "1e-6"}}})
    assert loaded.scenario.link.channel.delay_spread_s == 1e-6
