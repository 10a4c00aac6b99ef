"""FLMC of more than one bit per entry: one bit as it was, the limit of many bits, noise, ledger and budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flmc_setting import SEED, assert_same_bits, metric, paper_config, paper_link, standard_error

from fl.algorithms.flmc.account import hides_alone, slope_within
from fl.algorithms.flmc.config import FlmcConfig
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from privacy.accounting.accountants import account
from privacy.accounting.spending import spendings
from privacy.config import AmplitudeBudget, BudgetConfig, PrivacyConfig

RUN = {"rounds": 120, "burn_in": 60, "step_size": 1.28e-4, "lmc_cap": "none"}


def config_of(**changes: Any) -> FlmcConfig:
    """The paper's setting in a short run, with `changes`."""
    return FlmcConfig.model_validate(RUN | {"scheme": "digital"} | changes)


def levels(bits: int, **more: Any) -> FlmcConfig:
    return config_of(quantizer_bits=bits, **more)


def run(config: FlmcConfig, *, trials: int = 24, snr_max_db: float = 60.0, privacy: Any = None) -> list[TrialResult]:
    if not config.uses_radio:
        link = paper_link("digital", snr_max_db=snr_max_db)
    else:
        access = "superposition" if config.superposes else "orthogonal"
        link = paper_link(
            config.scheme, snr_max_db=snr_max_db, access=access, modulation=config.modulation_over(access)
        )
    return run_trials(config, link=link, privacy=privacy, seed=SEED, trials=range(trials))


def test_one_bit_is_the_scheme_of_the_paper_bit_for_bit() -> None:
    plain = run(paper_config("digital", **RUN), trials=3)
    for changes in ({"quantizer_bits": 1}, {"quantizer_bits": 1, "quantizer_symbols": "planes"}):
        for one, other in zip(plain, run(paper_config("digital", **RUN, **changes), trials=3), strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("symbols", ["pam", "planes", "orthogonal"])
def test_many_bits_without_noise_are_plain_gradient_descent_and_few_are_not(symbols: str) -> None:
    # At 200 dB nothing but the rounding is left, of 2^-8 of the range: noiseless descent without Langevin noise.
    more = {"scheme": "digital-orthogonal"} if symbols == "orthogonal" else {"quantizer_symbols": symbols}
    eight, two = (run(levels(bits, **more), trials=6, snr_max_db=120.0) for bits in (8, 2))
    # Each of 20 devices rounds with variance below (60/255)^2 / 4: stationary MSE eta K m var / (2 mu).
    floor = 1.28e-4 * 20 * 5 * (60 / 255) ** 2 / 4 / (2 * 1000)
    assert metric(eight, "mse").mean() < 3 * floor + 1e-7
    assert metric(two, "mse").mean() > 50 * metric(eight, "mse").mean()


def test_the_posterior_is_that_of_langevin_sampling_as_bits_grow() -> None:
    trials = 40
    langevin = run(paper_config("noiseless", **(RUN | {"lmc_cap": None})), trials=trials)
    exact = {name: metric(langevin, name) for name in ("wasserstein2", "variance_ratio", "mse")}
    excess = []
    for bits in (2, 4, 8):
        # Receiver noise of the power that Langevin sampling asks for: the printed cap binds at 60 dB.
        found = run(levels(bits, lmc_cap="printed"), trials=trials)
        excess.append(metric(found, "variance_ratio").mean() / exact["variance_ratio"].mean() - 1.0)
        if bits == 8:
            for name, wanted in exact.items():
                difference = metric(found, name) - wanted
                assert abs(difference.mean()) < 4 * standard_error(difference)
    # Rounding to 4 levels adds K 400 p (1 - p) = 1,300 to the 15,600 of Langevin noise in a gradient.
    assert excess[0] > 0.02
    assert abs(excess[2]) < abs(excess[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"quantizer_symbols": "pam"},
        {"quantizer_symbols": "planes"},
        {"quantizer_symbols": "planes", "plane_amplitudes": "equal"},
        {"quantizer_symbols": "pam", "quantizer_range": 45.0},
    ],
)
def test_the_printed_cap_leaves_the_noise_of_langevin_sampling_whatever_the_symbols(changes: dict[str, Any]) -> None:
    config = levels(8, lmc_cap="printed", rounds=40, burn_in=2, **changes)
    found = run(config, trials=200)
    # Of theta, in the first round from 0: eta^2 noise_gain N0 / A^2 = 2 eta per entry.
    gain, amplitude = config.levels.noise_gain, found[0].rounds["amplitude"][0]
    assert 1.28e-4**2 * gain / amplitude**2 == pytest.approx(2 * 1.28e-4, rel=1e-6)
    plain = run(paper_config("noiseless", **(RUN | {"lmc_cap": None, "rounds": 40, "burn_in": 2})), trials=200)
    difference = metric(found, "mse") - metric(plain, "mse")
    assert abs(difference.mean()) < 4 * standard_error(difference)


def test_a_budget_of_the_run_is_kept_by_every_kind_of_symbol() -> None:
    budget = BudgetConfig(epsilon=12.0, delta=0.01)
    privacy = AmplitudeBudget(budget=budget)
    spent = {}
    for name, changes in {
        "analog": {"scheme": "analog"},
        "pam": {"quantizer_bits": 4},
        "planes": {"quantizer_bits": 4, "quantizer_symbols": "planes"},
        "wide": {"quantizer_bits": 2, "quantizer_range": 45.0},
    }.items():
        config = config_of(**{"rounds": 30, "burn_in": 20, **changes})
        (result,) = run(config, trials=1, privacy=privacy)
        assert result.account is not None
        claimed = account(spendings(result.account.ledger, credited=True), delta=0.01, accountant="pld")
        assert 0.98 * 12.0 < claimed <= 12.0 * (1 + 1e-9)
        spent[name] = float(result.rounds["peak_amplitude"][0])
    # One law for all: A l of amplitudes, A of levels, and sqrt(b) A of planes; a wide range may arrive stronger.
    assert spent["analog"] * 30.0 == pytest.approx(spent["pam"], rel=1e-6)
    assert spent["planes"] * 2.0 == pytest.approx(spent["pam"], rel=1e-6)
    assert spent["wide"] > 1.1 * spent["pam"]


def test_the_bound_of_a_round_is_the_hockey_stick_divergence() -> None:
    found = {
        bits: run(levels(bits, rounds=4, burn_in=1), trials=1, privacy=PrivacyConfig(epsilon=2.0, delta=0.01))[0]
        for bits in (2, 8)
    }
    # A Gaussian mechanism over 5 entries, the same for any number of levels: 2 A sqrt(5) = 1.0 at (2, 0.01).
    from scipy.stats import norm

    amplitude = float(found[2].rounds["amplitude"][0])
    assert amplitude == float(found[8].rounds["amplitude"][0])
    mu = 2.0 * amplitude * np.sqrt(5.0)
    delta = norm.cdf(mu / 2 - 2 / mu) - np.exp(2.0) * norm.cdf(-mu / 2 - 2 / mu)
    assert delta == pytest.approx(0.01, rel=1e-6)
    assert found[2].privacy["delta_spent"] == pytest.approx(np.full(4, 0.01), rel=1e-6)


def test_behind_a_code_the_slope_keeps_the_budget() -> None:
    config = paper_config("digital-orthogonal", **(RUN | {"rounds": 30, "burn_in": 20, "step_size": 8.28e-4}))
    link = paper_link("digital-orthogonal", snr_max_db=36.0, coding={"code": "convolutional", "rate": "1/2"})
    privacy = AmplitudeBudget(budget=BudgetConfig(epsilon=12.0, delta=0.01))
    assert hides_alone(config, link=link)
    assert not list(config.budget_conflicts(link=link, privacy=privacy))
    slope = slope_within(config, budget=privacy.budget)
    assert 0.0 < slope < config.quantizer_slope
    assert config.settled(link=link, privacy=privacy).quantizer_slope == slope
    (result,) = run_trials(config, link=link, privacy=privacy, seed=SEED, trials=(0,))
    assert result.account is not None
    claimed = account(spendings(result.account.ledger, credited=False), delta=0.01, accountant="pld")
    assert 0.98 * 12.0 < claimed <= 12.0 * 1.003
    # Randomized response of 150 bits: a Gaussian of mu = 2 sqrt(150) tanh(a l / 2), nearly.
    mu = 2 * np.sqrt(150) * np.tanh(slope * 15.0)
    assert mu**2 / 2 + mu * 2.0 == pytest.approx(12.0, rel=0.25)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"quantizer_bits": 1, "quantizer_range": 45.0}, "quantizer_range"),
        ({"quantizer_bits": 2, "quantizer_range": 29.0}, "quantizer_range"),
        ({"quantizer_bits": 2, "quantizer_range": 91.0}, "quantizer_range"),
        ({"quantizer_bits": 2, "scheme": "analog", "quantizer_range": 45.0}, "quantizer_range"),
    ],
)
def test_a_range_that_does_not_fit_is_refused(changes: dict[str, Any], key: str) -> None:
    link = paper_link("digital", modulation="auto")
    found = list(config_of(**changes).conflicts(link=link, privacy=None))
    assert len(found) == 1
    assert f"learning.{key}" in found[0].keys
    assert not list(levels(2, quantizer_range=45.0).conflicts(link=link, privacy=None))
