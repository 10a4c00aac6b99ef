"""Theorem 4.2 of Lang et al. 2023: CPA with a decaying step on strongly convex tasks of many devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cpa_setting import KEEP, ROUND, build, through

NUM_USERS, NUM_VALUES, NUM_STEPS, RUNS = 1000, 40, 192, 4
LARGEST = 5.0
"""Limit of every entry of a gradient below; the lattice follows the step size, so that nothing is cut off."""


def suboptimality(*, local_steps: int, decays: bool) -> tuple[np.ndarray, np.ndarray]:
    """E F(w_t) - F(w*) after each round, and (4.3.2), for F_r(w) = ||w - c_r||^2 / 2: rho_s = rho_c = 1."""
    phi, tau = 4.0 * local_steps, local_steps
    rates = tau / (np.arange(NUM_STEPS) + phi) if decays else np.full(NUM_STEPS, tau / phi)
    scheme = build(NUM_VALUES, gamma=1.0, decode="unbiased", dither=True)
    gaps, lattice = [], 0.0
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        centres = np.random.default_rng(99).uniform(-1.0, 1.0, (NUM_USERS, NUM_VALUES))
        w, gap = np.full(NUM_VALUES, 1.0), []
        for first in range(0, NUM_STEPS, tau):
            local = np.tile(w, (NUM_USERS, 1))
            for rate in rates[first : first + tau]:
                gradient = local - centres + rng.uniform(-1.0, 1.0, local.shape)
                assert np.abs(gradient).max() < LARGEST
                local -= rate * gradient
            scale = LARGEST * rates[first : first + tau].sum()
            lattice = max(lattice, (scale / rates[first + tau - 1]) ** 2)
            sent = ((local - w) / scale).astype(np.float32)
            w = w + scale * through(scheme, sent, context=replace(ROUND, seed=run, round_index=first))
            gap.append(0.5 * ((w - centres.mean(axis=0)) ** 2).sum())
        gaps.append(gap)
    quantizer = scheme.quantizers[0]
    excess = NUM_VALUES * lattice * ((quantizer.points**2).sum() / KEEP**2 + quantizer.cell_moment)
    noise = NUM_VALUES / 3.0  # E||.||^2 of the uniform errors of a gradient
    heterogeneity = 0.5 * ((centres - centres.mean(axis=0)) ** 2).sum(axis=1).mean()
    b = (excess + noise + 8.0 * (tau - 1) ** 2 * NUM_USERS * noise) / NUM_USERS + 6.0 * heterogeneity
    start = ((1.0 - centres.mean(axis=0)) ** 2).sum()
    steps = np.arange(tau, NUM_STEPS + 1, tau)
    return np.mean(gaps, axis=0), max((1.0 + tau**2 * b) / tau, phi * start) / (2.0 * (steps + phi))


@pytest.mark.parametrize("local_steps", [1, 4])
def test_theorem_4_2_holds_for_a_decaying_step_and_a_lattice_that_follows_it(local_steps: int) -> None:
    gap, bound = suboptimality(local_steps=local_steps, decays=True)
    assert (gap < bound).all()
    # 1/t: four times the steps leave a quarter of the distance; a mean over 4 runs of 40 numbers errs by a tenth.
    assert gap[-3:].mean() < 0.5 * gap[len(gap) // 4 - 2 : len(gap) // 4 + 1].mean()


def test_a_constant_step_ends_above_the_bound_of_theorem_4_2() -> None:
    gap, bound = suboptimality(local_steps=1, decays=False)
    assert gap[-1] > bound[-1]
