"""Contract of FLMC schemes: what the ledger, the audit and the power cap ask of each agree with one another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flmc_setting import paper_config, paper_link

from fl.algorithms.flmc.schemes import Analog, Sending, flmc_schemes
from fl.algorithms.flmc.tasks.config import GaussianLinearConfig
from fl.algorithms.run import run_trials
from privacy.accounting.composition import ORDERS

SENDING = [word for word in flmc_schemes.words() if issubclass(flmc_schemes[word], Sending)]
AMPLITUDES = (0.001, 0.01, 0.1)


def test_the_schemes_are_those_of_the_paper_and_their_baselines() -> None:
    assert set(flmc_schemes.words()) == {"analog", "digital", "digital-orthogonal", "exact", "noiseless"}


@pytest.mark.parametrize("word", SENDING)
@pytest.mark.parametrize("noise_power", [1.0, 0.3])
def test_the_parameter_of_an_amplitude_gives_the_amplitude_back(word: str, noise_power: float) -> None:
    config = paper_config(word)
    parameter = config.sending.parameter(config, np.array(AMPLITUDES), noise_power=noise_power)
    relative = config.sending.relative_amplitude(config, parameter)
    np.testing.assert_allclose(relative * math.sqrt(noise_power), AMPLITUDES, rtol=1e-12)


@pytest.mark.parametrize("word", SENDING)
@pytest.mark.parametrize("amplitude", AMPLITUDES)
def test_the_release_of_a_gradient_loses_what_its_entries_lose(word: str, amplitude: float) -> None:
    config = paper_config(word)
    release = config.sending.release(config, relative_amplitude=amplitude)
    whole = release.coordinates * release.event().renyi(ORDERS)
    entries = config.num_values() * config.sending.event(config, amplitude).renyi(ORDERS)
    np.testing.assert_allclose(whole, entries, rtol=1e-9)


@pytest.mark.parametrize("word", SENDING)
def test_delta_of_a_round_falls_with_epsilon_and_grows_with_the_amplitude(word: str) -> None:
    config = paper_config(word)
    largest = config.sending.payload_bound(config)  # of a number on the air, before the amplitude
    quiet, loud = (config.sending.delta_of(config, amplitude=one / largest, noise_power=1.0) for one in (0.02, 0.05))
    assert float(loud(0.5)) > float(quiet(0.5))
    assert float(quiet(0.1)) > float(quiet(0.2)) > float(quiet(0.3)) > 0.0


@pytest.mark.parametrize("word", SENDING)
def test_beyond_its_largest_loss_a_scheme_has_no_delta(word: str) -> None:
    config = paper_config(word)
    largest = config.sending.largest_loss(config)
    if largest is None:
        assert word == "analog"
    else:
        assert float(config.sending.delta_of(config, amplitude=100.0, noise_power=1.0)(1.0001 * largest)) == 0.0


@pytest.mark.parametrize("word", flmc_schemes.words())
def test_every_scheme_ends_its_rounds_with_a_finite_error(word: str) -> None:
    config = paper_config(word, rounds=6, burn_in=2, num_devices=4, task=GaussianLinearConfig(num_samples=40))
    (result,) = run_trials(config, link=paper_link(word), privacy=None, seed=7, trials=(0,))
    assert np.isfinite(result.metrics["mse"])


def test_a_scheme_of_ones_own_is_one_class() -> None:
    from typing import Literal

    @flmc_schemes.register
    class Backoff(Analog):
        """Analog, with amplitudes scaled to half of the peak power."""

        name: Literal["analog-backoff"] = "analog-backoff"  # type: ignore[assignment]

        def payload_bound(self, config) -> float:
            return math.sqrt(2.0) * super().payload_bound(config)

    try:
        settings = {"rounds": 3, "burn_in": 0, "num_devices": 4, "lmc_cap": "none"}
        power = [
            run_trials(
                paper_config(word, step_size=1e-4, task=GaussianLinearConfig(num_samples=40), **settings),
                link=paper_link("analog", snr_max_db=0.0),
                privacy=None,
                seed=7,
                trials=(0,),
            )[0].rounds["amplitude"]
            ** 2
            for word in ("analog", "analog-backoff")
        ]
    finally:
        flmc_schemes.forget(__name__)
    np.testing.assert_allclose(power[1], power[0] / 2.0, rtol=1e-6)
