"""FLMC of several bits: its cost beside one bit, and beside a NumPy loop of the same rounds.

One point of the paper's setting, 1000 trials x 300 rounds x 20 devices x 5 entries, through the product, everything
compiled: analog, one bit, 4 bits as one amplitude, and 4 bits as bit planes, the latter per plane. The NumPy loop has
4 bits, all trials at once, one generator and neither radio nor record; a second one draws the words of the product, by
Threefry in NumPy. Cases take turns, and the least of several runs counts. Exit 1 above 1.5 times one bit.

    python benchmarks/flmc_levels.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from flmc_point import BURN_IN, DEVICES, ROUNDS, SAMPLES, M

from fl.algorithms.run import run_trials
from phy.numerics.random import Purpose, round_keys, threefry
from scenarios.engine.batch import batch_size
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario

TRIALS, REPEATS, BOUND, TOP, MOST = 1000, 3, 30.0, 15, 1.5
CASES = {
    "analog": {"scheme": "analog", "step_size": 1.28e-4},
    "one bit": {"scheme": "digital", "step_size": 8.28e-4},
    "4 bits": {"scheme": "digital", "quantizer_bits": 4, "step_size": 1.28e-4},
    "4 bit planes": {"scheme": "digital", "quantizer_bits": 4, "quantizer_symbols": "planes", "step_size": 1.28e-4},
}


def product(case: str) -> Callable[[], None]:
    """One sweep point of the product."""
    document = {
        "name": "flmc-levels",
        "seed": 2022,
        "trials": TRIALS,
        "link": {"channel": {"gain": 0.04}, "power": {"snr_max_db": 25.0}},
        "learning": {"algorithm": "flmc", "rounds": ROUNDS, "burn_in": BURN_IN, "num_devices": DEVICES, **CASES[case]},
    }
    scenario = resolve_auto(Scenario.model_validate(document))
    size = batch_size(scenario)

    def work() -> None:
        for first in range(0, TRIALS, size):
            trials = range(first, min(first + size, TRIALS))
            run_trials(scenario.learning, link=scenario.link, privacy=None, seed=scenario.seed, trials=trials)

    return work


def numpy_loop(*, same_words: bool) -> Callable[[], None]:
    """4 bits, all trials at once."""
    rng = np.random.default_rng(2022)
    inputs = rng.standard_normal((TRIALS, DEVICES, SAMPLES // DEVICES, M))
    labels = inputs @ rng.standard_normal(M) + rng.standard_normal(inputs.shape[:3])
    turned = inputs.swapaxes(2, 3)
    curvature = (turned @ inputs + np.eye(M) / DEVICES).reshape(TRIALS, DEVICES * M, M)
    offset = (turned @ labels[..., None]).reshape(TRIALS, DEVICES * M)
    pairs = (M + 1) // 2
    places, rows = (
        np.tile(np.arange(pairs, dtype=np.uint32), DEVICES),
        np.arange(DEVICES, dtype=np.uint32).repeat(pairs),
    )

    def shares(index: int) -> np.ndarray:
        if not same_words:
            return rng.random((TRIALS, DEVICES, M))
        keys = round_keys(2022, tuple(range(TRIALS)), Purpose.LOCAL_TRAINING, index)
        counters = np.broadcast_to(places, (TRIALS, len(places))), np.broadcast_to(rows, (TRIALS, len(rows)))
        both = np.stack(threefry((keys[:, :1], keys[:, 1:]), counters), axis=-1).reshape(TRIALS, DEVICES, -1)
        return np.asarray(both[..., :M] * 2.0**-32)

    def work() -> None:
        theta = np.zeros((TRIALS, M))
        for index in range(ROUNDS):
            gradients = ((curvature @ theta[..., None])[..., 0] - offset).reshape(TRIALS, DEVICES, M)
            u = (np.clip(gradients, -BOUND, BOUND) / BOUND + 1.0) * (0.5 * TOP)
            down = np.floor(u)
            level = (down + (shares(index) < u - down)) * (2.0 * BOUND / TOP) - BOUND
            theta = theta - 1.28e-4 * (level.sum(axis=1) + rng.standard_normal((TRIALS, M)) * 125.0)

    return work


def main() -> int:
    """Print the table; 1 where a task of 4 bits costs too much."""
    works = {case: product(case) for case in CASES}
    works |= {"NumPy": numpy_loop(same_words=False), "NumPy, same words": numpy_loop(same_words=True)}
    least = dict.fromkeys(works, np.inf)
    for work in works.values():
        work()  # compiles
    for _ in range(REPEATS):
        for name, work in works.items():
            clock = time.process_time()
            work()
            least[name] = min(least[name], time.process_time() - clock)
    print(f"{'CPU seconds':20}{'':>8}{'of one bit':>12}{'per plane':>12}{'NumPy over it':>15}{'same words':>12}")
    for name, seconds in least.items():
        planes = 4 if name == "4 bit planes" else 1
        ratio = seconds / least["one bit"]
        beside = (least["NumPy"] / seconds, least["NumPy, same words"] / seconds)
        print(f"{name:20}{seconds:8.3f}{ratio:12.2f}{ratio / planes:12.2f}{beside[0]:15.2f}{beside[1]:12.2f}")
    worst = max(least["4 bits"], least["4 bit planes"] / 4) / least["one bit"]
    print(f"a task of several bits costs {worst:.2f} times one of one bit per round and plane; at most {MOST}")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
