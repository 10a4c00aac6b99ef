"""The scale of every tensor's quantiser from what the server has received: nothing more is sent by any device.

A device could send the deviation of each tensor, but 32 bits of binary32 would meet the same flips as all others, from
randomized response and from the radio, and would tell more than epsilon allows. The server knows as much without them:
the histogram of round t says how large quantised updates were on average, E||Q(h)||^2, and for normal h of deviation
sigma this grows with sigma / gamma. So sigma of round t + 1 is read off that curve and goes down with the model. The
curve tells most where gamma is one to three deviations; below a quarter all is overloaded and scales stay where they
start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fl.models.federated import Piece
from fl.schemes.coders.quantizers import Quantizer

FIRST_SCALE = 1e-3
"""Where scales start. Too small costs a few rounds of growth; too large would throw the model about."""

_MOST_CHANGE = 4.0
_STANDARD_ERRORS = 2.0
_RATIOS = np.geomspace(1e-3, 1e3, 241)
_LOG2_SAMPLES = 12


def next_scales(
    scales: NDArray[np.float64],
    *,
    pieces: Sequence[Piece],
    quantizer: Quantizer,
    dither: Quantizer | None,
    gamma: float,
    power: NDArray[np.float64],
    power_std: float,
    heard: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Scales of the next round, `[len(pieces)]`, each within a factor 4 of the last.

    `power` `[num_blocks]`: unbiased estimate of the weighted mean of ||q||^2 over devices, in squared radii, of the
    blocks of which something was `heard`; its standard deviation is at most `power_std`. `dither`: the quantizer whose
    cell is the dither's. Where the mean power of a tensor lies within two standard errors of what its scale foretells,
    the scale stays; else it moves as far as the nearer end of that interval asks for. So few devices at a small epsilon
    do not make it wander. Tensors of which nothing arrived keep theirs.
    """
    curve = _mean_power(quantizer, dither)
    expected = float(np.interp(-math.log(gamma), np.log(_RATIOS), curve))
    out = scales.copy()
    for number, piece in enumerate(pieces):
        blocks = slice(piece.place.start // quantizer.dimension, -(-piece.place.stop // quantizer.dimension))
        here = heard[blocks]
        if not here.any():
            continue
        slack = _STANDARD_ERRORS * power_std / math.sqrt(here.sum())
        surprise = float(power[blocks][here].mean()) - expected
        if abs(surprise) > slack:
            wanted = expected + surprise - math.copysign(slack, surprise)
            change = gamma * math.exp(float(np.interp(wanted, curve, np.log(_RATIOS))))
            out[number] *= min(max(change, 1.0 / _MOST_CHANGE), _MOST_CHANGE)
    return out


@lru_cache(maxsize=8)
def _mean_power(quantizer: Quantizer, dither: Quantizer | None) -> NDArray[np.float64]:
    """E||Q(x)||^2 at each of `_RATIOS` of deviation to radius, normal x, dithered with the cell of `dither` if any.

    By quasi-Monte Carlo over 4096 points; made strictly rising, which it is but for their number.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    size = quantizer.dimension
    uniforms = qmc.Sobol(d=2 * size, scramble=False).random_base2(_LOG2_SAMPLES) + 0.5 / 2**_LOG2_SAMPLES
    normals = ndtri(uniforms[:, :size])
    added = 0.0 if dither is None else dither.dither(uniforms[:, size:].astype(np.float32)).astype(np.float64)
    sizes = (quantizer.points**2).sum(axis=1)
    curve = [sizes[quantizer.indices(ratio * normals + added)].mean() for ratio in _RATIOS]
    rising = np.maximum.accumulate(curve) + 1e-12 * np.arange(len(_RATIOS))
    return np.asarray(rising, np.float64)
