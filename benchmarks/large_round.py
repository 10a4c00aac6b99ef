"""One round of 20 devices with 27.8 Mbit each through uncoded QPSK over Rayleigh fading: time and memory.

    python benchmarks/large_round.py

The payload itself is 70 MB packed, and comes back as large. Exit 1 if the process ever held 2 GB.
"""

from __future__ import annotations

import os
import resource
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from phy.channels import UplinkContext
from phy.compile import compile_digital
from phy.config import LinkConfig

NUM_DEVICES, NUM_BITS = 20, 27_800_000
LIMIT_BYTES = 2_000_000_000


def main() -> int:
    """Send the round twice: once with compilation, once without."""
    link = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "qpsk",
            "channel": {"fading": "rayleigh", "coherence": "packet"},
            "power": {"policy": "fixed", "snr_max_db": 15},
        }
    )
    uplink = compile_digital(link, num_devices=NUM_DEVICES, num_bits=NUM_BITS)
    payload = np.random.default_rng(1).integers(0, 256, (1, NUM_DEVICES, NUM_BITS // 8), dtype=np.uint8)
    for index, what in enumerate(("with compilation", "after it")):
        start = time.perf_counter()
        reception = uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=index), caps={})
        seconds = time.perf_counter() - start
        rate = NUM_DEVICES * NUM_BITS / seconds / 1e6
        print(f"{what}: {seconds:.1f} s, {rate:.0f} Mbit/s, BER {reception.counts.bit_error_rate.mean():.3e}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory {peak / 1e9:.2f} GB, limit {LIMIT_BYTES / 1e9:.0f} GB")
    return 0 if peak < LIMIT_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
