"""Quantized federated Langevin Monte Carlo as one would write it on the back of the paper.

One trial, one round, one device at a time; nothing of phyloop is imported, and every random number comes
from the generator handed in. Zhang et al. 2022, (6) to (14), with N0 the noise variance per real dimension.
"""

from __future__ import annotations

import math

import numpy as np


def posterior(inputs, labels):
    """(mean, covariance) of the weights of v = theta^T u + N(0, 1) under the prior N(0, I)."""
    m = inputs.shape[1]
    covariance = np.linalg.inv(inputs.T @ inputs + np.eye(m))
    return covariance @ inputs.T @ labels, covariance


def local_gradient(inputs, labels, theta, num_devices):
    """g_k = -sum_n (v_n - theta^T u_n) u_n + theta / K."""
    return -inputs.T @ (labels - inputs @ theta) + theta / num_devices


def clipped(gradient, bound):
    """Every entry cut to [-l, l]."""
    return np.clip(gradient, -bound, bound)


def one_bit(rng, gradient, slope):
    """+1 with probability 1 / (1 + exp(-a g)), else -1."""
    probability = 1.0 / (1.0 + np.exp(-slope * gradient))
    return np.where(rng.random(len(gradient)) < probability, 1.0, -1.0)


def run_chain(
    rng,
    devices,
    *,
    scheme,
    eta,
    rounds,
    amplitude=math.inf,
    noise_power=1.0,
    gradient_bound=30.0,
    slope=0.05,
):
    """States `[rounds, m]` of one trial; `devices` lists (inputs, labels) of each.

    `analog` and `digital` hear sum_k A x_k + N(0, N0) and divide it by A; `noiseless` hears the sum of the
    clipped gradients and adds sqrt(2 eta) N(0, I) itself; `descent` adds nothing.
    """
    m = devices[0][0].shape[1]
    theta = np.zeros(m)
    states = []
    for _ in range(rounds):
        total = np.zeros(m)
        for inputs, labels in devices:
            sent = clipped(local_gradient(inputs, labels, theta, len(devices)), gradient_bound)
            if scheme == "digital":
                sent = one_bit(rng, sent, slope)
            total = total + sent
        if scheme in ("analog", "digital"):
            total = total + math.sqrt(noise_power) * rng.standard_normal(m) / amplitude
        theta = theta - eta * total
        if scheme == "noiseless":
            theta = theta + math.sqrt(2.0 * eta) * rng.standard_normal(m)
        states.append(theta)
    return np.array(states)


def mean_squared_error(states, mean):
    """Mean of ||theta - mu||^2 over the states, (23)."""
    return float(np.mean([np.sum((theta - mean) ** 2) for theta in states]))


def spread(states):
    """Trace of the states' sample covariance."""
    return float(np.trace(np.cov(states.T)))
