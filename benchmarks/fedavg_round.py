"""Whole rounds of federated averaging: local training, codec, flips, the measured link, aggregation.

    python benchmarks/fedavg_round.py

- 1000 devices of 5 samples, linear model, one bit per weight over uncoded QPSK: at most 0.5 s a round;
- 20 devices of 100 samples, the EMNIST CNN of 1,206,590 parameters with per-sample clipping and bit flipping, 27.8 Mbit
  each over Rayleigh fading: at most 60 s and 4 GB.

The data are random images of the right shape: time does not depend on what they show. Exit 1 if a limit is exceeded;
other work on the machine counts.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig

MANY = FedAvgConfig.model_validate(
    {
        "num_devices": 1000,
        "data": "mnist",
        "partition": {"kind": "iid", "samples_per_device": 5},
        "model": "linear",
        "local": {"learning_rate": 0.1, "clip": 1.0},
        "upload": "update",
        "codec": {"name": "uniform", "bits": 1, "bound": 0.1, "max_clipped": 1.0},
    }
)
LARGE = FedAvgConfig.model_validate(
    {
        "num_devices": 20,
        "data": "emnist",
        "partition": {"kind": "iid", "samples_per_device": 100},
        "model": "emnist-cnn",
        "local": {"learning_rate": 0.1, "clip": 1.0},
        "codec": {"name": "fixed-point", "bound": 0.5},
    }
)
POWER = {"policy": "fixed", "snr_max_db": 10.0}
MANY_SECONDS, LARGE_SECONDS, LARGE_BYTES = 0.5, 60.0, 4e9


def write_random_images(folder: Path, name: str, *, num_classes: int) -> None:
    """`<name>.npz` in the layout of keras."""
    numbers = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for part, count in (("train", 6000), ("test", 1000)):
        arrays[f"x_{part}"] = numbers.integers(0, 256, (count, 28, 28), np.uint8)
        arrays[f"y_{part}"] = np.arange(count, dtype=np.uint8) % num_classes
    np.savez(folder / f"{name}.npz", **arrays)


def bit_flipping_federation() -> Federation:
    """20 devices with the EMNIST CNN, bit flipping, Rayleigh fading."""
    fades = LinkConfig.model_validate({"power": POWER, "channel": {"fading": "rayleigh"}})
    flips = BitFlippingConfig(mechanism="bit-flipping", epsilon=10, kappa=0.02)
    return Federation(LARGE, link=fades, privacy=flips, seed=1, trial=0)


def seconds_of(federation: Federation, *, rounds: int) -> float:
    """Median time of a round [s], after one that compiles."""
    federation.round(0)
    times = []
    for index in range(1, rounds + 1):
        start = time.perf_counter()
        federation.round(index)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> int:
    """Measure both rounds."""
    with tempfile.TemporaryDirectory() as folder:
        write_random_images(Path(folder), "mnist", num_classes=10)
        write_random_images(Path(folder), "emnist", num_classes=62)
        os.environ["PHYLOOP_DATA"] = folder
        plain = LinkConfig.model_validate({"power": POWER})
        many = seconds_of(Federation(MANY, link=plain, privacy=None, seed=1, trial=0), rounds=9)
        print(f"1000 devices, 7,850 parameters, 1 bit each: {many:.3f} s a round, limit {MANY_SECONDS} s")
        large = seconds_of(bit_flipping_federation(), rounds=3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(f"20 devices, 1,206,590 parameters, 23 bits each: {large:.1f} s a round, limit {LARGE_SECONDS:.0f} s")
        print(f"peak memory {peak / 1e9:.2f} GB, limit {LARGE_BYTES / 1e9:.0f} GB")
    return 0 if many <= MANY_SECONDS and large <= LARGE_SECONDS and peak < LARGE_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
