"""Updates that add up in the air: error of the mean and of votes on their closed forms, and who takes part."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from superposed import PROBIT, SIGN, Air, updates_of

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import upload_plan
from fl.attacks.attacks import Attackers
from fl.base.errors import LearningError
from fl.models.federated import Piece
from fl.schemes.coders.coder import Senders
from fl.uplink.air import SuperposedUplink
from fl.uplink.protection import Protection, own_flips
from fl.uplink.senders import SenderIndex
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.airtime import superposed_airtime_s


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 20.0])
@pytest.mark.parametrize("num_devices", [1, 5, 40])
@pytest.mark.parametrize("ofdm", ["none", {"num_subcarriers": 64}], ids=["flat", "ofdm"])
def test_the_mean_square_error_of_amplitudes_is_that_of_the_noise(snr_db: float, num_devices: int, ofdm: Any) -> None:
    """At gain 1, A = sqrt(P0); error N0 / (A u sum w)^2 with u = sqrt(S) / max ||w g||; relative standard error
    sqrt(2 / M) of a mean of M squares, four of them."""
    size = 4001
    air = Air("mean", num_devices=num_devices, num_values=size, power={"snr_max_db": snr_db}, ofdm=ofdm)
    updates, weights = updates_of(num_devices, size), np.linspace(0.5, 1.0, num_devices)[::-1]
    found = air.send(updates, weights=weights)
    largest = (weights[:, None] * np.linalg.norm(updates.astype(float), axis=1)[:, None]).max()
    unit = np.sqrt((size + 1) // 2) / largest
    expected = 1.0 / (10.0 ** (snr_db / 10.0) * (unit * weights.sum()) ** 2)
    error = np.mean((found - weights @ updates / weights.sum()) ** 2, dtype=np.float64)
    assert error == pytest.approx(expected, rel=4.0 * np.sqrt(2.0 / size))
    assert air.last("amplitude") ** 2 == pytest.approx(10.0 ** (snr_db / 10.0), rel=1e-5)


@pytest.mark.parametrize(
    "link",
    [{}, {"ofdm": {"num_subcarriers": 64}}, {"ofdm": {"num_subcarriers": 64}, "csi": {"estimator": "ls"}}],
    ids=str,
)
def test_a_round_takes_the_time_that_check_tells(link: dict[str, Any]) -> None:
    air = Air("mean", num_devices=3, num_values=4001, **link)
    air.send(updates_of(3, 4001))
    assert air.last("airtime_s") == pytest.approx(superposed_airtime_s(air.link, 2001, 3), rel=1e-12)


@pytest.mark.parametrize("num_devices", [3, 20])
@pytest.mark.parametrize("snr_db", [-5.0, 3.0])
@pytest.mark.parametrize("modulation", ["bpsk", "qpsk"])
def test_votes_come_out_wrong_as_the_binomial_formula_says(num_devices: int, snr_db: float, modulation: str) -> None:
    """Sum s = 2 B - K of K fair signs, wrong with Q(A |s| / sqrt(N0)); A is smaller by sqrt(2) per bit of QPSK.

    The signs are fair and independent, so that wrong votes are binomial given the untied: four standard errors.
    """
    size = 60_001
    air = Air(SIGN, num_devices=num_devices, num_values=size, modulation=modulation, power={"snr_max_db": snr_db})
    updates = np.random.default_rng(3).standard_normal((num_devices, size)).astype(np.float32)
    found = air.send(updates)
    amplitude = 10.0 ** (snr_db / 20.0) / (np.sqrt(2.0) if modulation == "qpsk" else 1.0)
    ones = np.arange(num_devices + 1)
    share = np.array([comb(num_devices, int(one)) for one in ones]) / 2.0**num_devices
    sums = 2 * ones - num_devices
    untied = share[sums != 0].sum()
    wrong = (share * norm.sf(amplitude * np.abs(sums)))[sums != 0].sum() / untied
    votes, errors = air.last("votes"), air.last("wrong_votes")
    assert votes / size == pytest.approx(untied, abs=4.0 * np.sqrt(untied * (1.0 - untied) / size) + 1e-12)
    assert errors / votes == pytest.approx(wrong, abs=4.0 * np.sqrt(wrong * (1.0 - wrong) / votes))
    true = np.sign(np.sign(updates).sum(axis=0))
    assert ((found * true < 0).sum()) == errors


@pytest.mark.parametrize("policy", ["fixed", "inversion", "mse-optimal"])
@pytest.mark.parametrize("scaling", ["unbiased", "mmse"])
@pytest.mark.parametrize("budget", [None, {"energy_j": 1e-3, "spread": "convergence"}], ids=["no budget", "budget"])
def test_devices_that_change_places_with_their_channels_change_nothing(policy: str, scaling: str, budget: Any) -> None:
    """The noise is that of the receiver. Sums in another order differ by float32 rounding, 1e-6 of the largest."""
    gains, order = [0.3, 1.0, 2.0, 0.7], np.array([2, 0, 3, 1])
    updates, weights = updates_of(4, 500), np.array([1.0, 3.0, 2.0, 0.5])
    link: dict[str, Any] = {
        "power": {"policy": policy, "snr_max_db": 5.0, "budget": budget},
        "receiver": {"scaling": scaling},
    }
    here = Air("mean", num_devices=4, num_values=500, channel={"gain": gains}, **link)
    there = Air("mean", num_devices=4, num_values=500, channel={"gain": [gains[i] for i in order]}, **link)
    first = here.send(updates, weights=weights)
    second = there.send(updates[order], weights=weights[order])
    np.testing.assert_allclose(first, second, atol=1e-6 * np.abs(first).max())


@pytest.mark.parametrize("aggregation", ["mean", SIGN, PROBIT, "type-based"], ids=str)
@pytest.mark.parametrize("policy", ["inversion", "truncated-inversion"])
def test_those_who_do_not_send_have_no_part_in_the_sum(aggregation: Any, policy: str) -> None:
    """At 80 dB noise is below any update: what arrives is the mean, or the vote, of senders on the air alone."""
    fading = {"fading": "rayleigh", "coherence": "run"}
    air = Air(aggregation, num_devices=8, num_values=301, channel=fading, power={"policy": policy, "snr_max_db": 80.0})
    updates = updates_of(3, 301, size=0.04)
    found = air.send(updates, senders=[1, 4, 6])
    alone = Air(aggregation, num_devices=3, num_values=301, error_model="error_free")
    assert air.last("num_active") <= 3.0
    if air.last("num_active") == 3.0 and aggregation in ("mean", SIGN):
        np.testing.assert_allclose(found, alone.send(updates), atol=1e-4)
    sent = air.last("sent_symbols", "devices")
    assert np.flatnonzero(sent).tolist() == [1, 4, 6]
    assert air.last("energy_j") > 0.0


@pytest.mark.parametrize("coherence", ["round", "symbol"])
def test_those_on_the_air_stand_for_senders_in_a_fade(coherence: str) -> None:
    """Of 12 equal updates the mean is that update, whoever is silent: a tap exceeds its mean with probability 1/e.

    Round by round somebody is on the air but for (1 - 1/e)^12 = 0.4 %; symbol by symbol, zero where nobody is.
    """
    fading, power = {"fading": "rayleigh", "coherence": coherence}, {"cutoff_db": 0.0, "snr_max_db": 80.0}
    air = Air(
        "mean",
        num_devices=12,
        num_values=4000,
        channel=fading,
        power={"policy": "truncated-inversion", **power},
    )
    update = updates_of(1, 4000)
    found = air.send(np.repeat(update, 12, axis=0))
    assert 0.0 < air.last("num_active") < 12.0
    heard = found != 0.0
    assert heard.mean() > 0.98
    np.testing.assert_allclose(found[heard], update[0][heard], atol=1e-5)


def test_nobody_on_the_air_leaves_the_model_as_it_is() -> None:
    """A cutoff of 30 dB above the mean: no tap of Rayleigh fading reaches it (probability e^-1000)."""
    power = {"policy": "truncated-inversion", "cutoff_db": 30.0}
    air = Air("mean", num_devices=3, num_values=20, channel={"fading": "rayleigh"}, power=power)
    assert (air.send(updates_of(3, 20)) == -7.0).all()
    assert air.last("num_active") == 0.0


def test_a_jammer_arrives_with_full_power_on_one_axis_and_without_its_own_update() -> None:
    """Inversion brings all down to gain 0.05, A = 0.05 sqrt(P0); the signs of a jammer of gain 1 arrive as 20 A.

    Error: (20^2 / 2 + |x_0|^2 / 2) / (4 u)^2 of the jammer per number, plus noise; x_0 of mean power 1 per symbol at
    most. 2000 numbers, noise of relative standard error 3 % beside it: 15 %.
    """
    size, gains = 2000, [1.0, 0.05, 1.0, 1.0]
    attack = {"attack": {"kind": "jam", "devices": [0]}}
    air = Air("mean", num_devices=4, num_values=size, channel={"gain": gains}, learning=attack)
    updates = updates_of(4, size)
    unit = np.sqrt(size / 2) / np.linalg.norm(updates.astype(float), axis=1).max()
    squares = (air.send(updates) - updates.mean(axis=0)) ** 2
    error = float(np.mean(squares))
    assert squares[0::2].mean() > 50.0 * squares[1::2].mean()  # real and imaginary parts
    noise = 1.0 / (0.05**2 * 100.0 * (4.0 * unit) ** 2)
    assert error == pytest.approx(noise + (20.0**2 + 1.0) / 2.0 / (4.0 * unit) ** 2, rel=0.15)
    assert error > 10.0 * noise


CPA = {"name": "cpa", "channel": "agnostic", "epsilon": 2.0, "gamma": 0.05}


@pytest.mark.parametrize("more", [{}, {"stages": 2, "decode": "unbiased"}, {"dimension": 2, "dither": True}], ids=str)
def test_what_bits_of_cpa_stand_for_adds_up_to_what_the_server_makes_of_them_in_slots(more: dict[str, Any]) -> None:
    """Without noise, the sum is the aggregate of the same flipped bits; float32 adds up 12 devices."""
    size, updates = 301, updates_of(12, 301, size=0.03)
    air = Air({**CPA, **more}, num_devices=12, num_values=size, error_model="error_free")
    coder = air.config.aggregation.build(pieces=[Piece(name="w", shape=(size,), offset=0)])
    context = UplinkContext(seed=1, trials=(0,), round_index=0, silent=())
    plan = own_flips(air.config.aggregation.response.flip_target, num_devices=12)
    bits = coder.encode(updates, devices=np.arange(12), context=context)
    flipped = Protection().cover(bits, plan=plan, context=context)
    assert (flipped != bits).any()
    weights = np.full(12, 1.0 / 12.0)
    senders = Senders(devices=np.arange(12), context=context, weights=weights, factor=plan.factor)
    wanted = coder.aggregate(flipped, senders)
    np.testing.assert_allclose(air.send(updates), wanted, atol=1e-5 * np.abs(wanted).max())


def test_noise_on_what_bits_of_cpa_stand_for_has_the_variance_that_the_round_reports() -> None:
    """Squares of 4001 numbers of noise: relative standard error sqrt(2 / M), four of them."""
    size, updates = 4001, updates_of(8, 4001, size=0.03)
    clear = Air(CPA, num_devices=8, num_values=size, error_model="error_free").send(updates)
    air = Air(CPA, num_devices=8, num_values=size, power={"snr_max_db": 3.0})
    error = np.mean((air.send(updates) - clear) ** 2, dtype=np.float64)
    assert error == pytest.approx(air.last("expected_mse"), rel=4.0 * np.sqrt(2.0 / size))


def test_an_attacker_changes_its_own_bits_alone() -> None:
    """A bit stands for -2 D, 0 or 2 D with points {-D, 0, D}, D = 2 gamma / 3: inverted, a quarter of 4 D at most."""
    updates = updates_of(4, 200, size=0.03)
    attacked = {"attack": {"kind": "invert", "devices": [2]}}
    found = [
        Air(CPA, num_devices=4, num_values=200, error_model="error_free", learning=learning).send(updates)
        for learning in (None, attacked)
    ]
    change = np.abs(found[1] - found[0])
    assert (change > 0.0).mean() > 0.5
    assert change.max() == pytest.approx(2.0 * 0.05 / 3.0, rel=1e-5)


@pytest.mark.parametrize("more", [{"radius": "scaled"}, {"negative_bins": "zero"}], ids=str)
def test_a_scheme_that_needs_every_device_is_refused(more: dict[str, Any]) -> None:
    config = FedAvgConfig.model_validate({"num_devices": 2, "aggregation": {**CPA, **more}})
    link = LinkConfig.model_validate({"access": "superposition", "modulation": "bpsk"})
    parts: Any = {
        "num_values": 9,
        "index": SenderIndex(upload_plan(config), link=link),
        "attackers": Attackers.drawn(None, num_devices=2, seed=0, trial=0),
    }
    with pytest.raises(LearningError, match="aggregation cpa needs what every device sends; write access: orthogonal"):
        SuperposedUplink(upload_plan(config), link=link, protection=Protection(), **parts)
