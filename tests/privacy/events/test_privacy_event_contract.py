"""What every event of the ledger promises to the accountants, whichever it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privacy.errors import PrivacyError
from privacy.events.events import Event, NoRelease, Unprotected
from privacy.events.noise_events import FlippedBit, GaussianNoise, LaplaceNoise, PureEpsilon, RepeatedFlips
from privacy.events.sampling import SampledRelease
from privacy.events.superposed import SuperposedBit

EVENTS: dict[str, Event] = {
    "no release": NoRelease(),
    "unprotected": Unprotected(),
    "gaussian, loud": GaussianNoise(noise_multiplier=3.0),
    "gaussian, faint": GaussianNoise(noise_multiplier=0.2),
    "laplace": LaplaceNoise(epsilon=1.2),
    "laplace, tiny": LaplaceNoise(epsilon=1e-4),
    "pure": PureEpsilon(epsilon=0.7),
    "pure, huge": PureEpsilon(epsilon=900.0),
    "flipped bit": FlippedBit(flip_probability=0.1),
    "flipped bit, mostly wrong": FlippedBit(flip_probability=0.9),
    "coin": FlippedBit(flip_probability=0.5),
    "repeated flips": RepeatedFlips(epsilon_each=0.3, count=40),
    "many repeated flips": RepeatedFlips(epsilon_each=1.0, count=600_000_000),
    "superposed bit": SuperposedBit(amplitude=0.4, entry_bound=1.5),
    "superposed bit, loud": SuperposedBit(amplitude=6.0, entry_bound=1.5),
    "sampled gaussian": SampledRelease(event=GaussianNoise(noise_multiplier=1.0), rate=0.05),
    "sampled flips": SampledRelease(event=RepeatedFlips(epsilon_each=0.3, count=40), rate=0.3),
    "everybody sampled": SampledRelease(event=LaplaceNoise(epsilon=1.2), rate=1.0),
}
ORDERS = np.array([1.05, 1.5, 2.0, 3.0, 8.0, 60.0])
# Differences of nearly equal numbers: 1e-12 is 4500 roundings.
ROUNDING = 1e-12


@pytest.fixture(params=EVENTS.values(), ids=EVENTS.keys())
def event(request: pytest.FixtureRequest) -> Event:
    return request.param


def epsilons(event: Event) -> np.ndarray:
    """A ladder over all losses that matter."""
    reach = min(event.pure_epsilon(), 100.0) if event.pure_epsilon() < 1e6 else 4e8
    return np.concatenate([np.linspace(0.0, 1.2 * max(reach, 1e-3), 401), [1e12]])


def test_it_is_an_event_and_equal_events_are_equal(event: Event) -> None:
    assert isinstance(event, Event)
    assert hash(event) == hash(event)
    assert event == event.repeated(1) or isinstance(event, FlippedBit)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_results_have_the_shape_of_the_arguments(event: Event, shape: tuple[int, ...]) -> None:
    for answer in (event.delta(np.full(shape, 0.5)), event.renyi(np.full(shape, 2.0))):
        assert isinstance(answer, np.ndarray)
        assert (answer.shape, answer.dtype) == (shape, np.float64)


def test_the_profile_is_a_falling_probability(event: Event) -> None:
    delta = event.delta(epsilons(event))
    assert np.all((delta >= 0.0) & (delta <= 1.0))
    assert np.all(np.diff(delta) <= ROUNDING)


def test_the_profile_is_convex_in_the_exponential_of_epsilon(event: Event) -> None:
    # A hockey-stick divergence is E_Q[(r - t)_+], t = e^epsilon; also where both directions meet, at t = 1.
    ladder = np.linspace(0.0, min(event.pure_epsilon(), 12.0), 200)[1:]
    above, below = event.delta(ladder), -np.expm1(-ladder) + np.exp(-ladder) * event.delta(ladder)
    at = np.concatenate([np.exp(-ladder[::-1]), [1.0], np.exp(ladder)])
    delta = np.concatenate([below[::-1], event.delta(np.zeros(1)), above])
    slopes = np.diff(delta) / np.maximum(np.diff(at), 1e-300)
    if at[-1] > at[0]:
        assert np.all(np.diff(slopes) >= -ROUNDING / np.diff(at).min())


def test_no_loss_is_beyond_the_pure_epsilon(event: Event) -> None:
    largest = event.pure_epsilon()
    assert largest >= 0.0
    if math.isfinite(largest):
        assert event.delta(np.array([largest, 2.0 * largest + 1.0])).max() <= ROUNDING
        assert np.all(event.renyi(ORDERS) <= largest * (1.0 + ROUNDING))
    elif not isinstance(event, Unprotected):
        assert np.all(event.delta(np.array([1.0, 5.0])) > 0.0)


def test_renyi_rises_with_the_order(event: Event) -> None:
    divergence = event.renyi(ORDERS)
    assert np.all(divergence >= 0.0)
    with np.errstate(invalid="ignore"):
        assert not np.any(np.diff(divergence) < -ROUNDING * divergence[1:])


@pytest.mark.parametrize("order", [1.5, 2.0, 3.5])
def test_renyi_is_no_smaller_than_its_own_profile_says(event: Event, order: float) -> None:
    """e^((a-1) D) - 1 = a (a-1) integral over x > 0 of (e^((a-1) x) + e^(-a x)) delta(x), both directions alike."""
    if event.pure_epsilon() > 50.0 and not isinstance(event, GaussianNoise | SampledRelease):
        pytest.skip("the integral overflows")
    reach = min(event.pure_epsilon(), 60.0 + 60.0 * float(event.renyi(np.array([2.0]))[0]))
    x = np.linspace(0.0, reach, 200_001)
    with np.errstate(over="ignore", invalid="ignore"):
        weight = np.exp((order - 1.0) * x) + np.exp(-order * x)
        profile = event.delta(x)
        excess = order * (order - 1.0) * np.trapezoid(np.where(profile > 0.0, weight * profile, 0.0), x)
    expected = math.log1p(excess) / (order - 1.0)
    found = float(event.renyi(np.array([order]))[0])
    assert found >= expected * (1.0 - 1e-6)
    if not isinstance(event, SampledRelease) and expected > 0.0:
        # The trapezoids' own error: cells of 1/200000 of the range.
        assert found == pytest.approx(expected, rel=1e-4)


def test_none_and_one_release_are_nothing_and_itself(event: Event) -> None:
    none, once = event.repeated(0), event.repeated(1)
    assert none is not None
    assert once is not None
    assert none.pure_epsilon() == 0.0
    ladder = epsilons(event)
    np.testing.assert_array_equal(once.delta(ladder), event.delta(ladder))
    np.testing.assert_array_equal(once.renyi(ORDERS), event.renyi(ORDERS))


def test_a_closed_sum_adds_up_pure_and_renyi_losses(event: Event) -> None:
    thrice = event.repeated(3)
    if thrice is None:
        return
    assert thrice.pure_epsilon() == pytest.approx(3.0 * event.pure_epsilon())
    np.testing.assert_allclose(thrice.renyi(ORDERS), 3.0 * event.renyi(ORDERS), rtol=1e-9)
    ladder = epsilons(event)
    assert np.all(thrice.delta(ladder) >= event.delta(ladder) - ROUNDING)


@pytest.mark.parametrize("count", [-1, 1.5])
def test_a_release_happens_a_whole_number_of_times(count: float) -> None:
    for event in EVENTS.values():
        if isinstance(event, NoRelease | Unprotected | SuperposedBit):
            continue
        with pytest.raises(PrivacyError, match="whole number"):
            event.repeated(count)
