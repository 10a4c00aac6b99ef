"""How well scores tell members from others, against enumeration, closed forms and repetition."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest
from scipy.stats import binomtest

from privacy.audit.roc import area_under_curve, true_positive_rate
from privacy.errors import PrivacyError


def games(count: int, *, apart: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    member = rng.integers(0, 2, count).astype(bool)
    return rng.standard_normal(count) + apart * member, member


def test_the_area_is_the_share_of_pairs_in_order_and_ties_count_half() -> None:
    rng = np.random.default_rng(1)
    scores, member = rng.integers(0, 5, 60).astype(float), np.arange(60) % 3 == 0
    pairs = scores[member][:, None] - scores[~member][None, :]
    assert area_under_curve(scores, member).value == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean(), abs=1e-12)


def test_a_perfect_attacker_has_area_1_with_an_interval_and_a_blind_one_has_one_half() -> None:
    member = np.arange(200) % 2 == 0
    perfect = area_under_curve(member.astype(float), member)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert 0.9 < perfect.low < 1.0
    blind = area_under_curve(np.zeros(200), member)
    assert blind.value == 0.5
    assert blind.low < 0.5 < blind.high
    assert area_under_curve(-member.astype(float), member).value == 0.0


def test_intervals_hold_the_area_of_two_normal_laws_as_often_as_they_say() -> None:
    # P(N(1, 1) > N(0, 1)) = Phi(1 / sqrt 2); 400 repetitions at 95 % keep within four standard errors of 0.011.
    truth = 0.5 * (1.0 + erf(0.5))
    held = 0
    for seed in range(400):
        found = area_under_curve(*games(120, apart=1.0, seed=seed))
        held += found.low <= truth <= found.high
    assert abs(held / 400 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400)


def test_the_true_positive_rate_allows_one_percent_false_positives() -> None:
    others, members = np.arange(300.0), np.array([296.0, 296.5, 297.5, 400.0])
    scores = np.concatenate([others, members])
    member = np.arange(304) >= 300
    # Three false alarms are allowed: the threshold is 296, which a member has to exceed.
    found = true_positive_rate(scores, member)
    assert found.value == 0.75
    limits = binomtest(3, 4).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high), abs=1e-9)
    nobody, everybody = (true_positive_rate(np.where(member, level, 0.0), member) for level in (0.0, 1.0))
    assert (nobody.value, nobody.low) == (0.0, 0.0)
    assert (everybody.value, everybody.high) == (1.0, 1.0)


def test_games_without_a_ranking_are_refused() -> None:
    with pytest.raises(PrivacyError, match="0 members and 3 non-members have a score"):
        area_under_curve(np.zeros(3), np.zeros(3, bool))
    with pytest.raises(PrivacyError, match="NaN or infinite"):
        true_positive_rate(np.array([0.0, np.nan]), np.array([True, False]))
    with pytest.raises(PrivacyError):
        area_under_curve(np.zeros(2), np.array([True, False]), confidence=1.0)
