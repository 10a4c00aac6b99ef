"""Corners of federated averaging in which a wrong number or an empty promise would go unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig, GaussianConfig

NO_RADIO: dict[str, Any] = {"error_model": "error_free"}
FRACTIONS = {"name": "fixed-point", "bound": 4.0}
FLIPS = BitFlippingConfig(mechanism="bit-flipping", epsilon=1e3, kappa=0.1)


def setting(**changes: Any) -> FedAvgConfig:
    """Digits on four devices, linear model."""
    return FedAvgConfig.model_validate(
        {
            "num_devices": 4,
            "rounds": 2,
            "partition": {"kind": "iid", "samples_per_device": 40},
            "model": "linear",
            "codec": FRACTIONS,
            "local": {"learning_rate": 0.5, "steps": 1, "clip": 1.0},
            "upload": "model",
            **changes,
        }
    )


def run(config: FedAvgConfig, link: dict[str, Any] = NO_RADIO, privacy: Any = None) -> TrialResult:
    return run_trials(config, link=LinkConfig.model_validate(link), privacy=privacy, seed=5, trials=[0])[0]


def test_kappa_is_measured_on_what_is_uploaded() -> None:
    measured = FLIPS.model_copy(update={"kappa": "measured"})
    models = run(setting(rounds=1), privacy=measured).metrics["kappa_measured"]
    updates = run(setting(rounds=1, upload="update"), privacy=measured).metrics["kappa_measured"]
    # Pixels that are always dark leave updates of exactly 0, where the first bit changes: 1/4 of each on average.
    federation = Federation(setting(), link=LinkConfig.model_validate(NO_RADIO), privacy=None, seed=5, trial=0)
    dark = 10 * int((federation.data.x_train.reshape(len(federation.data.x_train), -1).max(axis=0) == 0).sum())
    assert dark >= 10
    assert updates > dark / 5 > models


def convex(*, local: dict[str, Any] | None = None, **changes: Any) -> FedAvgConfig:
    steps = {"learning_rate": 0.02, "clip": 50.0, "l2": 0.1, "steps": 3, **(local or {})}
    return setting(convergence_bound=True, local=steps, **changes)


def test_the_bound_holds_only_where_all_is_as_the_theorem_has_it() -> None:
    assert run(convex()).metrics["bound_valid"] == 1
    for changes in (
        {"participation": {"devices_per_round": 2}},
        {"participation": {"dropout": 0.9}},
        {"participation": {"straggling": 0.5}},
        {"upload": "update"},
        {"receiver_limit": 4.0},
        {"downlink": NO_RADIO},
        {"local": {"decay_steps": 10.0}},
        {"local": {"proximal": 0.1}},
        {"codec": {"name": "fixed-point", "bound": 0.1, "max_clipped": 1.0}},
    ):
        assert run(convex(**changes)).metrics["bound_valid"] == 0, changes


def test_the_bound_knows_the_noise_that_was_added_and_what_debiasing_does_to_it() -> None:
    plain = run(convex()).rounds["bound"]
    noise = GaussianConfig(mechanism="gaussian", epsilon=100, calibration="dp-accounting")
    noisy = run(convex(), privacy=noise)
    sigma, size = noisy.metrics["sigma"], 650
    # Without flips the noise adds up as X (1 - r^k) / (1 - r), which is X after the first round.
    assert noisy.rounds["bound"][0] - plain[0] == pytest.approx(size * sigma**2 / 4, rel=1e-6)
    flips = FLIPS.model_copy(update={"epsilon": 2.0})
    biased, divided = (
        run(convex(), privacy=flips.model_copy(update={"debias": on})).rounds["bound"] for on in (False, True)
    )
    assert not np.allclose(biased, divided, rtol=1e-3)


def test_a_trial_that_fails_in_its_first_round_has_no_bound_and_still_a_result() -> None:
    found = run(convex(codec={"name": "fixed-point", "bound": 0.001, "max_clipped": 0.0}))
    assert found.failure is not None
    assert found.failure.startswith("round 1: ")
    assert "bound" not in found.rounds


def test_a_model_that_diverges_while_kappa_is_measured_fails_its_trial_alone() -> None:
    local = {"learning_rate": 1e6, "clip": 1.0, "proximal": 1e6, "steps": 5}
    found = run(setting(local=local), privacy=FLIPS)
    assert found.failure is not None
    assert found.failure.startswith("before round 1: the model of device 0 has diverged")
    assert found.metrics == {}


def test_a_server_whose_model_does_not_fit_the_downlink_says_so() -> None:
    short = {"name": "fixed-point", "bound": 0.01, "max_clipped": 0.1}
    found = run(setting(downlink=NO_RADIO, downlink_codec=short))
    assert found.failure is not None
    assert "of the values of the server's model lie beyond the codec's bound 0.01" in found.failure
    assert "learning.downlink_codec.max_clipped" in found.failure


def test_by_default_a_model_goes_down_in_wider_codes_than_updates_come_up() -> None:
    down = setting(upload="update", codec="uniform").model_copy(
        update={"downlink": LinkConfig.model_validate(NO_RADIO)}
    )
    federation = Federation(down, link=LinkConfig.model_validate(NO_RADIO), privacy=None, seed=5, trial=0)
    federation.weights = np.linspace(-3.9, 3.9, federation.weights.size, dtype=np.float32)
    step = 8.0 / (2**16 - 1)
    got = federation._received_model(np.arange(4), 0)
    np.testing.assert_allclose(got, np.tile(federation.weights, (4, 1)), atol=step)


@pytest.mark.parametrize("codec", [FRACTIONS, {"name": "uniform", "bits": 8, "bound": 0.5}])
def test_what_attackers_send_beyond_the_codec_is_clipped_and_ends_no_trial(codec: dict[str, Any]) -> None:
    attack = {"kind": "gaussian", "std": 100.0, "devices": [1]}
    assert run(setting(codec=codec, upload="update", attack=attack)).failure is None


def test_devices_stand_at_one_place_on_the_way_down_and_up() -> None:
    cell = {"channel": {"cell": {"shadowing": False}}, "power": {"policy": "fixed", "snr_max_db": 10.0}}
    config = setting(downlink=cell, num_devices=6, rounds=1)
    federation = Federation(config, link=LinkConfig.model_validate(cell), privacy=None, seed=5, trial=0)
    federation.round(0)
    snr_db = federation.record.of_trial("link")["snr_db"][0]
    assert federation._down is not None
    down = federation._down.bits.link.config.channel
    # The received SNR on the way up follows the gain on the way down, device by device, but for 650 noisy values.
    gain_db = 20.0 * np.log10(np.array(down.gain))
    assert np.ptp(gain_db) > 10.0
    np.testing.assert_allclose(snr_db - gain_db, (snr_db - gain_db).mean(), atol=0.5)


@pytest.mark.parametrize(
    "channel",
    [{"model": "flat", "fading": "rayleigh", "coherence": "packet"}, {"model": "awgn"}],
    ids=["a fade per packet", "a code"],
)
def test_errors_that_come_together_are_not_credited_as_if_each_came_alone(channel: dict[str, Any]) -> None:
    coding = "none" if "fading" in channel else {"code": "convolutional", "rate": 0.5}
    link = {
        "channel": channel,
        "coding": coding,
        "power": {"policy": "fixed", "snr_max_db": 9.0 if coding == "none" else 2.0},
        "packet_size_bytes": 100,
    }
    found = run(setting(rounds=15, codec={"name": "fixed-point", "bound": 4.0}), link, FLIPS)
    assert found.failure is None, found.failure
    rate = found.link["bit_errors"] / found.link["bits"]
    assert rate.mean() > 0.02
    # Promised at 99 % per device and round: 60 of these leave at most 4 with probability 0.9996 if it is kept.
    assert (found.devices["probed_low"] > rate).sum() <= 4
    assert (found.devices["probed_errors"] > 0).all()


def test_a_channel_estimate_that_stays_wrong_for_the_run_stays_with_its_device() -> None:
    link = {
        "channel": {"model": "flat", "coherence": "run"},
        "csi": {"error_variance": 0.3},
        "power": {"policy": "fixed", "snr_max_db": 8.0},
    }
    found = run(setting(num_devices=8, rounds=12, participation={"devices_per_round": 4}), link)
    bits, errors = found.link["bits"], found.link["bit_errors"]
    rates = [errors[:, k][bits[:, k] > 0] / 14950 for k in range(8)]
    # The same error of the estimate in every round: rates differ between devices, and between rounds by chance alone.
    spread = max(4 * np.sqrt(2 * rate.mean() * (1 - rate.mean()) / 14950) + 1e-3 for rate in rates)
    assert max(float(np.ptp(rate)) for rate in rates if len(rate)) < 2 * spread
    assert np.ptp([rate.mean() for rate in rates if len(rate)]) > 4 * spread


def test_a_constant_channel_is_probed_anew_in_every_round_that_credits_it() -> None:
    config = setting(rounds=4)
    link = LinkConfig.model_validate({"power": {"policy": "fixed", "snr_max_db": 9.0}})
    privacy = BitFlippingConfig(mechanism="bit-flipping", epsilon=3, kappa=0.1)
    (found,) = run_trials(config, link=link, privacy=privacy, seed=5, trials=[0])
    probed = found.devices["probed_errors"]
    assert (probed > 0).all()
    assert len({tuple(row) for row in probed}) == len(probed)


def test_who_does_not_take_part_leaves_the_resources_it_shares() -> None:
    noma = {
        "access": "noma",
        "modulation": "qpsk",
        "power": {"policy": "fixed", "snr_max_db": 10.0},
        "noma": {"ladder_db": [0.0, -3.0]},
    }
    config = setting(num_devices=2, rounds=8, participation={"devices_per_round": 1})
    heard = run(config, link=noma).link
    bits, errors = heard["bits"].sum(axis=0), heard["bit_errors"].sum(axis=0)
    assert (bits > 0).all()
    # Alone on the air: Q(sqrt(P / (2 N0))) at the device's share of P, within 4 standard errors.
    shares = np.array([1.0, 10**-0.3]) / (1.0 + 10**-0.3)
    alone = ndtr(-np.sqrt(shares * 10.0 / 2.0))
    assert (np.abs(errors / bits - alone) < 4 * np.sqrt(alone / bits)).all()
