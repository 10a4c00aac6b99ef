"""Closed forms of PRoBit: variance of the estimate, influence of liars, and a safe form of Lemma 2.

For fixed updates delta_k with |delta_ki| <= b_k, shares w_k that sum to 1, and bits that are flipped with p_k (which
the server undoes by f_k = 1 - 2 p_k), the estimate theta^_i = sum_k w_k b_k c_ki / f_k has

    E[theta^_i] = sum_k w_k delta_ki,    Var[theta^_i] = sum_k w_k^2 (b_k^2 / f_k^2 - delta_ki^2).

With equal shares, one b and no flips this is (b^2 - mean_k delta_ki^2) / M. The paper prints (b_i^2 - theta_i^2) / M,
which takes the deltas as independent draws with mean theta: it is larger by the spread of the deltas over M.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.base.errors import LearningError


def estimate_variance(
    updates: NDArray[np.floating[Any]],
    *,
    b: ArrayLike,
    weights: NDArray[np.float64] | None = None,
    factor: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Var[theta^_i] of every number, `[M]`, for `updates` `[K, M]` as they are sent: clipped, and within b.

    `b` and `factor` are numbers or `[K]`; `weights` `[K]`, None: equal. Summed over i it is the E||theta - theta^||^2.
    Raises LearningError for an update beyond b, whose estimate is biased.
    """
    count = len(updates)
    shares = np.full(count, 1.0 / count) if weights is None else weights
    bounds = np.broadcast_to(np.asarray(b, np.float64), (count,))
    left = np.broadcast_to(np.asarray(factor, np.float64), (count,))
    over = np.abs(updates).max(axis=1, initial=0.0) > bounds * (1.0 + 1e-6)
    if over.any():
        device = int(np.argmax(over))
        raise LearningError(f"update {device} has entries beyond b = {bounds[device]:g}; clip it, or raise b")
    powers = np.einsum("k,km->m", shares**2, np.square(updates, dtype=np.float64))
    return np.asarray((shares**2 * (bounds / left) ** 2).sum() - powers)


def printed_error(mean_update: NDArray[np.floating[Any]], *, b: float, num_devices: int) -> float:
    """sum_i (b^2 - theta_i^2) / M, Lan et al., Theorem 1, for deltas that are independent draws of mean theta."""
    return float((b**2 - np.square(mean_update, dtype=np.float64)).sum() / num_devices)


def influence_bound(share: ArrayLike, *, b: float, factor: float = 1.0) -> NDArray[np.float64]:
    """2 beta b / (1 - 2 p): how far devices with the share beta of the weight move one number, whatever bits they send.

    Each replaced bit moves the estimate by 2 b / f times its weight; no power, no size of update can do more. Raises
    LearningError for a share that is none.
    """
    beta = np.asarray(share, np.float64)
    if not np.all((beta >= 0.0) & (beta <= 1.0)):
        raise LearningError(f"a share of {share!r} is not within 0 to 1; give attackers over devices")
    return np.asarray(2.0 * beta * b / factor)


def error_bound(b: ArrayLike, *, num_devices: int, num_values: int) -> float:
    """||b||_2 / sqrt(M) >= E||theta - theta^||, the safe form of Lan et al., Lemma 2; `b` a number or `[num_values]`.

    By Jensen E||e|| <= sqrt(E||e||^2) = sqrt(sum_i (b_i^2 - mean delta_i^2) / M), and leaving out the deltas makes it
    larger. Step (28) of the paper takes (1 + 1/eps) Delta_1 for an upper bound of b_i - theta_i, which its own
    condition of privacy makes a lower one.
    """
    bounds = np.broadcast_to(np.asarray(b, np.float64), (num_values,))
    return float(np.linalg.norm(bounds) / np.sqrt(num_devices))
