"""The Laplace mechanism over binary32: its noise, its clip, and what flipped bits make of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from baseline_setting import NUM_VALUES, PIECES, round_of, there_and_back, updates
from scipy import integrate, stats

from fl.schemes.coders.coder import Senders
from fl.schemes.laplace import LaplaceScheme
from privacy.mechanisms.additive_noise import laplace_epsilon, laplace_scale, t_epsilon, t_scale


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_noise_is_laplace_of_scale_two_over_epsilon(epsilon: float) -> None:
    x = np.tile(np.linspace(-1, 1, 500), (200, 1)).astype(np.float32)
    error = (there_and_back(LaplaceScheme(name="laplace", epsilon=epsilon), x) - x).astype(float)
    variance = 2 * (2 / epsilon) ** 2
    # Laplace: fourth moment 6 sigma^4.
    assert abs(error.mean()) < 4 * math.sqrt(variance / error.size)
    assert abs(error.var() - variance) < 4 * math.sqrt(5 * variance**2 / error.size)
    assert stats.kstest(error.ravel(), "laplace", args=(0, 2 / epsilon)).pvalue > 1e-4


def test_numbers_beyond_the_range_are_clipped_but_not_as_coded() -> None:
    x = np.full((100, 400), 5.0, np.float32)
    deviation = math.sqrt(2 * 4.0 / 100 / 400)
    clipped = there_and_back(LaplaceScheme(name="laplace", epsilon=1.0), x).mean()
    assert clipped == pytest.approx(1.0, abs=4 * deviation)
    assert there_and_back(LaplaceScheme(name="laplace", epsilon=1.0, as_coded=True), x).mean() == pytest.approx(
        5.0, abs=4 * deviation
    )


def test_the_mean_of_many_devices_is_that_of_their_updates() -> None:
    num_devices = 4000
    values = updates(num_devices)
    made = LaplaceScheme(name="laplace", epsilon=2.0, as_coded=True).build(pieces=PIECES)
    devices = np.arange(num_devices)
    payload = made.encode(values, devices=devices, context=round_of())
    equal = np.full(num_devices, 1 / num_devices)
    mean = made.aggregate(
        payload, Senders(devices=devices, context=round_of(), weights=equal, factor=np.ones(num_devices))
    )
    error = mean - values.mean(axis=0)
    for place in (slice(0, 93), slice(93, 101)):
        # The error of a number is the mean of 3 std_k times noise of variance 2.
        deviation = np.sqrt((9 * values[:, place].var(axis=1) * 2.0).sum()) / num_devices
        assert (np.abs(error[place]) < 4.5 * deviation).all()
        assert error[place].std() > 0.3 * deviation


def test_a_flipped_exponent_is_missing_beyond_the_servers_limit() -> None:
    devices, equal, context = np.arange(5), np.full(5, 0.2), round_of()
    found = {}
    for limit in (None, 100.0):
        made = LaplaceScheme(name="laplace").build(pieces=PIECES, receiver_limit=limit)
        payload = made.encode(updates(5), devices=devices, context=context)
        payload[0, 2, ::4] |= 0x7F  # exponents of device 2: infinite, or not numbers
        payload[0, 2, 1::4] |= 0x80
        found[limit] = made.aggregate(
            payload, Senders(devices=devices, context=context, weights=equal, factor=np.ones(5))
        )
    assert not np.isfinite(found[None]).any()
    assert (np.abs(found[100.0]) < 100.0).all()
    assert found[100.0].shape == (NUM_VALUES,)


def test_scales_of_noise_give_the_epsilon_that_they_say() -> None:
    assert laplace_scale(0.5, width=2.0) == 4.0
    assert laplace_epsilon(4.0, width=2.0) == 0.5
    for epsilon, diameter, freedom in ((0.5, 2 * math.sqrt(2), 6), (3.0, 2.0, 4)):
        s = t_scale(epsilon, dimension=2, diameter=diameter, freedom=freedom)
        assert t_epsilon(s, dimension=2, diameter=diameter, freedom=freedom) == pytest.approx(epsilon)
        # The ratio of densities of two inputs at the diameter, over the line through both, where it is largest.
        y = np.linspace(-20 * s, 20 * s, 400_001)

        def log_density(x: np.ndarray, s: float = s, freedom: int = freedom) -> np.ndarray:
            return -(freedom + 2) / 2 * np.log1p((x / s) ** 2)

        worst = (log_density(y) - log_density(y - diameter)).max()
        assert worst == pytest.approx(epsilon, rel=1e-6)
        # And the variance of one entry is s^2 / (nu - 2).
        radial = [
            integrate.quad(lambda r, k=k, s=s, nu=freedom: r**k * (1 + (r / s) ** 2) ** (-(nu + 2) / 2), 0, np.inf)[0]
            for k in (1, 3)
        ]
        assert radial[1] / radial[0] / 2 == pytest.approx(s**2 / (freedom - 2), rel=1e-6)
