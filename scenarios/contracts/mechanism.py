"""The contract of privacy mechanisms of plug-ins. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

import math
from typing import Any
from unittest import SkipTest

import numpy as np
from scipy.stats import beta

from privacy.config import StatedNoise
from privacy.events.events import Event

_VALUES = 8
_GAMES = 20_000
_SURE = 1e-6
"""Probability that an honest event is refuted by one threshold of the games."""
_EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
_ORDERS = np.array([1.5, 2.0, 4.0, 8.0, 32.0])
_STRENGTHS = (0.5, 1.0, 2.0)


def _stated(mechanism: StatedNoise, strength: float = 1.0) -> Event:
    event = mechanism.event(strength=strength, num_values=_VALUES)
    if event is None:
        raise SkipTest("it states no event, and its runs have epsilon infinity")
    return event


def _perturbed(mechanism: StatedNoise, updates: Any, *, seed: int, strength: float = 1.0) -> Any:
    return mechanism.perturb(updates, strength=strength, generator=np.random.default_rng(seed))


def noisy_updates_have_the_shape_of_updates(mechanism: StatedNoise) -> None:
    """Every device has an update of finite numbers, and the clipped one is left as it was."""
    updates = np.full((5, _VALUES), mechanism.clip / _VALUES, np.float32)
    before = updates.copy()
    noisy = np.asarray(_perturbed(mechanism, updates, seed=1))
    assert noisy.shape == updates.shape, f"updates of shape {updates.shape} become {noisy.shape}"
    assert np.isfinite(noisy).all(), "noise makes numbers that are not finite"
    assert np.array_equal(updates, before), "perturb changes the updates that it is given"


def noise_comes_from_the_generator_alone(mechanism: StatedNoise) -> None:
    """The same generator gives the same noise, another one other noise, and devices have noise of their own."""
    updates = np.zeros((3, _VALUES), np.float32)
    first = _perturbed(mechanism, updates, seed=1)
    assert np.array_equal(first, _perturbed(mechanism, updates, seed=1)), "the noise differs when it is drawn again"
    assert not np.array_equal(first, _perturbed(mechanism, updates, seed=2)), "two generators give the same noise"
    assert not np.array_equal(first[0], first[1]), "two devices have the same noise"


def the_event_is_a_privacy_profile(mechanism: StatedNoise) -> None:
    """delta falls with epsilon, the Rényi divergence rises with the order, and the event can be hashed."""
    event = _stated(mechanism)
    hash(event)
    delta, renyi = np.asarray(event.delta(_EPSILONS)), np.asarray(event.renyi(_ORDERS))
    assert delta.shape == _EPSILONS.shape, f"delta of shape {delta.shape} at {len(_EPSILONS)} epsilons"
    assert renyi.shape == _ORDERS.shape, f"Rényi divergences of shape {renyi.shape} at {len(_ORDERS)} orders"
    assert ((delta >= 0.0) & (delta <= 1.0) & (np.diff(delta, prepend=1.0) <= 1e-12)).all(), f"delta is {delta}"
    assert (np.diff(renyi, prepend=0.0) >= -1e-12).all(), f"the Rényi divergence is {renyi}"
    largest = event.pure_epsilon()
    if math.isfinite(largest):
        beyond = float(np.asarray(event.delta(np.array([largest])))[0])
        assert beyond <= 1e-9, f"delta is {beyond} at the largest loss {largest}"
        assert (renyi <= largest + 1e-9).all(), f"the Rényi divergence exceeds the largest loss {largest}"


def more_strength_is_more_loss(mechanism: StatedNoise) -> None:
    """The loss rises with the strength, by which a budget for the run sets the noise."""
    weak, middle, strong = (np.asarray(_stated(mechanism, one).delta(_EPSILONS)) for one in _STRENGTHS)
    assert (np.diff([weak, middle, strong], axis=0) >= -1e-12).all(), "delta falls where the strength rises"
    assert (strong > weak).any(), "the strength changes nothing"


def games_do_not_refute_the_event(mechanism: StatedNoise) -> None:
    """Two updates as far apart as the clip allows are told apart no better than the event says."""
    ends = np.zeros((2, _GAMES, _VALUES), np.float32)
    if mechanism.norm == "linf":
        ends += mechanism.clip
    else:
        ends[..., 0] = mechanism.clip
    ends[1] *= -1.0
    for strength in _STRENGTHS:
        event = _stated(mechanism, strength)
        played = [_perturbed(mechanism, end, seed=k, strength=strength) for k, end in enumerate(ends)]
        noisy = np.asarray(played, np.float64)
        # The first number, or the sum of all: thresholds from one half of the games, counts from the other.
        for numbers in (noisy[:, :, 0], noisy.sum(axis=2)):
            (learn, test), (other_learn, other) = (np.split(one, 2) for one in numbers)
            for at in np.quantile(np.concatenate([learn, other_learn]), np.linspace(0.02, 0.98, 25)):
                _check(event, (test > at).sum(), (other > at).sum(), len(test), strength)
                _check(event, (other <= at).sum(), (test <= at).sum(), len(test), strength)


def _check(event: Event, here: int, there: int, games: int, strength: float) -> None:
    """Compare P(A) - e^eps P(B) <= delta(eps) by Clopper-Pearson limits of both."""
    low = float(beta.ppf(_SURE, here, games - here + 1)) if here else 0.0
    high = float(beta.ppf(1.0 - _SURE, there + 1, games - there)) if there < games else 1.0
    delta = np.asarray(event.delta(_EPSILONS))
    excess = low - np.exp(_EPSILONS) * high - delta
    worst = int(np.argmax(excess))
    assert excess[worst] <= 0.0, (
        f"at strength {strength:g} games have delta of at least {low - math.exp(_EPSILONS[worst]) * high:.3g} at "
        f"epsilon {_EPSILONS[worst]:g}, the event states {delta[worst]:.3g}"
    )


CHECKS = (
    noisy_updates_have_the_shape_of_updates,
    noise_comes_from_the_generator_alone,
    the_event_is_a_privacy_profile,
    more_strength_is_more_loss,
    games_do_not_refute_the_event,
)
