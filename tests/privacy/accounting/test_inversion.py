"""The smallest epsilon of a profile is where closed forms have it: from above, and hardly above."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from privacy.accounting.inversion import epsilon_of_event
from privacy.events.events import Event
from privacy.events.noise_events import GaussianNoise, LaplaceNoise, PureEpsilon

DELTAS = (1e-9, 1e-5, 0.03)


def of_gaussian(mu: float, delta: float) -> float:
    """Balle and Wang 2018, Theorem 8, by another root finder; e^eps as a logarithm, so that no tail is lost."""

    def excess(epsilon: float) -> float:
        lost = math.exp(epsilon + float(norm.logcdf(-mu / 2.0 - epsilon / mu)))
        return float(norm.cdf(mu / 2.0 - epsilon / mu)) - lost - delta

    return float(brentq(excess, 0.0, 200.0, xtol=1e-13, rtol=1e-14))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("largest", [0.3, 2.0, 7.5])
def test_of_losses_that_are_bounded_it_is_the_closed_form(largest: float, delta: float) -> None:
    response = epsilon_of_event(PureEpsilon(epsilon=largest), delta=delta)
    assert response == pytest.approx(largest + math.log1p(-delta * (1.0 + math.exp(-largest))), rel=1e-9)
    laplace = epsilon_of_event(LaplaceNoise(epsilon=largest), delta=delta)
    assert laplace == pytest.approx(largest + 2.0 * math.log1p(-delta), rel=1e-9)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0])
def test_of_gaussian_noise_it_is_the_root_of_its_profile(mu: float, delta: float) -> None:
    found = epsilon_of_event(GaussianNoise(noise_multiplier=1.0 / mu), delta=delta)
    assert found == pytest.approx(of_gaussian(mu, delta), rel=1e-8)


@pytest.mark.parametrize("event", [GaussianNoise(noise_multiplier=0.7), PureEpsilon(epsilon=3.0).repeated(50)])
def test_it_keeps_delta_and_a_hair_less_does_not(event: Event) -> None:
    for delta in DELTAS:
        found = epsilon_of_event(event, delta=delta)
        below, at = event.delta(np.array([found * (1.0 - 1e-9), found]))
        assert at <= delta < below
