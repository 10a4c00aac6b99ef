"""Federated averaging over the radio: against a NumPy oracle, and against what the radio must do to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles.numpy_fedavg import federated_softmax

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig, GaussianConfig

SEED = 31
NO_RADIO = LinkConfig.model_validate({"error_model": "error_free"})


def setting(**changes: Any) -> FedAvgConfig:
    """Digits on five devices, linear model."""
    return FedAvgConfig.model_validate(
        {
            "num_devices": 5,
            "rounds": 4,
            "partition": {"kind": "iid", "samples_per_device": 40},
            "model": "linear",
            "local": {"learning_rate": 0.5, "steps": 1, "clip": 1.0},
            "codec": "binary32",
            "upload": "model",
            **changes,
        }
    )


def radio(rate: float, **changes: Any) -> LinkConfig:
    """Uncoded QPSK over AWGN at a bit error rate: gain^2 / N0 = (Q^-1(rate))^2 for Es/(2 N0)."""
    from scipy.special import ndtri

    esno = float(ndtri(rate)) ** 2  # per bit: gain^2 / 2 over N0 per real dimension, so Q(gain / sqrt(2 N0))
    return LinkConfig.model_validate(
        {
            "channel": {"model": "flat", "gain": float(np.sqrt(2.0 * esno)), "noise_power": 1.0},
            "power": {"policy": "fixed", "snr_max_db": 0.0},
            **changes,
        }
    )


def run(config: FedAvgConfig, link: LinkConfig = NO_RADIO, privacy: Any = None, trial: int = 0) -> TrialResult:
    return run_trials(config, link=link, privacy=privacy, seed=SEED, trials=[trial])[0]


@pytest.mark.parametrize(("steps", "clip", "l2"), [(1, 1.0, 0.0), (3, None, 0.01)])
def test_without_radio_and_privacy_it_equals_a_numpy_oracle(steps: int, clip: float | None, l2: float) -> None:
    config = setting(
        partition={"kind": "dirichlet", "alpha": 1.0},
        data={"name": "digits", "train_samples": 300},
        local={"learning_rate": 0.5, "clip": clip, "steps": steps, "l2": l2},
    )
    federation = Federation(config, link=NO_RADIO, privacy=None, seed=SEED, trial=0)
    data = federation.data
    images = data.x_train.reshape(len(data.x_train), -1).astype(float) * data.scale
    assert len({len(held) for held in federation.partition.devices}) > 1, "weights q_n were not put to the test"
    expected = federated_softmax(
        federation.weights.astype(float),
        x=[images[held] for held in federation.partition.devices],
        y=[data.y_train[held] for held in federation.partition.devices],
        rounds=config.rounds,
        steps=steps,
        learning_rate=0.5,
        clip=clip,
        l2=l2,
    )
    for index in range(config.rounds):
        federation.round(index)
    # float32 against float64: some 1e-7 of values near 1 per step, times 12 steps and sums over 100 samples.
    np.testing.assert_allclose(federation.weights, expected, atol=2e-5)


def test_the_error_rate_of_a_round_lies_in_its_predicted_interval() -> None:
    config = setting(codec={"name": "fixed-point", "bound": 1.0}, rounds=3)
    privacy = BitFlippingConfig(mechanism="bit-flipping", epsilon=3, kappa=0.1)
    found = run(config, radio(0.01), privacy)
    assert found.failure is None, found.failure
    target = found.metrics["target_bit_error_rate"]
    assert target == pytest.approx(1 / (1 + 3 / (3 * 0.1)))
    errors, bits = found.devices["end_errors"], found.devices["end_bits"]
    # p_A is set by the lower limit of the probe, so p comes out above the target by what the probe was unsure of.
    low = found.devices["probed_low"]
    added = found.devices["flip_probability"]
    np.testing.assert_allclose(added, (target - low) / (1 - 2 * low))
    expected = added + 0.01 - 2 * added * 0.01
    assert (np.abs(errors / bits - expected) < 4 * np.sqrt(expected * (1 - expected) / bits)).all()
    assert (found.link["bit_errors"] > 0).all()


def test_a_radio_of_few_errors_costs_little_and_one_of_many_costs_much() -> None:
    config = setting(
        codec={"name": "fixed-point", "bound": 2.0}, rounds=25, local={"learning_rate": 1.0, "steps": 3}, num_devices=10
    )
    clean = run(config).metrics["test_accuracy"]
    assert clean > 0.85
    assert run(config, radio(1e-3)).metrics["test_accuracy"] > clean - 0.05
    assert run(config, radio(0.3)).metrics["test_accuracy"] < clean - 0.1


def test_updates_and_models_are_the_same_without_a_radio() -> None:
    models = Federation(setting(), link=NO_RADIO, privacy=None, seed=SEED, trial=0)
    updates = Federation(setting(upload="update"), link=NO_RADIO, privacy=None, seed=SEED, trial=0)
    for index in range(3):
        models.round(index)
        updates.round(index)
    np.testing.assert_allclose(models.weights, updates.weights, atol=1e-6)


def test_trials_are_the_same_alone_and_together_and_differ_from_each_other() -> None:
    config = setting(codec={"name": "uniform", "bits": 2, "bound": 1.0, "max_clipped": 1.0}, rounds=3)
    together = run_trials(config, link=radio(0.02), privacy=None, seed=SEED, trials=[0, 1])
    alone = run(config, radio(0.02), trial=1)
    assert together[1].metrics == alone.metrics
    for name, values in alone.rounds.items():
        np.testing.assert_array_equal(together[1].rounds[name], values)
    assert together[0].metrics["test_loss"] != alone.metrics["test_loss"]


def test_a_wrong_exponent_ends_the_trial_and_keeps_its_rounds() -> None:
    config = setting(rounds=30)
    found = run(config, radio(1e-4))
    assert found.failure is not None
    assert "has diverged or is not a number" in found.failure
    kept = len(found.rounds["train_loss"])
    assert 0 < kept < 30
    assert all(len(values) == kept for values in (*found.rounds.values(), *found.link.values()))
    assert found.metrics == {}


def test_weights_beyond_the_codec_end_the_trial_with_the_remedy() -> None:
    found = run(setting(codec={"name": "fixed-point", "bound": 0.01, "max_clipped": 0.05}))
    assert found.failure is not None
    assert "raise the bound" in found.failure


def test_only_those_who_take_part_are_heard_and_cost_airtime() -> None:
    config = setting(participation={"devices_per_round": 2}, codec={"name": "fixed-point", "bound": 1.0})
    own = radio(0.01, channel={"model": "flat", "gain": [1.0] * 5})
    for link in (radio(0.01), own):
        found = run(config, link)
        assert ((found.link["bits"] > 0).sum(axis=1) == 2).all()
        assert (found.rounds["num_active"] == 2).all()
        airtime = found.link["airtime_s"].sum(axis=1)
        np.testing.assert_allclose(found.rounds["airtime_s"], airtime)
        np.testing.assert_allclose(found.rounds["elapsed_s"], np.cumsum(airtime))


def test_nothing_changes_where_nobody_is_heard() -> None:
    config = setting(participation={"dropout": 0.999999})
    federation = Federation(config, link=radio(0.01), privacy=None, seed=SEED, trial=0)
    before = federation.weights.copy()
    federation.round(0)
    record = federation.record
    np.testing.assert_array_equal(federation.weights, before)
    assert record.of_trial("rounds")["num_active"] == 0
    assert record.of_trial("link")["bits"].sum() == 0


def test_a_bad_downlink_hurts_and_a_clean_one_changes_nothing() -> None:
    ideal = run(setting())
    clean = run(setting(downlink=NO_RADIO))
    np.testing.assert_array_equal(ideal.rounds["test_loss"], clean.rounds["test_loss"])
    noisy = run(setting(downlink=radio(0.05), downlink_codec={"name": "fixed-point", "bound": 1.0}))
    assert noisy.rounds["train_loss"][-1] > 1.05 * ideal.rounds["train_loss"][-1]


def test_the_gaussian_mechanism_reports_what_its_printed_noise_is_worth() -> None:
    found = run(setting(), privacy=GaussianConfig(mechanism="gaussian", epsilon=5))
    metrics = found.metrics
    assert metrics["delta"] == pytest.approx(0.25)
    distance = 2 * 0.5 * 1.0 / 40
    assert metrics["sensitivity"] == pytest.approx(distance)
    assert metrics["sigma_printed"] == pytest.approx(distance * 4 * np.sqrt(2 * np.log(1.25 / 0.25)) / 5)
    assert metrics["sigma_calibrated"] < metrics["sigma_printed"], "K-fold instead of sqrt(K)-fold noise"
    assert metrics["epsilon_accounted"] < 5


def test_theorem_2_lies_above_the_measured_distance_where_it_is_valid() -> None:
    config = setting(
        local={"learning_rate": 0.02, "steps": 40, "clip": 100.0, "l2": 0.2},
        codec={"name": "fixed-point", "bound": 0.5},
        rounds=6,
        convergence_bound=True,
    )
    found = run(config, radio(1e-3))
    assert found.failure is None, found.failure
    assert found.metrics["bound_valid"] == 1.0
    assert (found.rounds["bound"] >= found.rounds["distance_sq"]).all()
    wild = run(config.model_copy(update={"rounds": 3}), radio(0.2))
    assert wild.metrics["bound_valid"] == 0.0


def test_kappa_is_measured_beside_the_one_given() -> None:
    config = setting(codec={"name": "fixed-point", "bound": 1.0}, rounds=1)
    given = run(config, privacy=BitFlippingConfig(mechanism="bit-flipping", epsilon=3, kappa=0.02)).metrics
    own = run(config, privacy=BitFlippingConfig(mechanism="bit-flipping", epsilon=3, kappa="measured")).metrics
    assert given["kappa"] == 0.02
    assert own["kappa"] == own["kappa_measured"] == given["kappa_measured"]
    assert own["kappa_measured"] > 0.02
