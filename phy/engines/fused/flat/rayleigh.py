"""Rayleigh fading of every symbol by its radius: |h|^2 = -ln u, u of the first word of a tap, as r^2 of the noise.

With perfect channel knowledge and w of power one, |A w h| = A g |h|, and q r >= d (`candidates`) is

    word <= 2^32 e^(-c |h|^2),    c = (A g d / sigma)^2,

which takes a logarithm per symbol. Taps of candidates alone have an angle. A share of 1 / (1 + c) are candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.flat.candidates import (
    FADED,
    NOISE,
    SAFE,
    SENT,
    collect,
    decide_as_sent,
    limit_at,
    locate,
    sum_of_radii,
    uniform,
)
from phy.engines.fused.flat.compaction import find_small
from phy.engines.fused.flat.lanes import KNOWN_REAL, NOISE_REAL, TAP_IMAG, TAP_REAL
from phy.engines.fused.symbols import modulate_signs
from phy.numerics.compiled import inlined, spliced
from phy.numerics.random_kernels import negative_log

_MARK = KNOWN_REAL
"""Zero for candidates."""
_ZERO, _ONE, _HALF, _NONE = np.float32(0.0), np.float32(1.0), np.float32(0.5), np.uint32(0)


@inlined
def rate_of(law: Any, gain: Any, level: Any, points: Any) -> Any:
    """c, with the margin of `candidates`."""
    root = level * gain * law.scattered_part * (SAFE * _HALF * points.spacing) / law.noise_std
    return root * root


@inlined
def _mark(rate: Any, lanes: Any, count: Any) -> Any:
    """Mark candidates among `count` symbols. Returns the sum of |h|^2 and the number of those above zero."""
    faded, sent = _ZERO, _ZERO
    for i in range(count):
        power = max(negative_log(uniform(lanes, TAP_REAL + i)), _ZERO)
        faded += power
        sent += _ONE if power > _ZERO else _ZERO
        limit = limit_at(rate * power)
        word = np.float32(lanes[NOISE_REAL + i]).view(np.uint32)
        lanes[_MARK + i] = np.uint32(word > limit).view(np.float32)
    return faded, sent


@inlined
def _collect_taps(lanes: Any, rare: Any, found: Any) -> None:
    for k in range(found):
        rare.lanes[TAP_REAL + k] = lanes[TAP_REAL + rare.symbol[k]]
        rare.lanes[TAP_IMAG + k] = lanes[TAP_IMAG + rare.symbol[k]]


@spliced
def screen_fading(
    words: Any, drawn: Any, lanes: Any, points: Any, law: Any, gain: Any, level: Any, tile: Any, rare: Any,
    energies: Any,
) -> Any:  # fmt: skip
    """`candidates.screen` with words of a tap for each symbol, for constellations of one bit per axis."""
    faded, sent = _mark(rate_of(law, gain, level, points), lanes, tile.size)
    x, y = modulate_signs(_NONE, points)
    energy = (x * x + y * y) * level * level
    energies[SENT] += energy * sent
    reached = gain * law.scattered_part
    energies[FADED] += energy * reached * reached * faded
    energies[NOISE] += sum_of_radii(lanes, tile.size)
    found = find_small(drawn, _MARK, 0, tile.size, _NONE, rare.symbol, 0)
    locate(points, rare, found)
    collect(words, lanes, points, rare, found)
    _collect_taps(lanes, rare, found)
    decide_as_sent(words, points, tile)
    return found
