"""What CPA gives in closed form: gain, second moment, mean-squared error, anonymity, and its aggregation SNR.

The decoder adds b v_j q_j over the n points q_j, with b = +-v_l the received bit and l the point that was meant. Points
sum to 0 and E[v_j v_l] = rho for j != l, so that, before the decoder's own factor, one user's decoded value has mean
(1 - rho) (1 - 2 p) q_l and second moment (1 - rho) sum_j ||q_j||^2, whatever is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.schemes.cpa.codebooks import Codebook
from fl.tasks.base import LearningError

Decode = Literal["coded", "printed", "unbiased"]


def keep_factor(epsilon: float | None) -> float:
    """2 p - 1 = tanh(epsilon / 2) of randomized response that keeps a bit with p = e^eps / (1 + e^eps); 1 for None."""
    return 1.0 if epsilon is None else math.tanh(epsilon / 2.0)


def flip_target(epsilon: float | None) -> float | None:
    """1 - p = 1 / (1 + e^epsilon), or None where no bit is flipped."""
    return None if epsilon is None else (1.0 - keep_factor(epsilon)) / 2.0


def decode_scale(codebook: Codebook, *, decode: Decode, epsilon: float | None) -> float:
    """What the decoder multiplies b v / (1 - 2 p) by: tanh(eps/2) as coded, 1 as printed, 1 / (1 - rho) unbiased."""
    if decode == "coded":
        return keep_factor(epsilon)
    return 1.0 if decode == "printed" else 1.0 / (1.0 - codebook.correlation)


def gain(codebook: Codebook, *, decode: Decode, epsilon: float | None) -> float:
    """E[decoded] = gain Q(h), where flips are what they are taken for.

    Printed n/(n-1) for even n (2 for n = 2) and (n+1)/n for odd n; as coded that times 2 p - 1 (0.327 for n = 3 at
    epsilon 0.5); 1 unbiased.
    """
    return (1.0 - codebook.correlation) * decode_scale(codebook, decode=decode, epsilon=epsilon)


def second_moment(
    points: NDArray[np.float64], *, codebook: Codebook, decode: Decode, epsilon: float | None, channel_ber: float = 0.0
) -> float:
    """E||decoded||^2 of one user and block: the same for every update, dither aside.

    As coded, n = 3 and no channel errors: 8/3 D^2. Where the decoder divides by 1 - 2 p_C it grows by the square.
    """
    scale = decode_scale(codebook, decode=decode, epsilon=epsilon)
    scale /= keep_factor(epsilon) * (1.0 - 2.0 * channel_ber)
    return float(scale**2 * (1.0 - codebook.correlation) * (points**2).sum())


def mean_squared_error(
    updates: NDArray[np.float64],
    quantised: NDArray[np.float64],
    *,
    points: NDArray[np.float64],
    codebook: Codebook,
    decode: Decode,
    epsilon: float | None,
    channel_ber: float = 0.0,
) -> float:
    """E||w_CPA - w_FA||^2 over codewords and flips for given updates and their points, `[K, num_blocks, L]`.

    Exact, one stage without dither, bins kept: the squared bias of the mean, and per user and block the second moment
    less the squared mean, over K^2. Bounded by `theorem_bound` only for independent codewords, or the unbiased decode.
    """
    slope = gain(codebook, decode=decode, epsilon=epsilon)
    moment = second_moment(points, codebook=codebook, decode=decode, epsilon=epsilon, channel_ber=channel_ber)
    users, blocks = quantised.shape[:2]
    bias = (slope * quantised - updates).mean(axis=0)
    variance = (users * blocks * moment - ((slope * quantised) ** 2).sum()) / users**2
    return float((bias**2).sum() + variance)


def theorem_bound(
    points: NDArray[np.float64], *, cell_moment: float, epsilon: float | None, num_users: int, num_blocks: int
) -> float:
    """Lang et al. 2023 (20): M/K (sum_l ||q_l||^2 / (2p-1)^2 + sigma^2), with M blocks and K users.

    `cell_moment` E||u||^2 of the dither stands for sigma^2, which (19) normalises by the cell's volume and which then
    is no squared length. It holds for dithered quantisation that is not overloaded, decoded without bias: as printed,
    balanced codewords have a gain above 1, which the theorem does not know of.
    """
    return float(num_blocks / num_users * ((points**2).sum() / keep_factor(epsilon) ** 2 + cell_moment))


@dataclass(frozen=True, kw_only=True)
class Anonymity:
    """How many points one received bit, were it not flipped, leaves possible for one block (all stages together).

    `printed` 2^(LR-1), that is n/2, Proposition 2; `expected` over codewords; `least`: what every codeword leaves.
    """

    printed: float
    expected: float
    least: int


def anonymity(codebook: Codebook, *, stages: int = 1) -> Anonymity:
    """k-anonymity per block; of the whole model, Corollary 1, it is k to the power of the number of blocks."""
    n, plus = codebook.num_points, codebook.num_plus
    if codebook.balanced:
        expected, least = (plus**2 + (n - plus) ** 2) / n, n - plus
    else:
        expected, least = (n + 1) / 2, 1
    return Anonymity(printed=(n / 2) ** stages, expected=expected**stages, least=int(least**stages))


def aggregation_snr_db(
    exact: NDArray[np.floating[Any]], found: NDArray[np.floating[Any]], *, places: Sequence[slice] | None = None
) -> float:
    """10 log10(Var(w_FA) / Var(w_FA - w)) of vectors `[M]`, the variance running over the M numbers.

    With `places` the mean over tensors. Tensors of one number or of equal numbers say nothing and are left out; NaN if
    none is left, infinity for a perfect copy. Raises LearningError for vectors that do not fit.
    """
    ratios = _variance_ratios(exact, found, places=places)
    return float(np.mean([_log10(ratio, 10.0) for ratio in ratios])) if ratios else math.nan


def coded_snr_db(
    exact: NDArray[np.floating[Any]], found: NDArray[np.floating[Any]], *, places: Sequence[slice] | None = None
) -> float:
    """The same as the authors' code has it: 20 log10 of the mean ratio over tensors.

    20 log10 makes decibels of amplitudes, and these are powers; and the tensor with the largest ratio decides.
    """
    ratios = _variance_ratios(exact, found, places=places)
    return _log10(float(np.mean(ratios)), 20.0) if ratios else math.nan


def coded_snr_of_run_db(levels_db: NDArray[np.float64]) -> float:
    """20 log10 of the mean ratio over rounds of which `coded_snr_db` gave `levels_db`; NaN of none."""
    finite = levels_db[np.isfinite(levels_db)]
    return _log10(float(np.mean(10.0 ** (finite / 20.0))), 20.0) if finite.size else math.nan


def _variance_ratios(
    exact: NDArray[np.floating[Any]], found: NDArray[np.floating[Any]], *, places: Sequence[slice] | None
) -> list[float]:
    if exact.shape != found.shape or exact.ndim != 1:
        raise LearningError(f"vectors of shapes {exact.shape} and {found.shape} have no SNR; hand in two of [M]")
    ratios = []
    for place in places or (slice(None),):
        wanted = np.asarray(exact[place], np.float64)
        signal, noise = float(np.var(wanted)), float(np.var(wanted - found[place]))
        if signal > 0.0:
            ratios.append(signal / noise if noise > 0.0 else math.inf)
    return ratios


def _log10(ratio: float, factor: float) -> float:
    return factor * math.log10(ratio) if 0.0 < ratio < math.inf else (math.inf if ratio else -math.inf)
