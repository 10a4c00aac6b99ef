"""Links of engine cuda against the fused kernels: received bits, data rates and their ratios.

    python benchmarks/cuda_links.py [--mbit N] [--only WORDS]

Every link carries the same payload in both engines. Bits that differ are counted: they come from symbols within
rounding of a decision boundary. Then the engines take turns. Data rates are payload over wall time of whole calls, with
copies to and from the GPU, as medians. Ratios are medians of the ratios of single turns. A second table has the data
rates by size of the payload. Exit 1 if more than 1 bit in 10^6 differs.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numba import cuda
from rivals import Rival, digital
from timing import interleaved, median_ratio, print_table

from phy.numerics.workers import available_threads
from scenarios.files.provenance import find_cpu_model

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
CODED = {
    "5G LDPC, k = 4096, n = 8192, QPSK, AWGN, Eb/N0 1.2 dB": {"modulation": "qpsk", "channel": AWGN, "snr_db": 4.2},
    "the same, 3 dB": {"modulation": "qpsk", "channel": AWGN, "snr_db": 6.0},
    "5G LDPC, the same, 16-QAM, Es/N0 8 dB": {"modulation": "16qam", "channel": AWGN, "snr_db": 11.0},
}
MOST_DIFFERENT = 1e-6
CODED_SHARE = 8
"""A coded link carries one part in so many of the payload."""
TURNS = 7


def links() -> dict[str, Mapping[str, Any]]:
    """Links by name."""
    uncoded = {
        name: {"modulation": modulation, "channel": channel, "power": POWER}
        for name, (modulation, channel) in UNCODED.items()
    }
    coded = {
        name: {
            "modulation": link["modulation"],
            "channel": link["channel"],
            "power": {**POWER, "snr_max_db": link["snr_db"]},
            "coding": {"code": "ldpc5g", "rate": 0.5},
            "packet_size_bytes": 512,
        }
        for name, link in CODED.items()
    }
    return {**uncoded, **coded}


SIZES = {"2^16 bits": (1 << 16, 1), "2^20 bits": (1 << 20, 1), "2^24 bits": (1 << 24, 1), "2^30 bits": (1 << 30, 1)}
SIZES |= {"1000 devices of 2^14 bits": (1000 << 14, 1000)}
"""Payload of QPSK over AWGN [bits], and devices."""


def main() -> int:
    """Print the table; return 1 if too many bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=int, default=512, help="payload of a call [Mbit]")
    parser.add_argument("--only", default="", help="links whose name has this in it")
    args = parser.parse_args()
    if not cuda.is_available():
        print("engine cuda is not measured: this machine has no GPU, or no numba-cuda")
        return 0
    name = cuda.get_current_device().name
    print(f"{name.decode() if isinstance(name, bytes) else name}; {find_cpu_model()}, {available_threads()} threads")
    print(f"Python {platform.python_version()}, numba {numba.__version__}, NumPy {np.__version__}")
    rows, failed = [], False
    for link, config in links().items():
        if args.only not in link:
            continue
        num_bits = (args.mbit if "coding" not in config else max(args.mbit // CODED_SHARE, 1)) << 20
        rivals = {engine: digital(config, engine=engine, num_bits=num_bits) for engine in ("fused", "cuda")}
        fused, gpu = (rival.call() for rival in rivals.values())
        different = int(np.bitwise_count(fused.payload ^ gpu.payload).sum(dtype=np.int64))
        np.testing.assert_allclose(gpu.counts.noise_energy, fused.counts.noise_energy, rtol=1e-4)
        np.testing.assert_allclose(gpu.counts.signal_energy, fused.counts.signal_energy, rtol=1e-4)
        failed |= different > MOST_DIFFERENT * num_bits
        rows.append((link, f"{different} of {num_bits}", *rated(rivals)))
    print_table(("link", "bits that differ", "fused [Mbit/s]", "cuda [Mbit/s]", "ratio"), rows)
    qpsk = {"modulation": "qpsk", "channel": AWGN, "power": POWER}
    sizes = [
        (name, *rated({who: digital(qpsk, engine=who, num_bits=n, num_devices=m) for who in ("fused", "cuda")}))
        for name, (n, m) in SIZES.items()
    ]
    print_table(("QPSK, AWGN", "fused [Mbit/s]", "cuda [Mbit/s]", "ratio"), sizes)
    return int(failed)


def rated(rivals: Mapping[str, Rival]) -> tuple[str, ...]:
    """Data rates of both engines [Mbit/s], and their ratio, of calls that take turns."""
    seconds = interleaved({who: rival.call for who, rival in rivals.items()}, repeats=TURNS, warm_up=1)
    rates = [rivals[who].bits / statistics.median(told) / 1e6 for who, told in seconds.items()]
    return *(f"{rate:.0f}" for rate in rates), f"{median_ratio(seconds['fused'], seconds['cuda']):.1f}"


if __name__ == "__main__":
    sys.exit(main())
