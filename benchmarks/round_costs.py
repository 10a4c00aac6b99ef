"""Whole rounds, each case in a process of its own, so that its peak memory and its cores are its own.

    python benchmarks/round_costs.py CASE [CORES]      # one case of `CASES`, as JSON

- `large`: 20 devices x 27.8 Mbit (23 bits of 1,206,590 weights), uncoded QPSK over Rayleigh fading per packet;
- `cpa`: compressed private aggregation of 1000 devices with 5 samples and the linear model of 7850 weights, one bit
  each, local training included;
- `rates`: Mbit/s of three fused chains, on CORES cores if given.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from timing import interleaved_medians, peak_gigabytes

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

NUM_DEVICES, NUM_BITS = 20, 27_800_000
CPA_DEVICES = 1000
RATED = ("QPSK, Rayleigh per block", "QPSK, OFDM over TDL-A", "5G LDPC, 3 dB")


def measured(case: str, cores: int | None = None) -> dict[str, float]:
    """One case in a fresh process, on the first so many of the cores that this process may use."""
    command = [sys.executable, __file__, case, *([] if cores is None else [str(cores)])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def timed(call: Callable[[int], object], *, rounds: int) -> dict[str, float]:
    """Medians of wall and processor time of `call(1)`, `call(2)`, .. after `call(0)`, and the peak memory."""
    call(0)
    spent = []
    for index in range(1, rounds + 1):
        start = time.perf_counter(), time.process_time()
        call(index)
        spent.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, cpu = (statistics.median(values) for values in zip(*spent, strict=True))
    return {"seconds": wall, "cpu": cpu, "gigabytes": peak_gigabytes()}


def large() -> dict[str, float]:
    """20 devices x 27.8 Mbit."""
    import numpy as np

    from phy.compile import compile_digital
    from phy.config import LinkConfig
    from phy.fading.block_taps import UplinkContext

    link = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "qpsk",
            "channel": {"fading": "rayleigh", "coherence": "packet"},
            "power": {"policy": "fixed", "snr_max_db": 20.0},
        }
    )
    uplink = compile_digital(link, num_devices=NUM_DEVICES, num_bits=NUM_BITS)
    payload = np.random.default_rng(1).integers(0, 256, (1, NUM_DEVICES, NUM_BITS // 8), dtype=np.uint8)
    return timed(
        lambda index: uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=index), caps={}),
        rounds=5,
    )


def cpa() -> dict[str, float]:
    """K = 1000 by the product's own road, on random images: time does not depend on what they show."""
    from one_bit import cpa_federation, write_random_images

    with tempfile.TemporaryDirectory() as folder:
        write_random_images(Path(folder), count=5 * CPA_DEVICES)
        os.environ["PHYLOOP_DATA"] = folder
        federation = cpa_federation(CPA_DEVICES)
        return timed(federation.round, rounds=11)


def rates() -> dict[str, float]:
    """Mbit/s of three fused chains."""
    import chains
    import coded

    rated = (chains.uncoded("qpsk", "rayleigh", "packet", 20.0), chains.ofdm(), coded.ldpc(3.0))
    rivals = {name: chain.rivals["fused"]() for name, chain in zip(RATED, rated, strict=True)}
    seconds = interleaved_medians({name: rival.call for name, rival in rivals.items()}, repeats=7)
    return {name: rivals[name].bits / 1e6 / seconds[name] for name in rivals}


CASES: dict[str, Callable[[], dict[str, float]]] = {"large": large, "cpa": cpa, "rates": rates}


def main(arguments: list[str]) -> int:
    """Run one case here and print its figures as JSON."""
    if not arguments or arguments[0] not in CASES:
        print(f"name one of {', '.join(CASES)}", file=sys.stderr)
        return 2
    if len(arguments) > 1:
        # Before anything starts threads: they inherit it.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(arguments[1])])
    print(json.dumps(CASES[arguments[0]]()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
