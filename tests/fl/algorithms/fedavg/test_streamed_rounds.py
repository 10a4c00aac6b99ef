"""A one-bit round in blocks of devices: the same bits as all at once, whatever the blocks, and little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fl.algorithms.fedavg import federation, footprint
from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.base.errors import DivergedError
from fl.base.results import TrialResult
from fl.schemes.coders.stochastic_bits import SignSums
from phy.config import LinkConfig

DEVICES = 300
FADING = {
    "modulation": "qpsk",
    "probe_bits": 512,
    "channel": {"model": "flat", "fading": "rayleigh", "coherence": "round"},
    "power": {"policy": "fixed", "snr_max_db": 8},
}
SILENT = {**FADING, "power": {"policy": "truncated-inversion", "snr_max_db": 8, "cutoff_db": -3}}
CPA = {"name": "cpa", "gamma": 0.02}
ROUNDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cpa": ({"aggregation": CPA}, FADING),
    "cpa, nested, dithered, scaled": (
        {"aggregation": {**CPA, "stages": 2, "dither": True, "radius": "scaled", "gamma": 2.0}},
        FADING,
    ),
    "cpa, some silent, some dropped": (
        {"aggregation": CPA, "participation": {"dropout": 0.3}, "weighting": "samples"},
        SILENT,
    ),
    "cpa, some take part, some lie": (
        {
            "aggregation": CPA,
            "participation": {"devices_per_round": 170, "dropout": 0.2},
            "attack": {"kind": "random", "share": 0.2},
        },
        FADING,
    ),
    "cpa, in blocks of which nobody sends": ({"aggregation": CPA, "participation": {"dropout": 0.98}}, FADING),
    "cpa, without a radio": ({"aggregation": CPA}, {"error_model": "error_free"}),
    "cpa, over a link of packets": (
        {"aggregation": CPA},
        {**FADING, "packets": {"policy": "drop", "crc": "crc16"}, "packet_size_bytes": 20},
    ),
    "probit": ({"aggregation": {"name": "probit", "bound": "adaptive", "clip": None, "b": 0.02}}, SILENT),
    "sign": ({"aggregation": {"name": "sign", "epsilon": 0.5, "vote": "mean", "channel": "native"}}, FADING),
}


def build(learning: dict[str, Any], link: dict[str, Any]) -> Federation:
    told = {
        "num_devices": DEVICES,
        "data": "digits",
        "partition": {"kind": "iid", "samples_per_device": 5, "disjoint": False},
        "model": "linear",
        "local": {"learning_rate": 0.1, "steps": 2},
        "upload": "update",
        **learning,
    }
    config = FedAvgConfig.model_validate(told)
    return Federation(config, link=LinkConfig.model_validate(link), privacy=None, seed=5, trial=1)


def two_rounds(learning: dict[str, Any], link: dict[str, Any]) -> tuple[np.ndarray, TrialResult]:
    trial = build(learning, link)
    for index in range(2):
        trial.round(index)
    sent: list[TrialResult] = []
    trial.record.results((1,), metrics=({},), failures=(None,), account=sent.append)
    return trial.weights, sent[0]


@pytest.mark.parametrize("name", ROUNDS)
def test_blocks_change_no_bit_of_a_round(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole, expected = two_rounds(*ROUNDS[name])
    for rows in (64, 16):
        monkeypatch.setattr(footprint, "_BLOCK_BYTES", 4 * 650 * rows)
        monkeypatch.setattr(footprint, "_FEWEST_IN_A_BLOCK", 1)
        trial = build(*ROUNDS[name])
        heights = [block.stop - block.start for block in trial._blocks(DEVICES)]
        assert len(heights) == -(-DEVICES // rows)
        weights, found = two_rounds(*ROUNDS[name])
        np.testing.assert_array_equal(weights, whole)
        assert found.rounds.keys() == expected.rounds.keys()
        for column, values in expected.rounds.items():
            np.testing.assert_allclose(found.rounds[column], values, rtol=1e-12, err_msg=column)
        for ours, theirs in (
            (found.devices, expected.devices),
            (found.link, expected.link),
            (found.bursts, expected.bursts),
        ):
            assert ours.keys() == theirs.keys()
            for column, values in theirs.items():
                np.testing.assert_array_equal(ours[column], values, column)
    assert np.abs(whole).max() > 0.0


def test_all_come_at_once_where_updates_have_to_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "_BLOCK_BYTES", 4 * 650 * 16)
    monkeypatch.setattr(footprint, "_FEWEST_IN_A_BLOCK", 1)
    for learning in (
        {"aggregation": {"name": "median"}},
        {"aggregation": {"name": "jopeq"}},
        {"aggregation": CPA, "attack": {"kind": "duplicate", "share": 0.2}},
    ):
        assert list(build(learning, FADING)._blocks(DEVICES)) == [slice(0, DEVICES)]


def test_a_round_holds_no_more_updates_than_a_block_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "_BLOCK_BYTES", 4 * 650 * 64)
    tallest, train = [], federation.LocalTrainer.train

    def watched(self: Any, weights: np.ndarray, **told: Any) -> Any:
        tallest.append(len(told["devices"]))
        return train(self, weights, **told)

    monkeypatch.setattr(federation.LocalTrainer, "train", watched)
    build(*ROUNDS["cpa"]).round(0)
    assert max(tallest) == 64
    assert sum(tallest) == DEVICES


def test_a_device_that_diverges_in_a_later_block_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "_BLOCK_BYTES", 4 * 650 * 64)
    trial, train = build(*ROUNDS["cpa"]), federation.LocalTrainer.train

    def diverging(self: Any, weights: np.ndarray, **told: Any) -> Any:
        found = train(self, weights, **told)
        found.weights[told["devices"] == 203, 7] = np.nan
        return found

    monkeypatch.setattr(federation.LocalTrainer, "train", diverging)
    with pytest.raises(DivergedError, match="the model of device 203 has diverged"):
        trial.round(0)


@pytest.mark.parametrize(
    "local",
    [
        {"learning_rate": 0.3, "steps": 3},
        {"optimizer": "sgd", "batch_size": 2, "momentum": 0.5, "learning_rate": 0.3, "steps": 4},
        {"learning_rate": 0.3, "steps": 2, "l2": 0.1, "proximal": 0.2},
    ],
)
def test_the_kernel_trains_what_tensorflow_trains(local: dict[str, Any]) -> None:
    settings = {"aggregation": CPA, "local": local}
    ours, theirs = (build(settings, FADING)._trainer for _ in range(2))
    assert ours._classes is not None
    theirs._classes = None
    start = build(settings, FADING).weights
    devices = np.array([0, 7, 299])
    steps = np.array([local["steps"], 1, local["steps"]])
    for index in range(2):
        one = ours.train(start, devices=devices, round_index=index, steps=steps)
        other = theirs.train(start, devices=devices, round_index=index, steps=steps)
        # Some hundred sums of numbers of order one in single precision, in another order.
        np.testing.assert_allclose(one.weights, other.weights, rtol=0, atol=2e-6)
        np.testing.assert_allclose(one.loss, other.loss, rtol=0, atol=2e-6)
        assert np.abs(one.weights - start).max() > 1e-2
    np.testing.assert_array_equal(ours.state()["taken"], theirs.state()["taken"])
    for name, rows in ours.state()["moments"].items():
        np.testing.assert_allclose(rows, theirs.state()["moments"][name], rtol=0, atol=1e-5)


def test_what_the_kernel_cannot_train_is_left_to_tensorflow() -> None:
    adam, decaying = {"optimizer": "adam", "batch_size": 5}, {"decay_steps": 10.0}
    for model, local in (("mlp", {}), ("linear", adam), ("linear", decaying)):
        trial = build({"aggregation": CPA, "model": model, "local": local}, FADING)
        assert trial._trainer._classes is None


def test_memory_foretold_grows_with_a_million_devices_by_what_is_kept_of_each_alone() -> None:
    link = LinkConfig.model_validate(FADING)

    def foretold(num_devices: int, **learning: Any) -> int:
        told = {
            "num_devices": num_devices,
            "data": "mnist",
            "partition": {"kind": "iid", "samples_per_device": 5, "disjoint": False},
            "model": "linear",
            "rounds": 1,
            "upload": "update",
            "aggregation": CPA,
            **learning,
        }
        return FedAvgConfig.model_validate(told).bytes_per_trial(link)

    streamed = foretold(1_000_000) - foretold(100_000)
    # Some 200 numbers of each device, where an update alone has 7,850.
    assert 900_000 * 500 < streamed < 900_000 * 3000
    assert foretold(1_000_000, aggregation="median") > 4 * 7850 * 1_000_000


@pytest.mark.parametrize(
    ("learning", "held"),
    [
        ({"aggregation": "median"}, True),
        ({"aggregation": "laplace"}, True),
        ({"aggregation": CPA, "personal": {"lam": 0.1}}, True),
        ({"aggregation": CPA, "downlink": FADING}, True),
        ({"aggregation": CPA, "attack": {"kind": "duplicate", "share": 0.2}}, True),
        ({"aggregation": CPA, "local": {"optimizer": "sgd", "batch_size": 5, "momentum": 0.5}}, True),
        ({"aggregation": CPA}, False),
        ({"aggregation": "probit", "attack": {"kind": "ones", "share": 0.2}}, False),
    ],
)
def test_all_updates_are_held_where_devices_meet_or_keep_something(learning: dict[str, Any], held: bool) -> None:
    assert footprint.held_at_once(FedAvgConfig.model_validate({"upload": "update", **learning})) == held


def test_signs_of_a_million_devices_of_unlike_worth_add_up_the_same_in_any_blocks() -> None:
    count, rng = 1_000_000, np.random.default_rng(1)
    weights, worth = rng.uniform(0.5, 1.0, count) / count, rng.uniform(0.9, 1.1, count)
    payload = rng.integers(0, 256, (1, count, 1), dtype=np.uint8)
    means = []
    for block in (count, 4096):
        sums = SignSums(num_values=8, weights=weights, worth=worth, update_of=lambda mean: mean)
        for first in range(0, count, block):
            sums.add(payload[:, first : first + block], known=None)
        means.append(sums.update())
    assert np.array_equal(*means)
    signs = 2.0 * np.unpackbits(payload[0], axis=1) - 1.0
    # Each of 2 count roundings is of at most 2^-34 of the largest amount.
    np.testing.assert_allclose(means[0], (weights * worth) @ signs / weights.sum(), rtol=0.0, atol=1e-9)
