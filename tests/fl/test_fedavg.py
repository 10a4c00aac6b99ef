"""Federated averaging over the radio: against a NumPy oracle, and against what the radio must do to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles.numpy_fedavg import federated_softmax

from fl.config import FedAvgConfig
from fl.federation import Federation
from fl.results import TrialResult
from fl.run import run_trials
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
            "local": {"learning_rate": 0.5, "clip": 1.0},
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
