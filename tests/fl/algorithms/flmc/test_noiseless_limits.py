"""Limits that must coincide with a slow NumPy loop, with plain gradient descent, and with the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from flmc_setting import (
    SEED,
    dataset,
    dealt,
    metric,
    paper_config,
    paper_link,
    run_paper,
    standard_error,
    trajectory,
)
from oracles import numpy_flmc as oracle

from fl.algorithms.run import run_trials

TRIALS = tuple(range(80))
ROUNDS, BURN_IN = 150, 40
"""At the paper's steps the start is forgotten by a factor of 0.8 per round."""
AMPLITUDE = {"analog": 0.008, "digital": float(np.sqrt(8.28e-3 / 2.0))}
"""The LMC cap of each, which binds at 25 dB."""


@pytest.mark.parametrize("scheme", ["noiseless", "analog", "digital"])
def test_the_metrics_are_those_of_the_numpy_oracle_on_the_same_data(scheme: str) -> None:
    results = run_paper(scheme, trials=TRIALS, rounds=ROUNDS, burn_in=BURN_IN)
    ratio, error = [], []
    for trial in TRIALS:
        inputs, labels = dataset(SEED, trial)
        mean, covariance = oracle.posterior(inputs, labels)
        states = oracle.run_chain(
            np.random.default_rng(10_000 + trial),
            dealt(inputs, labels),
            scheme=scheme,
            eta=1.28e-4 if scheme != "digital" else 8.28e-3,
            rounds=ROUNDS,
            amplitude=AMPLITUDE.get(scheme, np.inf),
        )[BURN_IN:]
        error.append(oracle.mean_squared_error(states, mean))
        ratio.append(oracle.spread(states) / np.trace(covariance))
    # Trial by trial on the same data, so the differences have the noise of both and no other.
    for name, wanted in (("mse", error), ("variance_ratio", ratio)):
        difference = metric(results, name) - np.array(wanted)
        assert abs(difference.mean()) < 4 * standard_error(difference)
        # A comparison that could not tell 20 % apart would be no comparison.
        assert 4 * standard_error(difference) < 0.2 * np.mean(wanted)


def test_the_oracle_catches_a_noise_off_by_half_a_db() -> None:
    # The same comparison, with the oracle's receiver noise 0.5 dB too strong.
    results = run_paper("analog", trials=TRIALS, rounds=ROUNDS, burn_in=BURN_IN)
    error = []
    for trial in TRIALS:
        inputs, labels = dataset(SEED, trial)
        mean, _ = oracle.posterior(inputs, labels)
        states = oracle.run_chain(
            np.random.default_rng(10_000 + trial),
            dealt(inputs, labels),
            scheme="analog",
            eta=1.28e-4,
            rounds=ROUNDS,
            amplitude=0.008,
            noise_power=10**0.05,
        )[BURN_IN:]
        error.append(oracle.mean_squared_error(states, mean))
    difference = metric(results, "mse") - np.array(error)
    assert abs(difference.mean()) > 4 * standard_error(difference)


@pytest.mark.parametrize("bound", [30.0, 300.0])
@pytest.mark.parametrize("error_model", ["measured", "error_free"])
def test_analog_without_noise_and_caps_is_gradient_descent(error_model: str, bound: float) -> None:
    # At 140 dB the noise moves theta by eta sqrt(N0) / A = 1.28e-4 * bound / (0.04 * 1e7) < 1e-7 per round;
    # the sum over 20 devices is a float32 of size 20 * bound. Both contract by 0.85 per round.
    trials = (0, 1, 5)
    states = trajectory(
        paper_config("analog", rounds=40, burn_in=0, lmc_cap="none", gradient_bound=bound),
        link=paper_link("analog", snr_max_db=140.0, error_model=error_model),
        trials=trials,
    )
    for row, trial in enumerate(trials):
        wanted = oracle.run_chain(
            np.random.default_rng(0),
            dealt(*dataset(SEED, trial)),
            scheme="descent",
            eta=1.28e-4,
            rounds=40,
            gradient_bound=bound,
        )
        tolerance = 1.28e-4 * 20 * bound * 2**-23 * 7 + 7e-7
        np.testing.assert_allclose(states[:, row], wanted, rtol=0, atol=tolerance)
    # The clip of 30 is felt, or nothing about it is tested: no entry moves by more than eta K l = 0.077.
    assert (np.abs(states[0]).max() < 0.08) == (bound == 30.0)


def test_digital_without_noise_only_quantises() -> None:
    trials = tuple(range(40))
    results = run_trials(
        paper_config("digital", rounds=ROUNDS, burn_in=BURN_IN, lmc_cap="none"),
        link=paper_link("digital", snr_max_db=120.0),
        privacy=None,
        seed=SEED,
        trials=trials,
    )
    error = []
    for trial in trials:
        inputs, labels = dataset(SEED, trial)
        states = oracle.run_chain(
            np.random.default_rng(trial),
            dealt(inputs, labels),
            scheme="digital",
            eta=8.28e-3,
            rounds=ROUNDS,
            amplitude=np.inf,
        )[BURN_IN:]
        error.append(oracle.mean_squared_error(states, oracle.posterior(inputs, labels)[0]))
    difference = metric(results, "mse") - np.array(error)
    assert abs(difference.mean()) < 4 * standard_error(difference)


def test_exact_samples_have_the_posterior_trace_as_their_mse() -> None:
    trials = range(100)
    results = run_paper("exact", trials=trials)
    traces = np.array([np.trace(oracle.posterior(*dataset(SEED, trial))[1]) for trial in trials])
    assert traces.mean() == pytest.approx(0.0042, abs=5e-5)
    difference = metric(results, "mse") - traces
    assert abs(difference.mean()) < 4 * standard_error(difference)
    excess = metric(results, "variance_ratio") - 1.0
    assert abs(excess.mean()) < 4 * standard_error(excess)


@pytest.mark.parametrize("scheme", ["noiseless", "analog"])
def test_the_stationary_spread_is_that_of_the_step(scheme: str) -> None:
    # Langevin steps on a quadratic potential spread by 1 / (lambda (1 - eta lambda / 2)) along an eigenvalue;
    # at the LMC cap eta^2 N0 / A^2 = 2 eta, so that receiver noise does exactly the same.
    trials = range(100)
    results = run_paper(scheme, trials=trials, rounds=300, burn_in=60)
    wanted = []
    for trial in trials:
        values = np.linalg.eigvalsh(np.linalg.inv(oracle.posterior(*dataset(SEED, trial))[1]))
        wanted.append((1.0 / (values * (1.0 - 1.28e-4 * values / 2.0))).sum())
    difference = metric(results, "mse") - np.array(wanted)
    assert abs(difference.mean()) < 4 * standard_error(difference)
