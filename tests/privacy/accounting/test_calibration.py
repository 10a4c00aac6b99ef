"""From a budget for the run back to its rounds: what is found spends the budget, never more, in any shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from privacy.accounting import account, spent_delta
from privacy.accounting.calibration import (
    RunBudget,
    calibrated,
    rounds_that_fit,
    schedule_weights,
    would_exceed,
)
from privacy.accounting.spending import spendings
from privacy.errors import PrivacyError
from privacy.events.events import Kind, Ledger, NoRelease, Spending
from privacy.events.kinds import event_of
from privacy.events.noise_events import FlippedBit, GaussianNoise, PureEpsilon
from privacy.mechanisms.gaussian_mechanism import calibrated_sigma

CASES: tuple[tuple[Kind, int, Mapping[str, float], Any], ...] = (
    ("gaussian", 1, {}, "pld"),
    ("gaussian", 1, {}, "renyi"),
    ("flipped-bits", 7850, {}, "exact"),
    ("flipped-bits", 7850, {}, "renyi"),
    ("pure", 1, {}, "pld"),
    ("pure", 1, {}, "advanced"),
    ("superposed-bits", 5, {"entry_bound": 1.5}, "pld"),
)


def spent(kind: Kind, parameter: np.ndarray, *, coordinates: int, facts: Mapping[str, float]) -> tuple[Spending, ...]:
    """As the finished run's ledger is accounted: sorted, grouped, counted."""
    ledger = Ledger(kind=kind, parameter=parameter[:, None], coordinates=coordinates, unit="sample", facts=facts)
    return spendings(ledger, credited=True)


@pytest.mark.parametrize(("kind", "coordinates", "facts", "accountant"), CASES)
@pytest.mark.parametrize("schedule", ["uniform", "increasing"])
def test_the_calibrated_parameter_spends_the_budget_within_a_percent(
    kind: Kind, coordinates: int, facts: Mapping[str, float], accountant: Any, schedule: Any
) -> None:
    if schedule == "increasing" and accountant == "exact":
        accountant = "pld"  # unequal flips have no closed sum
    budget = RunBudget(epsilon=4.0, delta=1e-5, accountant=accountant)
    found = calibrated(
        kind,
        budget=budget,
        coordinates=coordinates,
        weights=schedule_weights(schedule, num_rounds=24),
        facts=facts,
    )
    assert found.shape == (24,)
    got = account(
        spent(kind, found, coordinates=coordinates, facts=facts), delta=budget.delta, accountant=budget.accountant
    )
    assert 0.99 * 4.0 <= got <= 4.0


def test_the_noise_found_is_that_of_the_exact_calculus() -> None:
    # One Gaussian release of noise z / sqrt(n) is n of noise z: nothing is lost but the half percent left over.
    budget = RunBudget(epsilon=2.0, delta=1e-6)
    found = calibrated("gaussian", budget=budget, coordinates=1, weights=np.ones(30))
    best = float(calibrated_sigma(sensitivity=1.0, num_rounds=30, epsilon=2.0, delta=1e-6))
    assert best <= found[0] <= 1.01 * best


def test_basic_composition_shares_out_epsilon_itself() -> None:
    budget = RunBudget(epsilon=6.0, delta=0.0, accountant="basic")
    found = calibrated("pure", budget=budget, coordinates=3, weights=schedule_weights("decreasing", num_rounds=4))
    assert 0.99 * 6.0 <= 3.0 * found.sum() <= 6.0
    assert found[0] / found[-1] == pytest.approx(2.0)  # weights of 4 to 1 are of squares


def test_shares_add_up_to_the_rounds_and_are_as_the_squares_of_strengths() -> None:
    for schedule in ("uniform", "increasing", "decreasing"):
        weights = schedule_weights(schedule, num_rounds=37, ratio=9.0)
        assert weights.sum() == pytest.approx(37.0)
        assert weights.max() / weights.min() == pytest.approx(1.0 if schedule == "uniform" else 9.0)
        assert np.unique(weights).size <= 10
    rising = schedule_weights("increasing", num_rounds=37, ratio=9.0)
    assert np.all(np.diff(rising) >= 0.0)
    np.testing.assert_allclose(schedule_weights("decreasing", num_rounds=40), rising_of(40)[::-1])
    # For Gaussian noise the squares of 1 / z add up exactly: any shares leave the same sum.
    budget = RunBudget(epsilon=3.0, delta=1e-5)
    noise = [calibrated("gaussian", budget=budget, coordinates=1, weights=w) for w in (rising, np.ones(37))]
    sums = [float((1.0 / one**2).sum()) for one in noise]
    assert sums[0] == pytest.approx(sums[1], rel=0.01)
    np.testing.assert_allclose(noise[0] ** -2 / rising, (noise[0] ** -2 / rising)[0])


def rising_of(num_rounds: int) -> np.ndarray:
    return schedule_weights("increasing", num_rounds=num_rounds)


@pytest.mark.parametrize(
    ("kind", "coordinates", "facts", "larger_is_looser"),
    [
        ("gaussian", 1, {}, False),
        ("flipped-bits", 500, {}, False),
        ("pure", 500, {}, True),
        ("superposed-bits", 5, {"entry_bound": 1.5}, True),
    ],
)
def test_a_larger_budget_and_fewer_rounds_leave_more_for_each(
    kind: Kind, coordinates: int, facts: Mapping[str, float], larger_is_looser: bool
) -> None:
    def found(epsilon: float, rounds: int) -> float:
        budget = RunBudget(epsilon=epsilon, delta=1e-5, accountant="renyi")
        one = calibrated(kind, budget=budget, coordinates=coordinates, weights=np.ones(rounds), facts=facts)[0]
        return float(one if larger_is_looser else -one)

    by_epsilon = [found(epsilon, 20) for epsilon in (0.5, 1.0, 2.0, 4.0)]
    by_rounds = [found(1.0, rounds) for rounds in (80, 40, 20, 10)]
    assert by_epsilon == sorted(set(by_epsilon))
    assert by_rounds == sorted(set(by_rounds))


def test_where_the_bits_themselves_keep_the_budget_any_amplitude_does() -> None:
    budget = RunBudget(epsilon=8.0, delta=1e-5)
    found = calibrated("superposed-bits", budget=budget, coordinates=5, weights=np.ones(1), facts={"entry_bound": 1.5})
    assert np.isinf(found).all()  # m a l = 7.5, whatever is heard


def test_calibrated_flips_are_not_rarer_than_the_resolution() -> None:
    budget = RunBudget(epsilon=100.0, delta=1e-5)
    assert calibrated("flipped-bits", budget=budget, coordinates=1, weights=np.ones(1))[0] == 1e-12


def test_a_round_more_is_refused_exactly_where_it_breaks_the_budget() -> None:
    event = GaussianNoise(noise_multiplier=3.0)
    epsilon_of = [account((Spending(event=event, count=n),), delta=1e-5, accountant="pld") for n in range(1, 12)]
    fits = sum(one <= 3.0 for one in epsilon_of)
    assert 1 < fits < 11
    budget = RunBudget(epsilon=3.0, delta=1e-5)
    assert rounds_that_fit(event, coordinates=1, most=11, budget=budget) == fits
    assert rounds_that_fit(event, coordinates=1, most=2, budget=budget) == min(fits, 2)
    one = Spending(event=event, count=1)
    limits: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "accountant": "pld"}
    assert not would_exceed((Spending(event=event, count=fits - 1),), one, **limits)
    assert would_exceed((Spending(event=event, count=fits),), one, **limits)
    assert not would_exceed((), Spending(event=NoRelease(), count=1), **limits)


def test_the_cost_of_evidence_is_subtracted_from_delta() -> None:
    event = FlippedBit(flip_probability=0.4)
    free = RunBudget(epsilon=5.0, delta=1e-3)
    paid = RunBudget(epsilon=5.0, delta=1e-3, evidence=1.0001e-4)
    plenty = rounds_that_fit(event, coordinates=1, most=50, budget=free)
    assert plenty > 9
    assert rounds_that_fit(event, coordinates=1, most=50, budget=paid) <= 9  # the tenth leaves nothing of delta
    weights = np.ones(5)
    with_evidence = calibrated("flipped-bits", budget=paid, coordinates=1, weights=weights)[0]
    less = RunBudget(epsilon=5.0, delta=1e-3 - 5 * 1.0001e-4)
    assert with_evidence == calibrated("flipped-bits", budget=less, coordinates=1, weights=weights)[0]
    with pytest.raises(PrivacyError, match="evidence of the channel's noise costs"):
        calibrated("flipped-bits", budget=paid, coordinates=1, weights=np.ones(10))


def test_no_budget_holds_noise_of_no_kind_and_no_delta_where_only_approximate_privacy_can_hold() -> None:
    with pytest.raises(PrivacyError, match="releases of kind unprotected have no parameter"):
        calibrated("unprotected", budget=RunBudget(epsilon=1.0, delta=0.1), coordinates=1, weights=np.ones(1))
    with pytest.raises(PrivacyError, match="only approximate privacy can hold"):
        calibrated("gaussian", budget=RunBudget(epsilon=1.0, delta=0.0), coordinates=1, weights=np.ones(1))
    with pytest.raises(PrivacyError, match="must be finite and above 0"):
        RunBudget(epsilon=math.inf, delta=1e-5)
    with pytest.raises(PrivacyError, match="one per round"):
        calibrated("pure", budget=RunBudget(epsilon=1.0, delta=0.1), coordinates=1, weights=np.zeros(2))
    assert (
        rounds_that_fit(PureEpsilon(epsilon=2.0), coordinates=1, most=9, budget=RunBudget(epsilon=1.0, delta=1e-9)) == 0
    )


def test_half_a_billion_flips_are_calibrated_in_an_instant() -> None:
    budget = RunBudget(epsilon=8.0, delta=1e-5)
    found = calibrated("flipped-bits", budget=budget, coordinates=1_200_000, weights=np.ones(500))[0]
    # So many small losses are Gaussian: mu = 2 (1/2 - p) 2 sqrt(n), nearly.
    mu = 4.0 * (0.5 - found) * math.sqrt(6e8)
    best = 1.0 / float(calibrated_sigma(sensitivity=1.0, num_rounds=1, epsilon=8.0, delta=1e-5))
    assert mu == pytest.approx(best, rel=0.01)
    assert event_of("flipped-bits", float(found), {}).pure_epsilon() < 1e-3


def test_releases_that_all_together_lose_less_than_the_tails_are_composed_and_not_a_crash() -> None:
    """As a search for tiny epsilon asks of a schedule; by the union bound sum n delta(0) <= delta gives epsilon 0."""
    tiny = tuple(Spending(event=PureEpsilon(epsilon=each), count=1000) for each in (1e-12, 3e-12))
    assert account(tiny, delta=1e-3, accountant="pld") == 0.0
    # delta(0) = tanh(e / 2) / 2 each or less, 2e-9 in all.
    assert 0.0 <= spent_delta(tiny, epsilon=0.0, accountant="pld") <= 2.1e-9
