"""One gradient as a stochastic level in noise: the worst pair by brute force, limits, and rounds of two entries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.accountants import account
from privacy.errors import PrivacyError
from privacy.events.events import Spending, Unprotected
from privacy.events.kinds import event_of
from privacy.events.levels import SuperposedLevels, plane_noise_multiplier, rounded_pair
from privacy.events.noise_events import GaussianNoise, PureEpsilon
from privacy.events.superposed import SuperposedBit
from privacy.mechanisms.superposition.levels import round_delta
from privacy.mechanisms.superposition.rounding import RoundingPrivacy

Floats = NDArray[np.float64]

Y = np.linspace(-16.0, 16.0, 8_001)
EPSILON = np.array([0.0, 0.2, 0.6, 1.3])


def weights(gradient: float, *, levels: int, share: float) -> Floats:
    """Probability of every level, `[levels]`, of a gradient in units of its bound; written down anew."""
    u = (levels - 1) * (1.0 + share * gradient) / 2.0
    return np.maximum(1.0 - np.abs(np.arange(levels) - u), 0.0)


def densities(gradients: Floats, *, levels: int, share: float, amplitude: float, y: Floats = Y) -> Floats:
    """Densities at `y` of what is received of every gradient, `[gradients, y]`."""
    places = amplitude * np.linspace(-1.0, 1.0, levels)
    bumps = np.exp(-0.5 * (y - places[:, None]) ** 2) / math.sqrt(2.0 * math.pi)
    return np.array([weights(g, levels=levels, share=share) for g in gradients]) @ bumps


def hockey_stick(first: Floats, second: Floats, epsilon: float, *, cell: float) -> float:
    """The divergence of two densities on a grid by its definition."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * cell)


@pytest.mark.parametrize(
    ("levels", "share", "amplitude"), [(4, 1.0, 0.7), (4, 0.635, 1.0), (8, 0.8, 0.5), (16, 0.7, 2.5)]
)
def test_no_pair_of_gradients_is_told_apart_more_easily_than_the_two_ends(
    levels: int, share: float, amplitude: float
) -> None:
    laws = densities(np.linspace(-1.0, 1.0, 25), levels=levels, share=share, amplitude=amplitude)
    found = SuperposedLevels(amplitude=amplitude, levels=levels, share=share).delta(EPSILON)
    for epsilon, delta in zip(EPSILON, found, strict=True):
        worst = max(hockey_stick(p, q, epsilon, cell=Y[1] - Y[0]) for p, q in itertools.permutations(laws, 2))
        # The sum over a grid of 4 mm errs by the kink alone: its square over the curvature.
        assert worst == pytest.approx(float(delta), abs=2e-6)


def test_a_round_of_two_entries_is_the_divergence_over_the_plane() -> None:
    levels, share, amplitude, y = 4, 0.7, 0.8, np.linspace(-9.0, 9.0, 1501)
    ends = densities(np.array([1.0, -1.0]), levels=levels, share=share, amplitude=amplitude, y=y)
    first, second = (np.outer(one, one) for one in ends)
    pair, cell = rounded_pair(levels=levels, share=share), (y[1] - y[0]) ** 2
    bound = RoundingPrivacy(epsilon=1.0, delta=0.1, dimension=2, noise_power=4.0, pair=pair)
    for epsilon in EPSILON:
        wanted = hockey_stick(first, second, epsilon, cell=cell)
        # Quadrature of 1 %^2 cells with a kink, and an upper bound good to 1e-4.
        assert round_delta(pair, float(epsilon), amplitude=amplitude, dimension=2) == pytest.approx(wanted, rel=5e-4)
        event = SuperposedLevels(amplitude=amplitude, levels=levels, share=share)
        if wanted < 0.6:
            spent = account([Spending(event=event, count=2)], delta=wanted, accountant="pld")
            assert spent == pytest.approx(epsilon, abs=5e-3)
    # The cap is where the round spends just its delta, in the unit of sqrt(noise power).
    cap = bound.amplitude_cap()
    assert round_delta(pair, 1.0, amplitude=cap / 2.0, dimension=2) == pytest.approx(0.1, rel=1e-3)
    assert float(bound.delta_spent(np.array([cap]))[0]) == pytest.approx(0.1, rel=1e-3)
    assert float(bound.delta_spent(np.array([0.9 * cap]))[0]) < 0.1


def test_bit_planes_are_a_gaussian_mechanism_whatever_the_range() -> None:
    bits, places = 2, np.array([1.3, 0.9])
    y = np.linspace(-7.0, 7.0, 281)
    first, second = np.meshgrid(y, y, indexing="ij")
    signs = [(2.0 * (j >> 1) - 1.0, 2.0 * (j & 1) - 1.0) for j in range(4)]
    bumps = [np.exp(-0.5 * ((first - a * places[0]) ** 2 + (second - b * places[1]) ** 2)) for a, b in signs]
    gaussian = GaussianNoise(noise_multiplier=plane_noise_multiplier(places)).delta(EPSILON)
    for share in (1.0, 0.6):
        laws = [
            sum(w * bump for w, bump in zip(weights(g, levels=1 << bits, share=share), bumps, strict=True))
            / (2 * math.pi)
            for g in np.unique([*np.linspace(-1.0, 1.0, 9), -1 / 3 / share, 1 / 3 / share])
        ]
        for epsilon, delta in zip(EPSILON, gaussian, strict=True):
            pairs = itertools.permutations(laws, 2)
            worst = max(hockey_stick(p, q, epsilon, cell=(y[1] - y[0]) ** 2) for p, q in pairs)
            assert worst == pytest.approx(float(delta), abs=2e-4)


@pytest.mark.parametrize("amplitude", [0.003, 0.3, 2.0])
def test_two_levels_are_the_sign_of_the_same_odds_and_full_range_is_gaussian(amplitude: float) -> None:
    orders = np.array([1.5, 2.0, 10.0, 100.0])
    two = SuperposedLevels(amplitude=amplitude, levels=2, share=math.tanh(0.75))
    sign = SuperposedBit(amplitude=amplitude, entry_bound=1.5)
    np.testing.assert_allclose(two.delta(EPSILON), sign.delta(EPSILON), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(two.renyi(orders), sign.renyi(orders), rtol=1e-9)
    assert two.pure_epsilon() == pytest.approx(1.5, rel=1e-12)
    full = SuperposedLevels(amplitude=amplitude, levels=8, share=1.0)
    gaussian = GaussianNoise(noise_multiplier=0.5 / amplitude)
    np.testing.assert_allclose(full.delta(EPSILON), gaussian.delta(EPSILON), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(full.renyi(orders), gaussian.renyi(orders), rtol=1e-12)
    # A wider range draws at the ends: it tells less apart at the same amplitude, at every order and epsilon.
    wide = SuperposedLevels(amplitude=amplitude, levels=8, share=0.7)
    assert np.all(wide.renyi(orders) < gaussian.renyi(orders))
    assert np.all(wide.delta(EPSILON) <= gaussian.delta(EPSILON))


def test_the_renyi_divergence_is_that_of_the_densities() -> None:
    event = SuperposedLevels(amplitude=0.9, levels=4, share=0.8)
    p, q = densities(np.array([1.0, -1.0]), levels=4, share=0.8, amplitude=0.9)
    for order in (1.5, 3.0, 6.0):
        wanted = math.log(float((p**order * q ** (1.0 - order)).sum() * (Y[1] - Y[0]))) / (order - 1.0)
        assert float(event.renyi(np.array(order))) == pytest.approx(wanted, rel=1e-7)


def test_a_ledger_of_levels_finds_its_events() -> None:
    facts = {"levels": 4.0, "share": 0.8}
    assert event_of("superposed-levels", 0.3, facts) == SuperposedLevels(amplitude=0.3, levels=4, share=0.8)
    assert isinstance(event_of("superposed-levels", math.inf, facts), Unprotected)
    two = event_of("superposed-levels", math.inf, {"levels": 2.0, "share": math.tanh(0.75)})
    assert isinstance(two, PureEpsilon)
    assert two.epsilon == pytest.approx(1.5)
    with pytest.raises(PrivacyError, match="'share'"):
        event_of("superposed-levels", 0.3, {"levels": 4.0})
    for fields in ({"amplitude": -1.0}, {"levels": 1}, {"share": 0.0}):
        with pytest.raises(PrivacyError, match=next(iter(fields))):
            SuperposedLevels(**{"amplitude": 0.3, "levels": 4, "share": 0.8, **fields})
