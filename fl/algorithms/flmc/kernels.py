"""What FLMC asks of every number of every trial in every round, each in one pass; and how good its samples are."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fl.algorithms.flmc.tasks import Posterior
from fl.base.arrays import F64, Bools
from fl.base.checkpoints import Kept
from phy.numerics.compiled import exact_kernel, kernel, read_only

_NUMPY_ADDS_EIGHT = 8
"""Numbers side by side from here on."""


@kernel
def _clip(values: Any, bound: Any, out: Any, lost: Any) -> None:
    for row in range(len(values)):
        found = False
        for i in range(values.shape[1]):
            value = values[row, i]
            found |= np.isnan(value)
            # Written so that NaN stays what it is.
            if value > bound:
                value = bound
            if value < -bound:
                value = -bound
            out[row, i] = value
        lost[row] = found


@exact_kernel
def _distances(values: Any, targets: Any, limit: Any, squares: Any, below: Any) -> Any:
    everywhere = True
    for row in range(len(values)):
        total, small = 0.0, True
        for i in range(values.shape[1]):
            value = values[row, i]
            distance = value - targets[row, i]
            total += distance * distance
            small &= abs(value) < limit
        squares[row], below[row] = total, small
        everywhere &= small
    return everywhere


@exact_kernel
def _add_moments(values: Any, targets: Any, counted: Any, count: Any, sums: Any, outer: Any) -> None:
    size = values.shape[1]
    for row in range(len(values)):
        if counted[row]:
            count[row] += 1.0
            for i in range(size):
                distance = values[row, i] - targets[row, i]
                sums[row, i] += distance
                for j in range(size):
                    outer[row, i, j] += distance * (values[row, j] - targets[row, j])


@exact_kernel
def _descend(theta: Any, eta: Any, slope: Any, lost: Any, out: Any) -> None:
    for row in range(len(theta)):
        for i in range(theta.shape[1]):
            out[row, i] = np.nan if lost[row] else theta[row, i] - eta[row] * slope[row, i]


def descended(theta: F64, slope: F64, *, eta: F64, lost: Bools) -> F64:
    """theta - eta g, `[num_rows, m]`, with a step `eta` of each row; NaN in the rows that are `lost`."""
    out = np.empty(theta.shape)
    _descend(read_only(theta), read_only(eta), read_only(slope), read_only(lost), out)
    return out


def clipped(values: F64, bound: float) -> tuple[F64, Bools]:
    """Values clipped to |v| <= `bound` > 0, of the same shape, and the rows with NaN; NaN stays NaN."""
    out, lost = np.empty(values.shape), np.empty(len(values), np.bool_)
    flat = (len(values), prod(values.shape[1:]))
    _clip(read_only(values).reshape(flat), float(bound), out.reshape(flat), lost)
    return out, lost


def distances(values: F64, targets: F64, *, limit: float) -> tuple[F64, Bools, bool]:
    """||v - t||^2 of rows of `[num_rows, n]`; whether each row of `values`, and all, are below `limit` in magnitude."""
    squares, below = np.empty(len(values)), np.empty(len(values), np.bool_)
    everywhere = bool(_distances(read_only(values), read_only(targets), float(limit), squares, below))
    if values.shape[1] >= _NUMPY_ADDS_EIGHT:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = ((values - targets) ** 2).sum(axis=1)
    return squares, below, everywhere


class SampleMoments(Kept):
    """Running first and second moments of samples about the posterior mean, per trial.

    `count` samples `[num_trials]`, and the `sums` of their deviations `[num_trials, m]` and of `outer` products.
    """

    kept = ("count", "sums", "outer")

    def __init__(self, posterior: Posterior) -> None:
        num_trials, m = posterior.mean.shape
        self._posterior = posterior
        self.count, self.sums = np.zeros(num_trials), np.zeros((num_trials, m))
        self.outer = np.zeros((num_trials, m, m))

    def add(self, theta: F64, *, counted: Bools) -> None:
        """One more sample `[num_trials, m]` of the trials that are `counted` `[num_trials]`."""
        _add_moments(
            read_only(theta), read_only(self._posterior.mean), read_only(counted), self.count, self.sums, self.outer
        )

    def summary(self) -> dict[str, F64]:
        """The metrics of a trial, each `[num_trials]`.

        - `mse`: mean of ||theta - mu||^2 over the samples, Zhang et al. 2022 (23);
        - `wasserstein2`: 2-Wasserstein distance between the posterior's Gaussian fit and the samples',
          W2^2 = ||mu - mu'||^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2) (Givens and Shortt 1984);
        - `variance_ratio`: tr S' / tr S, below 1 for samples with less variance than the posterior.

        NaN for a trial without a sample.
        """
        count = np.maximum(self.count, 1.0)[:, None]
        mean, second = self.sums / count, self.outer / count[:, :, None]
        spread = (second - mean[:, :, None] * mean[:, None, :]) * count[:, :, None]
        spread = spread / np.maximum(count - 1.0, 1.0)[:, :, None]
        target = self._posterior.covariance
        total = np.trace(target, axis1=1, axis2=2)
        found = {
            "mse": np.trace(second, axis1=1, axis2=2),
            "wasserstein2": gaussian_wasserstein2(mean, spread, target),
            "variance_ratio": np.trace(spread, axis1=1, axis2=2) / total,
        }
        return {name: np.where(self.count > 0.0, values, np.nan) for name, values in found.items()}


def whitening(posterior: Posterior) -> F64:
    """Sigma^(-1/2), symmetric, of every trial, `[num_trials, m, m]`: exact samples have the covariance I behind it."""
    values, vectors = np.linalg.eigh(posterior.covariance)
    return np.asarray((vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def gaussian_wasserstein2(mean_shift: F64, covariance: F64, other: F64) -> F64:
    """2-Wasserstein distance between Gaussians whose means differ by `mean_shift [..., m]`, `[...]`."""
    values, vectors = np.linalg.eigh(other)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ covariance @ root), 0.0)).sum(axis=-1)
    traces = np.trace(covariance, axis1=-2, axis2=-1) + np.trace(other, axis1=-2, axis2=-1)
    return np.asarray(np.sqrt(np.maximum((mean_shift**2).sum(axis=-1) + traces - 2.0 * cross, 0.0)))
