"""CPA in closed form: gain, anonymity, aggregation SNR, and the scale of every tensor's quantiser.

The decoder adds b v_j q_j over the n points q_j, with b = +-v_l the received bit and l the point that was meant. Points
sum to 0 and E[v_j v_l] = rho for j != l, so that, before the decoder's own factor, one user's decoded value has mean
(1 - rho) (1 - 2 p) q_l and second moment (1 - rho) sum_j ||q_j||^2, whatever is sent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from fl.base.arrays import F64, Bools, Reals
from fl.models.federated import Piece
from fl.schemes.coders.quantizers import Quantizer
from fl.schemes.scheme import keep_factor

Decode = Literal["coded", "printed", "unbiased"]


@dataclass(frozen=True, kw_only=True)
class Codebook:
    """How codewords of `num_points` = n entries are drawn.

    `balanced`: uniform over all words with floor(n/2) entries -1 and ceil(n/2) entries +1; else by fair coins.
    """

    num_points: int
    balanced: bool = True

    @property
    def num_plus(self) -> int:
        """Entries +1 of a balanced word."""
        return (self.num_points + 1) // 2

    @property
    def correlation(self) -> float:
        """E[v_l v_l'] for l != l': -1/(n-1) for even n, -1/n for odd n, 0 for independent entries."""
        n = self.num_points
        return (-1.0 / (n - 1) if n % 2 == 0 else -1.0 / n) if self.balanced else 0.0


def decode_scale(codebook: Codebook, *, decode: Decode, epsilon: float | None) -> float:
    """What the decoder multiplies b v / (1 - 2 p) by: tanh(eps/2) as coded, 1 as printed, 1 / (1 - rho) unbiased."""
    if decode == "coded":
        return keep_factor(epsilon)
    return 1.0 if decode == "printed" else 1.0 / (1.0 - codebook.correlation)


def gain(codebook: Codebook, *, decode: Decode, epsilon: float | None) -> float:
    """E[decoded] = gain Q(h): printed n/(n-1) for even n and (n+1)/n for odd n; as coded that times 2 p - 1."""
    return (1.0 - codebook.correlation) * decode_scale(codebook, decode=decode, epsilon=epsilon)


@dataclass(frozen=True, kw_only=True)
class Anonymity:
    """How many points one received bit, were it not flipped, leaves possible for one block (all stages together).

    `printed` 2^(LR-1), that is n/2, Proposition 2; `expected` over codewords; `least`: what every codeword leaves.
    """

    printed: float
    expected: float
    least: int


def anonymity(codebooks: Sequence[Codebook]) -> Anonymity:
    """k-anonymity of a block with a bit in every stage; of a whole model, Corollary 1, k to the number of blocks."""
    printed, expected, least = 1.0, 1.0, 1
    for codebook, stages in Counter(codebooks).items():
        n, plus = codebook.num_points, codebook.num_plus
        kept = ((plus**2 + (n - plus) ** 2) / n, n - plus) if codebook.balanced else ((n + 1) / 2, 1)
        printed *= (n / 2) ** stages
        expected *= kept[0] ** stages
        least *= kept[1] ** stages
    return Anonymity(printed=printed, expected=expected, least=int(least))


def aggregation_snr_db(exact: Reals, found: Reals, *, places: Sequence[slice] | None = None) -> float:
    """10 log10(Var(w_FA) / Var(w_FA - w)) of vectors `[M]`, the variance running over the M numbers.

    With `places` the mean over tensors. Tensors of one number or of equal numbers say nothing and are left out; NaN if
    none is left, infinity for a perfect copy.
    """
    ratios = _variance_ratios(exact, found, places=places)
    return float(np.mean([_log10(ratio, 10.0) for ratio in ratios])) if ratios else math.nan


def coded_snr_db(exact: Reals, found: Reals, *, places: Sequence[slice] | None = None) -> float:
    """The same as the authors' code has it: 20 log10 of the mean ratio over tensors.

    20 log10 makes decibels of amplitudes, and these are powers; and the tensor with the largest ratio decides.
    """
    ratios = _variance_ratios(exact, found, places=places)
    return _log10(float(np.mean(ratios)), 20.0) if ratios else math.nan


def coded_snr_of_run_db(levels_db: F64) -> float:
    """20 log10 of the mean ratio over rounds of which `coded_snr_db` gave `levels_db`; NaN of none."""
    finite = levels_db[np.isfinite(levels_db)]
    return _log10(float(np.mean(10.0 ** (finite / 20.0))), 20.0) if finite.size else math.nan


def _variance_ratios(exact: Reals, found: Reals, *, places: Sequence[slice] | None) -> list[float]:
    ratios = []
    for place in places or (slice(None),):
        wanted = np.asarray(exact[place], np.float64)
        signal, noise = float(np.var(wanted)), float(np.var(wanted - found[place]))
        if signal > 0.0:
            ratios.append(signal / noise if noise > 0.0 else math.inf)
    return ratios


def _log10(ratio: float, factor: float) -> float:
    return factor * math.log10(ratio) if 0.0 < ratio < math.inf else (math.inf if ratio else -math.inf)


FIRST_SCALE = 1e-3
"""First scale. A smaller one costs a few rounds of growth; a larger one makes the first steps too long."""

_MOST_CHANGE = 4.0
_STANDARD_ERRORS = 2.0
_RATIOS = np.geomspace(1e-3, 1e3, 241)
_LOG2_SAMPLES = 12


def next_scales(
    scales: F64,
    *,
    pieces: Sequence[Piece],
    quantizer: Quantizer,
    dither: Quantizer | None,
    gamma: float,
    power: F64,
    power_std: float,
    heard: Bools,
) -> F64:
    """Scales of the next round, `[len(pieces)]`, each within a factor 4 of the last, from what the server received.

    No device sends its deviations: they would meet all flips, and tell more than epsilon allows. The histogram of a
    round says how large quantised updates were on average, E||Q(h)||^2. For normal h of deviation sigma this grows with
    sigma / gamma, so that the next sigma is read off that curve. It tells most where gamma is one to three deviations.

    `power` `[num_blocks]`: unbiased estimate of the weighted mean of ||q||^2 over devices, in squared radii, of the
    blocks of which something was `heard`; its standard deviation is at most `power_std`. `dither`: the quantizer whose
    cell is the dither's. Where the mean power of a tensor lies within two standard errors of what its scale foretells,
    the scale stays; else it moves to the nearer end of that interval.
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
def _mean_power(quantizer: Quantizer, dither: Quantizer | None) -> F64:
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
