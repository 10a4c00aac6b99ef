"""Closed forms of CPA: second moment of a decoded value, mean-squared error, and the bound of Lang et al. 2023."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.schemes.cpa.cpa_theory import Codebook, Decode, decode_scale, gain
from fl.schemes.scheme import keep_factor


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
