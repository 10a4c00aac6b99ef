"""How good samples of a posterior are, batched over trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.flmc_kernels import add_moments
from fl.checkpoints import State, kept_array
from fl.tasks import Posterior


class SampleMoments:
    """Running first and second moments of samples about the posterior mean, per trial."""

    def __init__(self, posterior: Posterior) -> None:
        num_trials, m = posterior.mean.shape
        self._posterior = posterior
        sums = {"count": np.zeros(num_trials), "sums": np.zeros((num_trials, m)), "outer": np.zeros((num_trials, m, m))}
        self._sums: dict[str, NDArray[np.float64]] = sums

    def add(self, theta: NDArray[np.float64], *, counted: NDArray[np.bool_]) -> None:
        """One more sample `[num_trials, m]` of the trials that are `counted` `[num_trials]`."""
        add_moments(theta, self._posterior.mean, counted=counted, **self._sums)

    def state(self) -> State:
        """The sums: of samples counted `[num_trials]`, of their deviations `[num_trials, m]`, of the outer products."""
        return self._sums

    def restore(self, state: State) -> None:
        self._sums = {name: kept_array(state, name, like=one) for name, one in self._sums.items()}

    def summary(self) -> dict[str, NDArray[np.float64]]:
        """The metrics of a trial, each `[num_trials]`.

        - `mse`: mean of ||theta - mu||^2 over the samples, Zhang et al. 2022 (23);
        - `wasserstein2`: 2-Wasserstein distance between the posterior's Gaussian fit and the samples',
          W2^2 = ||mu - mu'||^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2) (Givens and Shortt 1984);
        - `variance_ratio`: tr S' / tr S, below 1 for samples with less variance than the posterior.

        NaN for a trial without a sample.
        """
        count = np.maximum(self._sums["count"], 1.0)[:, None]
        mean, second = self._sums["sums"] / count, self._sums["outer"] / count[:, :, None]
        spread = (second - mean[:, :, None] * mean[:, None, :]) * count[:, :, None]
        spread = spread / np.maximum(count - 1.0, 1.0)[:, :, None]
        target = self._posterior.covariance
        total = np.trace(target, axis1=1, axis2=2)
        found = {
            "mse": np.trace(second, axis1=1, axis2=2),
            "wasserstein2": gaussian_wasserstein2(mean, spread, target),
            "variance_ratio": np.trace(spread, axis1=1, axis2=2) / total,
        }
        return {name: np.where(self._sums["count"] > 0.0, values, np.nan) for name, values in found.items()}


def gaussian_wasserstein2(
    mean_shift: NDArray[np.float64], covariance: NDArray[np.float64], other: NDArray[np.float64]
) -> NDArray[np.float64]:
    """2-Wasserstein distance between Gaussians whose means differ by `mean_shift [..., m]`, `[...]`."""
    values, vectors = np.linalg.eigh(other)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ covariance @ root), 0.0)).sum(axis=-1)
    traces = np.trace(covariance, axis1=-2, axis2=-1) + np.trace(other, axis1=-2, axis2=-1)
    return np.asarray(np.sqrt(np.maximum((mean_shift**2).sum(axis=-1) + traces - 2.0 * cross, 0.0)))
