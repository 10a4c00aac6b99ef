"""One round of a one-bit scheme with up to a million devices, local training included.

    python benchmarks/million_devices.py                 # 1,000 to 1,000,000 devices, each in a process of its own
    python benchmarks/million_devices.py --most 100000 --scheme probit

A scenario goes the product's own way: YAML, `load_scenario`, `Federation`. Linear model (7,850 numbers), 5 images per
device, one bit per number over uncoded QPSK and Rayleigh fading. CPA has randomized response at its epsilon of 0.5;
PRoBit and signSGD have none, as by default. The rounds timed come after one of 2,000 devices that compiles. Exit 1 if
time grows faster than linearly from 1,000 devices on, or a million of them take 90 s or 4 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import print_table

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SCHEMES = {"cpa": "{name: cpa, gamma: 0.05}", "probit": "{name: probit, b: 0.05}", "sign": "{name: sign}"}
MOST_SECONDS, MOST_BYTES = 90.0, 4e9
STEEPEST = 1.3
"""Largest time per device over the least at smaller sizes: time shared by all devices only makes few of them slower."""

SCENARIO = """
name: million-devices
seed: 1
trials: 1
link:
  modulation: qpsk
  channel: {{model: flat, fading: rayleigh, coherence: round}}
  power: {{policy: fixed, snr_max_db: 10}}
learning:
  algorithm: fedavg
  data: mnist
  partition: {{kind: iid, samples_per_device: 5, disjoint: false}}
  model: linear
  local: {{learning_rate: 0.1}}
  num_devices: {num_devices}
  rounds: 1
  upload: update
  aggregation: {scheme}
"""


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Wall time of the parts of a round, added up in `spent`; parts do not overlap."""
    from fl.local.trainer import LocalTrainer
    from fl.schemes.coders.stochastic_bits import SignSums
    from fl.schemes.cpa.cpa import Cpa, CpaGathering
    from fl.schemes.probit.probit import Probit
    from fl.schemes.sign import SignVote
    from fl.uplink.protection import Protection
    from phy.links.orthogonal import OrthogonalLink

    parts: list[tuple[Any, str, str]] = [
        (LocalTrainer, "train", "training"),
        (Cpa, "encode", "encoding"),
        (Probit, "encode", "encoding"),
        (SignVote, "encode", "encoding"),
        (Protection, "cover", "flips"),
        (OrthogonalLink, "send", "link"),
        (OrthogonalLink, "probe", "probing"),
        (CpaGathering, "add", "aggregation"),
        (SignSums, "add", "aggregation"),
    ]
    kept = [(owner, name, owner.__dict__[name]) for owner, name, _ in parts]

    def clocked(method: Callable[..., Any], part: str) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*given, **named)
            finally:
                spent[part] += time.perf_counter() - start

        return run

    for (owner, name, part), (_, _, method) in zip(parts, kept, strict=True):
        setattr(owner, name, clocked(method, part))
    try:
        yield
    finally:
        for owner, name, method in kept:
            setattr(owner, name, method)


def federation(folder: Path, *, num_devices: int, scheme: str) -> Any:
    """The one trial of the scenario, ready to run."""
    from fl.algorithms.fedavg.federation import Federation
    from scenarios.plan.plan import expand
    from scenarios.schema.loader import load_scenario

    path = folder / f"million-{num_devices}.yaml"
    path.write_text(SCENARIO.format(num_devices=num_devices, scheme=SCHEMES[scheme]))
    scenario = expand(load_scenario(path)).points[0].scenario
    learning: Any = scenario.learning
    return Federation(learning, link=scenario.link, privacy=None, seed=scenario.seed, trial=0)


def one_size(num_devices: int, scheme: str) -> None:
    """Run one size in this process and print what it took, as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "PHYLOOP_DATA" not in os.environ:
            write_random_images(folder)
            os.environ["PHYLOOP_DATA"] = name
        federation(folder, num_devices=min(num_devices, 2000), scheme=scheme).round(0)
        start = time.perf_counter()
        trial = federation(folder, num_devices=num_devices, scheme=scheme)
        ready = time.perf_counter()
        spent: dict[str, float] = defaultdict(float)
        with timed(spent):
            processor, begin = time.process_time(), time.perf_counter()
            trial.round(0)
            link = trial.record.of_trial("link")
            seconds = time.perf_counter() - begin
        print(
            json.dumps(
                {
                    "build": ready - start,
                    "seconds": seconds,
                    "processor": time.process_time() - processor,
                    "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                    "bits": int(link["bits"].sum()),
                    "rate": float(link["bit_errors"].sum() / link["bits"].sum()),
                    "parts": spent,
                }
            )
        )


def write_random_images(folder: Path) -> None:
    """`mnist.npz` in the layout of keras: time does not depend on what images show."""
    numbers = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for part, size in (("train", 60_000), ("test", 1000)):
        arrays[f"x_{part}"] = numbers.integers(0, 256, (size, 28, 28), np.uint8)
        arrays[f"y_{part}"] = np.arange(size, dtype=np.uint8) % 10
    np.savez(folder / "mnist.npz", **arrays)


def measured(num_devices: int, scheme: str) -> dict[str, Any]:
    """The same in a process of its own, so that the peak of memory is that of this size."""
    command = [sys.executable, __file__, "--one", str(num_devices), "--scheme", scheme]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Print the tables and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="devices of the largest round")
    parser.add_argument("--scheme", choices=sorted(SCHEMES), default="cpa")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one is not None:
        one_size(chosen.one, chosen.scheme)
        return 0
    found = {size: measured(size, chosen.scheme) for size in SIZES if size <= chosen.most}
    rows, parts = [], []
    for size, one in found.items():
        each = 1e6 / size
        took = (one["seconds"], one["processor"], one["build"])
        rate = one["bits"] / one["seconds"] / 1e6
        rows.append(
            (
                f"{size:,}",
                *(f"{value:.2f}" for value in took),
                f"{each * one['seconds']:.0f}",
                f"{rate:.0f}",
                f"{one['bytes'] / 1e9:.2f}",
            )
        )
        rest = one["seconds"] - sum(one["parts"].values())
        parts.append((f"{size:,}", *(f"{each * value:.1f}" for value in (*one["parts"].values(), rest))))
    heads = ("round [s]", "processor [s]", "set-up [s]", "us a device", "Mbit/s", "peak [GB]")
    print_table((f"{chosen.scheme}, devices", *heads), rows)
    print()
    print_table(("microseconds a device", *next(iter(found.values()))["parts"], "rest"), parts)
    per_device = {size: one["processor"] / size for size, one in found.items()}
    steep = max(per_device.values()) > STEEPEST * per_device[SIZES[0]]
    largest = found.get(SIZES[-1])
    large = largest is not None and (largest["seconds"] >= MOST_SECONDS or largest["bytes"] >= MOST_BYTES)
    return 1 if steep or large else 0


if __name__ == "__main__":
    sys.exit(main())
