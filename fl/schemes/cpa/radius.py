"""The radius of every tensor's quantiser from what the server has heard: nothing more is sent by any device.

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
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from fl.tasks.base import LearningError

if TYPE_CHECKING:
    from fl.schemes.cpa.cpa import Cpa
    from fl.schemes.cpa.gathering import Histogram
    from fl.schemes.cpa.scheme import CpaScheme

FIRST_SCALE = 1e-3
"""Where scales start. Too small costs a few rounds of growth; too large would throw the model about."""

_MOST_CHANGE = 4.0
_STANDARD_ERRORS = 2.0
_RATIOS = np.geomspace(1e-3, 1e3, 241)
_LOG2_SAMPLES = 12


class Placed(Protocol):
    """A tensor of the model, such as `fl.models.federated.Piece`."""

    @property
    def place(self) -> slice:
        """Where it lies in the flat vector."""
        ...


def radius_of(
    config: CpaScheme,
    *,
    num_values: int,
    pieces: Sequence[Placed],
    round_index: int,
    scales: NDArray[np.float64] | None,
) -> NDArray[np.float32]:
    """Radius `[num_values]` of a round: gamma, gamma gamma_decay^round (`decaying`), or gamma times the tensor's scale.

    Raises LearningError for `scales` that are missing, not positive, or do not fit `pieces`, and for a radius that
    binary32 does not hold.
    """
    gamma = config.gamma * (config.gamma_decay**round_index if config.radius == "decaying" else 1.0)
    radius = np.full(num_values, gamma, np.float32)
    if config.radius == "scaled":
        if config.form == "printed" and config.rate_bits == 1 and config.dimension == 1:
            raise LearningError(
                "a scaled radius is found from how large quantised numbers are, and the printed form with rate_bits 1 "
                "has two levels of one size; use form coded, or rate_bits 2"
            )
        if scales is None or len(scales) != len(pieces) or not (np.isfinite(scales) & (scales > 0.0)).all():
            raise LearningError(
                f"a scaled radius needs one positive scale for each of {len(pieces)} tensors, and got {scales}; start "
                "with fl.schemes.cpa.radius.first_scales"
            )
        for piece, scale in zip(pieces, scales, strict=True):
            radius[piece.place] *= np.float32(scale)
    if not (radius >= np.finfo(np.float32).tiny).all():
        raise LearningError(
            f"gamma has come down to {gamma:g} in round {round_index}, which single precision does not hold; raise "
            "gamma_decay"
        )
    return radius


def first_scales(num_pieces: int, *, scale: float = FIRST_SCALE) -> NDArray[np.float64]:
    """Scales of round 0, `[num_pieces]`."""
    return np.full(num_pieces, scale)


def next_scales(
    histogram: Histogram, *, cpa: Cpa, pieces: Sequence[Placed], scales: NDArray[np.float64], gamma: float
) -> NDArray[np.float64]:
    """Scales of the next round from this one's histogram, `[num_pieces]`, each within a factor 4 of the last.

    Where the mean size of a tensor's points lies within two standard errors of what its scale foretells, the scale
    stays; else it moves as far as the nearer end of that interval asks for. So few devices at a small epsilon do not
    make it wander. Tensors of which nothing arrived keep theirs.
    """
    first: Any = cpa.quantizers[0]
    last: Any = cpa.quantizers[-1] if cpa.config.dither else None
    curve = _mean_power(first, last)
    expected = float(np.interp(-math.log(gamma), np.log(_RATIOS), curve))
    out = scales.copy()
    for number, piece in enumerate(pieces):
        blocks = slice(piece.place.start // cpa.dimension, -(-piece.place.stop // cpa.dimension))
        heard = histogram.heard[0, blocks] > 0.0
        if not heard.any():
            continue
        slack = _STANDARD_ERRORS * histogram.power_std / math.sqrt(heard.sum())
        surprise = float(histogram.power[blocks][heard].mean()) - expected
        if abs(surprise) > slack:
            power = expected + surprise - math.copysign(slack, surprise)
            change = gamma * math.exp(float(np.interp(power, curve, np.log(_RATIOS))))
            out[number] *= min(max(change, 1.0 / _MOST_CHANGE), _MOST_CHANGE)
    return out


@lru_cache(maxsize=8)
def _mean_power(quantizer: Any, dither: Any) -> NDArray[np.float64]:
    """E||Q(x)||^2 at each of `_RATIOS` of deviation to radius, normal x, dithered with the cell of `dither` if any.

    By quasi-Monte Carlo over 4096 points; made strictly rising, which it is but for their number.
    """
    size = quantizer.dimension
    uniforms = qmc.Sobol(d=2 * size, scramble=False).random_base2(_LOG2_SAMPLES) + 0.5 / 2**_LOG2_SAMPLES
    normals = ndtri(uniforms[:, :size])
    added = 0.0 if dither is None else dither.dither(uniforms[:, size:].astype(np.float32)).astype(np.float64)
    sizes = (quantizer.points**2).sum(axis=1)
    curve = [sizes[quantizer.indices(ratio * normals + added)].mean() for ratio in _RATIOS]
    rising = np.maximum.accumulate(curve) + 1e-12 * np.arange(len(_RATIOS))
    return np.asarray(rising, np.float64)
