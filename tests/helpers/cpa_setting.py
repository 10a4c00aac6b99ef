"""CPA as tests call it: built from settings, and one round through known flips."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fl.schemes.coders.coder import Senders
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.scheme import flip_target
from phy.fading.block_taps import UplinkContext
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose

ROUND = UplinkContext(seed=3, trials=(0,), round_index=4)
KEEP = math.tanh(0.25)
"""2 p - 1 at epsilon 0.5."""

FORMS: dict[str, dict[str, Any]] = {
    "as coded": {},
    "as printed": {"form": "printed", "decode": "printed"},
    "printed, four levels": {"form": "printed", "decode": "printed", "rate_bits": 2},
    "coded levels, printed decode": {"decode": "printed"},
    "unbiased": {"decode": "unbiased"},
    "unbiased, printed levels": {"form": "printed", "decode": "unbiased", "rate_bits": 2},
    "unbiased, many levels": {"decode": "unbiased", "rate_bits": 5},
    "unbiased, hexagonal": {"decode": "unbiased", "dimension": 2},
    "independent words": {"decode": "printed", "codewords": "independent"},
    "nested": {"decode": "unbiased", "stages": 2},
    "nested as printed, unbiased": {"form": "printed", "decode": "unbiased", "stages": 2, "rate_bits": (1, 3)},
    "no privacy": {"epsilon": None, "decode": "printed"},
}


def build(num_values: int, **settings: Any) -> Cpa:
    return Cpa(CpaScheme(name="cpa", **settings), num_values=num_values)


def quantised(scheme: Cpa, updates: np.ndarray) -> np.ndarray:
    """The points that updates go to, all stages together, `[K, num_blocks, L]`, in units of the radius."""
    levels = scheme.levels(updates, key=ROUND.keys(Purpose.CODEBOOK)[0], devices=np.arange(len(updates)))
    return np.sum([one.points[which] for one, which in zip(scheme.quantizers, levels, strict=True)], axis=0)


def through(
    scheme: Cpa,
    updates: np.ndarray,
    *,
    context: UplinkContext = ROUND,
    channel_ber: float = 0.0,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """The update after randomized response and a channel of known bit error rate."""
    count = len(updates)
    devices = np.arange(count)
    payload = scheme.encode(updates, devices=devices, context=context)
    kept = (1 - 2 * (flip_target(scheme.config.epsilon) or 0.0)) * (1 - 2 * channel_ber)
    flipped = flip_bits(
        payload,
        probability=np.full((1, count), (1 - kept) / 2),
        num_bits=scheme.num_bits,
        keys=context.keys(Purpose.PRIVACY),
    )
    return scheme.aggregate(
        flipped,
        Senders(
            devices=devices,
            context=context,
            weights=np.full(count, 1 / count) if weights is None else weights,
            factor=np.full(count, kept),
        ),
    )
