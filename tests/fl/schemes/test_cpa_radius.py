"""The radius of CPA from stage to stage, tensor to tensor and round to round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from cpa_setting import KEEP, ROUND, build, quantised

from fl.config.scheme import flip_target
from fl.schemes.coders.coder import Senders
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.cpa.scheme import CpaScheme
from fl.tasks.base import LearningError
from fl.uplink.bit_flips import flip_bits
from phy.numerics.random import Purpose


@dataclass(frozen=True, kw_only=True)
class Piece:
    place: slice


def replace_config(config: CpaScheme, **changes: Any) -> CpaScheme:
    return CpaScheme(**{**config.model_dump(), **changes})


def test_the_radius_decays_and_follows_each_tensor() -> None:
    config = CpaScheme(name="cpa", radius="decaying", gamma=0.1, gamma_decay=0.5)
    np.testing.assert_allclose(Cpa(config, num_values=3, round_index=3).radius, 0.0125)
    pieces = [Piece(place=slice(0, 2)), Piece(place=slice(2, 3))]
    config = CpaScheme(name="cpa", radius="scaled", gamma=2.0)
    built = Cpa(config, num_values=3, pieces=pieces, scales=np.array([0.01, 3.0]))
    np.testing.assert_allclose(built.radius, [0.02, 0.02, 6.0])
    with pytest.raises(LearningError, match="needs one positive scale for each of 2 tensors"):
        Cpa(config, num_values=3, pieces=pieces, scales=np.ones(1))
    with pytest.raises(LearningError, match="two levels of one size"):
        Cpa(replace_config(config, form="printed"), num_values=3, pieces=pieces, scales=np.ones(2))
    with pytest.raises(LearningError, match="does not hold; raise gamma_decay"):
        Cpa(CpaScheme(name="cpa", radius="decaying", gamma_decay=1e-9), num_values=3, round_index=9)


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
    pieces = [Piece(place=slice(0, 3000)), Piece(place=slice(3000, 4000))]
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
