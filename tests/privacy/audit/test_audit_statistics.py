"""The distinguishing game's statistics against mechanisms whose epsilon is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privacy.audit import epsilon_lower, error_limits, gaussian_epsilon, halves, judge, mu_lower, renyi_lower
from privacy.errors import PrivacyError

EPSILON = 1.0
FLIP = 1.0 / (1.0 + math.e)


def binomial_slack(level: float, runs: int) -> float:
    """Five standard errors of a counted share: a test that is right fails once in three million."""
    return 5.0 * math.sqrt(level * (1.0 - level) / runs)


@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_the_bound_exceeds_the_truth_no_more_often_than_its_confidence_allows(confidence: float) -> None:
    rng, runs, games = np.random.default_rng(1), 20_000, 400
    wrong, missed = rng.binomial(games, FLIP, runs), rng.binomial(games, FLIP, runs)
    found = epsilon_lower(wrong, missed, games, games, delta=0.0, confidence=confidence)
    assert (found > EPSILON).mean() <= 1.0 - confidence + binomial_slack(1.0 - confidence, runs)
    # Nor is it vacuous: 400 games of either world know epsilon to some tenths.
    assert np.median(found) > 0.6 * EPSILON


def test_a_threshold_chosen_on_the_other_half_keeps_the_confidence() -> None:
    # Laplace noise: any threshold outside (-1, 1) is as good as any other, so that a choice by the judged games
    # themselves would pick the luckiest of hundreds.
    rng, runs, games, confidence = np.random.default_rng(2), 600, 600, 0.8
    scale, exceeding = 2.0 / EPSILON, 0
    for _ in range(runs):
        worlds = rng.random(games) < 0.5
        scores = rng.laplace(np.where(worlds, 1.0, -1.0), scale)
        exceeding += judge(scores, worlds, delta=0.0, confidence=confidence).epsilon_lower > EPSILON
    assert exceeding / runs <= 1.0 - confidence + binomial_slack(1.0 - confidence, runs)


def test_judged_games_do_not_select_the_threshold() -> None:
    rng = np.random.default_rng(3)
    worlds = rng.random(1000) < 0.5
    scores = rng.normal(worlds.astype(float))
    _, judged = halves(worlds)
    other = np.where(judged, rng.normal(size=1000), scores)
    first, second = (judge(one, worlds, delta=0.0, confidence=0.9) for one in (scores, other))
    assert first.threshold == second.threshold
    assert first.epsilon_lower > second.epsilon_lower


def test_without_an_error_the_bound_is_that_of_the_rule_of_clopper_and_pearson() -> None:
    # No error in n games: the upper limit p has (1 - p)^n = (1 - confidence) / 2.
    limit = 1.0 - (0.05 / 2.0) ** (1.0 / 500)
    expected = math.log((1.0 - 0.01 - limit) / limit)
    assert float(epsilon_lower(0, 0, 500, 500, delta=0.01, confidence=0.95)) == pytest.approx(expected, rel=1e-12)


def test_an_attacker_that_always_errs_gives_no_bound() -> None:
    assert float(epsilon_lower(500, 500, 500, 500, delta=0.0, confidence=0.9)) == 0.0
    assert float(epsilon_lower(500, 0, 500, 500, delta=0.0, confidence=0.9)) == 0.0
    assert float(mu_lower(500, 500, 500, 500, confidence=0.9)) == 0.0
    assert float(renyi_lower(500, 500, 500, 500, order=2.0, confidence=0.9)) == 0.0


def test_limits_are_scipys_of_the_exact_binomial() -> None:
    from scipy.stats import binomtest

    alpha, beta = error_limits([0, 7, 60], 3, 60, 40, confidence=0.9)
    assert alpha[2] == 1.0
    for seen, limit in zip((0, 7), alpha, strict=False):
        # One-sided at 1 - 0.05.
        assert limit == pytest.approx(binomtest(seen, 60, alternative="less").proportion_ci(0.95).high, rel=1e-9)
    assert float(beta) == pytest.approx(binomtest(3, 40, alternative="less").proportion_ci(0.95).high, rel=1e-9)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.05])
def test_epsilon_of_a_gaussian_is_that_of_dp_accounting(mu: float, delta: float) -> None:
    import dp_accounting

    assert gaussian_epsilon(mu, delta=delta) == pytest.approx(
        dp_accounting.get_epsilon_gaussian(1.0 / mu, delta), rel=1e-6, abs=1e-7
    )


def test_the_gaussian_form_finds_mu_and_keeps_its_confidence() -> None:
    rng, runs, games, mu, confidence = np.random.default_rng(5), 300, 2000, 1.0, 0.8
    truth = gaussian_epsilon(mu, delta=0.01)
    found = []
    for _ in range(runs):
        worlds = rng.random(games) < 0.5
        scores = rng.normal(mu * worlds)
        found.append(judge(scores, worlds, delta=0.01, confidence=confidence, form="gaussian").epsilon_lower)
    assert (np.array(found) > truth).mean() <= 1.0 - confidence + binomial_slack(1.0 - confidence, runs)
    assert np.median(found) > 0.7 * truth


def test_the_renyi_form_approaches_the_divergence_of_randomized_response_from_below() -> None:
    order, games = 2.0, 10**8
    # ln[(1-p)^2 / p + p^2 / (1-p)] of keep 1 - p against p.
    truth = math.log((1.0 - FLIP) ** 2 / FLIP + FLIP**2 / (1.0 - FLIP))
    errors = round(FLIP * games)
    found = float(renyi_lower(errors, errors, games, games, order=order, confidence=0.999))
    assert 0.998 * truth < found < truth
    fewer = float(renyi_lower(270, 270, 1000, 1000, order=order, confidence=0.999))
    assert 0.0 < fewer < found


def test_delta_lowers_the_bound() -> None:
    found = [float(epsilon_lower(50, 60, 1000, 1000, delta=delta, confidence=0.99)) for delta in (0.0, 0.1, 0.5)]
    assert found[0] > found[1] > found[2] > 0.0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: epsilon_lower(1, 1, 10, 10, delta=1.0, confidence=0.9), "delta is 1.0"),
        (lambda: epsilon_lower(1, 1, 10, 10, delta=0.0, confidence=1.0), "confidence is 1.0"),
        (lambda: epsilon_lower(11, 1, 10, 10, delta=0.0, confidence=0.9), "false_positives"),
        (lambda: epsilon_lower(1, -1, 10, 10, delta=0.0, confidence=0.9), "false_negatives"),
        (lambda: gaussian_epsilon(1.0, delta=0.0), "delta is 0.0"),
        (lambda: gaussian_epsilon(-1.0, delta=0.1), "mu is -1.0"),
        (lambda: renyi_lower(1, 1, 10, 10, order=1.0, confidence=0.9), "order is 1.0"),
        (lambda: judge(np.zeros(40), np.arange(40) % 2 == 0, delta=0.0, confidence=0.9), "play at least"),
        (lambda: judge(np.full(400, np.nan), np.arange(400) % 2 == 0, delta=0.0, confidence=0.9), "without NaN"),
    ],
)
def test_invalid_games_are_refused_by_name(call: object, named: str) -> None:
    assert callable(call)
    with pytest.raises(PrivacyError, match=named):
        call()
