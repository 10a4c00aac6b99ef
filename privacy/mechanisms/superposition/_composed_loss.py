"""The hockey-stick divergence of m independent entries of `levels`, by one Fourier transform, never too small.

What is received is cut into cells. A cell holds the masses p and q of both laws, and losses between lo and hi. Its mass
p moves to two points of a grid around them so that q stays as well (p0 + p1 = p, p0 e^-l0 + p1 e^-l1 = q): since
(1 - e^eps t)_+ is convex in t = e^-L, that can only raise the divergence (Doroshenko et al. 2022, "connect the dots").
The sum of m losses is taken under the law tilted by e^(theta L), whose mean is near epsilon, so that a tiny delta keeps
its digits; the grid spans what the tilted sum reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

if TYPE_CHECKING:
    from privacy.mechanisms.superposition.levels import LevelPair

Floats = NDArray[np.float64]

_REACH = 9.0  # Pr(|z| > 9) is 2e-19
_CELLS = 1 << 13
_WIDEST_CELL = 0.02
_POINTS, _MANY, _MANY_POINTS = 1 << 15, 500, 1 << 18
_SPREAD = 13.0
"""Standard deviations of the tilted sum that the grid spans on either side of its mean."""


@dataclass(frozen=True)
class Cells:
    """Masses `[n]` of both laws, and the least and largest loss in each cell; `beyond`: mass of infinite loss."""

    p: Floats
    q: Floats
    low: Floats
    high: Floats
    beyond: float


def hockey_stick(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int) -> float:
    """E_P[(1 - e^(epsilon - L))_+] of P^m against Q^m, from above."""
    return _expected(pair, epsilon, _over_epsilon, amplitude=amplitude, dimension=dimension)


def upper_tail(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int, under_other: bool) -> float:
    """Pr(L > epsilon) under P^m, or under Q^m, which is E_P[e^-L] of it; to 1e-5 relative, not one-sided."""
    value = _beyond_under_other if under_other else _beyond
    return _expected(pair, epsilon, value, amplitude=amplitude, dimension=dimension)


Value = Callable[[Floats, float, float], Floats]
"""What a sum of losses above epsilon less half a step counts for: of sums `[n]`, epsilon and the step of the grid."""


def _over_epsilon(loss: Floats, epsilon: float, _step: float) -> Floats:
    return np.asarray(-np.expm1(np.minimum(epsilon - loss, 0.0)))


def _beyond(loss: Floats, epsilon: float, step: float) -> Floats:
    # A point of the grid stands for a cell of it, and counts by the part of the cell that lies beyond.
    return np.asarray(np.clip((loss - epsilon) / step + 0.5, 0.0, 1.0))


def _beyond_under_other(loss: Floats, epsilon: float, step: float) -> Floats:
    return np.asarray(_beyond(loss, epsilon, step) * np.exp(-loss))


def _expected(pair: LevelPair, epsilon: float, value: Value, *, amplitude: float, dimension: int) -> float:
    cells = _without_noise(pair) if math.isinf(amplitude) else _in_noise(pair, amplitude)
    infinite = -math.expm1(dimension * math.log1p(-min(cells.beyond, 1.0 - 1e-16)))
    finite = _finite_part(cells, epsilon, value, dimension=dimension)
    return min(1.0, finite + (0.0 if value is _beyond_under_other else infinite))


def _without_noise(pair: LevelPair) -> Cells:
    one, other = np.array(pair.one), np.array(pair.other)
    both = (one > 0.0) & (other > 0.0)
    loss = np.log(one[both] / other[both])
    return Cells(one[both], other[both], loss, loss, float(one[other == 0.0].sum()))


def _in_noise(pair: LevelPair, amplitude: float) -> Cells:
    one, other = np.array(pair.one), np.array(pair.other)
    held = np.maximum(one, other) > 0.0
    one, other, x = one[held], other[held], amplitude * np.array(pair.levels)[held]
    low, high = x[0] - _REACH, x[-1] + _REACH
    if high - low <= _CELLS * _WIDEST_CELL:
        edges = np.linspace(low, high, _CELLS + 1)
    else:  # far apart: nothing is received between the levels
        each = np.linspace(-_REACH, _REACH, max(_CELLS // len(x), 1024) + 1)
        edges = np.unique(np.add.outer(x, each))
    p, q, loss = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1), np.zeros(len(edges))
    for block in range(0, len(edges) - 1, 1 << 14):  # bounded memory with many levels
        y = edges[block : block + (1 << 14) + 1]
        mass = _masses(y[:, None] - x)
        p[block : block + len(y) - 1], q[block : block + len(y) - 1] = mass @ one, mass @ other
        loss[block : block + len(y)] = _loss(y, x, one, other)
    # Losses below the range are raised to its lowest; those above become infinite.
    return Cells(p, q, loss[:-1], loss[1:], float(one @ special.ndtr(-(high - x))))


def _masses(edges: Floats) -> Floats:
    """Pr(edge_i < z < edge_(i+1)) along the first axis, taken in the tail where it is small."""
    below, above = special.ndtr(edges), special.ndtr(-edges)
    return np.asarray(np.where(edges[:-1] > 0.0, above[:-1] - above[1:], below[1:] - below[:-1]))


def _loss(y: Floats, x: Floats, one: Floats, other: Floats) -> Floats:
    # Over the density of noise alone: the loss of a small amplitude keeps its digits.
    exponent = y[:, None] * x - 0.5 * x**2
    top = exponent.max(axis=1, keepdims=True)
    terms = np.exp(exponent - top)
    with np.errstate(divide="ignore"):
        plain = np.log(terms @ one) - np.log(terms @ other)
    # Where one law has no level near y its sum underflows: then the logarithms of its terms are taken.
    bad = ~np.isfinite(plain)
    if bad.any():
        with np.errstate(divide="ignore"):
            first = special.logsumexp(exponent[bad] + np.log(one), axis=1)
            second = special.logsumexp(exponent[bad] + np.log(other), axis=1)
        plain[bad] = first - second
    return np.asarray(np.maximum.accumulate(plain))


def _finite_part(cells: Cells, epsilon: float, value: Value, *, dimension: int) -> float:
    some = (cells.p > 0.0) & (cells.q > 0.0)
    p, q, low, high = (array[some] for array in (cells.p, cells.q, cells.low, cells.high))
    if not len(p):
        return 0.0
    centre = 0.5 * (low + high)
    sparse = slice(None, None, max(len(p) // 512, 1))  # the tilt needs no precision
    theta = _tilt(p[sparse], centre[sparse], goal=epsilon / dimension)
    log_weight = np.log(p) + theta * centre
    weight = np.exp(log_weight - special.logsumexp(log_weight))
    mean = float(weight @ centre)
    deviation = math.sqrt(float(weight @ (centre - mean) ** 2))
    points = _POINTS if dimension <= _MANY else _MANY_POINTS
    low_sum, high_sum = dimension * (float(low[0]) - mean), dimension * (float(high[-1]) - mean)
    reach = max(_SPREAD * math.sqrt(dimension) * deviation, float(high[-1] - low[0]))
    low_sum, high_sum = max(low_sum, -reach), min(high_sum, reach)
    # Every entry may move down and up by a step; below 1e-15 of the mean rounding is coarser.
    spare = 2 * dimension + 4 if dimension <= _MANY else points // 8
    step = max((high_sum - low_sum) / (points - spare), 1e-15 * max(1.0, abs(mean)))
    # The grid of one entry has its mean as 0, that of m entries m times its mean.
    first = np.floor((low - mean) / step)
    last = np.maximum(np.ceil((high - mean) / step), first + 1.0)
    lower, upper = mean + first * step, mean + last * step
    share = np.clip(-np.expm1(np.log(q / p) + lower) / -np.expm1(lower - upper), 0.0, 1.0)
    mass = np.zeros(points)
    for index, part, at in ((first, 1.0 - share, lower), (last, share, upper)):
        tilted = np.log(p) + theta * (at - mean)
        mass += np.bincount(index.astype(np.int64) % points, weights=part * np.exp(tilted), minlength=points)
    total = mass.sum()
    law = np.maximum(np.fft.irfft(np.fft.rfft(mass / total) ** dimension, points), 0.0)
    start = math.floor(low_sum / step) - spare // 2
    index = (np.arange(points) - start) % points + start
    above = np.asarray(dimension * mean + index * step, np.float64)
    over = above > epsilon - 0.5 * step
    # Back from the tilted law: p(s) = law(s) total^m e^(-theta (s - m mean)).
    exponent = dimension * math.log(total) - theta * index[over] * step
    return float(np.sum(law[over] * np.exp(exponent) * value(above[over], epsilon, step)))


def _tilt(p: Floats, loss: Floats, *, goal: float) -> float:
    """theta >= 0 with which the mean loss is the goal, nearly; 0 where it is above already."""

    def mean(theta: float) -> float:
        log_weight = np.log(p) + theta * loss
        weight = np.exp(log_weight - log_weight.max())
        return float(weight @ loss / weight.sum())

    if mean(0.0) >= goal or not loss[-1] > loss[0]:
        return 0.0
    low, high = 0.0, 1.0 / float(loss[-1] - loss[0])
    # More than e^80 between its ends leaves nothing of one entry but its largest loss.
    while mean(high) < goal and high * float(loss[-1] - loss[0]) < 80.0:
        low, high = high, 2.0 * high
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean(middle) < goal else (low, middle)
    return low
