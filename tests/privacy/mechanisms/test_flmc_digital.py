"""Digital FLMC: the digest's numbers, the bound, and the deterministic delta against two independent ways."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from flmc_counted import digital_delta_monte_carlo, digital_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from pace import fastest_s
from scipy.special import ndtr

from privacy.errors import PrivacyError
from privacy.mechanisms import flmc_digital
from privacy.mechanisms._digital_tail import (
    _both_sides,
    _tail_by_cells,
    _tail_by_series,
    entry_loss,
    inverse_entry_loss,
)
from privacy.mechanisms.flmc_digital import (
    digital_amplitude_cap,
    digital_delta,
    digital_loss_bound,
)

ENTRIES = {"gradient_bound": 30.0, "quantizer_slope": 0.05}
PAPER = {"dimension": 5, **ENTRIES, "num_devices": 20, "noise_power": 1.0}


def oracle_two_entries(epsilon: float, *, amplitude: float, bound: float, devices: int) -> float:
    """Pr(L* > eps) for m = 2 and N0 = 1 by trapezoid over z_1, z_2 read off a table of (16)."""
    t = np.linspace(-60.0, 60.0, 200_001)
    likely, ratio = 1.0 / (1.0 + math.exp(-bound)), np.exp(np.clip(2.0 * amplitude * t, -600, 600))
    table = np.log((likely * ratio + 1.0 - likely) / ((1.0 - likely) * ratio + likely))
    z = np.linspace(-9.0, 9.0, 10_001)
    low, high = np.full_like(z, -np.inf), np.full_like(z, np.inf)
    for shift in (amplitude * (devices - 1), -amplitude * (devices - 1)):
        first = np.interp(z + shift, t, table)
        high = np.minimum(high, np.interp(epsilon - first, table, t, left=-np.inf, right=np.inf) - shift)
        low = np.maximum(low, np.interp(-epsilon - first, table, t, left=-np.inf, right=np.inf) - shift)
    within = np.maximum(ndtr(high) - ndtr(low), 0.0) * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    return 1.0 - float(np.trapezoid(within, z))


def assert_agrees_with_counting(epsilon: float, amplitude: float, *, seed: int, **setting: float) -> None:
    """digital_delta lies within 4 standard errors of counting, or 1e-3 where it claims no more."""
    spent = digital_delta(epsilon, amplitude=amplitude, **setting)
    counted = digital_delta_monte_carlo(
        epsilon, amplitude=amplitude, num_samples=10_000, rng=np.random.default_rng(seed), **setting
    )
    assert abs(spent - counted.delta) <= 4 * counted.standard_error + (1e-3 if spent > 0.3 else 0.0)


def test_the_caps_of_the_papers_setting_are_those_of_the_digest() -> None:
    for epsilon, cap, digit in ((1, 0.066, 5e-4), (2, 0.103, 1e-3), (5, 0.19, 5e-3)):
        assert digital_amplitude_cap(epsilon, 0.01, **PAPER) == pytest.approx(cap, abs=digit)


def test_from_seven_and_a_half_nats_on_no_cap_is_needed() -> None:
    assert digital_loss_bound(dimension=5, **ENTRIES) == 7.5
    for epsilon in (7.5, 8.0, 100.0):
        assert digital_amplitude_cap(epsilon, 0.01, **PAPER) == math.inf
        assert digital_delta(epsilon, amplitude=1e6, **PAPER) == 0.0
    assert math.isfinite(digital_amplitude_cap(7.49, 0.01, **PAPER))


@settings(max_examples=60, deadline=None)
@given(log_amplitude=st.floats(-9, 250), seed=st.integers(0, 2**32), noise=st.floats(1e-9, 1e9))
def test_the_digital_loss_never_exceeds_seven_and_a_half_in_the_papers_setting(
    log_amplitude: float, seed: int, noise: float
) -> None:
    z = np.random.default_rng(seed).normal(scale=math.sqrt(noise), size=(40, 5)) * 10.0
    setting = {**ENTRIES, "num_devices": 20, "noise_power": noise}
    loss = digital_loss(z, amplitude=10.0**log_amplitude, **setting)
    assert loss.shape == (40,)
    assert np.all((loss >= 0) & (loss <= 7.5))


def test_the_digital_loss_stays_bounded_as_the_noise_vanishes() -> None:
    for noise in (1.0, 1e-6, 1e-30, 1e-300):
        z = np.random.default_rng(3).normal(scale=math.sqrt(noise), size=(100, 5))
        loss = digital_loss(z, amplitude=0.1, **ENTRIES, num_devices=20, noise_power=noise)
        assert np.all(loss <= 7.5)
    assert np.all(loss == 7.5)


def test_the_entry_loss_is_the_printed_formula_and_has_an_inverse() -> None:
    t = np.linspace(-40.0, 40.0, 1001)
    for relative, bound in itertools.product((0.01, 0.2, 2.0), (0.1, 1.5, 12.0)):
        likely, ratio = 1.0 / (1.0 + math.exp(-bound)), np.exp(2.0 * relative * t)
        printed = np.log((likely * ratio + 1 - likely) / ((1 - likely) * ratio + likely))
        loss = entry_loss(t, relative=relative, entry_bound=bound)
        np.testing.assert_allclose(loss, printed, atol=1e-9)
        inside = np.abs(loss) < 0.999 * bound
        back = inverse_entry_loss(loss[inside], relative=relative, entry_bound=bound)
        np.testing.assert_allclose(back, t[inside], atol=1e-8)


def test_the_entry_loss_keeps_its_digits_where_it_is_tiny() -> None:
    t = np.array([1e-9, -1e-12, 1e-100])
    loss = entry_loss(t, relative=0.1, entry_bound=1.5)
    np.testing.assert_allclose(loss, 0.2 * t * math.tanh(0.75), rtol=1e-8)


@pytest.mark.parametrize("devices", [1, 2, 5, 20])
@pytest.mark.parametrize("amplitude", [0.01, 0.1, 0.3, 0.8, 2.0])
def test_two_entries_agree_with_brute_force_quadrature(amplitude: float, devices: int) -> None:
    for bound, share in itertools.product((1.5, 5.0), (0.1, 0.5, 0.9)):
        epsilon = 2 * bound * share
        spent = digital_delta(
            epsilon,
            amplitude=amplitude,
            dimension=2,
            gradient_bound=bound,
            quantizer_slope=1.0,
            num_devices=devices,
            noise_power=1.0,
        )
        oracle = oracle_two_entries(epsilon, amplitude=amplitude, bound=bound, devices=devices)
        assert spent == pytest.approx(oracle, abs=1e-3 if spent > 0.3 else 1e-5)


@pytest.mark.parametrize("dimension", [1, 2, 5, 30, 100])
@pytest.mark.parametrize("devices", [1, 2, 20])
def test_delta_lies_within_four_standard_errors_of_counting(dimension: int, devices: int) -> None:
    for seed, (amplitude, share) in enumerate(itertools.product((0.02, 0.2, 0.7, 6.0), (0.1, 0.5, 0.95))):
        setting = {**ENTRIES, "dimension": dimension, "num_devices": devices, "noise_power": 1.0}
        assert_agrees_with_counting(1.5 * dimension * share, amplitude, seed=seed, **setting)


def test_the_comparison_with_counting_catches_half_a_decibel_of_amplitude(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert_agrees_with_counting(5.0, 0.2, seed=1, **PAPER)
    exact = flmc_digital.exceedance
    monkeypatch.setattr(
        flmc_digital,
        "exceedance",
        lambda epsilon, *, relative, **rest: exact(epsilon, relative=relative * 10 ** (0.5 / 20), **rest),
    )
    with pytest.raises(AssertionError):
        assert_agrees_with_counting(5.0, 0.2, seed=1, **PAPER)


def test_the_three_ways_to_a_tail_agree_where_all_hold() -> None:
    for amplitude, epsilon in ((0.0659, 1.0), (0.2, 5.0), (0.29, 7.0)):
        law = {"relative": amplitude, "entry_bound": 1.5, "dimension": 5, "shift": 19 * amplitude}
        series = _tail_by_series(epsilon, **law)
        assert series is not None
        assert series == pytest.approx(_tail_by_cells(epsilon, **law), abs=1e-7)
        assert 2 * series == pytest.approx(_both_sides(epsilon, **law), abs=1e-3)


def test_delta_grows_with_the_amplitude_and_falls_with_epsilon() -> None:
    for devices in (2, 20):
        setting = {**PAPER, "num_devices": devices}
        spent = [digital_delta(3.0, amplitude=a, **setting) for a in np.geomspace(0.01, 10, 60)]
        assert np.all(np.diff(spent) >= -1e-3)
        assert spent[0] < 1e-12
        assert spent[-1] == pytest.approx(1.0)
        spent = [digital_delta(e, amplitude=0.15, **setting) for e in np.linspace(0.1, 7.4, 60)]
        assert np.all(np.diff(spent) <= 1e-3)


@pytest.mark.parametrize("devices", [1, 2, 20, 500])
@pytest.mark.parametrize(("dimension", "epsilon"), [(1, 1.0), (5, 0.1), (5, 5.0), (5, 7.4), (100, 20.0)])
def test_the_cap_keeps_the_bound_and_a_slightly_larger_amplitude_breaks_it(
    dimension: int, epsilon: float, devices: int
) -> None:
    setting = {**PAPER, "dimension": dimension, "num_devices": devices, "noise_power": 2.5}
    cap = digital_amplitude_cap(epsilon, 0.01, **setting)
    assert digital_delta(epsilon, amplitude=cap, **setting) <= 0.01
    assert digital_delta(epsilon, amplitude=cap * (1 + 1e-5), **setting) > 0.01


def test_the_cap_scales_with_the_root_of_the_noise_power() -> None:
    at_one = digital_amplitude_cap(2.0, 0.01, **PAPER)
    at_nine = digital_amplitude_cap(2.0, 0.01, **{**PAPER, "noise_power": 9e-12})
    assert at_nine == pytest.approx(3e-6 * at_one, rel=1e-7)


def test_an_epsilon_just_below_the_bound_is_resolved() -> None:
    for dimension, devices in ((2, 2), (2, 20)):
        for gap in (1e-2, 1e-4, 1e-6):
            setting = {**PAPER, "dimension": dimension, "num_devices": devices}
            epsilon = 3.0 * (1 - gap)
            cap = digital_amplitude_cap(epsilon, 0.01, **setting)
            oracle = oracle_two_entries(epsilon, amplitude=cap, bound=1.5, devices=devices)
            assert oracle == pytest.approx(0.01, rel=1e-2)


def test_a_lone_device_of_fair_coins_needs_no_cap_for_a_large_delta() -> None:
    # With K = 1 saturated entries are +-1.5 with probability 1/2: Pr(all five agree) = 2/32.
    alone = {**PAPER, "num_devices": 1}
    assert digital_delta(6.0, amplitude=1e3, **alone) == pytest.approx(2 / 32, abs=1e-3)
    assert digital_amplitude_cap(6.0, 0.2, **alone) == math.inf
    assert math.isfinite(digital_amplitude_cap(6.0, 0.05, **alone))


def test_a_cap_takes_under_a_third_of_a_second() -> None:
    digital_amplitude_cap(1.0, 0.02, **PAPER)
    for epsilon in (0.1, 1.0, 5.0, 7.0):
        assert fastest_s(partial(digital_amplitude_cap, epsilon, 0.0123, **PAPER), repeats=3) < 0.3


def test_counting_reports_an_interval_that_holds_the_delta() -> None:
    counted = digital_delta_monte_carlo(
        5.0, amplitude=0.15, num_samples=30_000, rng=np.random.default_rng(7), confidence=0.999, **PAPER
    )
    assert counted.lower < digital_delta(5.0, amplitude=0.15, **PAPER) < counted.upper
    none = digital_delta_monte_carlo(7.5, amplitude=9.0, num_samples=100, rng=np.random.default_rng(7), **PAPER)
    assert (none.num_exceeding, none.lower, none.delta) == (0, 0.0, 0.0)
    assert none.upper == pytest.approx(1 - 0.025 ** (1 / 100))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"noise_power": 0.0}, "noise_power is 0.0"),
        ({"num_devices": 0}, "num_devices is 0"),
        ({"dimension": 0}, "dimension is 0"),
        ({"amplitude": -0.1}, "amplitude is -0.1"),
        ({"amplitude": math.inf}, "amplitude is inf"),
        ({"gradient_bound": math.nan}, "gradient_bound is nan"),
    ],
)
def test_an_impossible_argument_is_named_with_its_value(change: dict[str, float], words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        digital_delta(1.0, **{**PAPER, "amplitude": 0.1, **change})


def test_a_delta_below_the_resolution_is_refused_with_a_remedy() -> None:
    with pytest.raises(PrivacyError, match="ask for a larger delta"):
        digital_amplitude_cap(1.0, 1e-15, **PAPER)


def test_the_series_declines_a_loss_that_all_but_a_negligible_part_saturates() -> None:
    # The loss turns from -b to b 8.4 standard deviations away, within 0.003 of them.
    assert _tail_by_series(1.0, relative=300.0, entry_bound=0.5, dimension=7, shift=8.4) is None
