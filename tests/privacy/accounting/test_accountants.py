"""Every accountant against enumeration and closed forms, against each other, and at the edges."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting import ACCOUNTANTS, account, refusal, spent_delta
from privacy.accounting import loss_distributions as pld
from privacy.accounting.composition import _best_order, advanced_epsilon, condensed, renyi_epsilon
from privacy.accounting.inversion import epsilon_of_event
from privacy.errors import PrivacyError
from privacy.events.claims import Accountant
from privacy.events.events import Event, Floats, NoRelease, Spending, Unprotected
from privacy.events.noise_events import FlippedBit, GaussianNoise, LaplaceNoise, PureEpsilon, RepeatedFlips
from privacy.events.sampling import SampledRelease
from privacy.events.superposed import SuperposedBit

# What the accountant `pld` promises of its grid.
SLACK = 1.01


@dataclass(frozen=True)
class Disguised:
    """An event whose closed sum is kept from the accountants, so that they must find it by themselves."""

    event: Event

    def pure_epsilon(self) -> float:
        return self.event.pure_epsilon()

    def delta(self, epsilon: Floats) -> Floats:
        return self.event.delta(epsilon)

    def renyi(self, order: Floats) -> Floats:
        return self.event.renyi(order)

    def repeated(self, count: int) -> Event | None:
        return self if count == 1 else None


def spent(*events: tuple[Event, int]) -> tuple[Spending, ...]:
    return tuple(Spending(event=event, count=count) for event, count in events)


def delta_by_enumeration(epsilon: float, each: list[float]) -> float:
    """Hockey-stick divergence of randomised responses of all these epsilons, over all outcomes."""
    total = 0.0
    for signs in itertools.product((1.0, -1.0), repeat=len(each)):
        loss = sum(s * e for s, e in zip(signs, each, strict=True))
        probability = math.prod(1.0 / (1.0 + math.exp(-s * e)) for s, e in zip(signs, each, strict=True))
        total += probability * max(-math.expm1(epsilon - loss), 0.0)
    return total


def assert_small_compositions_are_enumerated() -> None:
    mixed = [0.3, 0.3, 0.3, 0.8, 0.8, 1.1, 0.05, 0.05, 2.0]
    releases = spent(
        (FlippedBit(flip_probability=1.0 / (1.0 + math.exp(0.3))), 3),
        (PureEpsilon(epsilon=0.8), 2),
        (PureEpsilon(epsilon=1.1), 1),
        (Disguised(PureEpsilon(epsilon=0.05)), 2),
        (PureEpsilon(epsilon=2.0), 1),
    )
    for delta in (0.2, 1e-2, 1e-4):
        found = account(releases, delta=delta, accountant="pld")
        assert delta_by_enumeration(found, mixed) <= delta
        assert delta_by_enumeration(found / SLACK, mixed) >= delta
    for epsilon in (0.5, 2.0, 4.0):
        true = delta_by_enumeration(epsilon, mixed)
        assert true <= spent_delta(releases, epsilon=epsilon, accountant="pld") <= 1.01 * true
        for accountant in ("advanced", "renyi"):
            assert spent_delta(releases, epsilon=epsilon, accountant=accountant) >= true


def test_small_compositions_of_flips_are_those_of_all_outcomes() -> None:
    assert_small_compositions_are_enumerated()


@pytest.mark.parametrize("fault", ["too few", "too short a grid", "one direction"])
def test_enumeration_catches_a_fault_in_the_composition(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault == "too few":
        join = pld._all_of
        monkeypatch.setattr(pld, "_all_of", lambda pmfs, *, cut: join(pmfs[:-1] if len(pmfs) > 2 else pmfs, cut=cut))
    elif fault == "too short a grid":
        reach = pld._range
        monkeypatch.setattr(pld, "_range", lambda event, *, tail: (reach(event, tail=tail)[0], 0.5))
    else:
        monkeypatch.setattr(pld, "_profile", lambda event, epsilon: event.delta(np.maximum(epsilon, 0.0)))
    with pytest.raises(AssertionError):
        assert_small_compositions_are_enumerated()


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (GaussianNoise(noise_multiplier=0.5), 3),
        (GaussianNoise(noise_multiplier=20.0), 100),
        (GaussianNoise(noise_multiplier=3000.0), 1_000_000),
        (PureEpsilon(epsilon=0.1), 500),
        (PureEpsilon(epsilon=3.0), 50),
        (PureEpsilon(epsilon=1e-3), 3_000_000),
    ],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-8])
def test_composed_grids_are_within_one_percent_above_the_closed_form(event: Event, count: int, delta: float) -> None:
    whole = event.repeated(count)
    assert whole is not None
    exact = epsilon_of_event(whole, delta=delta)
    found = account(spent((Disguised(event), count)), delta=delta, accountant="pld")
    assert exact * (1.0 - 1e-9) <= found <= SLACK * exact


EVENTS: dict[str, Event] = {
    "laplace": LaplaceNoise(epsilon=0.2),
    "pure": PureEpsilon(epsilon=1.3),
    "flipped bit": FlippedBit(flip_probability=0.3),
    "superposed bit": SuperposedBit(amplitude=0.3, entry_bound=1.5),
    "sampled laplace": SampledRelease(event=LaplaceNoise(epsilon=0.5), rate=0.2),
}


@pytest.mark.parametrize("count", [2, 30, 1000])
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_pld_is_at_most_renyi_and_renyi_at_most_basic(event: Event, count: int) -> None:
    releases = spent((event, count))
    for delta in (1e-2, 1e-7):
        basic, renyi, tight = (account(releases, delta=delta, accountant=name) for name in ("basic", "renyi", "pld"))
        assert tight <= renyi * SLACK
        # The highest order is 1e7: there the conversion adds ln(1 / delta) / 1e7.
        assert renyi <= basic * (1.0 + 1e-6) + 1e-5
        assert tight <= account(releases, delta=delta, accountant="advanced") * SLACK


@settings(max_examples=25, deadline=None)
@given(
    log_multiplier=st.floats(-1.0, 2.0),
    log_epsilon=st.floats(-2.0, 0.5),
    counts=st.tuples(*[st.integers(1, 300)] * 2),
    log_delta=st.floats(-8.0, -1.0),
)
def test_pld_is_at_most_renyi_for_any_mixture(
    log_multiplier: float, log_epsilon: float, counts: tuple[int, int], log_delta: float
) -> None:
    releases = spent(
        (GaussianNoise(noise_multiplier=10.0**log_multiplier), counts[0]),
        (LaplaceNoise(epsilon=10.0**log_epsilon), counts[1]),
    )
    delta = 10.0**log_delta
    tight = account(releases, delta=delta, accountant="pld")
    assert tight <= account(releases, delta=delta, accountant="renyi") * SLACK
    # No less than either part alone.
    for part in releases:
        assert tight >= account((part,), delta=delta, accountant="pld") / SLACK


@pytest.mark.parametrize("event", [*EVENTS.values(), GaussianNoise(noise_multiplier=1.0)])
def test_composition_of_one_is_itself(event: Event) -> None:
    once = spent((event, 1))
    exact = account(once, delta=1e-3, accountant="exact")
    assert exact == account(once, delta=1e-3, accountant="pld")
    assert float(event.delta(np.array([exact]))[0]) == pytest.approx(1e-3, rel=1e-6)
    if math.isfinite(event.pure_epsilon()):
        assert account(once, delta=1e-3, accountant="basic") == event.pure_epsilon()
        assert account(once, delta=0.0, accountant="exact") == event.pure_epsilon()
    nothing = spent((NoRelease(), 5), (event, 0))
    assert all(account(nothing, delta=1e-3, accountant=name) == 0.0 for name in ACCOUNTANTS)
    assert account(once + nothing, delta=1e-3, accountant="pld") == exact


def test_advanced_composition_is_the_printed_theorem() -> None:
    """Kairouz, Oh and Viswanath 2015, Theorem 3.5, its three branches, written out."""
    each, counts, delta = (0.1, 0.4), (50, 7), 1e-6
    mean = sum(n * e * (math.exp(e) - 1.0) / (math.exp(e) + 1.0) for e, n in zip(each, counts, strict=True))
    squares = sum(n * e * e for e, n in zip(each, counts, strict=True))
    second = mean + math.sqrt(sum(2 * n * e * e * math.log(1 / delta) for e, n in zip(each, counts, strict=True)))
    third = mean + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta))
    releases = spent(*((PureEpsilon(epsilon=e), n) for e, n in zip(each, counts, strict=True)))
    assert advanced_epsilon(releases, delta=delta) == pytest.approx(min(second, third))
    one = spent((PureEpsilon(epsilon=1.0), 1))
    assert advanced_epsilon(one, delta=delta) == 1.0, "a single release is not made worse"


@pytest.mark.parametrize("accountant", ["advanced", "renyi", "pld"])
def test_delta_of_epsilon_is_the_inverse_of_epsilon_of_delta(accountant: Accountant) -> None:
    releases = spent((LaplaceNoise(epsilon=0.1), 200), (PureEpsilon(epsilon=0.3), 10))
    for delta in (1e-2, 1e-6):
        epsilon = account(releases, delta=delta, accountant=accountant)
        # Renyi orders differ a little between the two conversions, and grids in their step.
        assert spent_delta(releases, epsilon=epsilon, accountant=accountant) == pytest.approx(delta, rel=0.05)
    assert spent_delta(releases, epsilon=0.0, accountant=accountant) <= 1.0
    assert spent_delta(releases, epsilon=23.0, accountant="basic") == 0.0
    assert spent_delta(releases, epsilon=22.9, accountant="basic") == 1.0


def test_gaussian_noise_of_different_strength_is_one_release() -> None:
    releases = spent((GaussianNoise(noise_multiplier=2.0), 16), (GaussianNoise(noise_multiplier=1.0), 5))
    # mu^2 = 16 / 4 + 5 / 1.
    (one,) = condensed(releases)
    assert one.count == 1
    assert isinstance(one.event, GaussianNoise)
    assert one.event.noise_multiplier == pytest.approx(1.0 / 3.0)
    found = account(releases, delta=1e-5, accountant="exact")
    assert found == pytest.approx(epsilon_of_event(GaussianNoise(noise_multiplier=1.0 / 3.0), delta=1e-5))
    disguised = tuple(Spending(event=Disguised(one.event), count=one.count) for one in releases)
    assert found <= account(disguised, delta=1e-5, accountant="pld") <= SLACK * found


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_one_unprotected_release_gives_infinity(accountant: Accountant) -> None:
    releases = spent((PureEpsilon(epsilon=0.1), 3), (Unprotected(), 1))
    assert account(releases, delta=1e-5, accountant=accountant) == math.inf
    assert spent_delta(releases, epsilon=1e6, accountant=accountant) == 1.0


def test_accountants_name_the_event_that_they_cannot_treat() -> None:
    noise, laplace = spent((GaussianNoise(noise_multiplier=2.0), 4)), spent((LaplaceNoise(epsilon=0.1), 4))
    for accountant in ("basic", "advanced"):
        with pytest.raises(PrivacyError, match=rf"'{accountant}'.*GaussianNoise has none; write accountant:"):
            account(noise, delta=1e-5, accountant=accountant)
    with pytest.raises(PrivacyError, match=r"'exact'.*4 of LaplaceNoise\(epsilon=0\.1\).*; write accountant: pld"):
        account(laplace, delta=1e-5, accountant="exact")
    with pytest.raises(PrivacyError, match=r"'pld' computes 4 events to 1e-13; give at least ten times"):
        account(laplace, delta=1e-13, accountant="pld")
    assert refusal(noise, delta=1e-5, accountant="renyi") is None
    assert "GaussianNoise" in str(refusal(noise, delta=1e-5, accountant="basic"))
    with pytest.raises(PrivacyError, match="accountant is 'paper'"):
        account(noise, delta=1e-5, accountant="paper")


def test_impossible_deltas_and_epsilons_are_refused() -> None:
    noise, flips = spent((GaussianNoise(noise_multiplier=2.0), 4)), spent((PureEpsilon(epsilon=0.5), 4))
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(PrivacyError, match=f"delta is {bad}"):
            account(noise, delta=bad, accountant="renyi")
    for accountant in ("renyi", "pld", "exact"):
        with pytest.raises(PrivacyError, match="only approximate privacy can hold"):
            account(noise, delta=0.0, accountant=accountant)
    with pytest.raises(PrivacyError, match="needs one above 0; use basic"):
        account(flips, delta=0.0, accountant="pld")
    assert account(flips, delta=0.0, accountant="basic") == account(flips, delta=0.0, accountant="exact") == 2.0
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(PrivacyError, match=f"epsilon is {bad}"):
            spent_delta(noise, epsilon=bad, accountant="pld")


def test_bits_of_several_rounds_compose_where_losses_are_beyond_all_exponents() -> None:
    # 2.7e7 bits a round, each round at its own rate: the loss is 1e8 nats, and its spread 1e4.
    rates = (0.08, 0.1, 0.2)
    releases = spent(*((FlippedBit(flip_probability=p), 27_000_000) for p in rates))
    odds = [math.log((1 - p) / p) for p in rates]
    mean = sum(27e6 * e * (1 - 2 * p) for e, p in zip(odds, rates, strict=True))
    spread = math.sqrt(sum(27e6 * 4 * e * e * p * (1 - p) for e, p in zip(odds, rates, strict=True)))
    found = account(releases, delta=1e-6, accountant="pld")
    # Nearly normal: 4.75 standard deviations are passed with probability 1e-6.
    assert mean + 4.6 * spread < found < mean + 4.9 * spread
    assert isinstance(condensed(releases)[0].event, RepeatedFlips)


def test_a_grid_never_tells_more_than_renyi_divergences_prove() -> None:
    """Five bits at A = 2 all but reach m a l = 7.5 nats, where the grid's step shows: it said 7.4997, Renyi 7.4982."""
    releases = spent((SuperposedBit(amplitude=2.0, entry_bound=1.5), 5))
    tight = account(releases, delta=1e-5, accountant="pld")
    assert tight <= account(releases, delta=1e-5, accountant="renyi")
    assert spent_delta(releases, epsilon=0.99 * tight, accountant="pld") > 1e-5


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.3])
@pytest.mark.parametrize("multiplier", [1e-3, 0.1, 1.0, 50.0, 1e5])
def test_renyi_epsilon_is_converted_as_in_dp_accounting(multiplier: float, delta: float) -> None:
    def theirs(orders: Floats, loss: Floats) -> tuple[float, float]:
        return rdp.compute_epsilon(orders, loss, delta)

    events = GaussianNoise(noise_multiplier=multiplier), FlippedBit(flip_probability=0.4)
    releases = [Spending(event=event, count=count) for event, count in zip(events, (7, 3), strict=True)]
    assert renyi_epsilon(releases, delta=delta) == _best_order(releases, worst=math.inf, convert=theirs)
