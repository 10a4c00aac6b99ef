"""Effective sample size and split R-hat: of chains whose truth is known, in blocks, and stopped early."""

from __future__ import annotations

import numpy as np
import pytest

from fl.algorithms.flmc.mixing import ChainMixing, blocking


def autoregressive(rho: float, *, trials: int, entries: int, rounds: int, seed: int = 3) -> np.ndarray:
    """Stationary chains `[rounds, trials, entries]` of variance 1, whose autocorrelation is rho^k."""
    rng = np.random.default_rng(seed)
    states = np.empty((rounds, trials, entries))
    states[0] = rng.standard_normal((trials, entries))
    for index in range(1, rounds):
        states[index] = rho * states[index - 1] + np.sqrt(1 - rho**2) * rng.standard_normal((trials, entries))
    return states


def measured(states: np.ndarray, *, counted: np.ndarray | None = None) -> dict[str, np.ndarray]:
    found = ChainMixing(np.full(states.shape[1:], 0.7), num_samples=len(states))
    for index, theta in enumerate(states):
        found.add(index, theta, counted=np.ones(len(theta), bool) if counted is None else counted[index])
    return found.summary()


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_the_size_of_an_autoregressive_chain_is_its_closed_form(rho: float) -> None:
    rounds = 4000
    size = measured(autoregressive(rho, trials=200, entries=1, rounds=rounds))["effective_sample_size"]
    # n (1 - rho) / (1 + rho); Geyer's cut costs a few percent, which n this large makes small.
    assert np.median(size) == pytest.approx(rounds * (1 - rho) / (1 + rho), rel=0.06)


def test_blocks_change_little_and_hold_what_they_may() -> None:
    assert blocking(100, dimension=5) == (100, 1)
    count, length = blocking(10_000_000, dimension=5)
    assert count <= 1 << 16
    assert count * length >= 10_000_000
    states = autoregressive(0.9, trials=100, entries=1, rounds=4000)
    single = measured(states)
    whole = ChainMixing(np.zeros((100, 1)), num_samples=4000)
    whole._length, blocks = 8, 500
    whole._sums, whole._squares = np.zeros((2, blocks, 100, 1))
    whole._counts = np.zeros((blocks, 100))
    for index, theta in enumerate(states):
        whole.add(index, theta, counted=np.ones(100, bool))
    blocked = whole.summary()
    assert np.median(blocked["effective_sample_size"] / single["effective_sample_size"]) == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose(blocked["split_rhat"], single["split_rhat"], rtol=1e-9)


def test_split_rhat_is_its_definition_and_sees_a_drift() -> None:
    states = autoregressive(0.3, trials=30, entries=4, rounds=60)
    found = measured(states)["split_rhat"]
    halves = np.stack([states[:30], states[30:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    wanted = np.sqrt((29 / 30 * within + between) / within).max(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    drifting = states + np.linspace(0.0, 6.0, 60)[:, None, None]
    assert measured(drifting)["split_rhat"].min() > 1.5
    assert np.median(found) < 1.1


@pytest.mark.parametrize("rounds", [10, 37, 400])
def test_a_trial_has_the_same_numbers_alone_and_among_others(rounds: int) -> None:
    states = autoregressive(0.6, trials=5, entries=3, rounds=rounds)
    together = measured(states)
    for some in ([0], [3], [4, 1]):
        for name, values in measured(states[:, some]).items():
            np.testing.assert_array_equal(values, together[name][some])


def test_a_trial_that_stops_counts_what_it_had_and_one_without_samples_has_none() -> None:
    states = autoregressive(0.3, trials=3, entries=2, rounds=50)
    counted = np.ones((50, 3), bool)
    counted[20:, 1] = counted[2:, 2] = False
    found = measured(states, counted=counted)
    short = measured(states[:20, 1:2])
    for name, values in found.items():
        assert values[1] == pytest.approx(short[name][0], rel=1e-12)
        assert np.isfinite(values[0])
        assert np.isnan(values[2])
