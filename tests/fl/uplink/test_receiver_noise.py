"""The receiver's noise as the Gaussian mechanism on sums: amplitudes, epsilon and noise on their closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy.stats import norm
from superposed import PROBIT, SIGN, Air, updates_of

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import training_of
from fl.algorithms.run import run_trials
from fl.base.results import CAP_NAMES, TrialResult
from fl.schemes.coders.coder import Senders
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from privacy.accounting import claims
from privacy.config import DeviceNoise, ReceiverNoise
from privacy.events.events import Ledger

TYPES = {"name": "type-based", "bits": 2}
LOUD = {"power": {"snr_max_db": 40.0}}
K, M = 6, 650


def private(*, clip: float | None = 1.0, **more: Any) -> ReceiverNoise:
    given = {"epsilon": 2.0} if "budget" not in more else {}
    return ReceiverNoise.model_validate({"mechanism": "receiver-noise", "clip": clip, **given, **more})


def asked() -> float:
    """The noise multiplier of (2, 1e-5), which `test_the_amplitude_is_the_largest_that_keeps_epsilon` checks."""
    z = private().release(0, training_of(learning())).parameter
    assert z is not None
    return z


def gaussian_delta(epsilon: float, *, multiplier: float) -> float:
    """Balle and Wang 2018, Theorem 8, at sensitivity 1."""
    mu = 1.0 / multiplier
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("advantage_db", [0.0, 10.0])
@pytest.mark.parametrize(
    ("aggregation", "symbols", "distance"),
    [("mean", 325, 2.0), (SIGN, 650, 2.0), (PROBIT, 650, 2.0), (TYPES, 1300, math.sqrt(2.0))],
    ids=str,
)
@pytest.mark.parametrize("ofdm", ["none", {"num_subcarriers": 64}], ids=["flat", "ofdm"])
def test_the_amplitude_is_the_largest_that_keeps_epsilon(
    aggregation: Any, symbols: int, distance: float, advantage_db: float, ofdm: Any
) -> None:
    """delta of z = sqrt(N0) / (d A sqrt(S)) is at most what was asked, and A is within 1 % of the largest."""
    clip = 1.0 if aggregation == "mean" else None
    privacy = private(clip=clip, delta=1e-3, listener_advantage_db=advantage_db)
    air = Air(aggregation, num_devices=K, num_values=M, privacy=privacy, ofdm=ofdm, **LOUD)
    air.send(updates_of(K, M))
    noise = 10.0 ** (-advantage_db / 10.0) * air.link.channel.noise_power
    peak = air.last("peak_amplitude")
    multiplier = math.sqrt(noise) / (distance * peak * math.sqrt(symbols))
    assert gaussian_delta(2.0, multiplier=multiplier) <= 1e-3
    assert gaussian_delta(2.0, multiplier=multiplier / 1.01) > 1e-3
    assert air.last("noise_multiplier", "devices") == pytest.approx(np.full(K, multiplier), rel=1e-6)
    assert CAP_NAMES[int(air.last("active_cap"))] == "privacy"


def test_power_binds_where_it_is_less_than_privacy_allows() -> None:
    air = Air("mean", num_devices=K, num_values=M, privacy=private(), power={"snr_max_db": -40.0})
    air.send(updates_of(K, M))
    assert CAP_NAMES[int(air.last("active_cap"))] == "power"
    assert air.last("amplitude") == pytest.approx(1e-2, rel=1e-5)
    assert air.last("noise_multiplier", "devices")[0] == pytest.approx(1.0 / (2e-2 * math.sqrt(325)), rel=1e-5)


@pytest.mark.parametrize("advantage_db", [0.0, 6.0])
def test_the_noise_of_a_number_is_that_of_one_device_with_the_gaussian_mechanism_over_their_number(
    advantage_db: float,
) -> None:
    """At the cap z d / K with d = 2 clip; more by the advantage of the listener. Relative standard error of M squares:
    sqrt(2 / M), four of them."""
    size, clip = 20_001, 0.3
    air = Air(
        "mean", num_devices=K, num_values=size, privacy=private(clip=clip, listener_advantage_db=advantage_db), **LOUD
    )
    updates = updates_of(K, size, size=1e-4)  # far below the clip
    error = air.send(updates) - updates.mean(axis=0)
    z = air.last("noise_multiplier", "devices")[0]
    expected = (10.0 ** (advantage_db / 20.0) * z * 2.0 * clip / K) ** 2
    assert np.mean(error**2, dtype=np.float64) == pytest.approx(expected, rel=4.0 * math.sqrt(2.0 / size))


def test_updates_are_clipped_and_those_of_others_do_not_change_what_a_device_sends() -> None:
    air = Air("mean", num_devices=3, num_values=M, privacy=private(clip=0.5), error_model="error_free")
    updates = updates_of(3, M)
    norms = np.linalg.norm(updates.astype(float), axis=1)
    updates[1] *= 100.0
    assert norms.max() < 0.5 < np.linalg.norm(updates[1])
    sent = updates.copy()
    sent[1] *= np.float32(0.5 / np.linalg.norm(updates[1].astype(float)))
    np.testing.assert_allclose(air.send(updates), sent.mean(axis=0), rtol=1e-5, atol=1e-7)
    context = UplinkContext(seed=1, trials=(0,), round_index=1)
    senders = Senders(devices=np.arange(3), context=context, weights=np.ones(3), factor=np.ones(3))
    alone = updates.copy()
    alone[1] = 0.0
    first, second = (air.uplink.transmit(one, senders).symbols for one in (updates, alone))
    assert np.array_equal(first[0, [0, 2]], second[0, [0, 2]])
    assert np.linalg.norm(first[0, 1]) == pytest.approx(math.sqrt(325), rel=1e-5)


@pytest.mark.parametrize("kind", ["jam", "boost"])
@pytest.mark.parametrize("policy", ["inversion", "truncated-inversion", "fixed"])
def test_attackers_do_not_lift_the_amplitude_of_honest_devices(kind: str, policy: str) -> None:
    """Attackers arrive at sqrt(P0) |h|; what honest devices add stays at the amplitude of the cap."""
    attack = {"attack": {"kind": kind, "devices": [0]}}
    link = {"channel": {"fading": "rayleigh"}, "power": {"policy": policy, "snr_max_db": 40.0}}
    attacked, alone = (
        Air("mean", num_devices=K, num_values=M, privacy=private(), learning=learning, **link)
        for learning in (attack, {})
    )
    updates = updates_of(K, M)
    updates[0] = 0.0
    honest, forged = alone.send(updates), attacked.send(updates)
    largest = math.sqrt(attacked.link.channel.noise_power) / (2.0 * asked() * 325**0.5)
    assert attacked.last("peak_amplitude") == alone.last("peak_amplitude") <= largest * (1.0 + 1e-6)
    if kind == "boost":  # of an update of zeros
        np.testing.assert_allclose(forged, honest, atol=1e-6)
    else:
        assert np.abs(forged - honest).max() > 0.1


@pytest.mark.parametrize("factor", [1.0, -2.0])
@pytest.mark.parametrize("policy", ["inversion", "fixed"])
@pytest.mark.parametrize("ofdm", ["none", {"num_subcarriers": 64}], ids=["flat", "ofdm"])
def test_a_boosting_device_moves_the_sum_by_what_its_amplitude_exceeds(factor: float, policy: str, ofdm: Any) -> None:
    """Without noise the sum is off by (f sqrt(P0) |h_0| - A_0) x_0, f the factor, or less where it would exceed P0.

    Sums of size 0.01 in float32 are exact to 1e-9.
    """
    gains = [0.8, 0.5, 1.0]
    link = {"channel": {"gain": gains}, "power": {"policy": policy, "snr_max_db": 120.0}, "ofdm": ofdm}
    attack = {"attack": {"kind": "boost", "devices": [0], "factor": factor}}
    honest, boosted = (Air("mean", num_devices=3, num_values=M, learning=one, **link) for one in ({}, attack))
    updates = updates_of(3, M)
    updates[0] *= np.float32(0.3)
    sums = [one.send(updates) for one in (honest, boosted)]
    unit = math.sqrt(325) / np.linalg.norm(updates.astype(float), axis=1).max()
    x = unit * updates[0].astype(float)
    rms = math.sqrt((x**2).sum() / 325)
    arrives = gains[0] * np.sign(factor) * min(abs(factor), 1.0 / rms)
    follows = 0.5 if policy == "inversion" else 0.8
    divisor = 0.5 if policy == "inversion" else float(np.mean(gains))
    wanted = (arrives - follows) * x / divisor / (3.0 * unit)
    np.testing.assert_allclose(sums[1] - sums[0], wanted, atol=2e-5 * np.abs(wanted).max() + 1e-9)


def learning(**changes: Any) -> FedAvgConfig:
    return FedAvgConfig.model_validate(
        {
            "num_devices": K,
            "rounds": 5,
            "partition": {"kind": "iid", "samples_per_device": 10},
            "local": {"learning_rate": 0.1, "steps": 2},
            "aggregation": "mean",
            **changes,
        }
    )


def run(privacy: Any, *, link: Any = None, **changes: Any) -> TrialResult:
    on_air = LinkConfig.model_validate({"access": "superposition", "modulation": "analog", **(link or LOUD)})
    (result,) = run_trials(learning(**changes), link=on_air, privacy=privacy, seed=5, trials=[0])
    assert result.failure is None, result.failure
    return result


def ledger_of(result: TrialResult) -> Ledger:
    assert result.account is not None
    return result.account.ledger


def epsilon_of(result: TrialResult, *, delta: float = 1e-5, **labels: Any) -> float:
    wanted = {"scope": "run", "channel_credited": True, "sampling_credited": False, **labels}
    found = [
        one.epsilon
        for one in claims(ledger_of(result), delta=delta, accountants=("exact", "pld"))
        if all(getattr(one, name) == value for name, value in wanted.items())
    ]
    return min(found)


@pytest.mark.parametrize("schedule", ["uniform", "increasing"])
def test_a_budget_is_spent_by_all_rounds_together_as_dp_accounting_counts_them(schedule: str) -> None:
    result = run(private(budget={"epsilon": 4.0, "schedule": schedule}))
    z = ledger_of(result).parameter
    assert z.shape == (5, K)
    assert np.all(z == z[:, :1])
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    for one in z[:, 0]:
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(float(one)), 1))
    epsilon = accountant.get_epsilon(1e-5)
    assert 0.98 * 4.0 < epsilon_of(result) <= 4.0
    assert epsilon_of(result) == pytest.approx(epsilon, rel=2e-3)  # its grid of losses
    assert result.rounds["active_cap"] == pytest.approx(CAP_NAMES.index("privacy"))


def test_without_the_receivers_noise_nothing_is_claimed() -> None:
    result = run(private(budget={"epsilon": 4.0}))
    assert math.isinf(epsilon_of(result, channel_credited=False))
    assert private().listener in ledger_of(result).credit_assumptions


@pytest.mark.parametrize("action", ["stop", "silent"])
def test_a_budget_that_watches_ends_the_run_or_silences_it(action: str) -> None:
    result = run(private(epsilon=2.0, budget={"epsilon": 4.0, "calibrate": False, "action": action}))
    sent = (~np.isnan(ledger_of(result).parameter)).any(axis=1)
    fits = int(sent.sum())
    assert 1 <= fits < 5
    assert result.metrics["rounds_sent"] == fits
    assert len(sent) == (fits if action == "stop" else 5)
    assert epsilon_of(result) <= 4.0
    more = gaussian_delta(4.0, multiplier=float(ledger_of(result).parameter[0, 0]) / math.sqrt(fits + 1))
    assert more > 1e-5


def test_a_device_in_a_fade_releases_nothing_in_that_round() -> None:
    power = {"policy": "truncated-inversion", "cutoff_db": 0.0, "snr_max_db": 40.0}
    result = run(private(), link={"channel": {"fading": "rayleigh"}, "power": power})
    z, active = ledger_of(result).parameter, result.rounds["num_active"]
    assert np.array_equal(np.isfinite(z).sum(axis=1), active)
    assert 0 < np.isfinite(z).sum() < z.size
    spent = max(math.fsum(z[np.isfinite(z[:, k]), k] ** -2) for k in range(K))
    assert gaussian_delta(epsilon_of(result), multiplier=spent**-0.5) <= 1e-5 * (1.0 + 1e-6)


def test_devices_that_are_drawn_hide_among_the_others_where_nothing_tells_who_was() -> None:
    drawn = {"participation": {"devices_per_round": 2}}
    result = run(private(budget={"epsilon": 4.0}), **drawn)
    assert ledger_of(result).sampled == pytest.approx(2 / K)
    assert epsilon_of(result, sampling_credited=True) < 4.0
    unequal = {"partition": {"kind": "dirichlet", "alpha": 1.0}}
    assert ledger_of(run(private(), **drawn, **unequal)).sampled is None
    assert ledger_of(run(private(), **drawn, **unequal, weighting="equal")).sampled == pytest.approx(2 / K)


def test_errors_of_channel_knowledge_count_as_the_amplitude_at_which_devices_arrive() -> None:
    link = {"channel": {"fading": "rayleigh"}, "csi": {"error_variance": 0.1}, "power": {"snr_max_db": 40.0}}
    result = run(private(), link=link)
    peaks = result.rounds["peak_amplitude"]
    assert (ledger_of(result).parameter.min(axis=1) < asked()).any()
    assert ledger_of(result).parameter[:, 0] == pytest.approx(1.0 / (2.0 * peaks * math.sqrt(325)), rel=1e-5)


@pytest.mark.parametrize("access", ["orthogonal", "superposition"])
def test_noise_on_every_device_protects_clipped_updates_in_slots_and_in_the_air(access: Any) -> None:
    """Each adds z d, d = 2 clip, and the mean has it over sqrt(K). Updates are far below the clip, and noise is
    measured over M numbers and 5 rounds: four relative standard errors sqrt(2 / (5 M))."""
    privacy = DeviceNoise.model_validate({"mechanism": "device-noise", "clip": 50.0, "budget": {"epsilon": 8.0}})
    link = LinkConfig.model_validate({"access": access, "error_model": "error_free"})
    (result,) = run_trials(learning(codec="binary32"), link=link, privacy=privacy, seed=5, trials=[0])
    assert result.failure is None, result.failure
    z = ledger_of(result).parameter
    assert np.all(z == z[0, 0])
    assert 0.9e-5 < gaussian_delta(8.0, multiplier=z[0, 0] / math.sqrt(5)) <= 1e-5
    expected = (z[0, 0] * 100.0) ** 2 / K
    assert result.metrics["aggregation_mse"] == pytest.approx(expected, rel=4.0 * math.sqrt(2.0 / (5 * M)))
