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


def largest_by_4_3_11(*, tau: int, b: float, num_steps: int) -> np.ndarray:
    """The largest t + phi times delta_t that (4.3.11) allows, over lambda of (4.3.12), `[num_steps + 1]`.

    delta_(t+1) = (1 - eta_t) delta_t + eta_t^2 b with eta_t = tau / (t + phi), phi = 4 tau, rho_s = rho_c = 1, from
    phi delta_0 = lambda. The claim (4.3.12) is that it stays at or below 1.
    """
    phi, largest = 4.0 * tau, (1.0 + tau**2 * b) / tau
    delta, ratios = largest / phi, []
    for t in range(num_steps + 1):
        ratios.append(delta * (t + phi) / largest)
        rate = tau / (t + phi)
        delta = (1.0 - rate) * delta + rate**2 * b
    return np.array(ratios)


def test_the_bound_of_theorem_4_2_does_not_follow_at_one_local_step() -> None:
    """At tau = 1, (t + phi - 1) delta_t grows by b / (t + phi): the bound breaks at once, and as ln t without end."""
    ratios = largest_by_4_3_11(tau=1, b=100.0, num_steps=100_000)
    assert ratios[0] == pytest.approx(1.0)
    assert ratios[1] == pytest.approx(1.0 + (1.0 / 4.0) * (100.0 / 101.0), abs=2e-3)
    assert ratios[100_000] == pytest.approx(10.9, abs=0.05)
    assert np.diff(ratios[[100, 1000, 10_000, 100_000]]) == pytest.approx(np.log(10.0) * 100.0 / 101.0, rel=0.05)


@pytest.mark.parametrize("tau", [2, 4, 10])
def test_with_more_local_steps_the_bound_follows_with_tau_less_one_in_place_of_tau(tau: int) -> None:
    """lambda must be b tau^2 / (tau - 1) at least (Li et al. 2020); as printed it is short by tau / (tau - 1)."""
    b = 100.0
    ratios = largest_by_4_3_11(tau=tau, b=b, num_steps=100_000)
    printed = (1.0 + tau**2 * b) / tau
    mended = max(tau**2 * b / (tau - 1), printed)  # the start is phi delta_0 = printed
    assert ratios[-1] == pytest.approx(tau**2 * b / (tau - 1) / printed, rel=1e-3)
    assert ratios[-1] > 1.05
    assert (ratios * printed <= mended * (1.0 + 1e-12)).all()


def test_descent_on_a_parabola_tells_the_bound_from_one_of_half_its_noise() -> None:
    """F(w) = ||w||^2 / 2, gradient noise of E||.||^2 = b: t (F - F*) tends to b / 2, t times (4.3.2) to (1 + b) / 2.

    No other slack is left, so that a bound half as large is broken.
    """
    b, phi, values = 100.0, 4.0, 4000
    rng = np.random.default_rng(1)
    w = np.full(values, np.sqrt((1.0 + b) / phi / values))
    steps = 400
    for t in range(steps):
        w = w - (w + rng.normal(0.0, np.sqrt(b / values), values)) / (t + phi)
    gap, bound = 0.5 * (w**2).sum(), (1.0 + b) / (2.0 * (steps + phi))
    # A sum of 4000 squares errs by sqrt(2 / 4000) = 2 %.
    assert 0.9 * bound < gap < 1.05 * bound
