"""Softmax regression on real MNIST over the link: what issue and paper lead one to expect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.run import run_trials
from fl.data.whereabouts import missing_data
from phy.config import LinkConfig

BESIDE = Path(__file__).resolve().parents[5] / "shared" / "data"
"""Where a copy lies on machines of the project; elsewhere PHYLOOP_DATA says where."""

SETTING: dict[str, Any] = {
    "num_devices": 100,
    "rounds": 12,
    "data": "mnist",
    "partition": {"kind": "iid", "samples_per_device": 100},
    "model": "linear",
    "local": {"learning_rate": 0.5, "steps": 10},
    "codec": {"name": "fixed-point", "fraction_bits": 23, "bound": 1.0},
    "test_every": 12,
}


@pytest.fixture(autouse=True)
def _mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    if "PHYLOOP_DATA" not in os.environ and BESIDE.is_dir():
        monkeypatch.setenv("PHYLOOP_DATA", str(BESIDE))
    if "PHYLOOP_DATA" not in os.environ or missing_data("mnist") is not None:
        pytest.skip("MNIST is not on this machine; set PHYLOOP_DATA")


def accuracy(link: dict[str, Any]) -> float:
    (found,) = run_trials(
        FedAvgConfig.model_validate(SETTING),
        link=LinkConfig.model_validate(link),
        privacy=None,
        seed=1,
        trials=[0],
    )
    assert found.failure is None
    return found.metrics["test_accuracy"]


def test_it_reaches_88_percent_and_loses_less_than_2_points_at_an_error_rate_of_1e_3() -> None:
    clean = accuracy({"error_model": "error_free"})
    assert clean >= 0.88
    snr_max_db = 10.0 * np.log10(2.0 * ndtri(1e-3) ** 2)
    assert accuracy({"power": {"policy": "fixed", "snr_max_db": float(snr_max_db)}}) > clean - 0.02
