"""Where softmax regression with an l2 term ends, and the constants of its convexity; pure NumPy and SciPy.

The convex task on which Theorem 2 of Li et al. 2025 can be checked: F_n(w) is the mean over device n's samples of
-log softmax(W^T x + b)_y + mu / 2 ||w||^2, and w = (W row by row, then b) as the model `linear` flattens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from fl.base.arrays import F64, I64
from fl.base.errors import LearningError

_MEMORY = 30
_MAX_STEPS = 20_000
_WANTED_GAP, _WORST_GAP = 1e-13, 1e-8


@dataclass(frozen=True, kw_only=True)
class ConvexTask:
    """What Theorem 2 asks of a task: its `optimum` `[(d + 1) * outputs]`, mu, L, and Gamma = F* - sum_n q_n F_n*."""

    optimum: F64 = field(repr=False)
    strong_convexity: float
    smoothness: float
    heterogeneity: float


def softmax_loss(weights: F64, x: F64, y: I64, *, sample_weights: F64, l2: float) -> tuple[float, F64]:
    """F(w) = sum_i a_i (-log softmax(x_i)_{y_i}) + mu / 2 ||w||^2 and its gradient `[(d + 1) * outputs]`, float64.

    `x` `[N, d]`, `y` `[N]`, `sample_weights` a `[N]`, which add up to 1.
    """
    kernel, bias = _apart(weights, x.shape[1])
    logits = x @ kernel + bias
    total = logsumexp(logits, axis=1)
    rows = np.arange(len(y))
    value = float(sample_weights @ (total - logits[rows, y])) + 0.5 * l2 * float(weights @ weights)
    residual = np.exp(logits - total[:, None])
    residual[rows, y] -= 1.0
    residual *= sample_weights[:, None]
    return value, np.concatenate([(x.T @ residual).ravel(), residual.sum(axis=0)]) + l2 * weights


def _apart(weights: F64, num_features: int) -> tuple[F64, F64]:
    table = weights.reshape(num_features + 1, -1)
    return table[:-1], table[-1]


def softmax_optimum(
    x: F64, y: I64, *, num_outputs: int, l2: float, sample_weights: F64 | None = None
) -> tuple[F64, float]:
    """Weights and value of the minimum of `softmax_loss` by L-BFGS; every sample weighs the same unless told.

    Raises `LearningError` where it comes no closer to the minimum than 1e-8 of the loss at zero.
    """
    weights = np.full(len(y), 1.0 / len(y)) if sample_weights is None else sample_weights
    x = np.asarray(x, np.float64)
    # The optimum lies in the span of the samples: of few samples, only their coordinates in it matter.
    basis: F64 | None = None
    if len(x) < x.shape[1]:
        basis, triangle = np.linalg.qr(x.T)
        x = triangle.T
    size = (x.shape[1] + 1) * num_outputs
    found = minimize(
        lambda w: softmax_loss(w, x, y, sample_weights=weights, l2=l2),
        np.zeros(size),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxcor": _MEMORY,
            "maxiter": _MAX_STEPS,
            "maxfun": 2 * _MAX_STEPS,
            "ftol": 0.0,
            # Of the largest entry: the norm is at most sqrt(M) times it.
            "gtol": np.sqrt(2.0 * l2 * _WANTED_GAP / size),
        },
    )
    value, gradient = softmax_loss(found.x, x, y, sample_weights=weights, l2=l2)
    gap = float(np.linalg.norm(gradient)) ** 2 / (2.0 * l2)  # by strong convexity
    if not gap <= _WORST_GAP * np.log(max(num_outputs, 2)):
        raise LearningError(
            f"the optimum of softmax regression is only known to {gap:.2g} of the loss after "
            f"{found.nit} steps ({found.message})",
            f"raise l2 {l2:g}",
        )
    kernel, bias = _apart(found.x, x.shape[1])
    if basis is not None:
        kernel = basis @ kernel
    return np.concatenate([kernel.ravel(), bias]), value


def smoothness_bound(x: F64, *, l2: float) -> float:
    """L <= mu + lambda_max(mean of x x^T) / 2 of one device's mean loss, x `[n, d]` with the bias's 1 appended here.

    The Hessian of a sample is the Kronecker product of diag(s) - s s^T, which has no eigenvalue above 1/2, and x x^T.
    Never above the simpler mu + max ||x||^2 / 2.
    """
    rows = np.column_stack([np.asarray(x, np.float64), np.ones(len(x))])
    gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    return l2 + 0.5 * float(np.linalg.eigvalsh(gram)[-1]) / len(rows)


def convex_task(x: F64, y: I64, *, devices: Sequence[I64], shares: F64, num_outputs: int, l2: float) -> ConvexTask:
    """The task that `devices` (indices into the samples of each) with q_n = `shares` `[N]` solve together.

    mu = l2, L the largest of any device, Gamma = F* - sum_n q_n F_n*. Raises as `softmax_optimum`.
    """
    sample_weights = np.zeros(len(y))
    for indices, share in zip(devices, shares, strict=True):
        np.add.at(sample_weights, indices, share / len(indices))
    held = np.flatnonzero(sample_weights)
    optimum, value = softmax_optimum(
        x[held], y[held], num_outputs=num_outputs, l2=l2, sample_weights=sample_weights[held]
    )
    alone = [softmax_optimum(x[indices], y[indices], num_outputs=num_outputs, l2=l2)[1] for indices in devices]
    return ConvexTask(
        optimum=optimum,
        strong_convexity=l2,
        smoothness=max(smoothness_bound(x[indices], l2=l2) for indices in devices),
        heterogeneity=max(value - float(np.dot(shares, alone)), 0.0),
    )
