"""One sweep point of the paper's setting through phyloop, beside a bare NumPy loop without a radio.

1000 trials x 300 rounds x 20 devices x 5 entries over superposition, in the batches of the product. Each
case runs in a process of its own, so that its peak memory is its own; seconds are those on the clock, data
and compilation included, imports not, and "again" those of another point in the same process, with everything compiled
(CPU seconds beside them tell a busy machine). Exit 1 above 4 s or 1 GB.

    python benchmarks/flmc_point.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

from timing import peak_gigabytes

TRIALS, ROUNDS, BURN_IN, DEVICES, M, SAMPLES = 1000, 300, 200, 20, 5, 1200
MOST_SECONDS, MOST_GB = 4.0, 1.0
STEP = {"analog": 1.28e-4, "digital": 8.28e-3}
CASES = tuple((how, scheme) for scheme in STEP for how in ("numpy", "phyloop"))


def main() -> int:
    """Run every case and print the table."""
    slowest, largest = 0.0, 0.0
    found = {case: measured(*case) for case in CASES}
    heads = ("seconds", "of NumPy", "again", "CPU s", "peak GB", "of NumPy", "mean MSE")
    print(" " * 20 + "".join(f"{head:>10}" for head in heads))
    for (how, scheme), result in found.items():
        bare = found["numpy", scheme]
        times, sizes = result["seconds"] / bare["seconds"], result["gigabytes"] / bare["gigabytes"]
        row = (result["seconds"], times, result["compiled"], result["cpu"], result["gigabytes"], sizes)
        print(f"{scheme:10}{how:10}" + "".join(f"{value:10.2f}" for value in row) + f"{result['mse']:10.5f}")
        if how == "phyloop":
            slowest, largest = max(slowest, result["seconds"]), max(largest, result["gigabytes"])
    within = slowest <= MOST_SECONDS and largest <= MOST_GB
    verdict = "within" if within else "ABOVE"
    print(f"{verdict} {MOST_SECONDS} s and {MOST_GB} GB: {slowest:.2f} s, {largest:.2f} GB")
    return 0 if within else 1


def measured(how: str, scheme: str) -> dict[str, float]:
    """One case in a fresh process."""
    command = [sys.executable, __file__, how, scheme]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def case(how: str, scheme: str) -> None:
    """Run one case here and print its figures as JSON."""
    work = prepared_phyloop(scheme) if how == "phyloop" else lambda: bare_numpy(scheme)
    clock, cpu = time.perf_counter(), time.process_time()
    mse = work()
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    # As every point of a sweep but the first.
    clock, cpu_clock = time.perf_counter(), time.process_time()
    work()
    compiled, cpu_compiled = time.perf_counter() - clock, time.process_time() - cpu_clock
    found = {"mse": mse, "seconds": seconds, "cpu": cpu, "compiled": compiled, "cpu_compiled": cpu_compiled}
    print(json.dumps({**found, "gigabytes": peak_gigabytes()}))


def prepared_phyloop(scheme: str) -> Callable[[], float]:
    """The product's run with everything imported: privacy at epsilon 5, LMC cap as printed, 25 dB."""
    import sionna.phy
    import tensorflow as tf

    from fl.algorithms.run import run_trials
    from scenarios.engine.batch import batch_size
    from scenarios.schema.consistency.resolve import resolve_auto
    from scenarios.schema.schema import Scenario

    del sionna, tf  # imported lazily by the product, and not what is measured
    scenario = resolve_auto(
        Scenario.model_validate(
            {
                "name": "flmc-point",
                "seed": 2022,
                "trials": TRIALS,
                "link": {"channel": {"gain": 0.04}, "power": {"snr_max_db": 25.0}},
                "learning": {
                    "algorithm": "flmc",
                    "scheme": scheme,
                    "step_size": STEP[scheme],
                    "rounds": ROUNDS,
                    "burn_in": BURN_IN,
                    "num_devices": DEVICES,
                },
                "privacy": {"epsilon": 5.0},
            }
        )
    )
    size = batch_size(scenario)

    def work() -> float:
        total = 0.0
        for first in range(0, TRIALS, size):
            results = run_trials(
                scenario.learning,
                link=scenario.link,
                privacy=None if scenario.privacy == "none" else scenario.privacy,
                seed=scenario.seed,
                trials=range(first, min(first + size, TRIALS)),
            )
            total += sum(result.metrics["mse"] for result in results)
        return total / TRIALS

    return work


def bare_numpy(scheme: str) -> float:
    """Mean MSE by the same arithmetic with no radio, no record and one generator for everything."""
    import numpy as np

    rng = np.random.default_rng(2022)
    truth = np.array([0.418, -0.289, 0.3982, 0.8231, 0.5251])
    curvature, offset = np.empty((TRIALS, DEVICES, M, M)), np.empty((TRIALS, DEVICES, M))
    for trial in range(TRIALS):
        inputs = rng.standard_normal((DEVICES, SAMPLES // DEVICES, M))
        labels = inputs @ truth + rng.standard_normal(inputs.shape[:2])
        curvature[trial] = inputs.transpose(0, 2, 1) @ inputs
        offset[trial] = (inputs.transpose(0, 2, 1) @ labels[..., None])[..., 0]
    mean = np.linalg.solve(curvature.sum(axis=1) + np.eye(M), offset.sum(axis=1)[..., None])[..., 0]
    rows = (curvature + np.eye(M) / DEVICES).reshape(TRIALS, DEVICES * M, M)
    offsets = offset.reshape(TRIALS, DEVICES * M)
    eta = STEP[scheme]
    amplitude = np.sqrt(eta / 2.0)
    theta, total = np.zeros((TRIALS, M)), 0.0
    for index in range(ROUNDS):
        sent = np.clip((rows @ theta[..., None])[..., 0] - offsets, -30.0, 30.0)
        if scheme == "digital":
            sent = np.where(rng.random(sent.shape) < 1.0 / (1.0 + np.exp(-0.05 * sent)), 1.0, -1.0)
        heard = sent.reshape(TRIALS, DEVICES, M).sum(axis=1) + rng.standard_normal((TRIALS, M)) / amplitude
        theta = theta - eta * heard
        if index >= BURN_IN:
            total += ((theta - mean) ** 2).sum()
    return float(total / (TRIALS * (ROUNDS - BURN_IN)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        case(*sys.argv[1:])
    else:
        sys.exit(main())
