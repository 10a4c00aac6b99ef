"""Uncoded throughput: `send` with bits packed at both ends against the plain Sionna chain.

    python benchmarks/link_throughput.py

Ours carries a given packed payload and returns the received bits packed and counted. Sionna's chain is
BinarySource, Mapper, AWGN or FlatFadingChannel, Demapper (max-log, hard decisions), under XLA and in
graph mode, one float per bit, no count; it draws its bits itself, ours takes them. Same number of bits,
taking turns in one run.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from timing import interleaved_medians, print_table

from phy.channels import UplinkContext
from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL, ChannelConfig, LinkConfig, PowerConfig

NUM_BITS = 3 << 19
"""Bits a call, a multiple of every constellation's."""

NUM_BITS_OF_LARGE = 3 << 17
"""Fewer for 64- and 256-QAM: Sionna's demapper holds every distance, gigabytes of them otherwise."""

LINKS = [
    *(("constant", modulation) for modulation in BITS_PER_SYMBOL),
    ("rayleigh", "bpsk"),
    ("rayleigh", "qpsk"),
    ("rayleigh", "16qam"),
]

SNR_MAX_DB = {"bpsk": 8.0, "qpsk": 11.0, "16qam": 18.0, "64qam": 24.0, "256qam": 30.0}


def our_send(modulation: str, fading: str, num_bits: int) -> Callable[[], Any]:
    """One device sends random packed bits; another round each time."""
    config = LinkConfig(
        access="orthogonal",
        modulation=modulation,
        channel=ChannelConfig(fading=fading, coherence="symbol"),
        power=PowerConfig(policy="fixed", snr_max_db=SNR_MAX_DB[modulation]),
    )
    uplink = compile_digital(config, num_devices=1, num_bits=num_bits)
    payload = np.random.default_rng(1).integers(0, 256, (1, 1, num_bits // 8), dtype=np.uint8)
    rounds = itertools.count()
    return lambda: uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=next(rounds)), caps={})


def sionna_chain(modulation: str, fading: str, num_bits: int, *, xla: bool) -> Callable[[], Any]:
    """Sionna's own blocks in their usual order."""
    from sionna.phy.channel import AWGN, FlatFadingChannel
    from sionna.phy.mapping import BinarySource, Demapper, Mapper

    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    kind = "pam" if bits_per_symbol == 1 else "qam"
    source, mapper, awgn = BinarySource(), Mapper(kind, bits_per_symbol), AWGN()
    fade = FlatFadingChannel(1, 1, return_channel=True)
    demapper = Demapper("maxlog", kind, bits_per_symbol, hard_out=True)

    @tf.function(jit_compile=xla)
    def chain(no: Any) -> Any:
        bits = source([num_bits])
        symbols = mapper(bits)
        if fading == "constant":
            received = awgn(symbols, no)
        else:
            faded, taps = fade(symbols[:, None], no)
            received = faded[:, 0] / taps[:, 0, 0]
        return bits, demapper(received, no)

    no = tf.constant(2.0 / 10.0 ** (SNR_MAX_DB[modulation] / 10.0), tf.float32)
    return lambda: chain(no)[1].numpy()


def main() -> int:
    """Print the table; exit 1 if QPSK over AWGN is slower than plain Sionna, in either mode."""
    rows, qpsk_ratio = [], 0.0
    for fading, modulation in LINKS:
        num_bits = NUM_BITS_OF_LARGE if BITS_PER_SYMBOL[modulation] > 4 else NUM_BITS
        seconds = interleaved_medians(
            {
                "ours": our_send(modulation, fading, num_bits),
                "xla": sionna_chain(modulation, fading, num_bits, xla=True),
                "graph": sionna_chain(modulation, fading, num_bits, xla=False),
            }
        )
        ratios = {name: seconds[name] / seconds["ours"] for name in ("xla", "graph")}
        if (fading, modulation) == ("constant", "qpsk"):
            qpsk_ratio = min(ratios.values())
        rows.append(
            (
                f"{modulation} {'AWGN' if fading == 'constant' else 'Rayleigh'}",
                *(f"{num_bits / seconds[name] / 1e6:.1f}" for name in ("ours", "xla", "graph")),
                *(f"{ratios[name]:.2f}" for name in ("xla", "graph")),
            )
        )
    print("Mbit/s, median of 11 interleaved calls; ratios above 1: ours is faster")
    print_table(("link", "ours", "Sionna XLA", "Sionna graph", "ours/XLA", "ours/graph"), rows)
    return 0 if qpsk_ratio >= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
