"""The radius of CPA from stage to stage, tensor to tensor and round to round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cpa_setting import KEEP, ROUND, build, quantised

from fl.models.federated import Piece
from fl.schemes.coders.coder import Senders
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.scheme import flip_target
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose


def piece(first: int, last: int) -> Piece:
    return Piece(name="w", shape=(last - first,), offset=first)


def begun(scheme: Cpa, round_index: int) -> np.ndarray:
    scheme.begin(replace(ROUND, round_index=round_index), devices=np.arange(1), flip_rate=np.zeros(1))
    return scheme.radius


def test_the_radius_decays_and_follows_each_tensor() -> None:
    decaying = build(3, radius="decaying", gamma=0.1, gamma_decay=0.5)
    np.testing.assert_allclose(begun(decaying, 3), 0.0125)
    config = CpaScheme(name="cpa", radius="scaled", gamma=2.0)
    scaled = Cpa(config, num_values=3, pieces=[piece(0, 2), piece(2, 3)])
    np.testing.assert_allclose(scaled.radius, 0.002)
    scaled.restore({"scales": np.array([0.01, 3.0])})
    np.testing.assert_allclose(begun(scaled, 1), [0.02, 0.02, 6.0])


@pytest.mark.parametrize(
    ("settings", "key", "problem"),
    [
        ({"radius": "scaled", "form": "printed"}, "radius", "two levels of one size"),
        ({"radius": "decaying", "gamma_decay": 1e-9}, "gamma_decay", "which single precision does not hold"),
        ({"dimension": 2, "rate_bits": 6}, "rate_bits", "codewords have at most 512 entries"),
    ],
)
def test_settings_that_no_quantiser_has_are_a_conflict(settings: dict[str, Any], key: str, problem: str) -> None:
    scheme = CpaScheme(name="cpa", **settings)
    (found,) = scheme.conflicts(num_rounds=10, num_values=3, calibrated=False)
    assert found.keys[0] == f"learning.aggregation.{key}"
    assert problem in found.problem


def test_every_further_stage_quantises_the_cell_of_the_last() -> None:
    # As the authors have it: coarse, 3 levels over gamma; fine, 3 levels over half the coarse spacing.
    coarse, fine = build(1, stages=2).quantizers
    spacing = 2 / 3
    np.testing.assert_allclose(coarse.points[:, 0], [-spacing, 0, spacing])
    np.testing.assert_allclose(fine.points[:, 0], [-spacing / 3, 0, spacing / 3])
    for settings in ({}, {"form": "printed"}, {"rate_bits": 2}):
        for stages in (1, 2, 4):
            scheme = build(1000, gamma=1.0, stages=stages, **settings)
            updates = np.random.default_rng(13).uniform(-1, 1, (1, 1000)).astype(np.float32)
            error = np.abs(quantised(scheme, updates)[0, :, 0] - updates[0]).max()
            # Never overloaded: half of the spacing that n levels per stage make of [-1, 1], nearly reached.
            assert 0.9 < error * float(len(scheme.quantizers[0].points)) ** stages <= 1.0 + 1e-4


@pytest.mark.parametrize("settings", [{}, {"dither": True, "decode": "unbiased"}, {"negative_bins": "zero"}], ids=str)
def test_scales_come_to_the_deviation_of_every_tensor_from_what_the_server_hears(settings: dict[str, Any]) -> None:
    config = CpaScheme(name="cpa", radius="scaled", gamma=1.5, rate_bits=2, **settings)
    pieces = [piece(0, 3000), piece(3000, 4000)]
    truth = np.array([0.004, 0.2])
    rng = np.random.default_rng(11)
    scheme = Cpa(config, num_values=4000, pieces=pieces)
    for index in range(9):
        context = replace(ROUND, round_index=index)
        updates = (rng.standard_normal((200, 4000)) * np.repeat(truth, [3000, 1000])).astype(np.float32)
        devices = np.arange(200)
        scheme.begin(context, devices=devices, flip_rate=np.zeros(200))
        payload = flip_bits(
            scheme.encode(updates, devices=devices, context=context),
            probability=np.full((1, 200), flip_target(scheme.config.epsilon)),
            num_bits=scheme.num_bits,
            keys=context.keys(Purpose.PRIVACY),
        )
        scheme.aggregate(
            payload, Senders(devices=devices, context=context, weights=np.full(200, 1 / 200), factor=np.full(200, KEEP))
        )
    scales = scheme.state()["scales"]
    # The dead band is two standard errors of the mean power, some per cent of it here.
    np.testing.assert_allclose(scales, truth, rtol=0.1)
