"""The law of CPA: with the shared seed a listener knows the codewords and the dither."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from fl.audit.law import Law, Received, Scores
from fl.config.scheme import flip_target
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.schemes.cpa.cpa import Cpa

_LEAST_RATE = 1e-9


@dataclass(frozen=True, kw_only=True)
class CpaLaw(Law):
    """L = sum over stages of c (v_1 - v_0) / 2 ln((1-p)/p), v the codeword at the points of the two worlds.

    c = +-1 is the received bit, 0 where nothing was received; p the rate of wrong bits.
    """

    def score(self, received: Received) -> Scores:
        places, context, cpa = received.places, received.context, cast("Cpa", received.coder)
        key, devices = context.keys(Purpose.CODEBOOK)[0], places.audited
        blocks = places.places // cpa.dimension
        levels = [
            list(cpa.levels(np.full((len(devices), places.num_values), end, np.float32), key=key, devices=devices))
            for end in (-self.far, self.far)
        ]
        rate = max(flip_target(self.epsilon) or 0.0, _LEAST_RATE)
        parts = []
        for stage in range(len(cpa.quantizers)):
            words = cpa.codewords(key=key, devices=devices, stage=stage).entries(cpa.num_blocks)
            null, other = (
                np.take_along_axis(words, levels[world][stage][..., None].astype(np.int64), axis=2)[..., 0]
                for world in (0, 1)
            )
            differ = (other.astype(np.float64) - null)[:, blocks].ravel() / 2.0
            parts.append(received.bits[:, stage] * differ)
        features = np.stack(parts, axis=1)
        return features.sum(axis=1) * math.log1p(-rate) - features.sum(axis=1) * math.log(rate), features
