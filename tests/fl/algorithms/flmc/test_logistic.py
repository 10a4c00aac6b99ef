"""Bayesian logistic regression on real data: gradients, splits, the reference chain, and whole runs."""

from __future__ import annotations

import numpy as np
import pytest
from flmc_setting import SEED, assert_same_bits, metric, paper_config, paper_link, trajectory
from scipy.special import expit

from fl.algorithms.flmc.tasks import build_task
from fl.algorithms.flmc.tasks.config import LogisticConfig
from fl.algorithms.flmc.tasks.regression import ReferenceChain, reference_chain, standardised_data
from fl.algorithms.run import run_trials
from phy.config import CsiError
from phy.numerics.random import Purpose, generator
from privacy.config import PrivacyConfig

TRIALS = (0, 3)
TASK = LogisticConfig(prior_variance=0.5, preconditioned=False)
MIXING_TASK = LogisticConfig(prior_variance=0.5)


def log_posterior(theta: np.ndarray) -> float:
    """ln p(theta | data) up to a constant, straight from the model."""
    inputs, labels = standardised_data()
    probability = expit(inputs @ theta)
    likelihood = np.where(labels == 1.0, probability, 1.0 - probability)
    return float(np.log(likelihood).sum() - theta @ theta / (2 * TASK.prior_variance))


def test_the_data_are_there_and_standardised() -> None:
    inputs, labels = standardised_data()
    assert inputs.shape == (569, 31)
    assert (labels == 1).sum() == 357
    np.testing.assert_allclose(inputs[:, :30].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(inputs[:, :30].std(axis=0), 1.0, atol=1e-12)
    np.testing.assert_array_equal(inputs[:, 30], 1.0)


@pytest.mark.parametrize("num_devices", [1, 20, 569])
def test_device_gradients_add_up_to_minus_the_slope_of_the_log_posterior(num_devices: int) -> None:
    task = build_task(TASK, num_devices=num_devices, seed=SEED, trials=TRIALS)
    theta = 0.2 * np.random.default_rng(3).normal(size=(len(TRIALS), 31))
    total = task.gradients(theta).sum(axis=1)
    step = 1e-4
    for row in range(len(TRIALS)):
        slope = [
            (log_posterior(theta[row] + step * e) - log_posterior(theta[row] - step * e)) / (2 * step)
            for e in np.eye(31)
        ]
        # Third derivative (at most 569 * 10^3 * 0.1) times step^2 / 6, and rounding of 1e2 over 2e-4.
        np.testing.assert_allclose(total[row], -np.array(slope), rtol=0, atol=1e-4)


def test_the_split_keeps_every_sample_and_differs_between_trials() -> None:
    task = build_task(TASK, num_devices=20, seed=SEED, trials=TRIALS)
    inputs, labels = standardised_data()
    theta = 0.2 * np.random.default_rng(4).normal(size=(len(TRIALS), 31))
    found = task.gradients(theta)
    for row, trial in enumerate(TRIALS):
        order = generator(SEED, trial, Purpose.PARTITION).permutation(569)
        assert sorted(order) == list(range(569))
        for device, share in enumerate(np.array_split(order, 20)):
            residual = expit(inputs[share] @ theta[row]) - labels[share]
            wanted = residual @ inputs[share] + theta[row] / (20 * TASK.prior_variance)
            np.testing.assert_allclose(found[row, device], wanted, rtol=1e-9, atol=1e-11)
    same = np.broadcast_to(theta[0], theta.shape)
    at_same = task.gradients(same)
    assert np.abs(at_same[0] - at_same[1]).max() > 0.1
    np.testing.assert_allclose(at_same[0].sum(axis=0), at_same[1].sum(axis=0), atol=1e-9)


def test_the_reference_chain_satisfies_steins_identity() -> None:
    chain = reference_chain(TASK.prior_variance)
    task = build_task(TASK, num_devices=1, seed=SEED, trials=(0,))
    # E[grad U] = 0 and E[grad U_i (theta - mu)_j] = delta_ij under the target; `states` lists chain by chain.
    states = chain.states[::4].reshape(32, -1, 31)
    gradients = np.stack([task.gradients(state[None])[0, 0] for state in states.reshape(-1, 31)])
    gradients = gradients.reshape(states.shape)
    by_chain = gradients.mean(axis=1)
    z = by_chain.mean(axis=0) / (by_chain.std(axis=0, ddof=1) / np.sqrt(32))
    # 31 values of Student's t with 31 degrees of freedom: beyond 5 once in 1500 seeds, and the seed is fixed.
    assert np.abs(z).max() < 5
    product = (gradients * (states - chain.mean)).sum(axis=2).mean(axis=1)
    assert abs(product.mean() - 31) < 5 * product.std(ddof=1) / np.sqrt(32)


def mean_error(chain: ReferenceChain) -> np.ndarray:
    """Standard error of the mean, from the spread of the means of 32 chains."""
    by_chain = chain.states.reshape(32, -1, 31).mean(axis=1)
    return np.asarray(by_chain.std(axis=0, ddof=1) / np.sqrt(32))


def test_the_reference_chain_knows_its_mean() -> None:
    chain = reference_chain(TASK.prior_variance)
    deviation = np.sqrt(np.diag(chain.covariance))
    # A run of 100 samples knows its mean to a tenth of a deviation at best: a fiftieth is truth to it.
    assert (mean_error(chain) < 0.02 * deviation).all()
    assert np.linalg.eigvalsh(chain.covariance)[0] > 0
    task = build_task(TASK, num_devices=20, seed=SEED, trials=TRIALS)
    np.testing.assert_array_equal(task.posterior.mean, np.broadcast_to(chain.mean, (2, 31)))
    picked = task.exact_samples(50)
    assert picked.shape == (2, 50, 31)
    assert {tuple(state) for state in picked.reshape(-1, 31)} <= {tuple(state) for state in chain.states}


def test_the_bounds_on_the_curvature_hold_along_the_chain() -> None:
    inputs, _ = standardised_data()
    task = build_task(TASK, num_devices=20, seed=SEED, trials=TRIALS)
    for theta in reference_chain(TASK.prior_variance).states[::4000]:
        weight = expit(inputs @ theta)
        hessian = (inputs * (weight * (1 - weight))[:, None]).T @ inputs + np.eye(31) / TASK.prior_variance
        eigenvalues = np.linalg.eigvalsh(hessian)
        assert task.strong_convexity[0] <= eigenvalues[0]
        assert eigenvalues[-1] <= task.smoothness[0]


def test_noiseless_sampling_approaches_the_reference_chain() -> None:
    config = paper_config(
        "noiseless", task=TASK, num_devices=1, gradient_bound=1e6, step_size=1e-3, rounds=1500, burn_in=0
    )
    states = trajectory(config, link=paper_link("digital"), trials=tuple(range(24)))[300:]
    chain = reference_chain(TASK.prior_variance)
    means = states.mean(axis=0)
    z = (means.mean(axis=0) - chain.mean) / np.hypot(means.std(axis=0, ddof=1) / np.sqrt(24), mean_error(chain))
    # Unadjusted: a bias of order eta L remains, L being 2000 only along one direction.
    assert np.sqrt(np.mean(z**2)) < 2.0
    ratio = np.var(states.reshape(-1, 31), axis=0).sum() / np.trace(chain.covariance)
    assert 0.85 < ratio < 1.25


def test_preconditioned_coordinates_are_those_of_a_curvature_of_one_at_the_mode() -> None:
    plain, task = (build_task(one, num_devices=20, seed=SEED, trials=TRIALS) for one in (TASK, MIXING_TASK))
    chain = reference_chain(TASK.prior_variance)
    values, vectors = np.linalg.eigh(chain.laplace)
    scale = (vectors * np.sqrt(values)) @ vectors.T
    phi = np.random.default_rng(8).normal(size=(len(TRIALS), 31))
    wanted = plain.gradients(phi @ scale) @ scale
    np.testing.assert_allclose(task.gradients(phi), wanted, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(task.posterior.mean @ scale, plain.posterior.mean, atol=1e-8)
    np.testing.assert_allclose(scale @ task.posterior.covariance[0] @ scale, chain.covariance, atol=1e-8)
    step, mode = 1e-5, plain.posterior.mean[:1] @ np.linalg.inv(scale)
    for _ in range(20):  # Newton's steps in these coordinates: the Hessian is near I
        mode = mode - task.gradients(np.repeat(mode, 2, axis=0))[:1].sum(axis=1)
    slopes = [
        (
            task.gradients(np.repeat(mode + step * e, 2, axis=0))[0]
            - task.gradients(np.repeat(mode - step * e, 2, axis=0))[0]
        ).sum(axis=0)
        / (2 * step)
        for e in np.eye(31)
    ]
    np.testing.assert_allclose(slopes, np.eye(31), atol=1e-4)


def test_a_preconditioned_chain_of_some_hundred_rounds_is_that_of_the_reference() -> None:
    config = paper_config(
        "noiseless", task=MIXING_TASK, num_devices=20, gradient_bound=1e6, step_size=0.1, rounds=800, burn_in=200
    )
    results = run_trials(config, link=paper_link("digital"), privacy=None, seed=SEED, trials=range(16))
    task = build_task(MIXING_TASK, num_devices=20, seed=SEED, trials=(0,))
    exact = np.trace(task.posterior.covariance[0])
    # In theta 1500 rounds leave half of the distance. A step of 0.1 spreads the samples by a tenth at most.
    assert metric(results, "mse").mean() == pytest.approx(exact, rel=0.12)
    assert 0.9 < metric(results, "variance_ratio").mean() < 1.12
    assert metric(results, "split_rhat").mean() < 1.3
    slow = paper_config(
        "noiseless", task=TASK, num_devices=20, gradient_bound=1e6, step_size=3e-4, rounds=800, burn_in=200
    )
    stuck = run_trials(slow, link=paper_link("digital"), privacy=None, seed=SEED, trials=range(4))
    assert metric(stuck, "split_rhat").mean() > 1.5


def test_a_chain_that_cannot_mix_is_refused_with_the_rounds_that_it_needs() -> None:
    inputs, _ = standardised_data()
    largest = np.linalg.eigvalsh(inputs.T @ inputs)[-1] / 4.0
    assert LogisticConfig.inputs_curvature == pytest.approx(largest, abs=0.01)
    config = paper_config("noiseless", task=TASK, rounds=2_000, burn_in=1_000)
    needed = TASK.rounds_to_mix()
    # 5 times the longest relaxation, L / mu over the 2 of the largest stable step 2 / L.
    assert needed == pytest.approx(5 * (largest + 2) / (2 * 2), rel=1e-3)
    problems = [one.problem for one in config.conflicts(link=paper_link("digital"), privacy=None)]
    assert any(f"{needed:,} rounds" in one for one in problems)
    for fine in (MIXING_TASK, TASK):
        longer = config.model_copy(update={"task": fine, "rounds": 9_000, "burn_in": 5_000})
        assert not list(longer.conflicts(link=paper_link("digital"), privacy=None))


@pytest.mark.parametrize("scheme", ["digital", "analog", "digital-orthogonal", "noiseless", "exact"])
def test_every_scheme_runs_end_to_end(scheme: str) -> None:
    results = run_trials(
        paper_config(scheme, task=TASK, rounds=8, burn_in=4, step_size="auto"),
        link=paper_link(scheme, channel={"gain": 1.0}),
        privacy=PrivacyConfig(epsilon=5.0),
        seed=SEED,
        trials=TRIALS,
    )
    assert [result.trial for result in results] == list(TRIALS)
    assert all(result.failure is None for result in results)
    for name in ("mse", "wasserstein2", "variance_ratio"):
        assert (metric(results, name) > 0).all()
    assert ("amplitude" in results[0].rounds) == (scheme not in ("noiseless", "exact"))
    assert bool(results[0].link) == (scheme == "digital-orthogonal")


@pytest.mark.parametrize("scheme", ["analog", "noiseless"])
def test_a_trial_has_the_same_numbers_in_any_batch(scheme: str) -> None:
    """Beside the other tests of this task, whose reference chain takes seconds to draw."""
    config = paper_config(scheme, task=TASK, rounds=6, burn_in=2, step_size="auto")
    link = paper_link(
        scheme,
        channel={"gain": 1.0, "fading": "rayleigh"},
        power={"policy": "truncated-inversion", "cutoff_db": -6.0},
        csi=CsiError(error_variance=0.05),
        probe_bits=64,
    )
    whole, *parts = (
        run_trials(config, link=link, privacy=None, seed=SEED, trials=trials) for trials in ((0, 1, 2), (0,), (1, 2))
    )
    for one, other in zip(whole, [*parts[0], *parts[1]], strict=True):
        assert_same_bits(one, other)
