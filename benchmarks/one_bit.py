"""One-bit aggregation: whole rounds, every scheme, a loop over devices, and how cost grows.

    python benchmarks/one_bit.py

All times are processor time of all threads together, the least of some turns: where nothing waits, the wall time of an
idle machine is no longer, and other work on the machine hardly counts.

- Whole rounds of compressed private aggregation over uncoded QPSK, linear model of 7,850 numbers: local training,
  probe, bits, link, aggregation. 1000 devices: under 0.5 s; 10,000: under 5 s, and the process under 2 GB.
- What each scheme takes to encode and to aggregate, in nanoseconds per number: shown, and not judged.
- A loop over devices that draws with NumPy's own generator. `permuting`: as the authors' code has it, the codeword of
  every number is permuted and written out, any n. `tailored`: three levels and nothing else, a codeword is the place of
  its -1, drawn with 8 random bits in sequence; ours draws 32 bits by counter, so that a bit depends neither on other
  devices nor on their order. Ours must take less time than either over both verbs at K = 1000.
- Growth: the least-squares slope of log time over log size is at most 1.15 in devices and in numbers; 1 is linear.

Exit 1 where a limit is exceeded.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import interleaved, print_table

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.models.federated import Piece
from fl.schemes.coders.coder import Coder, Senders
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.jopeq import JopeqScheme
from fl.schemes.laplace import LaplaceScheme
from fl.schemes.mvu import MvuScheme
from fl.schemes.probit.scheme import ProbitScheme
from fl.schemes.sign import SignScheme
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

GAMMA = 0.05
LINEAR_MODEL = 7_850
DEVICES = (250, 500, 1000, 2000, 4000)
VALUES = (7_850, 15_700, 31_400, 62_800)
ROUND_SECONDS = {1000: 0.5, 10_000: 5.0}
MOST_BYTES = 2e9
STEEPEST = 1.15
CONTEXT = UplinkContext(seed=1, trials=(0,))


def places_of_minus(device: int, num_values: int) -> np.ndarray:
    """Which of three entries is -1, tailored."""
    return np.random.default_rng((1, device)).integers(0, 3, num_values, np.uint8)


def permuted_words(device: int, num_values: int) -> np.ndarray:
    """Codewords `[M, 3]`, written out."""
    return np.random.default_rng((1, device)).permuted(np.tile(np.array([-1, 1, 1], np.int8), (num_values, 1)), axis=1)


def levels(row: np.ndarray) -> np.ndarray:
    """Numbers 0, 1, 2 of the levels of one device's update."""
    return (np.clip(np.rint(row / np.float32(2 * GAMMA / 3)), -1, 1) + 1).astype(np.uint8)


def tailored_encode(updates: np.ndarray) -> list[np.ndarray]:
    """Payloads of updates `[K, M]`, device by device."""
    return [np.packbits(levels(row) != places_of_minus(k, len(row))) for k, row in enumerate(updates)]


def permuting_encode(updates: np.ndarray) -> list[np.ndarray]:
    """Payloads of updates `[K, M]`, device by device."""
    place = np.arange(updates.shape[1])
    return [np.packbits(permuted_words(k, len(row))[place, levels(row)] > 0) for k, row in enumerate(updates)]


def signs(payload: np.ndarray, num_values: int) -> np.ndarray:
    """Bits as +-1."""
    return 2 * np.unpackbits(payload, count=num_values).astype(np.float32) - 1


def tailored_aggregate(payloads: list[np.ndarray], num_values: int) -> Any:
    """The update `[M]`, device by device into one histogram."""
    bins = np.zeros((3, num_values), np.float32)
    for device, payload in enumerate(payloads):
        minus, sign = places_of_minus(device, num_values), signs(payload, num_values)
        for point in range(3):
            bins[point] += np.where(minus == point, -sign, sign)
    return (bins[2] - bins[0]) * np.float32(2 * GAMMA / 3 / len(payloads))


def permuting_aggregate(payloads: list[np.ndarray], num_values: int) -> np.ndarray:
    """The update `[M]`, device by device into one histogram."""
    bins = np.zeros((num_values, 3), np.float32)
    for device, payload in enumerate(payloads):
        bins += permuted_words(device, num_values) * signs(payload, num_values)[:, None]
    return (bins[:, 2] - bins[:, 0]) * np.float32(2 * GAMMA / 3 / len(payloads))


def draw(num_devices: int, num_values: int) -> np.ndarray:
    """Updates `[K, M]` float32 that use all three levels."""
    updates = np.random.default_rng(0).standard_normal((num_devices, num_values), np.float32)
    updates *= np.float32(GAMMA / 2)
    return updates


def cpa(num_values: int) -> Coder:
    """Three levels, one stage."""
    return Cpa(CpaScheme(name="cpa", gamma=GAMMA, epsilon=None), num_values=num_values)


def calls(scheme: Coder, num_devices: int, num_values: int) -> dict[str, Callable[[], Any]]:
    """Both verbs of a scheme for one size."""
    updates, devices = draw(num_devices, num_values), np.arange(num_devices)
    payload = scheme.encode(updates, devices=devices, context=CONTEXT)
    weights, factor = np.full(num_devices, 1 / num_devices), np.ones(num_devices)
    senders = Senders(devices=devices, context=CONTEXT, weights=weights, factor=factor)
    return {
        "encode": lambda: scheme.encode(updates, devices=devices, context=CONTEXT),
        "aggregate": lambda: scheme.aggregate(payload, senders),
    }


# --- whole rounds ---------------------------------------------------------------------------------


def write_random_images(folder: Path, *, count: int) -> None:
    """`mnist.npz` in the layout of keras: time does not depend on what images show."""
    numbers = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for part, size in (("train", count), ("test", 1000)):
        arrays[f"x_{part}"] = numbers.integers(0, 256, (size, 28, 28), np.uint8)
        arrays[f"y_{part}"] = np.arange(size, dtype=np.uint8) % 10
    np.savez(folder / "mnist.npz", **arrays)


def cpa_federation(num_devices: int) -> Federation:
    """Compressed private aggregation of the linear model with 5 samples each, over uncoded QPSK and AWGN."""
    learning = FedAvgConfig.model_validate(
        {
            "num_devices": num_devices,
            "data": "mnist",
            "partition": {"kind": "iid", "samples_per_device": 5},
            "model": "linear",
            "local": {"learning_rate": 0.1},
            "upload": "update",
            "aggregation": {"name": "cpa", "gamma": GAMMA},
        }
    )
    link = LinkConfig.model_validate({"modulation": "qpsk", "power": {"policy": "fixed", "snr_max_db": 7.0}})
    return Federation(learning, link=link, privacy=None, seed=1, trial=0)


def least_round(num_devices: int, *, rounds: int) -> tuple[float, float]:
    """Processor and wall time of the quickest round [s], after one that compiles."""
    federation = cpa_federation(num_devices)
    spent = []
    for index in range(rounds + 1):
        start = time.process_time(), time.perf_counter()
        federation.round(index)
        spent.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    processor, wall = zip(*spent[1:], strict=True)
    return min(processor), min(wall)


def whole_rounds() -> bool:
    """Print whole rounds; whether one of them was too slow or too large."""
    with tempfile.TemporaryDirectory() as folder:
        write_random_images(Path(folder), count=5 * max(ROUND_SECONDS))
        os.environ["PHYLOOP_DATA"] = folder
        seconds = {size: least_round(size, rounds=9 if size < 5000 else 4) for size in ROUND_SECONDS}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rows = [
        (f"{size:,}", *(f"{one:.3f}" for one in seconds[size]), f"{limit:g}") for size, limit in ROUND_SECONDS.items()
    ]
    print_table(("CPA over uncoded QPSK, devices", "round [s]", "wall time [s]", "limit [s]"), rows)
    print(f"peak memory {peak / 1e9:.2f} GB, limit {MOST_BYTES / 1e9:.0f} GB")
    return peak >= MOST_BYTES or any(seconds[size][0] >= limit for size, limit in ROUND_SECONDS.items())


# --- schemes, loops, growth -----------------------------------------------------------------------


def every_scheme() -> None:
    """Print what each scheme takes."""
    pieces = [Piece(name="kernel", shape=(784, 10), offset=0), Piece(name="bias", shape=(10,), offset=7840)]
    schemes: dict[str, Coder] = {
        "cpa": cpa(LINEAR_MODEL),
        "cpa, 2 stages": Cpa(CpaScheme(name="cpa", stages=2), num_values=LINEAR_MODEL),
        "cpa, dither": Cpa(CpaScheme(name="cpa", dither=True), num_values=LINEAR_MODEL),
        "probit": ProbitScheme(name="probit").build(pieces=pieces),
        "sign": SignScheme(name="sign").build(pieces=pieces),
        "laplace": LaplaceScheme(name="laplace").build(pieces=pieces),
        "jopeq": JopeqScheme(name="jopeq").build(pieces=pieces),
        "mvu": MvuScheme(name="mvu").build(pieces=pieces),
        "mvu, 3 bits": MvuScheme(name="mvu", input_bits=3, output_bits=3).build(pieces=pieces),
    }
    rows = []
    for name, scheme in schemes.items():
        cells = []
        for num_devices in (1000, 10_000):
            spent = least(calls(scheme, num_devices, LINEAR_MODEL), repeats=3)
            cells += [f"{1e9 * one / num_devices / LINEAR_MODEL:.1f}" for one in spent.values()]
        rows.append((name, *cells))
    verbs = [f"{verb}, K = {size}" for size in (1000, 10_000) for verb in ("encode", "aggregate")]
    print_table(("nanoseconds per number", *verbs), rows)


def least(named: dict[str, Callable[[], Any]], *, repeats: int) -> dict[str, float]:
    """Least processor time of each call [s], over turns."""
    turns = interleaved(named, repeats=repeats, warm_up=1, clock=time.process_time)
    return {name: min(times) for name, times in turns.items()}


def against_loops() -> tuple[list[tuple[str, ...]], bool]:
    """Rows of the table and whether a loop was quicker over both verbs."""
    rows, bad = [], False
    for num_devices in (100, 1000):
        updates, total = draw(num_devices, LINEAR_MODEL), dict.fromkeys(("ours", "permuting", "tailored"), 0.0)
        sent = {"permuting": permuting_encode(updates), "tailored": tailored_encode(updates)}
        rivals: dict[str, dict[str, Callable[[], Any]]] = {
            "encode": {
                "permuting": partial(permuting_encode, updates),
                "tailored": partial(tailored_encode, updates),
            },
            "aggregate": {
                "permuting": partial(permuting_aggregate, sent["permuting"], LINEAR_MODEL),
                "tailored": partial(tailored_aggregate, sent["tailored"], LINEAR_MODEL),
            },
        }
        for verb, call in calls(cpa(LINEAR_MODEL), num_devices, LINEAR_MODEL).items():
            seconds = least({"ours": call, **rivals[verb]}, repeats=3)
            total = {name: total[name] + seconds[name] for name in total}
            rows.append((f"K = {num_devices}, {verb}", *_cells(seconds)))
        rows.append((f"K = {num_devices}, both", *_cells(total)))
        bad |= num_devices >= 1000 and total["ours"] >= min(total["permuting"], total["tailored"])
    return rows, bad


def _cells(seconds: dict[str, float]) -> list[str]:
    ratios = [seconds[name] / seconds["ours"] for name in ("permuting", "tailored")]
    return [*(f"{seconds[name]:.4f}" for name in ("ours", "permuting", "tailored")), *(f"{one:.1f}" for one in ratios)]


def growth(name: str, sizes: tuple[tuple[int, int], ...]) -> tuple[list[tuple[str, ...]], bool]:
    """Rows of the table and whether time grows faster than linearly over sizes (K, M)."""
    # All sizes take turns, so that a busy moment of the machine does not look like growth.
    every = {(verb, size): call for size in sizes for verb, call in calls(cpa(size[1]), *size).items()}
    seconds = least({f"{verb} {size}": call for (verb, size), call in every.items()}, repeats=9)
    rows, bad = [], False
    amounts = np.log([k * m for k, m in sizes])
    for verb in ("encode", "aggregate"):
        times = [seconds[f"{verb} {size}"] for size in sizes]
        slope = float(np.polyfit(amounts, np.log(times), 1)[0])
        bad |= slope > STEEPEST
        rows.append((f"{verb}, {name}", *(f"{one:.3f}" for one in times), f"{slope:.2f}"))
    return rows, bad


def main() -> int:
    """Print the tables and the verdict."""
    # First of all, for the peak of memory is that of the process.
    bad = whole_rounds()
    print()
    every_scheme()
    print()
    rows, slower = against_loops()
    heads = ("ours [s]", "permuting [s]", "tailored [s]", "permuting over ours", "tailored over ours")
    print_table(("M = 7,850", *heads), rows)
    print()
    over_devices, steep_devices = growth("K x 7,850", tuple((k, LINEAR_MODEL) for k in DEVICES))
    print_table(("seconds at K =", *(str(k) for k in DEVICES), "slope"), over_devices)
    print()
    over_values, steep_values = growth("100 x M", tuple((100, m) for m in VALUES))
    print_table(("seconds at M =", *(str(m) for m in VALUES), "slope"), over_values)
    return 1 if bad or slower or steep_devices or steep_values else 0


if __name__ == "__main__":
    sys.exit(main())
