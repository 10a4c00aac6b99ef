"""Analog FLMC: the digest's numbers, the missing factor 1/2, and the Gaussian law by sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.errors import PrivacyError
from privacy.mechanisms import flmc_analog
from privacy.mechanisms.flmc_analog import analog_amplitude_cap, analog_delta

PAPER = {"dimension": 5, "gradient_bound": 30.0, "noise_power": 1.0}
DIGEST = {1: 0.0728, 2: 0.2682, 3: 0.5488, 5: 1.2781, 7.5: 2.4014, 15: 6.5683}


ONE = {"dimension": 1, "gradient_bound": 1.0, "noise_power": 1.0}
"""x = 2 A^2."""


def within(x: np.ndarray | float, epsilon: float) -> np.ndarray:
    """T(x), Zhang et al. 2022 (21), corrected."""
    return np.asarray(1.0 - analog_delta(epsilon, amplitude=np.sqrt(np.asarray(x) / 2.0), **ONE))


def tail_inverse(probability: float, epsilon: float, *, tail: flmc_analog.AnalogTail = "corrected") -> float:
    """x with T(x) = `probability`."""
    return float(2.0 * analog_amplitude_cap.__wrapped__(epsilon, 1.0 - probability, tail=tail, **ONE) ** 2)


def assert_inverse_is_the_digests() -> None:
    for epsilon, x in DIGEST.items():
        assert tail_inverse(0.99, epsilon) == pytest.approx(x, abs=5e-5)


def test_the_tail_inverse_is_that_of_the_digest() -> None:
    assert_inverse_is_the_digests()


def test_the_digest_values_catch_a_lost_factor_of_one_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flmc_analog, "_multiple", {"corrected": 2.0}.get)
    with pytest.raises(AssertionError):
        assert_inverse_is_the_digests()


def test_the_caps_of_the_papers_setting_are_those_of_the_digest() -> None:
    assert analog_amplitude_cap(5, 0.01, **PAPER) == pytest.approx(0.01192, abs=5e-6)
    assert analog_amplitude_cap(7.5, 0.01, **PAPER) == pytest.approx(0.01633, abs=5e-6)


def test_the_law_is_that_of_a_gaussian_loss() -> None:
    rng = np.random.default_rng(5)
    for x, epsilon in ((0.1, 1.0), (1.3, 5.0), (4.0, 3.0), (20.0, 15.0)):
        loss = rng.normal(x, math.sqrt(2 * x), size=200_000)
        probability = float(within(x, epsilon))
        assert np.mean(np.abs(loss) <= epsilon) == pytest.approx(probability, abs=4 * 0.5 / math.sqrt(200_000))


def test_the_loss_of_17_has_the_mean_and_variance_that_21_takes() -> None:
    # ln N(A g' + z; A g') / N(A g' + z; A g''), entry by entry, for |g' - g''| = 2 l.
    amplitude, noise = 0.01, 0.7
    shift = 2 * 30.0 * amplitude
    z = np.random.default_rng(2).normal(scale=math.sqrt(noise), size=(200_000, 5))
    loss = (((z + shift) ** 2 - z**2) / (2 * noise)).sum(axis=-1)
    x = 2 * 5 * amplitude**2 * 30.0**2 / noise
    assert loss.mean() == pytest.approx(x, rel=0.01)
    assert loss.var() == pytest.approx(2 * x, rel=0.02)
    counted = np.mean(np.abs(loss) > 3.0)
    spent = float(analog_delta(3.0, amplitude=amplitude, dimension=5, gradient_bound=30.0, noise_power=noise))
    assert counted == pytest.approx(spent, abs=4 * math.sqrt(spent / 200_000))


def test_as_printed_is_twice_the_probability() -> None:
    x = np.geomspace(1e-3, 50, 40)
    printed = analog_delta(5.0, amplitude=np.sqrt(x / 2.0), tail="printed", **ONE)
    np.testing.assert_allclose(printed, np.maximum(1.0 - 2.0 * within(x, 5.0), 0.0), atol=1e-15)
    assert tail_inverse(0.99, 5.0, tail="printed") == pytest.approx(tail_inverse(0.495, 5.0), rel=1e-10)
    assert analog_amplitude_cap(5, 0.01, tail="printed", **PAPER) > analog_amplitude_cap(5, 0.01, **PAPER)


def test_as_printed_claims_no_less_than_zero_delta() -> None:
    amplitude = np.geomspace(1e-4, 1, 50)
    printed = analog_delta(5.0, amplitude=amplitude, tail="printed", **PAPER)
    correct = analog_delta(5.0, amplitude=amplitude, **PAPER)
    assert np.all((printed >= 0) & (printed <= correct))
    assert printed[-1] == pytest.approx(1.0)


def test_as_the_noise_vanishes_the_analog_delta_goes_to_one() -> None:
    spent = [
        float(analog_delta(5.0, amplitude=0.01, dimension=5, gradient_bound=30.0, noise_power=n))
        for n in (1.0, 1e-1, 1e-2, 1e-4, 1e-300)
    ]
    assert np.all(np.diff(spent) >= 0)
    assert spent[-1] == 1.0


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(1e-3, 1e3),
    log_delta=st.floats(-12, -0.1),
    tail=st.sampled_from(["corrected", "printed"]),
    noise=st.floats(1e-12, 1e3),
)
def test_the_cap_keeps_the_bound_and_a_slightly_larger_amplitude_breaks_it(
    epsilon: float, log_delta: float, tail: flmc_analog.AnalogTail, noise: float
) -> None:
    delta, setting = 10.0**log_delta, {**PAPER, "noise_power": noise, "tail": tail}
    cap = analog_amplitude_cap(epsilon, delta, **setting)
    below, above = analog_delta(epsilon, amplitude=np.array([1 - 1e-8, 1 + 1e-5]) * cap, **setting)
    # 1 - T of the printed T cancels: its own rounding is 1e-15.
    assert below <= delta + 1e-15
    assert above > delta - 1e-15


def test_tiny_deltas_keep_their_digits() -> None:
    cap = analog_amplitude_cap(1.0, 1e-40, **PAPER)
    assert float(analog_delta(1.0, amplitude=cap, **PAPER)) == pytest.approx(1e-40, rel=1e-6)


def test_within_falls_from_one_to_nothing() -> None:
    probability = within(np.concatenate(([0.0], np.geomspace(1e-6, 1e4, 200))), 5.0)
    assert probability[0] == 1.0
    assert np.all(np.diff(probability) <= 0)
    assert probability[-1] == 0.0


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(PrivacyError, match=r"delta is 0\.0"):
        tail_inverse(1.0, 5.0)
    with pytest.raises(PrivacyError, match="'corrected' or 'printed'"):
        tail_inverse(0.9, 5.0, tail="guessed")
    with pytest.raises(PrivacyError, match="amplitude"):
        analog_delta(5.0, amplitude=[0.1, -0.1], **PAPER)
