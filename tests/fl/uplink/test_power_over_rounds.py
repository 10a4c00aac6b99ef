"""Power control of federated averaging over the air: errors of the mean, and energy budgets over rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import exp1
from scipy.stats import binom, norm
from superposed import PROBIT, SIGN, Air, updates_of

from fl.uplink.energy import EnergyLeft
from phy.config import LinkConfig
from phy.config.power import EnergyBudget

RAYLEIGH = {"fading": "rayleigh"}
POLICIES = ("fixed", "inversion", "truncated-inversion", "mse-optimal")


def errors(air: Air, updates: NDArray[np.float32], weights: Any, rounds: range) -> NDArray[np.float64]:
    """Error of every number of every round `[rounds, M]`; the mean itself where nobody was on the air."""
    true = np.asarray(weights, float) @ updates / np.sum(weights)
    found = [air.send(updates, weights=weights, round_index=index) for index in rounds]
    return np.array([np.where(one == -7.0, 0.0, one) - true for one in found])


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 20.0])
@pytest.mark.parametrize("num_devices", [1, 5, 40])
@pytest.mark.parametrize("scaling", ["unbiased", "mmse"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_error_of_the_mean_is_the_one_that_is_expected(
    policy: str, scaling: str, num_devices: int, snr_db: float
) -> None:
    """Given the updates and the channel, the error is Gaussian around the misalignment: variance of its mean square
    (2 v^2 + 4 v b) / M with v the variance by noise and b the misalignment; four standard errors."""
    size = 4001
    power = {"policy": policy, "snr_max_db": snr_db, "cutoff_db": -3.0}
    air = Air(
        "mean",
        num_devices=num_devices,
        num_values=size,
        channel=RAYLEIGH,
        power=power,
        receiver={"scaling": scaling},
    )
    weights = np.linspace(0.5, 1.0, num_devices)
    for index in range(4):
        error = float(np.mean(errors(air, updates_of(num_devices, size), weights, range(index, index + 1)) ** 2))
        if air.last("num_active") == 0.0:
            continue
        expected, shift = air.last("expected_mse"), air.last("alignment_mse")
        noise = expected - shift
        assert abs(error - expected) < 4.0 * np.sqrt((2.0 * noise**2 + 4.0 * noise * shift) / size)


@pytest.mark.parametrize("csi", ["perfect", {"error_variance": 0.2}], ids=["perfect", "estimated"])
@pytest.mark.parametrize(
    ("combining", "num_antennas", "num_devices"),
    [
        *[("mrc", antennas, devices) for antennas in (2, 8) for devices in (1, 5, 20)],
        *[(name, antennas, 5) for name in ("zf", "mmse", "blind") for antennas in (8, 64)],
        ("mmse", 2, 20),
        ("blind", 1, 5),
    ],
)
def test_the_error_behind_a_combiner_is_the_one_that_is_expected(
    combining: str, num_antennas: int, num_devices: int, csi: Any
) -> None:
    """As above; the misalignment is that of the true channels, of which an estimate knows a part."""
    size = 4001
    air = Air(
        "mean",
        num_devices=num_devices,
        num_values=size,
        channel=RAYLEIGH,
        csi=csi,
        power={"snr_max_db": 0.0},
        receiver={"num_antennas": num_antennas, "combining": combining},
    )
    weights = np.linspace(0.5, 1.0, num_devices)
    for index in range(4):
        error = float(np.mean(errors(air, updates_of(num_devices, size), weights, range(index, index + 1)) ** 2))
        expected, shift = air.last("expected_mse"), air.last("alignment_mse")
        noise = expected - shift
        assert (shift == 0.0) == (combining in ("mrc", "zf") and csi == "perfect")
        assert abs(error - expected) < 4.0 * np.sqrt((2.0 * noise**2 + 4.0 * noise * shift) / size)


@pytest.mark.parametrize("cutoff_db", [-10.0, -3.0, 3.0])
def test_devices_left_out_add_the_variance_of_a_random_sample_and_no_bias(cutoff_db: float) -> None:
    """Over Rayleigh fading each of K devices is on the air with p = exp(-c). Given K_a >= 1 of them, any K_a are as
    likely: their mean is unbiased, of variance S^2 (1 / K_a - 1 / K), S^2 that of the updates; with A^2 = P0 min |h|^2
    and |h|^2 = c + Exp(1) the noise has variance N0 / (u P0)^2 E[1 / min |h|^2] / K_a^2 and
    E[1 / min |h|^2] = K_a exp(K_a c) E1(K_a c). Nobody on the air: the mean itself is missing.

    1500 rounds of 64 numbers: four standard errors of the rounds.
    """
    count, size, rounds, snr = 8, 64, 1500, 10.0
    air = Air(
        "mean",
        num_devices=count,
        num_values=size,
        rounds=rounds,
        channel=RAYLEIGH,
        power={"policy": "truncated-inversion", "cutoff_db": cutoff_db, "snr_max_db": 10.0},
    )
    updates = updates_of(count, size)
    found = errors(air, updates, np.ones(count), range(rounds))
    cutoff = 10.0 ** (cutoff_db / 10.0)
    active = np.arange(count + 1)
    share = binom.pmf(active, count, np.exp(-cutoff))
    some = active[1:]
    spread = np.mean(updates.astype(float).var(axis=0, ddof=1))
    unit = np.sqrt(size / 2) / np.linalg.norm(updates.astype(float), axis=1).max()
    noise = some * np.exp(some * cutoff) * exp1(some * cutoff) / (snr * unit**2 * some**2)
    mean = updates.astype(float).mean(axis=0)
    expected = share[0] * np.mean(mean**2) + (share[1:] * (spread * (1.0 / some - 1.0 / count) + noise)).sum()
    squares = (found**2).mean(axis=1)
    assert abs(squares.mean() - expected) < 4.0 * squares.std() / np.sqrt(rounds)
    bias = found.mean(axis=0) + share[0] * mean
    assert (np.abs(bias) < 4.5 * found.std(axis=0) / np.sqrt(rounds)).all()  # 64 numbers at once


def budgeted(aggregation: Any, spread: str, *, policy: str = "fixed", rounds: int = 12, **budget: Any) -> Air:
    energy_j = budget.pop("energy_j", 20.0 * 251 * 1e-6)
    return Air(
        aggregation,
        num_devices=6,
        num_values=501,
        rounds=rounds,
        channel={"fading": "rayleigh", **budget.pop("channel", {})},
        power={
            "policy": policy,
            "snr_max_db": 10.0,
            "budget": {"energy_j": energy_j, "spread": spread, **budget},
        },
    )


def budget_j(air: Air) -> float:
    assert air.link.power.budget is not None
    return air.link.power.budget.energy_j


def energies(air: Air, *, rounds: int = 12, decay: float = 1.0) -> NDArray[np.float64]:
    """What every device spends in each round `[rounds, devices]` [J]."""
    left = [np.full(6, budget_j(air))]
    for index in range(rounds):
        air.send(updates_of(6, 501) * np.float32(decay**index), round_index=index)
        left.append(air.last("energy_left_j", "devices"))
    return -np.diff(np.array(left), axis=0)


@pytest.mark.parametrize("spread", ["even", "greedy", "convergence"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_device_spends_more_than_its_budget(policy: str, spread: str) -> None:
    air = budgeted("mean", spread, policy=policy)
    spent = energies(air)
    assert (spent >= 0.0).all()
    assert (spent.sum(axis=0) <= budget_j(air)).all()
    np.testing.assert_allclose(spent.sum(axis=1), air.record.of_trial("rounds")["energy_j"], rtol=1e-9, atol=1e-15)
    if policy == "fixed":
        np.testing.assert_allclose(spent.sum(axis=0), budget_j(air), rtol=2e-4)


def test_an_even_spread_takes_the_same_in_every_round() -> None:
    spent = energies(budgeted("mean", "even"))
    np.testing.assert_allclose(spent, spent[0, 0], rtol=1e-4)


def test_a_greedy_device_sends_at_full_power_until_it_is_silent() -> None:
    """20 joules per symbol and second at P0 = 10: two rounds for updates that use all of P0, more for others."""
    air = budgeted("mean", "greedy")
    spent = energies(air)
    used = (spent > 0.0).sum(axis=0)
    assert used.min() in (2, 3)
    assert used.max() < 12
    rounds = air.record.of_trial("rounds")
    np.testing.assert_array_equal(rounds["num_spent"], (spent == 0.0).sum(axis=1))
    assert rounds["num_active"][-1] == 0.0
    sent = air.record.of_trial("devices")["sent_symbols"]
    np.testing.assert_array_equal(sent > 0, spent > 0.0)


@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_the_spread_for_convergence_minimises_its_bound(decay: float) -> None:
    """sum_t rho^(R - t) g_t^2 / p_t under sum_t p_t = E by SLSQP, to 1e-4 of the bound; norms decay geometrically."""
    rounds, rho = 12, 0.8
    spent = energies(budgeted("mean", "convergence", contraction=rho), decay=decay)[:, 0]
    cost = rho ** np.arange(rounds)[::-1] * decay ** (2.0 * np.arange(rounds))
    share = spent / spent.sum()
    found = minimize(
        lambda p: (cost / p).sum(),
        np.full(rounds, 1.0 / rounds),
        bounds=[(1e-6, 1.0)] * rounds,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    if decay == 1.0:
        assert (cost / share).sum() <= found.fun * (1.0 + 1e-4)
        np.testing.assert_allclose(share, np.sqrt(cost) / np.sqrt(cost).sum(), rtol=1e-3)
    else:  # half of the rounds tell the decay; from then on, the rest is spread best
        best = np.sqrt(cost[6:]) / np.sqrt(cost[6:]).sum()
        np.testing.assert_allclose(spent[6:] / spent[6:].sum(), best, rtol=1e-3)


@pytest.mark.parametrize("aggregation", [SIGN, PROBIT, "type-based"], ids=str)
@pytest.mark.parametrize("spread", ["even", "greedy", "convergence"])
def test_votes_and_histograms_keep_their_budget(aggregation: Any, spread: str) -> None:
    air = budgeted(aggregation, spread, energy_j=50.0 * 1002 * 1e-6)
    spent = energies(air)
    assert (spent.sum(axis=0) <= budget_j(air)).all()
    assert spent.sum() > 0.0


@pytest.mark.parametrize("scaling", ["unbiased", "mmse"])
@pytest.mark.parametrize("policy", ["fixed", "inversion", "mse-optimal"])
def test_votes_of_unequal_amplitudes_come_out_wrong_as_all_patterns_of_signs_say(policy: str, scaling: str) -> None:
    """Three devices arrive at a_k: of each pattern s the majority is lost with Q(sign(sum s) sum a_k s_k / sqrt(N0)).

    Under mse-optimal q = (2, 1, 0.4), N0 = 1: c = min over j of (sum q^2 + 1) / sum q. Four standard errors.
    """
    size, gains, root = 40_001, np.array([1.0, 0.5, 0.2]), 2.0
    power = {"policy": policy, "snr_max_db": 20.0 * np.log10(root)}
    air = Air(
        SIGN,
        num_devices=3,
        num_values=size,
        channel={"gain": gains.tolist()},
        power=power,
        receiver={"scaling": scaling},
    )
    updates = np.random.default_rng(3).standard_normal((3, size)).astype(np.float32)
    air.send(updates)
    q = root * gains
    c = min((np.sum(q[k:] ** 2) + 1.0) / np.sum(q[k:]) for k in range(3))
    arrive = {"fixed": q, "inversion": np.full(3, q.min()), "mse-optimal": np.minimum(q, c)}[policy]
    signs = np.array([[1 - 2 * (pattern >> k & 1) for k in range(3)] for pattern in range(8)])
    wrong = float(norm.sf(np.sign(signs.sum(axis=1)) * (signs @ arrive)).mean())
    errors = air.last("wrong_votes") / air.last("votes")
    assert errors == pytest.approx(wrong, abs=4.0 * np.sqrt(wrong * (1.0 - wrong) / size))


@pytest.mark.parametrize("aggregation", ["mean", SIGN, PROBIT, "type-based"], ids=str)
def test_with_power_for_all_mse_optimal_receives_what_inversion_receives(aggregation: Any) -> None:
    """At 60 dB both align all devices; divisors differ by less than N0 / A^2."""
    updates = updates_of(5, 301, size=0.04)

    def received(policy: str) -> NDArray[np.float32]:
        power = {"policy": policy, "snr_max_db": 60.0}
        return Air(aggregation, num_devices=5, num_values=301, channel=RAYLEIGH, power=power).send(updates)

    np.testing.assert_allclose(received("mse-optimal"), received("inversion"), atol=2e-4)


def test_a_budget_goes_on_where_it_was() -> None:
    whole, first = budgeted("mean", "convergence"), budgeted("mean", "convergence")
    energies(whole, decay=0.9)
    energies(first, rounds=5, decay=0.9)
    second = budgeted("mean", "convergence")
    second.uplink.restore(first.uplink.state())
    for index in range(5, 12):
        second.send(updates_of(6, 501) * np.float32(0.9**index), round_index=index)
    np.testing.assert_array_equal(second.last("energy_left_j", "devices"), whole.last("energy_left_j", "devices"))


def test_pilots_count() -> None:
    """A budget that two rounds of pilots use up leaves nothing for a third."""
    ofdm = {"num_subcarriers": 64}
    link = LinkConfig.model_validate(
        {"access": "superposition", "modulation": "analog", "ofdm": ofdm, "csi": {"estimator": "ls"}}
    )
    budget = EnergyBudget(energy_j=1.0)
    pilots_j = EnergyLeft(budget, link=link, num_symbols=100, num_devices=2, num_rounds=3)._pilots_j[0]
    assert pilots_j > 0.0
    energy = EnergyLeft(EnergyBudget(energy_j=2.5 * pilots_j), link=link, num_symbols=100, num_devices=2, num_rounds=3)
    assert (energy.max_power(0, size=1.0) == 0.0).all()  # 2.5 / 3 of the pilots of a round
