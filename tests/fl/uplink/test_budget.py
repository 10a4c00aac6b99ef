"""Runs within a budget: calibrated rounds spend it, watched ones stop where it is spent, or fall silent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flmc_setting import RAYLEIGH, paper_config, paper_link

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import upload_plan
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from fl.uplink.budgets import release_of
from phy.config import LinkConfig
from privacy.accounting import account, claims, spendings
from privacy.accounting.composition import renyi_limits
from privacy.config import (
    AmplitudeBudget,
    BitFlippingBudget,
    BudgetConfig,
    GaussianBudget,
    GaussianConfig,
    PrivacyConfig,
    SchemeBudget,
)
from privacy.errors import PrivacyError
from privacy.mechanisms.probit import dp_bound

LINK = LinkConfig.model_validate(
    {"access": "orthogonal", "modulation": "qpsk", "power": {"policy": "fixed", "snr_max_db": 12.0}}
)
NUM_VALUES = 650


def budget(epsilon: float = 8.0, **changes: Any) -> BudgetConfig:
    return BudgetConfig.model_validate({"epsilon": epsilon, **changes})


def setting(aggregation: Any = "mean", **changes: Any) -> FedAvgConfig:
    return FedAvgConfig.model_validate(
        {
            "num_devices": 4,
            "rounds": 4,
            "partition": {"kind": "iid", "samples_per_device": 10},
            "local": {"learning_rate": 0.1, "steps": 1, "clip": 1.0},
            "codec": "binary32",
            "aggregation": aggregation,
            **changes,
        }
    )


def trial(config: Any, privacy: Any, *, link: LinkConfig = LINK) -> TrialResult:
    result = run_trials(config, link=link, privacy=privacy, seed=5, trials=[0])[0]
    assert result.failure is None, result.failure
    return result


def run_epsilon(result: TrialResult, privacy: Any) -> float:
    """What the budget's own accountant proves of the whole run, the channel credited where the mechanism does so."""
    assert result.account is not None
    found = claims(result.account.ledger, delta=privacy.budget.delta, accountants=(privacy.budget.accountant,))
    (first,) = [one for one in found if one.scope == "run"][:1]  # the credited one comes first
    return first.epsilon


NEARLY_SURE = 1.0 - 1e-7


@pytest.mark.parametrize(
    ("changes", "privacy"),
    [
        ({"receiver_limit": 10.0}, GaussianBudget(mechanism="gaussian", budget=budget())),
        ({"receiver_limit": 10.0}, GaussianBudget(mechanism="gaussian", budget=budget(schedule="increasing"))),
        ({"codec": "fixed-point"}, BitFlippingBudget(mechanism="bit-flipping", budget=budget(schedule="decreasing"))),
        (
            {"codec": "fixed-point"},
            BitFlippingBudget(mechanism="bit-flipping", channel="native", confidence=NEARLY_SURE, budget=budget()),
        ),
        ({"aggregation": {"name": "cpa", "channel": "agnostic"}}, SchemeBudget(mechanism="scheme", budget=budget())),
        ({"aggregation": {"name": "mvu"}}, SchemeBudget(mechanism="scheme", budget=budget(accountant="renyi"))),
        (
            {"aggregation": {"name": "probit", "epsilon": 1.0, "l1_clip": 0.1, "form": "exact", "channel": "agnostic"}},
            SchemeBudget(mechanism="scheme", budget=budget()),
        ),
        (
            {"aggregation": "laplace", "receiver_limit": 1e6},
            SchemeBudget(mechanism="scheme", budget=budget(accountant="renyi")),
        ),
    ],
)
def test_calibrated_rounds_spend_the_budget_within_a_percent_and_never_more(
    changes: dict[str, Any], privacy: Any
) -> None:
    result = trial(setting(**changes), privacy)
    assert result.metrics["rounds_sent"] == 4.0
    assert 0.99 * 8.0 <= run_epsilon(result, privacy) <= 8.0


def test_flips_rise_and_noise_falls_as_the_schedule_says() -> None:
    flips = trial(
        setting(codec="fixed-point"),
        BitFlippingBudget(mechanism="bit-flipping", budget=budget(schedule="decreasing", ratio=9.0)),
    )
    rate = flips.devices["flip_probability"][:, 0]
    odds = np.log1p(-rate) - np.log(rate)
    assert odds[0] / odds[-1] == pytest.approx(3.0)
    # What was really drawn: end-to-end errors at the planned rate, to five standard errors.
    bits, errors = flips.devices["end_bits"], flips.devices["end_errors"]
    assert np.all(np.abs(errors - bits * 0.5) < 5.0 * np.sqrt(bits * 0.25) + bits * (0.5 - rate)[:, None])


def test_gaussian_noise_of_a_round_is_what_its_share_asks_for() -> None:
    # Uploads of a model that does not move are noise alone; what they err by is sigma over sqrt(devices).
    still = {"local": {"learning_rate": 1e-9, "clip": 1.0}, "receiver_limit": 10.0}
    privacy = GaussianBudget(mechanism="gaussian", budget=budget(1.0, schedule="increasing", ratio=16.0))
    perfect = LinkConfig.model_validate({"access": "orthogonal", "modulation": "qpsk", "error_model": "error_free"})
    result = trial(setting(**still), privacy, link=perfect)
    assert result.account is not None
    multiplier = result.account.ledger.parameter[:, 0]
    assert multiplier[0] / multiplier[-1] == pytest.approx(4.0)
    deviation = np.sqrt(result.rounds["aggregation_mse"])
    expected = 2.0 * 1e-9 / 10.0 * multiplier / 2.0
    np.testing.assert_allclose(deviation, expected, rtol=5.0 / math.sqrt(2.0 * NUM_VALUES))


def watched(action: str) -> GaussianConfig:
    inner = {"epsilon": 8.0, "calibrate": False, "action": action}
    return GaussianConfig.model_validate({"mechanism": "gaussian", "epsilon": 30.0, "delta": 1e-5, "budget": inner})


def fitting(config: FedAvgConfig, privacy: Any) -> int:
    """By direct accounting: the rounds whose sum is within the budget."""
    release = release_of(upload_plan(config), link=LINK.resolve_digital(), privacy=privacy)
    one = release.event()
    limit = privacy.budget
    sums = [
        account([type_of(one, count=(n + 1) * release.coordinates)], delta=limit.delta, accountant=limit.accountant)
        for n in range(config.rounds)
    ]
    return int(np.sum(np.array(sums) <= limit.epsilon))


def type_of(event: Any, *, count: int) -> Any:
    from privacy.events.events import Spending

    return Spending(event=event, count=count)


def test_a_run_stops_where_direct_accounting_says_and_is_whole() -> None:
    config, privacy = setting(receiver_limit=10.0, rounds=8, test_every=5), watched("stop")
    fits = fitting(config, privacy)
    assert 1 < fits < 7
    result = trial(config, privacy)
    assert (result.metrics["rounds_sent"], len(result.rounds["train_loss"])) == (fits, fits)
    assert np.isfinite(result.metrics["test_accuracy"])  # the last round is looked at, whenever it comes
    assert run_epsilon(result, privacy) <= 8.0
    free = trial(config, privacy.model_copy(update={"budget": None}))
    np.testing.assert_array_equal(result.rounds["train_loss"], free.rounds["train_loss"][:fits])
    assert "rounds_sent" not in free.metrics


def test_a_silent_run_goes_on_and_leaves_the_model_as_it_is() -> None:
    config, privacy = setting(receiver_limit=10.0, rounds=8), watched("silent")
    fits = fitting(config, privacy)
    result = trial(config, privacy)
    assert (result.metrics["rounds_sent"], len(result.rounds["test_loss"])) == (fits, 8)
    losses = result.rounds["test_loss"]
    assert np.unique(losses[fits - 1 :]).size == 1
    assert np.unique(losses[:fits]).size == fits
    assert not result.rounds["num_active"][fits:].any()
    assert not result.rounds["energy_j"][fits:].any()
    assert result.account is not None
    assert np.isnan(result.account.ledger.parameter[fits:]).all()
    assert run_epsilon(result, privacy) <= 8.0


@pytest.mark.parametrize("name", ["cpa", "sign", "mvu", "probit"])
def test_schemes_fall_silent_too(name: str) -> None:
    own = {"epsilon": 0.2, "channel": "agnostic"} if name in ("cpa", "sign") else {"epsilon": 0.2}
    if name == "probit":
        own = {"epsilon": 2.0, "l1_clip": 0.1, "bound": "adaptive", "form": "exact", "channel": "agnostic"}
    config = setting({"name": name, **own})
    release = release_of(upload_plan(config), link=LINK, privacy=SchemeBudget(mechanism="scheme", budget=budget()))
    two = account([type_of(release.event(), count=2 * release.coordinates)], delta=1e-5, accountant="pld")
    inner = budget(1.001 * two, calibrate=False, action="silent")
    result = trial(config, SchemeBudget(mechanism="scheme", budget=inner))
    assert result.metrics["rounds_sent"] == 2.0
    assert np.unique(result.rounds["test_loss"][1:]).size == 1


def test_a_device_that_has_nothing_left_is_silent_while_others_send() -> None:
    config = setting(receiver_limit=10.0, rounds=8, participation={"devices_per_round": 2})
    privacy = watched("silent")
    fits = fitting(config, privacy)
    result = trial(config, privacy)
    assert result.account is not None
    sent = (~np.isnan(result.account.ledger.parameter)).sum(axis=0)
    assert sent.max() == fits
    stopped = trial(config, watched("stop"))
    assert stopped.account is not None
    uploads = (~np.isnan(stopped.account.ledger.parameter)).sum(axis=0)
    assert uploads.max() == fits
    assert len(stopped.rounds["train_loss"]) < 8


def test_probits_bound_is_what_the_found_epsilon_asks_for() -> None:
    config = setting({"name": "probit", "epsilon": 1.0, "l1_clip": 0.1, "channel": "agnostic"})
    found = config.settled(link=LINK, privacy=SchemeBudget(mechanism="scheme", budget=budget(2.0))).aggregation
    assert found.epsilon != 1.0
    assert found.b == float(dp_bound(epsilon=found.epsilon, l1_clip=0.1))


# --- Langevin Monte Carlo -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["digital", "analog", "digital-orthogonal"])
def test_found_amplitudes_spend_the_budget_whatever_the_fading(scheme: str) -> None:
    config = paper_config(scheme, rounds=8, burn_in=2)
    privacy = AmplitudeBudget(budget=budget(1.0, schedule="increasing"))
    fades = scheme == "digital"
    link = paper_link(scheme, channel=dict(RAYLEIGH) if fades else {"noise_power": 1.0})
    result = trial(config, privacy, link=link)
    spent = run_epsilon(result, privacy)
    assert spent <= 1.0
    if not fades:
        assert spent >= 0.99
        peak = result.rounds["peak_amplitude"]
        assert peak[-1] / peak[0] == pytest.approx(2.0)


def test_a_budget_counts_on_the_noise_that_is_surely_there_alone() -> None:
    config, link = paper_config("digital", rounds=8, burn_in=2), paper_link("digital")
    peaks = []
    for tolerance_db in (0.0, 6.0):
        privacy = AmplitudeBudget(budget=budget(1.0), noise_tolerance_db=tolerance_db)
        result = trial(config, privacy, link=link)
        assert 0.99 <= run_epsilon(result, privacy) <= 1.0
        peaks.append(result.rounds["peak_amplitude"][0])
    assert peaks[0] / peaks[1] == pytest.approx(10.0 ** (6.0 / 20.0))


def watched_amplitude(epsilon: float, action: str, accountant: str = "pld") -> PrivacyConfig:
    inner = {"epsilon": epsilon, "calibrate": False, "action": action, "accountant": accountant}
    return PrivacyConfig.model_validate({"epsilon": 1.0, "budget": inner})


def test_langevin_stops_where_direct_accounting_says_and_silence_keeps_the_chain_where_it_is() -> None:
    config = paper_config("digital", rounds=10, burn_in=2)
    link = paper_link("digital")
    free = trial(config, PrivacyConfig(epsilon=1.0), link=link)
    assert free.account is not None
    ledger = free.account.ledger
    run = spendings(ledger, credited=True)
    (event,) = {one.event for one in run}
    sums = np.array([account([type_of(event, count=5 * (n + 1))], delta=1e-5, accountant="pld") for n in range(10)])
    fits = 4
    epsilon = float(sums[fits - 1 : fits + 1].mean())
    stopped = trial(config, watched_amplitude(epsilon, "stop"), link=link)
    assert (stopped.metrics["rounds_sent"], len(stopped.rounds["squared_error"])) == (fits, fits)
    np.testing.assert_array_equal(stopped.rounds["squared_error"], free.rounds["squared_error"][:fits])
    assert np.isfinite(stopped.metrics["mse"])
    silent = trial(config, watched_amplitude(epsilon, "silent"), link=link)
    errors = silent.rounds["squared_error"]
    assert len(errors) == 10
    assert np.unique(errors[fits - 1 :]).size == 1
    assert not silent.rounds["peak_amplitude"][fits:].any()
    assert not silent.rounds["energy_j"][fits:].any()
    assert run_epsilon(silent, watched_amplitude(epsilon, "silent")) <= epsilon


def test_bits_that_nobody_sent_move_no_chain_and_are_not_counted() -> None:
    # Orthogonal detection makes bits of noise alone, which must not be taken for gradients.
    config, link = paper_config("digital-orthogonal", rounds=6, burn_in=2), paper_link("digital-orthogonal")
    privacy = watched_amplitude(4.0, "silent")
    result = trial(config, privacy, link=link)
    fits = int(result.metrics["rounds_sent"])
    assert 1 <= fits < 5
    assert np.unique(result.rounds["squared_error"][fits - 1 :]).size == 1
    assert result.link["bits"][:fits].all()
    assert not result.link["bits"][fits:].any()


def test_over_fades_what_was_really_sent_is_added_up_and_every_trial_has_its_own_end() -> None:
    config = paper_config("digital", rounds=12, burn_in=0)
    privacy = watched_amplitude(1.5, "stop", "renyi")
    link = paper_link("digital", channel=dict(RAYLEIGH))
    found = run_trials(config, link=link, privacy=privacy, seed=5, trials=range(6))
    alone = run_trials(config, link=link, privacy=privacy, seed=5, trials=[3])[0]
    assert alone.metrics == found[3].metrics
    for one in found:
        assert one.failure is None
        assert run_epsilon(one, privacy) <= 1.5
        assert 1 <= one.metrics["rounds_sent"] <= 12


def test_limits_of_renyi_orders_are_the_conversion_of_dp_accounting_backwards() -> None:
    from dp_accounting import rdp

    orders = np.array([1.5, 2.0, 8.0, 64.0])
    limits = renyi_limits(orders, epsilon=budget(3.0).epsilon, delta=budget(3.0).delta)
    for order, limit in zip(orders, limits, strict=True):
        if limit > 0.0:
            assert rdp.compute_epsilon([order], [limit], 1e-5)[0] == pytest.approx(3.0)
            assert rdp.compute_epsilon([order], [0.99 * limit], 1e-5)[0] < 3.0


def test_what_has_no_account_is_refused() -> None:
    for scheme, problem in (
        ("mean", "sends numbers as they are"),
        ({"name": "cpa", "epsilon": "none"}, "protects nothing"),
        ({"name": "laplace", "as_coded": True}, "does not clip"),
    ):
        with pytest.raises(PrivacyError, match=problem):
            release_of(
                upload_plan(setting(scheme)), link=LINK, privacy=SchemeBudget(mechanism="scheme", budget=budget())
            )
    coded = LinkConfig.model_validate(
        {"access": "orthogonal", "modulation": "qpsk", "coding": {"code": "ldpc5g", "rate": "1/2"}}
    )
    with pytest.raises(PrivacyError, match="channel native credits"):
        release_of(
            upload_plan(setting({"name": "cpa"})), link=coded, privacy=SchemeBudget(mechanism="scheme", budget=budget())
        )
