"""What every AmplitudePrivacy promises to `fl/`, whichever it is; then what is RoundPrivacy's own."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting import get_sigma_gaussian

from privacy.config import PrivacyConfig
from privacy.errors import PrivacyError
from privacy.mechanisms.amplitude_privacy import AmplitudePrivacy, NoPrivacy, RoundPrivacy


def paper_round(kind: str, *, epsilon: float = 5.0, **change: object) -> RoundPrivacy:
    setting = {
        "config": PrivacyConfig(epsilon=epsilon, digital_cap="printed", analog_cap="corrected"),
        "kind": kind,
        "dimension": 5,
        "gradient_bound": 30.0,
        "quantizer_slope": 0.05,
        "num_devices": 20,
        "noise_power": 1.0,
    }
    return RoundPrivacy(**{**setting, **change})


IMPLEMENTATIONS = {
    "none": NoPrivacy(),
    "digital": paper_round("digital"),
    "digital uncapped": paper_round("digital", epsilon=8.0),
    "digital orthogonal": paper_round("digital", num_devices=2),
    "analog": paper_round("analog"),
    "analog as printed": paper_round("analog", config=PrivacyConfig(epsilon=5.0, analog_cap="printed")),
    "digital, exact": paper_round("digital", config=PrivacyConfig(epsilon=5.0)),
    "digital, cancelled": paper_round("digital", config=PrivacyConfig(epsilon=5.0, digital_cap="cancelled")),
    "digital, exact and uncapped": paper_round("digital", config=PrivacyConfig(epsilon=8.0)),
    "analog, exact": paper_round("analog", config=PrivacyConfig(epsilon=5.0)),
}


@pytest.fixture(params=IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS.keys())
def privacy(request: pytest.FixtureRequest) -> AmplitudePrivacy:
    return request.param


def test_it_is_an_amplitude_privacy(privacy: AmplitudePrivacy) -> None:
    assert isinstance(privacy, AmplitudePrivacy)


def test_the_cap_is_above_zero_and_the_same_each_time(privacy: AmplitudePrivacy) -> None:
    assert privacy.amplitude_cap() > 0
    assert privacy.amplitude_cap() == privacy.amplitude_cap()


def test_the_loss_bound_is_above_zero(privacy: AmplitudePrivacy) -> None:
    assert privacy.loss_bound() > 0


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (10, 1, 7)])
def test_what_is_spent_has_the_shape_of_the_amplitudes(privacy: AmplitudePrivacy, shape: tuple[int, ...]) -> None:
    spent = privacy.delta_spent(np.random.default_rng(1).uniform(0, 0.3, size=shape))
    assert isinstance(spent, np.ndarray)
    assert (spent.shape, spent.dtype) == (shape, np.float64)


def test_what_is_spent_is_a_probability_or_no_claim_at_all(privacy: AmplitudePrivacy) -> None:
    spent = privacy.delta_spent(np.concatenate(([0.0], np.geomspace(1e-6, 1e3, 60))))
    claims = spent[~np.isnan(spent)]
    assert claims.size in (0, spent.size)
    assert np.all((claims >= 0) & (claims <= 1))


def test_no_amplitude_spends_nothing_and_more_spends_no_less(privacy: AmplitudePrivacy) -> None:
    spent = privacy.delta_spent(np.concatenate(([0.0], np.geomspace(1e-4, 10, 20))))
    if not np.isnan(spent[0]):
        assert spent[0] == 0.0
        assert np.all(np.diff(spent) >= -1e-3)


def test_up_to_the_cap_the_promise_holds(privacy: AmplitudePrivacy) -> None:
    cap = min(privacy.amplitude_cap(), 1e6)
    spent = privacy.delta_spent(cap * np.array([0.1, 0.5, 0.9, 1 - 1e-9]))
    assert np.all(np.isnan(spent) | (spent <= 0.01 * (1 + 1e-9)))


@pytest.mark.parametrize("amplitude", [-1.0, math.nan, math.inf, [0.1, -0.1]])
def test_an_impossible_amplitude_is_refused(privacy: AmplitudePrivacy, amplitude: object) -> None:
    with pytest.raises(PrivacyError, match="amplitude"):
        privacy.delta_spent(amplitude)


def test_many_amplitudes_spend_what_each_alone_spends_within_a_thousandth() -> None:
    rng = np.random.default_rng(4)
    for change in ({}, {"num_devices": 2}, {"dimension": 50, "epsilon": 15.0}):
        digital = paper_round("digital", **change)
        amplitude = digital.amplitude_cap() * rng.rayleigh(0.8, size=(4, 500))
        many = digital.delta_spent(amplitude)
        some = rng.choice(amplitude.size, 30, replace=False)
        alone = digital.delta_spent(amplitude.ravel()[some][:, None])[:, 0]
        np.testing.assert_allclose(many.ravel()[some], alone, rtol=2e-3, atol=1e-12)


def test_a_wide_range_of_amplitudes_loses_no_accuracy_at_the_transition() -> None:
    digital = paper_round("digital")
    amplitude = np.geomspace(1e-9, 1e9, 400)
    many = digital.delta_spent(amplitude)
    near = np.flatnonzero((amplitude > 0.1) & (amplitude < 0.4))
    alone = digital.delta_spent(amplitude[near][:, None])[:, 0]
    np.testing.assert_allclose(many[near], alone, rtol=2e-3, atol=1e-12)
    assert np.all(many[amplitude < 0.05] == 0)
    np.testing.assert_allclose(many[amplitude > 1], 1.0)


def test_repeated_amplitudes_are_answered_exactly_and_fast() -> None:
    digital = paper_round("digital")
    amplitude = np.tile(np.array([0.0, 0.1, digital.amplitude_cap()]), (1000, 100))
    start = time.process_time()
    spent = digital.delta_spent(amplitude)
    assert time.process_time() - start < 1.0
    assert spent[0, 0] == 0.0
    assert spent[-1, -1] == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize("form", ["exact", "cancelled"])
def test_a_cap_without_the_others_symbols_is_the_same_for_any_number_of_devices(form: str) -> None:
    config = PrivacyConfig(epsilon=5.0, digital_cap=form)
    caps = {paper_round("digital", config=config, num_devices=k).amplitude_cap() for k in (1, 2, 20, 100, 1000)}
    assert len(caps) == 1
    printed = [paper_round("digital", num_devices=k).amplitude_cap() for k in (2, 20, 100, 1000)]
    assert all(more < less for less, more in pairwise(printed))
    assert min(caps) > max(printed)


def test_exact_caps_of_amplitudes_are_those_of_the_gaussian_mechanism_and_larger_than_by_21() -> None:
    exact = paper_round("analog", config=PrivacyConfig(epsilon=5.0)).amplitude_cap()
    # Balle and Wang 2018 by dp-accounting: sigma over the distance 2 A l sqrt(m).
    assert 1.0 / (60.0 * exact * math.sqrt(5)) == pytest.approx(get_sigma_gaussian(5.0, 0.01), rel=1e-6)
    corrected = paper_round("analog").amplitude_cap()
    printed = paper_round("analog", config=PrivacyConfig(epsilon=5.0, analog_cap="printed")).amplitude_cap()
    assert corrected < exact
    # Without the 1/2 the bound is twice as permissive, and no bound.
    assert printed > corrected


def test_noise_of_another_power_scales_the_exact_caps_by_its_root() -> None:
    for kind in ("digital", "analog"):
        one, four = (
            paper_round(kind, config=PrivacyConfig(epsilon=2.0), noise_power=power).amplitude_cap()
            for power in (1.0, 4.0)
        )
        assert four == pytest.approx(2.0 * one, rel=1e-9)


def test_no_privacy_has_no_claim_and_no_cap() -> None:
    assert NoPrivacy().amplitude_cap() == math.inf
    assert NoPrivacy().loss_bound() == math.inf
    assert np.all(np.isnan(NoPrivacy().delta_spent([0.0, 1.0])))


def test_the_round_of_the_paper_is_bounded_if_digital_alone() -> None:
    assert paper_round("digital").loss_bound() == 7.5
    assert paper_round("analog").loss_bound() == math.inf
    assert paper_round("digital", epsilon=7.5).amplitude_cap() == math.inf
    assert paper_round("analog", epsilon=7.5).amplitude_cap() == pytest.approx(0.01633, abs=5e-6)


def test_an_impossible_round_is_refused_when_it_is_described() -> None:
    for change in ({"dimension": 0}, {"num_devices": 0}, {"noise_power": -1.0}, {"gradient_bound": 0.0}):
        with pytest.raises(PrivacyError, match=next(iter(change))):
            paper_round("digital", **change)
    with pytest.raises(PrivacyError, match="'digital' or 'analog'"):
        paper_round("optical")
