"""Federated Langevin Monte Carlo with jammers as one would write it on the back of the paper.

One trial, one round, one device at a time; nothing of phyloop is imported.
"""

from __future__ import annotations

import math

import numpy as np
from oracles.numpy_flmc import clipped, local_gradient, one_bit


def symbols(rng, signal, m):
    """What a jammer sends: `m` symbols of mean power 1."""
    if signal == "ones":
        return np.ones(m)
    if signal == "random":
        return np.array([1.0 if rng.random() < 0.5 else -1.0 for _ in range(m)])
    noise = rng.standard_normal(m)
    return noise / math.sqrt(float(np.mean(noise * noise)))


def run_jammed_chain(
    rng,
    devices,
    *,
    jammers,
    strength,
    signal,
    scheme,
    eta,
    rounds,
    amplitude,
    noise_power=0.0,
    gradient_bound=30.0,
    slope=0.05,
):
    """States `[rounds, m]`; `devices` lists (inputs, labels) of each, those in `jammers` arrive at `strength`.

    The server hears sum_k A x_k + sum_j strength s_j + N(0, N0) and divides it by A, as if all were honest.
    """
    m = devices[0][0].shape[1]
    theta = np.zeros(m)
    states = []
    for _ in range(rounds):
        heard = math.sqrt(noise_power) * rng.standard_normal(m)
        for number, (inputs, labels) in enumerate(devices):
            if number in jammers:
                heard = heard + strength * symbols(rng, signal, m)
                continue
            sent = clipped(local_gradient(inputs, labels, theta, len(devices)), gradient_bound)
            if scheme == "digital":
                sent = one_bit(rng, sent, slope)
            heard = heard + amplitude * sent
        theta = theta - eta * heard / amplitude
        states.append(theta)
    return np.array(states)
