"""Gaussian noise and randomised response against quadrature in many digits, sums of flips against enumeration."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, norm

from privacy.errors import PrivacyError
from privacy.events import _binomial_tails
from privacy.events.events import NoRelease
from privacy.events.noise_events import (
    LARGEST_COUNT,
    FlippedBit,
    GaussianNoise,
    LaplaceNoise,
    PureEpsilon,
    RepeatedFlips,
)
from privacy.events.sampling import SampledRelease, renyi_of_profile


def one(value: np.ndarray) -> float:
    return float(value[0])


def delta_by_quadrature(density, other, epsilon: float, *, ends: list) -> mpmath.mpf:
    """Integral of (p - e^eps q)_+ in 40 digits."""
    gap = mpmath.e ** mpmath.mpf(epsilon)
    return mpmath.quad(lambda x: max(density(x) - gap * other(x), mpmath.mpf(0)), ends)


@pytest.mark.parametrize("multiplier", [0.05, 0.7, 4.0, 300.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, 4.0])
def test_gaussian_delta_is_that_of_quadrature_in_forty_digits(multiplier: float, share: float) -> None:
    mu = 1.0 / multiplier
    epsilon = share * (mu * mu / 2.0 + 3.0 * mu)
    with mpmath.workdps(40):
        # Above the crossing alone the integrand is not 0; it falls the faster the farther out that is.
        cross = mpmath.mpf(epsilon) / mu + mpmath.mpf(mu) / 2
        steps = [cross + mpmath.mpf(2) ** power for power in range(-6, 5)]
        ends = sorted({cross, *steps, mpmath.inf, *([mpmath.mpf(mu)] if mu > cross else [])})
        expected = delta_by_quadrature(lambda x: mpmath.npdf(x, mu), lambda x: mpmath.npdf(x), epsilon, ends=ends)
    found = one(GaussianNoise(noise_multiplier=multiplier).delta(np.array([epsilon])))
    assert found == pytest.approx(float(expected), rel=1e-9, abs=0.0)
    with mpmath.workdps(80):
        near, far = mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu, -mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu
        closed = float(mpmath.ncdf(near) - mpmath.e ** mpmath.mpf(epsilon) * mpmath.ncdf(far))
    # Up: four roundings of either term, whose difference is a share of mu / 13. Down: rounding of the argument.
    assert closed * (1.0 - 1e-13) <= found <= closed * (1.0 + 1e-14 * max(13.0 / mu, 10.0))


@pytest.mark.parametrize("order", [1.2, 2.0, 7.5])
def test_renyi_of_gaussian_and_laplace_noise_is_that_of_quadrature(order: float) -> None:
    with mpmath.workdps(30):
        mu = mpmath.mpf(1) / 2
        moment = mpmath.quad(
            lambda x: mpmath.npdf(x, mu) ** order * mpmath.npdf(x) ** (1 - order), [-mpmath.inf, 0, order, mpmath.inf]
        )
        gaussian = mpmath.log(moment) / (order - 1)
        scale = mpmath.mpf(5) / 4
        laplace = mpmath.log(
            mpmath.quad(
                lambda x: mpmath.exp(-order * abs(x - 1) / scale + (order - 1) * abs(x) / scale) / (2 * scale),
                [-mpmath.inf, 0, 1, mpmath.inf],
            )
        ) / (order - 1)
    at = np.array([order])
    assert one(GaussianNoise(noise_multiplier=2.0).renyi(at)) == pytest.approx(float(gaussian), rel=1e-9)
    assert one(LaplaceNoise(epsilon=0.8).renyi(at)) == pytest.approx(float(laplace), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.79, 0.8, 2.0])
def test_laplace_delta_is_that_of_quadrature(epsilon: float) -> None:
    def density(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(-abs(x) * mpmath.mpf("0.8")) * mpmath.mpf("0.4")

    cross = (1 + epsilon / 0.8) / 2
    ends = [cross, max(cross, 1), 60] if epsilon < 0.8 else [1, 60]
    expected = delta_by_quadrature(lambda x: density(x - 1), density, epsilon, ends=ends)
    assert one(LaplaceNoise(epsilon=0.8).delta(np.array([epsilon]))) == pytest.approx(float(expected), abs=1e-12)


def test_a_flipped_bit_is_randomised_response_of_its_log_odds() -> None:
    p = 0.2
    bit, pure = FlippedBit(flip_probability=p), PureEpsilon(epsilon=math.log(4.0))
    assert bit.pure_epsilon() == pytest.approx(math.log((1 - p) / p))
    ladder = np.linspace(0.0, 2.0, 21)
    # Two outcomes: (1 - p) - e^eps p is all that can be positive.
    np.testing.assert_allclose(bit.delta(ladder), np.maximum(1 - p - np.exp(ladder) * p, 0.0), atol=1e-15)
    np.testing.assert_allclose(pure.delta(ladder), bit.delta(ladder), atol=1e-15)
    moment = (1 - p) ** 3.0 * p**-2.0 + p**3.0 * (1 - p) ** -2.0
    assert one(bit.renyi(np.array([3.0]))) == pytest.approx(math.log(moment) / 2.0)
    assert FlippedBit(flip_probability=0.5).pure_epsilon() == 0.0
    assert isinstance(FlippedBit(flip_probability=0.5).repeated(10**6), NoRelease)


def flips_by_enumeration(epsilon: float, *, each: float, count: int) -> float:
    """All 2^n outcomes of n bits, one hypothesis all zeros, the other all ones."""
    keep = math.exp(each) / (1.0 + math.exp(each))
    total = 0.0
    for outcome in itertools.product((0, 1), repeat=count):
        wrong = sum(outcome)
        p, q = keep ** (count - wrong) * (1 - keep) ** wrong, keep**wrong * (1 - keep) ** (count - wrong)
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


def assert_sums_of_flips_are_enumerated() -> None:
    for each, count in ((0.01, 6), (0.4, 9), (1.0, 1), (2.5, 8)):
        for share in (0.0, 0.1, 0.34, 0.5, 0.99, 1.0):
            epsilon = share * each * count
            found = one(RepeatedFlips(epsilon_each=each, count=count).delta(np.array([epsilon])))
            assert found == pytest.approx(flips_by_enumeration(epsilon, each=each, count=count), abs=1e-13)


def test_sums_of_flips_are_those_of_all_outcomes() -> None:
    assert_sums_of_flips_are_enumerated()


def test_enumeration_catches_a_loss_that_fades_too_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    _binomial_tails._tables.cache_clear()
    exact = _binomial_tails.lfilter
    monkeypatch.setattr(_binomial_tails, "lfilter", lambda b, a, x: exact(b, [a[0], 0.999 * a[1]], x))
    with pytest.raises(AssertionError):
        assert_sums_of_flips_are_enumerated()
    _binomial_tails._tables.cache_clear()


@pytest.mark.parametrize("each", [1e-5, 0.1, 3.0])
def test_six_hundred_million_flips_have_the_tails_of_the_binomial(each: float) -> None:
    count = 600_000_000
    flip = 1.0 / (1.0 + math.exp(each))
    spread = math.sqrt(count * flip * (1 - flip))
    # An independent oracle: scipy's probabilities, and the sum itself, over 12 standard deviations of b.
    b = np.arange(math.floor(count * flip - 12 * spread), math.ceil(count * flip + 12 * spread), dtype=np.float64)
    probability, loss = binom.pmf(b, count, flip), each * (count - 2.0 * b)
    event = RepeatedFlips(epsilon_each=each, count=count)
    for away in (-2.0, 0.0, 1.5, 5.0):
        epsilon = max(each * (count * (1 - 2 * flip) + 2.0 * away * spread), 0.0)
        expected = float(np.sum(probability * -np.expm1(np.minimum(epsilon - loss, 0.0))))
        assert one(event.delta(np.array([epsilon]))) == pytest.approx(expected, rel=1e-6)


def test_losses_beyond_all_floating_point_exponents_are_summed() -> None:
    event = RepeatedFlips(epsilon_each=20.0, count=60_000_000)
    assert event.pure_epsilon() == 1.2e9
    delta = event.delta(np.array([0.0, 1.1e9, 1.2e9 - 1.0, 1.2e9, 2e9]))
    assert np.all(np.isfinite(delta))
    # None is flipped with probability e^(-n p), n p = 0.1237; then the loss is all there is, less 1 from the end.
    assert delta[2] == pytest.approx(math.exp(-6e7 * math.exp(-20.0)) * -math.expm1(-1.0), rel=1e-6)
    assert delta[1] == pytest.approx(1.0)
    assert delta[3] == delta[4] == 0.0


def test_sampling_makes_epsilon_and_delta_smaller_as_published() -> None:
    inner = GaussianNoise(noise_multiplier=0.8)
    sampled = SampledRelease(event=inner, rate=0.1)
    ladder = np.linspace(0.0, 4.0, 9)
    mixed = np.log(1.0 + 0.1 * (np.exp(ladder) - 1.0))
    np.testing.assert_allclose(sampled.delta(mixed), 0.1 * inner.delta(ladder), rtol=1e-9)
    assert SampledRelease(event=PureEpsilon(epsilon=2.0), rate=0.1).pure_epsilon() == pytest.approx(
        math.log(1.0 + 0.1 * (math.e**2 - 1.0))
    )
    # 900 nats: what is left is the rarity itself.
    assert SampledRelease(event=PureEpsilon(epsilon=900.0), rate=0.1).pure_epsilon() == pytest.approx(
        900.0 + math.log(0.1)
    )


def test_sampled_gaussian_noise_is_no_worse_than_its_amplified_profile() -> None:
    # The law itself, a mixture against the law without: a lower bound that the event must not fall below.
    from scipy.stats import norm

    x = np.linspace(-12.0, 14.0, 400_001)
    absent, present = norm.pdf(x), norm.pdf(x, loc=1.0)
    mixture = 0.2 * present + 0.8 * absent
    event = SampledRelease(event=GaussianNoise(noise_multiplier=1.0), rate=0.2)
    for epsilon in (0.0, 0.05, 0.2, 0.5, 1.0):
        for p, q in ((mixture, absent), (absent, mixture)):
            law = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), x)
            # Trapezoids err by the square of 1e-4 of a standard deviation.
            assert one(event.delta(np.array([epsilon]))) >= law - 1e-8
    for order in (2.0, 4.0):
        law = np.log(np.trapezoid(mixture**order * absent ** (1 - order), x)) / (order - 1)
        assert one(event.renyi(np.array([order]))) >= law


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_invalid_noise_is_refused(bad: float) -> None:
    for make in (
        lambda value: GaussianNoise(noise_multiplier=value),
        lambda value: LaplaceNoise(epsilon=value),
        lambda value: PureEpsilon(epsilon=value),
        lambda value: FlippedBit(flip_probability=value),
        lambda value: RepeatedFlips(epsilon_each=value, count=3),
        lambda value: SampledRelease(event=NoRelease(), rate=value),
    ):
        with pytest.raises(PrivacyError, match=rf"is {bad}.*; (give|enter)"):
            make(bad)


def test_more_flips_than_can_be_summed_are_left_to_other_accountants() -> None:
    assert FlippedBit(flip_probability=0.1).repeated(LARGEST_COUNT + 1) is None
    with pytest.raises(PrivacyError, match="renyi or advanced"):
        RepeatedFlips(epsilon_each=1.0, count=LARGEST_COUNT + 1)


def test_renyi_of_a_sampled_release_lies_above_every_pair_and_falls_with_the_square_of_the_share() -> None:
    def pair(share: float, order: float) -> float:
        """(1 - q) N(0, 1) + q N(mu, 1) against N(0, 1), by quadrature: somebody else sends what this one would not."""
        y = np.linspace(-30.0, 40.0, 200_001)
        one, other = norm.logpdf(y), norm.logpdf(y - 1.0)
        mixed = np.logaddexp(np.log1p(-share) + one, np.log(share) + other)
        return float(np.log(np.trapezoid(np.exp(order * mixed - (order - 1.0) * one), y)) / (order - 1.0))

    orders = np.array([1.5, 2.0, 8.0, 30.0])
    noise = GaussianNoise(noise_multiplier=1.0)
    for share in (0.01, 0.2):
        found = SampledRelease(event=noise, rate=share).renyi(orders)
        assert np.all(found >= [pair(share, order) for order in orders])
    small, half = (SampledRelease(event=noise, rate=share).renyi(np.array([2.0]))[0] for share in (0.01, 0.005))
    # q^2, and the log of a bound that is not quite reached.
    assert small / half == pytest.approx(4.0, rel=0.1)


def test_the_renyi_divergence_of_a_profile_is_that_of_the_mechanism_it_belongs_to() -> None:
    """Where one pair of laws has the whole profile both ways round, the integral is its divergence."""
    for event in (GaussianNoise(noise_multiplier=1.0), PureEpsilon(epsilon=2.0)):
        for order in (1.5, 4.0, 20.0):
            true, beyond = (float(event.renyi(np.array([a]))[0]) for a in (order, 2.0 * order))
            found = renyi_of_profile(event.delta, order, largest=event.pure_epsilon(), at_twice=beyond)
            assert true <= found <= 1.02 * true
