"""CPA as its authors coded it, on real MNIST: 1000 devices of 5 images. Minutes long, and needs the images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.run import run_trials
from fl.data.whereabouts import missing_data
from phy.config import LinkConfig

pytestmark = pytest.mark.slow

BESIDE = Path(__file__).resolve().parents[4] / "shared" / "data"
SETTING: dict[str, Any] = {
    "num_devices": 1000,
    "rounds": 30,
    "data": {"name": "mnist", "validation_samples": 10_000, "pixels": "symmetric"},
    "partition": {"kind": "iid", "samples_per_device": 5},
    "model": "linear",
    "local": {"optimizer": "sgd", "batch_size": 5, "momentum": 0.5, "learning_rate": 1.0},
    "upload": "update",
}


@pytest.fixture(autouse=True)
def _mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    if "PHYLOOP_DATA" not in os.environ and BESIDE.is_dir():
        monkeypatch.setenv("PHYLOOP_DATA", str(BESIDE))
    if "PHYLOOP_DATA" not in os.environ or missing_data("mnist") is not None:
        pytest.skip("MNIST is not on this machine; set PHYLOOP_DATA")


def metrics(name: str, *, aggregation: dict[str, Any], link: dict[str, Any], **changes: Any) -> list[float]:
    found = run_trials(
        FedAvgConfig.model_validate({**SETTING, "aggregation": aggregation, **changes}),
        link=LinkConfig.model_validate(link),
        privacy=None,
        seed=1,
        trials=[0, 1, 2],
    )
    return [one.metrics[name] for one in found]


@pytest.mark.parametrize(("stages", "published"), [(1, 0.85), (2, 0.86)], ids=["CPA", "nested CPA"])
@pytest.mark.parametrize("link", [{"error_model": "error_free"}, {"power": {"policy": "fixed", "snr_max_db": 8.0}}])
def test_the_published_accuracy_is_reached_also_over_a_noisy_link(
    stages: int, published: float, link: dict[str, Any]
) -> None:
    found = metrics("validated_accuracy", aggregation={"name": "cpa", "stages": stages}, link=link)
    assert abs(np.mean(found) - published) < 0.015, found


def test_the_signal_to_noise_ratio_rises_with_epsilon_and_with_the_number_of_devices() -> None:
    levels = [
        [
            np.mean(
                metrics(
                    "aggregation_snr_20log_db",
                    aggregation={"name": "cpa", "epsilon": epsilon},
                    link={"error_model": "error_free"},
                    num_devices=num_devices,
                    rounds=10,
                    test_every=10,
                    local={**SETTING["local"], "learning_rate": 0.1},
                )
            )
            for epsilon in (0.1, 0.5, 1.0, 2.0)
        ]
        for num_devices in (100, 1000)
    ]
    few, many = np.asarray(levels)
    assert (np.diff(few) > 0).all()
    assert (np.diff(many) > 0).all()
    assert (many > few).all()
