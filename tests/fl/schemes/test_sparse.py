"""Top-k and rand-k: what is sent, what is left over for the next update, and what wrong bits do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from fl.models.federated import Piece
from fl.schemes.coders.coder import Coder, Senders
from fl.schemes.scheme import schemes
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

NUM_VALUES, BITS, SHARE = 60, 8, 0.1
KEPT, PLACE_BITS = 6, 6
STEP = 2 * 0.5 / 255
DEVICES = np.array([1, 4, 6])


def context(round_index: int = 0) -> UplinkContext:
    return UplinkContext(seed=2, trials=(0,), round_index=round_index)


def coder(name: str, num_values: int = NUM_VALUES) -> Coder:
    scheme = schemes.read({"name": name, "share": SHARE, "bits": BITS})
    return scheme.build(pieces=[Piece(name="w", shape=(num_values,), offset=0)])


def senders(round_index: int = 0, devices: NDArray[np.int64] = DEVICES, **more: Any) -> Senders:
    count = len(devices)
    weights, factor = np.full(count, 1.0 / count), np.ones(count)
    return Senders(devices=devices, context=context(round_index), weights=weights, factor=factor, **more)


def updates(size: float = 0.02, count: int = len(DEVICES)) -> NDArray[np.float32]:
    return np.random.default_rng(6).normal(0.0, size, (count, NUM_VALUES)).astype(np.float32)


def read(name: str, payload: NDArray[np.uint8], **more: Any) -> NDArray[np.float32]:
    found = coder(name).read(payload, senders(**more))
    assert found is not None
    return found


def test_top_k_sends_the_numbers_of_largest_magnitude_within_half_a_step() -> None:
    sent = updates()
    found = read("top-k", coder("top-k").encode(sent, devices=DEVICES, context=context()))
    for row, one in zip(found, sent, strict=True):
        largest = np.sort(np.argsort(-np.abs(one))[:KEPT])
        assert np.flatnonzero(row).tolist() == largest.tolist()
        assert np.abs(row - one)[largest].max() <= STEP / 2 + 1e-7


def test_rand_k_sends_every_number_equally_often_and_server_and_device_draw_the_same() -> None:
    sent, chosen, rounds = np.full((1, NUM_VALUES), 0.3, np.float32), np.zeros(NUM_VALUES), 500
    for index in range(rounds):
        one, alone = coder("rand-k"), DEVICES[:1]
        payload = one.encode(sent, devices=alone, context=context(index))
        found = one.read(payload, senders(index, alone))
        assert found is not None
        assert np.abs(found[found != 0.0] - 0.3).max() <= STEP / 2 + 1e-7
        chosen += found[0] != 0.0
    error = np.sqrt(rounds * SHARE * (1.0 - SHARE))
    assert chosen.sum() == rounds * KEPT
    assert np.abs(chosen - rounds * SHARE).max() < 4.5 * error  # 60 numbers


@pytest.mark.parametrize("name", ["top-k", "rand-k"])
def test_what_a_device_has_sent_and_its_residual_are_the_sum_of_its_updates(name: str) -> None:
    one, rng, alone = coder(name), np.random.default_rng(4), DEVICES[:1]
    sent, total = np.zeros(NUM_VALUES), np.zeros(NUM_VALUES)
    for index in range(8):
        update = rng.normal(0.0, 0.4, (1, NUM_VALUES)).astype(np.float32)  # some beyond the bound
        payload = one.encode(update, devices=alone, context=context(index))
        assert payload.shape == (1, 1, -(-KEPT * (BITS + PLACE_BITS * (name == "top-k")) // 8))
        sent, total = sent + one.aggregate(payload, senders(index, alone)), total + update[0]
    np.testing.assert_allclose(sent + one.state()["residuals"][0], total, atol=1e-5)
    assert np.abs(one.state()["residuals"]).max() > 0.5


def test_a_wrong_place_beyond_the_last_number_is_ignored_and_another_moves_a_number() -> None:
    payload = coder("top-k").encode(updates(), devices=DEVICES, context=context())
    right = read("top-k", payload)
    first = int(np.flatnonzero(right[0])[0])
    beyond, moved = payload.copy(), payload.copy()
    beyond[0, 0, 0] |= 0xFC  # place 63 of 60
    moved[0, 0, 0] ^= 0x04  # the last bit of the first place
    lost, elsewhere = read("top-k", beyond)[0], read("top-k", moved)[0]
    assert lost[first] == 0.0
    assert np.delete(lost, first).tolist() == np.delete(right[0], first).tolist()
    assert elsewhere[first ^ 1] - right[0][first ^ 1] == pytest.approx(right[0][first])


def test_a_device_counts_in_the_mean_if_anything_of_it_arrived() -> None:
    payload = coder("top-k").encode(updates(), devices=DEVICES, context=context())
    known = np.ones((3, KEPT * (PLACE_BITS + BITS)), bool)
    known[0], known[1, :PLACE_BITS] = False, False
    found = coder("top-k").aggregate(payload, senders(known=known))
    rows = read("top-k", payload)
    rows[1, np.flatnonzero(rows[1])[0]] = 0.0  # its place is lost
    np.testing.assert_allclose(found, (rows[1] + rows[2]) / 2.0, atol=1e-7)


def run(aggregation: Any) -> TrialResult:
    config = FedAvgConfig.model_validate(
        {
            "data": "digits",
            "num_devices": 10,
            "rounds": 40,
            "local": {"learning_rate": 1.0, "steps": 5},
            "aggregation": aggregation,
        }
    )
    no_errors = LinkConfig.model_validate({"error_model": "error_free"})
    (found,) = run_trials(config, link=no_errors, privacy=None, seed=3, trials=[0])
    assert found.failure is None, found.failure
    return found


def test_a_tenth_of_the_numbers_learns_the_digits_nearly_as_well_as_all() -> None:
    plain = run("mean").metrics
    assert plain["test_accuracy"] > 0.93
    for name, bits in (("top-k", BITS + 10), ("rand-k", BITS)):
        sparse = run({"name": name, "share": 0.1, "bound": 2.0}).metrics
        # Two standard errors of an accuracy of 0.95 over 360 images are 0.023.
        assert abs(sparse["test_accuracy"] - plain["test_accuracy"]) < 0.023, name
        assert sparse["upload_bits"] == 65 * bits
