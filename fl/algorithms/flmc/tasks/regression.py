"""Bayesian regression: linear on synthetic data, Zhang et al. 2022 (22), and logistic on the breast-cancer data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit

from fl.algorithms.flmc.tasks.config import GaussianLinearConfig, LogisticConfig
from fl.algorithms.flmc.tasks.posterior import Posterior, split_evenly
from fl.base.arrays import F64
from phy.numerics.compiled import kernel, read_only
from phy.numerics.random import Purpose, generator

PAPER_PARAMETER = np.array([0.418, -0.289, 0.3982, 0.8231, 0.5251])
"""theta* of the paper's Section IV, used where the dimension is 5."""


class GaussianLinear:
    """A batch of trials of v = theta^T u + N(0, 1), u ~ N(0, I_m), prior N(0, I_m).

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

    def gradients(self, theta: F64) -> F64:
        """Local gradients of (7), `[num_trials, num_devices, m]`, at `theta [num_trials, m]`."""
        return quadratic_gradients(self._curvature, self._offset, theta).reshape(self._shape)

    def exact_samples(self, num_samples: int) -> F64:
        """Independent posterior samples `[num_trials, num_samples, m]`, the same at every call."""
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


def quadratic_gradients(curvature: F64, offset: F64, theta: F64) -> F64:
    """A theta - b, `[num_trials, rows]` float64, of A `[num_trials, rows, m]`, b `[num_trials, rows]`, theta
    `[num_trials, m]`; a trial's numbers do not depend on the others.
    """
    out = np.empty(offset.shape)
    _subtract_products(read_only(curvature), read_only(offset), read_only(theta), out)
    return out


_CHAINS = 32
_WARM_UP = 500
_STEPS = 3000
_THINNING = 5
_REFERENCE_TRIAL = 0


class Logistic:
    """Pr(y = 1 | x) = sigmoid(theta^T x), prior N(0, `prior_variance` I), 569 samples.

    x holds the 30 standardised features and a constant 1, so m = 31. All trials share the data; each has
    its own random split over devices. The local gradient is
    g_k = sum_n (sigmoid(theta^T x_n) - y_n) x_n + theta / (K prior_variance). The truth is a long
    reference chain (`reference_chain`).

    `preconditioned`: everything is in the coordinates phi of theta = M phi, gradients, samples and truth, with M the
    symmetric root of the Laplace covariance at the mode. There the Hessian is I at the mode and has eigenvalues of 0.2
    to 12 where the posterior lies, so that a chain of some hundred rounds mixes; its bounds are those over states of
    the reference chain. In theta they lie between 1 / prior_variance and 1,890. M comes from all data, as an automatic
    step does, and every device is taken to know it: no account of privacy counts that.
    """

    def __init__(self, config: LogisticConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]) -> None:
        inputs, labels = standardised_data()
        num_samples, m = inputs.shape
        self.dimension = m
        reference = reference_chain(config.prior_variance)
        scale = _root(reference.laplace) if config.preconditioned else np.eye(m)
        inputs, prior = inputs @ scale, scale @ scale / config.prior_variance
        self._prior_precision = prior / num_devices
        self._seed, self._trials = seed, trials
        size = -(-num_samples // num_devices)
        self._inputs = np.empty((len(trials), num_devices, size, m))
        self._labels = np.empty((len(trials), num_devices, size))
        for row, trial in enumerate(trials):
            order = generator(seed, trial, Purpose.PARTITION).permutation(num_samples)
            self._inputs[row] = split_evenly(inputs[order], num_devices)
            self._labels[row] = split_evenly(labels[order], num_devices)
        back = np.linalg.inv(scale)
        self._states = reference.states @ back if config.preconditioned else reference.states
        shape = (len(trials), m)
        self.posterior = Posterior(
            mean=np.broadcast_to(reference.mean @ back, shape),
            covariance=np.broadcast_to(back @ reference.covariance @ back, (*shape, m)),
        )
        # The sigmoid's slope lies in (0, 1/4]: Dalalyan 2017, section 6.2.
        bounds = 1.0 / config.prior_variance, np.linalg.eigvalsh(inputs.T @ inputs / 4.0 + prior)[-1]
        least, most = reference.curvature if config.preconditioned else bounds
        self.strong_convexity, self.smoothness = np.full(len(trials), least), np.full(len(trials), most)

    def gradients(self, theta: F64) -> F64:
        logits = (self._inputs @ theta[:, None, :, None])[..., 0]
        # Rows that fill up a device have x = 0 and so add nothing, whatever their residual.
        residual = expit(logits) - self._labels
        likelihood = (residual[..., None, :] @ self._inputs)[..., 0, :]
        return np.asarray(likelihood + (theta @ self._prior_precision)[:, None, :])

    def exact_samples(self, num_samples: int) -> F64:
        """Return states of the reference chain, drawn with replacement; see `GaussianLinear.exact_samples`."""
        states = self._states
        picks = [
            generator(self._seed, trial, Purpose.POSTERIOR).integers(len(states), size=num_samples)
            for trial in self._trials
        ]
        return states[np.stack(picks)]


def _root(matrix: Any) -> F64:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


PosteriorTask = GaussianLinear | Logistic


@lru_cache(maxsize=1)
def standardised_data() -> tuple[F64, F64]:
    """Inputs `[569, 31]` (standardised features, then a constant 1) and labels `[569]` in {0, 1}."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return np.column_stack([features, np.ones(len(features))]), labels.astype(float)


@dataclass(frozen=True, kw_only=True)
class ReferenceChain:
    """A long sample of the posterior: `states` `[num_states, m]`, their `mean` `[m]` and `covariance` `[m, m]`.

    `laplace` `[m, m]`: inverse Hessian at the mode; `curvature`: least and largest eigenvalue of the Hessian at every
    hundredth state, in coordinates in which `laplace` is I.
    """

    states: F64
    mean: F64
    covariance: F64
    laplace: F64
    curvature: tuple[float, float]


@lru_cache(maxsize=4)
def reference_chain(prior_variance: float) -> ReferenceChain:
    """Posterior by the Metropolis-adjusted Langevin algorithm, preconditioned by the Laplace covariance.

    32 chains of 3000 steps after 500 of warm-up, all from one fixed seed, so that every scenario compares
    with the same truth (Roberts and Tweedie, Bernoulli 1996; unbiased for any step size).
    """
    inputs, labels = standardised_data()
    m = inputs.shape[1]

    def potential_and_gradient(theta: F64) -> tuple[F64, F64]:
        logits = theta @ inputs.T
        softplus = np.maximum(logits, 0.0) + np.log1p(np.exp(-np.abs(logits)))
        value = (softplus - labels * logits).sum(axis=1) + (theta**2).sum(axis=1) / (2.0 * prior_variance)
        return value, (expit(logits) - labels) @ inputs + theta / prior_variance

    def hessian(theta: F64) -> F64:
        weight = expit(theta[0] @ inputs.T)
        return np.asarray((inputs * (weight * (1.0 - weight))[:, None]).T @ inputs + np.eye(m) / prior_variance)

    mode = np.zeros((1, m))
    for _ in range(100):
        value, gradient = potential_and_gradient(mode)
        step = np.linalg.solve(hessian(mode), gradient[0])
        length = 1.0
        while potential_and_gradient(mode - length * step)[0][0] > value[0] and length > 1e-10:
            length /= 2.0
        mode = mode - length * step
        if np.abs(step).max() < 1e-8:
            break
    covariance = np.linalg.inv(hessian(mode))
    factor = np.linalg.cholesky(covariance)
    rng = generator(0, _REFERENCE_TRIAL, Purpose.POSTERIOR)
    size = 2.0 * m ** (-1.0 / 3.0)
    theta = mode + rng.standard_normal((_CHAINS, m)) @ factor.T
    value, gradient = potential_and_gradient(theta)
    kept = []
    for index in range(_WARM_UP + _STEPS):
        drift = -0.5 * size * gradient @ covariance
        noise = rng.standard_normal((_CHAINS, m))
        proposal = theta + drift + np.sqrt(size) * noise @ factor.T
        new_value, new_gradient = potential_and_gradient(proposal)
        back = np.linalg.solve(factor, (theta - proposal + 0.5 * size * new_gradient @ covariance).T).T
        log_ratio = value - new_value + 0.5 * ((noise**2).sum(axis=1) - (back**2).sum(axis=1) / size)
        take = np.log(rng.random(_CHAINS)) < log_ratio
        theta = np.where(take[:, None], proposal, theta)
        value, gradient = np.where(take, new_value, value), np.where(take[:, None], new_gradient, gradient)
        if index >= _WARM_UP and index % _THINNING == 0:
            kept.append(theta)
    states = np.stack(kept, axis=1).reshape(-1, m)
    root = _root(covariance)
    eigenvalues = [np.linalg.eigvalsh(root @ hessian(state[None]) @ root)[[0, -1]] for state in states[::100]]
    return ReferenceChain(
        states=states,
        mean=states.mean(axis=0),
        covariance=np.cov(states.T),
        laplace=np.asarray(covariance, np.float64),
        curvature=(float(np.min(eigenvalues)), float(np.max(eigenvalues))),
    )
