"""Every bit of compressed private aggregation by a slow oracle, and what bits can and cannot do to the update."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cpa_setting import FORMS, KEEP, ROUND, build, quantised
from oracles import loop_cpa
from oracles.cpa_error import second_moment

from fl.base.errors import LearningError
from fl.schemes.coders.coder import Senders
from fl.schemes.cpa import codebooks, cpa
from fl.schemes.cpa import cpa_theory as theory
from phy.numerics.random import Purpose

ORACLE_CASES: list[dict[str, Any]] = [
    {},
    {"decode": "printed", "form": "printed", "stages": 3},
    {"decode": "unbiased", "negative_bins": "zero", "stages": 2},
    {"decode": "coded", "negative_bins": "zero", "codewords": "independent", "rate_bits": 2},
    {"decode": "unbiased", "dimension": 2, "dither": True, "stages": 2},
    {"decode": "printed", "form": "printed", "dimension": 2, "negative_bins": "zero", "dither": True},
    {"decode": "unbiased", "rate_bits": 5, "dither": True},
]


@pytest.mark.parametrize("settings", ORACLE_CASES, ids=str)
@pytest.mark.parametrize("all_heard", [True, False])
def test_bits_and_update_are_those_of_a_loop_over_devices_blocks_and_points(
    settings: dict[str, Any], all_heard: bool
) -> None:
    num_values = 37
    scheme = build(num_values, gamma=0.5, **settings)
    rng = np.random.default_rng(6)
    devices = np.array([11, 3, 70_000, 0])
    updates = rng.normal(0.0, 0.3, (4, num_values)).astype(np.float32)
    key = ROUND.keys(Purpose.CODEBOOK)[0]
    size = scheme.num_blocks * scheme.dimension
    blocks = np.pad(updates / 0.5, ((0, 0), (0, size - num_values))).reshape(4, scheme.num_blocks, -1)
    dither = None
    if scheme.config.dither:
        dither = scheme.quantizers[-1].dither(
            codebooks.shared_uniforms(
                key=key, devices=devices, num_blocks=scheme.num_blocks, dimension=scheme.dimension
            )
        )
    balanced = scheme.codebooks[0].balanced
    stages = [one.points for one in scheme.quantizers]
    expected = loop_cpa.encode(
        blocks, stages=stages, balanced=balanced, devices=devices.tolist(), key=key, dither=dither
    )
    payload = scheme.encode(updates, devices=devices, context=ROUND)
    assert payload.shape == (1, 4, -(-expected.shape[1] // 8))
    assert scheme.num_bits == expected.shape[1] == len(stages) * -(-num_values // scheme.dimension)
    np.testing.assert_array_equal(payload[0], np.packbits(expected, axis=1))
    received = rng.integers(0, 2, expected.shape).astype(np.uint8)
    weights = np.array([0.4, 0.1, 0.3, 0.2])
    factor = np.array([0.2, 0.5, 0.24, 0.1])
    known = np.ones(expected.shape, bool) if all_heard else rng.random(expected.shape) < 0.4
    known[:, 5] = all_heard
    found = scheme.aggregate(
        np.packbits(received, axis=1)[None],
        Senders(devices=devices, context=ROUND, weights=weights, factor=factor, known=None if all_heard else known),
    )
    wanted = loop_cpa.decode(
        received,
        stages=stages,
        balanced=balanced,
        devices=devices.tolist(),
        key=key,
        weights=weights,
        factor=factor,
        known=known,
        decode=scheme.config.decode,
        keep=KEEP,
        negative_bins=scheme.config.negative_bins,
        dither=dither,
    )
    np.testing.assert_allclose(found, 0.5 * wanted.ravel()[:num_values], atol=2e-6)


def test_the_decoder_uses_nothing_but_the_seed() -> None:
    sender, receiver = build(500, decode="unbiased", epsilon=None), build(500, decode="unbiased", epsilon=None)
    updates = np.random.default_rng(7).normal(0, 0.03, (400, 500)).astype(np.float32)
    devices = np.arange(400)
    payload = sender.encode(updates, devices=devices, context=ROUND)
    told = {"devices": devices, "weights": np.full(400, 1 / 400), "factor": np.ones(400)}
    right = receiver.aggregate(payload, Senders(context=ROUND, **told))
    points = quantised(sender, updates)[..., 0]
    exact = points.mean(axis=0)
    moment = second_moment(sender.quantizers[0].points, codebook=sender.codebooks[0], decode="unbiased", epsilon=None)
    # Users are independent: the wanted share of the variance is that of one user's value. 4 standard errors.
    expected = math.sqrt((points**2).mean() / moment)
    assert abs(np.corrcoef(right, exact)[0, 1] - expected) < 4 * (1 - expected**2) / math.sqrt(500)
    for other in (replace(ROUND, seed=4), replace(ROUND, round_index=5), replace(ROUND, trials=(1,))):
        wrong = receiver.aggregate(payload, Senders(context=other, **told))
        # 500 independent numbers: a correlation of more than 4 standard errors is none of chance.
        assert abs(np.corrcoef(wrong, exact)[0, 1]) < 4 / math.sqrt(500)


@pytest.mark.parametrize("name", ["as coded", "as printed", "unbiased", "unbiased, hexagonal", "nested"])
def test_no_device_moves_the_update_further_than_its_share_whatever_it_sends(name: str) -> None:
    scheme = build(600, gamma=1.0, **FORMS[name])
    count = 10
    rng = np.random.default_rng(8)
    payload = rng.integers(0, 256, (1, count, -(-scheme.num_bits // 8))).astype(np.uint8)
    told = {
        "devices": np.arange(count),
        "context": ROUND,
        "weights": np.full(count, 1 / count),
        "factor": np.full(count, KEEP),
    }
    before = scheme.aggregate(payload, Senders(**told))
    # |sum_j v_j q_j| <= sum_j |q_j| along each axis; changing a bit of every stage moves it by twice that.
    scale = theory.decode_scale(scheme.codebooks[0], decode=scheme.config.decode, epsilon=scheme.config.epsilon)
    reach = 2 * scale / KEEP / count * sum(np.abs(one.points).sum(axis=0).max() for one in scheme.quantizers)
    largest = 0.0
    for evil in (np.full_like(payload[0, 0], 255), np.zeros_like(payload[0, 0]), ~payload[0, 3]):
        payload_of_evil = payload.copy()
        payload_of_evil[0, 3] = evil
        moved = np.abs(scheme.aggregate(payload_of_evil, Senders(**told)) - before).max()
        largest = max(largest, moved)
    assert 0.4 * reach < largest <= reach * (1 + 1e-5)
    huge = np.zeros((count, 600), np.float32)
    huge[3] = 1e30
    told_of_huge = scheme.aggregate(scheme.encode(huge, devices=told["devices"], context=ROUND), Senders(**told))
    told_of_none = scheme.aggregate(scheme.encode(0 * huge, devices=told["devices"], context=ROUND), Senders(**told))
    assert np.abs(told_of_huge - told_of_none).max() <= reach * (1 + 1e-5)


def test_results_do_not_depend_on_chunks_nor_on_the_order_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = build(900, decode="unbiased", stages=2, dither=True)
    updates = np.random.default_rng(9).normal(0, 0.03, (70, 900)).astype(np.float32)
    devices = 5 * np.arange(70) + 2
    told = {"context": ROUND, "weights": np.full(70, 1 / 70), "factor": np.full(70, 0.2)}
    payload = scheme.encode(updates, devices=devices, context=ROUND)
    update = scheme.aggregate(payload, Senders(devices=devices, **told))
    order = np.random.default_rng(10).permutation(70)
    shuffled = scheme.encode(updates[order], devices=devices[order], context=ROUND)
    np.testing.assert_array_equal(shuffled, payload[:, order])
    monkeypatch.setattr(cpa, "_CELLS_IN_A_ROW", 30_000)
    np.testing.assert_array_equal(scheme.encode(updates, devices=devices, context=ROUND), payload)
    # Sums of 70 numbers of size 0.05 * 6 / 70 in another order, single precision.
    np.testing.assert_allclose(scheme.aggregate(payload, Senders(devices=devices, **told)), update, atol=1e-7)


def test_nothing_heard_is_no_update() -> None:
    for settings in ORACLE_CASES[:5]:
        scheme = build(20, **settings)
        found = scheme.aggregate(
            np.zeros((1, 2, -(-scheme.num_bits // 8)), np.uint8),
            Senders(
                devices=np.arange(2),
                context=ROUND,
                weights=np.full(2, 0.5),
                factor=np.ones(2),
                known=np.zeros((2, scheme.num_bits), bool),
            ),
        )
        np.testing.assert_array_equal(found, 0.0)


def test_an_update_that_is_not_finite_names_its_device() -> None:
    scheme = build(20)
    bad = np.zeros((3, 20), np.float32)
    bad[1, 4] = np.nan
    with pytest.raises(LearningError, match="the update of device 8 has NaN"):
        scheme.encode(bad, devices=np.array([5, 8, 9]), context=ROUND)
