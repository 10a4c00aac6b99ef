"""Links of engine cuda against the fused kernels: received bits, data rates and their ratios.

    python benchmarks/cuda_links.py [--mbit N]

Every link carries the same payload in both engines. Bits that differ are counted: they come from symbols within
rounding of a decision boundary. Then the engines take turns; data rates are payload over wall time of whole calls, with
copies to and from the GPU, as medians, and ratios are medians of the ratios of single turns. Exit 1 if more than 1 bit in
10^6 differs on an uncoded link, or a packet on a coded one in 10^3.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import cuda
from rivals import digital
from timing import interleaved, median_ratio, print_table

from phy.numerics.workers import available_threads

POWER = {"policy": "fixed", "snr_max_db": 13.0}
AWGN, BLOCK = {"model": "awgn"}, {"fading": "rayleigh", "coherence": "packet"}
SYMBOL = {"fading": "rayleigh", "coherence": "symbol"}
UNCODED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "BPSK, AWGN": ("bpsk", AWGN),
    "QPSK, AWGN": ("qpsk", AWGN),
    "16-QAM, AWGN": ("16qam", AWGN),
    "64-QAM, AWGN": ("64qam", AWGN),
    "256-QAM, AWGN": ("256qam", AWGN),
    "QPSK, Rayleigh per packet": ("qpsk", BLOCK),
    "QPSK, Rayleigh per symbol": ("qpsk", SYMBOL),
    "QPSK, Rician per symbol": ("qpsk", {**SYMBOL, "fading": "rician"}),
    "QPSK, Nakagami per symbol": ("qpsk", {**SYMBOL, "fading": "nakagami"}),
}
MOST_DIFFERENT = 1e-6
TURNS = 7


def links() -> dict[str, Mapping[str, Any]]:
    """Links by name."""
    return {
        name: {"modulation": modulation, "channel": channel, "power": POWER}
        for name, (modulation, channel) in UNCODED.items()
    }


def processor() -> str:
    """Name of the CPU."""
    told = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in told.read_text().splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def main() -> int:
    """Print the table; return 1 if too many bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=int, default=512, help="payload of a call [Mbit]")
    num_bits = parser.parse_args().mbit << 20
    name = cuda.get_current_device().name
    print(f"{name.decode() if isinstance(name, bytes) else name}; {processor()}, {available_threads()} threads")
    print(f"Python {platform.python_version()}, numba {numba.__version__}, NumPy {np.__version__}")
    rows, failed = [], False
    for link, config in links().items():
        rivals = {engine: digital(config, engine=engine, num_bits=num_bits) for engine in ("fused", "cuda")}
        fused, gpu = (rival.call() for rival in rivals.values())
        different = int(np.bitwise_count(fused.payload ^ gpu.payload).sum(dtype=np.int64))
        np.testing.assert_allclose(gpu.counts.noise_energy, fused.counts.noise_energy, rtol=1e-4)
        np.testing.assert_allclose(gpu.counts.signal_energy, fused.counts.signal_energy, rtol=1e-4)
        failed |= different > MOST_DIFFERENT * num_bits
        seconds = interleaved({who: rival.call for who, rival in rivals.items()}, repeats=TURNS, warm_up=1)
        rates = {who: num_bits / statistics.median(told) / 1e6 for who, told in seconds.items()}
        ratio = median_ratio(seconds["fused"], seconds["cuda"])
        rows.append((link, f"{different} of {num_bits}", *(f"{rate:.0f}" for rate in rates.values()), f"{ratio:.1f}"))
    print_table(("link", "bits that differ", "fused [Mbit/s]", "cuda [Mbit/s]", "ratio"), rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
