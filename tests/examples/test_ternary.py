"""The worked example of a scheme from outside the packages: `examples/ternary.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example import imported

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.run import run_trials
from fl.base.checkpoints import Saved, State
from fl.base.results import TrialResult
from fl.models.federated import Piece
from fl.schemes.coders.coder import Coder, Senders
from fl.schemes.scheme import Scheme, schemes
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from scenarios.contracts import broken_checks
from scenarios.contracts.scheme import OWN_BITS
from scenarios.store.checkpoints import read_checkpoint, write_checkpoint

EXAMPLE = Path(__file__).parents[2] / "examples" / "ternary.py"
NO_ERRORS = LinkConfig.model_validate({"error_model": "error_free"})
DEVICES = np.array([1, 4, 6])


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[Any]:
    with imported(EXAMPLE) as module:
        yield module


def context(round_index: int) -> UplinkContext:
    return UplinkContext(seed=2, trials=(0,), round_index=round_index)


def coder_of(num_values: int, **settings: Any) -> Coder:
    scheme = schemes.read({"name": "ternary", **settings})
    return scheme.build(pieces=[Piece(name="w", shape=(num_values,), offset=0)])


def aggregate(coder: Coder, payload: np.ndarray) -> np.ndarray:
    weights, factor = np.array([0.5, 0.25, 0.25]), np.ones(3)
    return coder.aggregate(payload, Senders(devices=DEVICES, context=context(0), weights=weights, factor=factor))


def digits(aggregation: Any, **changes: Any) -> FedAvgConfig:
    return FedAvgConfig.model_validate(
        {
            "data": "digits",
            "num_devices": 10,
            "rounds": 40,
            "local": {"learning_rate": 1.0, "steps": 5},
            "upload": "update",
            "aggregation": aggregation,
            **changes,
        }
    )


def run(config: FedAvgConfig, **more: Any) -> TrialResult:
    (found,) = run_trials(config, link=NO_ERRORS, privacy=None, seed=3, trials=[0], **more)
    assert found.failure is None, found.failure
    return found


@pytest.mark.parametrize("error_feedback", [True, False])
@pytest.mark.parametrize("check", OWN_BITS, ids=lambda check: check.__name__)
def test_the_scheme_keeps_the_contract_of_schemes(check: Callable[[Scheme], None], error_feedback: bool) -> None:
    check(schemes.read({"name": "ternary", "error_feedback": error_feedback}))


def test_the_file_is_a_plug_in_without_a_fault(example: Any) -> None:
    schemes.forget(example.__name__)
    try:
        assert broken_checks(EXAMPLE) == []
    finally:
        for cls in schemes.classes():
            if cls.__name__ == "Ternary":
                schemes.forget(cls.__module__)
        schemes.register(example.Ternary)


def test_what_a_device_has_sent_and_its_residual_are_the_sum_of_its_updates() -> None:
    coder, rng = coder_of(50), np.random.default_rng(4)
    alone = Senders(devices=DEVICES[:1], context=context(0), weights=np.ones(1), factor=np.ones(1))
    sent, updates = np.zeros(50), np.zeros(50)
    for index in range(5):
        update = rng.normal(0.0, 0.02, (1, 50)).astype(np.float32)
        payload = coder.encode(update, devices=DEVICES[:1], context=context(index))
        part = coder.aggregate(payload, alone)
        assert len(np.unique(np.abs(part))) == 2  # 0 and s
        sent, updates = sent + part, updates + update[0]
    np.testing.assert_allclose(sent + coder.state()["residuals"][0], updates, atol=1e-6)
    assert np.abs(coder.state()["residuals"]).max() > 0.0


def test_an_upload_with_a_wrong_scale_is_outvoted_or_ignored() -> None:
    updates = np.random.default_rng(6).normal(0.0, 0.02, (3, 50)).astype(np.float32)
    coder = coder_of(50)
    payload = coder.encode(updates, devices=DEVICES, context=context(0))
    right = aggregate(coder, payload)
    one_copy = payload.copy()
    one_copy[0, 0, :4] ^= 0x7F
    np.testing.assert_array_equal(aggregate(coder, one_copy), right)
    for scale in (np.inf, np.nan, 1e38, -1.0):
        payload[0, 0, :12] = np.tile(np.array([scale], ">f4").view(np.uint8), 3)
        without = aggregate(coder, payload)
        others = coder.aggregate(
            payload[:, 1:],
            Senders(devices=DEVICES[1:], context=context(0), weights=np.array([0.25, 0.25]), factor=np.ones(2)),
        )
        np.testing.assert_array_equal(without, others)


@pytest.mark.parametrize("error_feedback", [True, False])
def test_digits_are_learnt_as_well_as_with_the_plain_mean(error_feedback: bool) -> None:
    ternary = run(digits({"name": "ternary", "error_feedback": error_feedback}))
    plain = run(digits("mean"))
    assert plain.metrics["test_accuracy"] > 0.93
    # Two standard errors of an accuracy of 0.95 over 360 images are 0.023.
    assert abs(ternary.metrics["test_accuracy"] - plain.metrics["test_accuracy"]) < 0.023
    assert ternary.metrics["upload_bits"] == 96 + 2 * plain.metrics["num_parameters"]


class Interrupted:
    """Keeps the state after some rounds in a file."""

    def __init__(self, path: Path, *, after: int) -> None:
        self.path, self.after = path, after

    def saved(self) -> Saved | None:
        if not self.path.exists():
            return None
        return Saved(rounds_done=self.after, state=read_checkpoint(self.path)[1])

    def refuse(self, saved: Saved, why: str) -> None:
        raise AssertionError(f"{saved.rounds_done} rounds: {why}")

    def due(self, rounds_done: int) -> bool:
        return rounds_done == self.after

    def save(self, rounds_done: int, state: State) -> None:
        write_checkpoint(self.path, about={"rounds": rounds_done}, state=state)


def test_an_interrupted_trial_continues_with_the_residuals_bit_for_bit(tmp_path: Path) -> None:
    config = digits("ternary", rounds=6, participation={"devices_per_round": 6})
    path, rounds = tmp_path / "checkpoint", list[int]()
    whole = run(config, checkpoints=Interrupted(path, after=3))
    resumed = run(config, checkpoints=Interrupted(path, after=3), on_round=rounds.append)
    assert len(rounds) < 6, "the trial began anew"
    for name, values in whole.rounds.items():
        np.testing.assert_array_equal(resumed.rounds[name], values, err_msg=name)
    state = read_checkpoint(path)[1]
    write_checkpoint(path, about={}, state=without_residuals(state))
    other = run(config, checkpoints=Interrupted(path, after=3))
    assert (other.rounds["test_loss"] != whole.rounds["test_loss"]).any(), "the residuals make no difference"


def without_residuals(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: one * 0 if name == "residuals" else without_residuals(one) for name, one in value.items()}
