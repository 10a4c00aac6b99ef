"""Bayesian linear regression with known noise, Zhang et al. 2022 (22) and the lines below it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config.task import GaussianLinearConfig
from fl.tasks.base import Posterior, split_evenly
from phy.numerics.compiled import kernel, read_only
from phy.numerics.random import Purpose, generator

PAPER_PARAMETER = np.array([0.418, -0.289, 0.3982, 0.8231, 0.5251])
"""theta* of the paper's Section IV, used where the dimension is 5."""


class GaussianLinear:
    """v = theta^T u + N(0, 1), u ~ N(0, I_m), prior N(0, I_m).

    The posterior is N(Sigma U v, Sigma) with Sigma = (U U^T + I)^-1. The local gradient
    g_k = sum_n (theta^T u_n - v_n) u_n + theta / K needs only the device's second moments, so a round
    costs the same for any number of samples. For dimensions other than 5 the true parameter of each trial
    is drawn from the prior.
    """

    def __init__(self, config: GaussianLinearConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]) -> None:
        m = self.dimension = config.dimension
        num_trials = len(trials)
        self._seed, self._trials = seed, trials
        curvature = np.empty((num_trials, num_devices, m, m))
        offset = np.empty((num_trials, num_devices, m))
        for row, trial in enumerate(trials):
            rng = generator(seed, trial, Purpose.DATA)
            parameter = PAPER_PARAMETER if m == len(PAPER_PARAMETER) else rng.standard_normal(m)
            inputs = rng.standard_normal((config.num_samples, m))
            labels = inputs @ parameter + rng.standard_normal(config.num_samples)
            device_inputs = split_evenly(inputs, num_devices)
            device_labels = split_evenly(labels, num_devices)
            transposed = device_inputs.transpose(0, 2, 1)
            curvature[row] = transposed @ device_inputs
            offset[row] = (transposed @ device_labels[..., None])[..., 0]
        precision = curvature.sum(axis=1) + np.eye(m)
        covariance = np.linalg.inv(precision)
        mean = (covariance @ offset.sum(axis=1)[..., None])[..., 0]
        eigenvalues = np.linalg.eigvalsh(precision)
        self.posterior = Posterior(mean=mean, covariance=covariance)
        self.strong_convexity, self.smoothness = eigenvalues[:, 0], eigenvalues[:, -1]
        self._curvature = (curvature + np.eye(m) / num_devices).reshape(num_trials, num_devices * m, m)
        self._offset = offset.reshape(num_trials, num_devices * m)
        self._shape = (num_trials, num_devices, m)
        for array in (self._curvature, self._offset, mean):
            array.setflags(write=False)

    def gradients(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return quadratic_gradients(self._curvature, self._offset, theta).reshape(self._shape)

    def exact_samples(self, num_samples: int) -> NDArray[np.float64]:
        factor = np.linalg.cholesky(self.posterior.covariance)
        normals = np.stack(
            [
                generator(self._seed, trial, Purpose.POSTERIOR).standard_normal((num_samples, self.dimension))
                for trial in self._trials
            ]
        )
        return self.posterior.mean[:, None, :] + normals @ factor.transpose(0, 2, 1)


@kernel
def _subtract_products(curvature: Any, offset: Any, theta: Any, out: Any) -> None:
    num_trials, rows, size = curvature.shape
    for trial in range(num_trials):
        for row in range(rows):
            total = 0.0
            for column in range(size):
                total += curvature[trial, row, column] * theta[trial, column]
            out[trial, row] = total - offset[trial, row]


def quadratic_gradients(
    curvature: NDArray[np.float64], offset: NDArray[np.float64], theta: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A theta - b, `[num_trials, rows]` float64, of A `[num_trials, rows, m]`, b `[num_trials, rows]`, theta
    `[num_trials, m]`; a trial's numbers do not depend on the others.
    """
    out = np.empty(offset.shape)
    _subtract_products(read_only(curvature), read_only(offset), read_only(theta), out)
    return out
