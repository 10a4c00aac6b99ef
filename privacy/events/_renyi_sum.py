"""Rényi divergence from values of the loss on a grid."""

from __future__ import annotations

import math

import numpy as np

from privacy.events.events import Floats


def renyi_moment(loss: Floats, log_q: Floats, *, order: float, width: float) -> float:
    """ln E_Q[r^order] of ln r = `loss` [nats] on an even grid, where ln of Q's density is `log_q`; order > 1.

    `width`: weight of a node.
    """
    if order * float(np.abs(loss).max()) < 30.0:
        # E_Q[r^o] - 1 = E_Q[r^o - 1 - o (r - 1)], whose terms are of one sign: tiny divergences keep their digits.
        excess = np.expm1(order * loss) - order * np.expm1(loss)
        series = 1.0 + (order + 1.0) * loss / 3.0 + (order * order + order + 1.0) * loss**2 / 12.0
        small = 0.5 * order * (order - 1.0) * loss**2 * series
        excess = np.where(order * np.abs(loss) < 1e-4, small, excess)
        return math.log1p(width * float(np.sum(np.exp(log_q) * excess)))
    exponent = log_q + order * loss
    top = float(exponent.max())
    return top + math.log(width * float(np.sum(np.exp(exponent - top))))
