"""Interpolation in time for slow fading: carriers are computed at a few instants of a slot, lines between them.

A wave of Doppler shift f is a polynomial in time to within what single precision resolves: between n instants t_j the
error of interpolation at t is at most

    |2 pi f|^n / n! max_t prod_j |t - t_j|

of its amplitude (Cauchy's remainder with the Hermite-Genocchi form of divided differences, which holds for complex
functions), and a tap is a sum of waves, no faster than the largest Doppler shift.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

MOST_NODES = 6
"""More nodes save little work in a slot, and more equidistant nodes amplify rounding."""
_LARGEST_ERROR = 2.0**-26
"""A quarter of the spacing of float32 numbers from 1/2 to 1."""


def straight_between(offsets_s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return `nodes_between` of what goes along straight lines between as many nodes as there may be."""
    nodes = np.linspace(offsets_s[0], offsets_s[-1], min(MOST_NODES, len(offsets_s)))
    weights = np.zeros((len(offsets_s), MOST_NODES), np.float32)
    for node, one in enumerate(np.eye(len(nodes))):
        weights[:, node] = np.interp(offsets_s, nodes, one)
    return nodes, weights


def nodes_between(
    offsets_s: NDArray[np.float64], *, doppler_hz: float
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Nodes and interpolation weights for lines at ascending `offsets_s` [s].

    Returns regular nodes from the first to the last line [s], one for a static channel, and weights
    `[lines, MOST_NODES]`, zero beyond the nodes. No nodes and weights `[0, MOST_NODES]` for fading too fast for
    that many nodes, and for nodes more than half the lines.
    """
    first, last = offsets_s[0], offsets_s[-1]
    for count in range(1, min(MOST_NODES, len(offsets_s) // 2) + 1):
        nodes = np.linspace(first, last, count)
        distances = offsets_s[:, None] - nodes
        reach = (2.0 * np.pi * doppler_hz) ** count * np.abs(distances).prod(axis=1).max()
        if reach / math.factorial(count) <= _LARGEST_ERROR:
            weights = np.zeros((len(offsets_s), MOST_NODES), np.float32)
            for node in range(count):
                others = np.delete(np.arange(count), node)
                weights[:, node] = (distances[:, others] / (nodes[node] - nodes[others])).prod(axis=1)
            return nodes, weights
    return np.zeros(0), np.zeros((0, MOST_NODES), np.float32)
