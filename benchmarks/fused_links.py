"""Fused kernels against the Sionna engine and plain Sionna under XLA: uncoded links over flat channels.

    python benchmarks/fused_links.py            the table of ratios
    python benchmarks/fused_links.py --round    one round of 20 devices x 27.8 Mbit, QPSK over Rayleigh fading

Ours carries a given packed payload and returns packed received bits, counts and burst statistics. Plain Sionna draws
its bits, maps, fades, adds noise, equalises, decides and packs what it received; it counts nothing. Fading holds a tap
for 512 symbols or for one. All take turns in one run, each with as many bits as keep its calls well above its overhead.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import interleaved_medians, print_table

from phy.channels import UplinkContext
from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.modulation import pack_bits

BLOCK_SYMBOLS = 512
NUM_BITS = {"fused": 3 << 23, "sionna": 3 << 19, "plain": 3 << 19}
LINKS = [
    *(("constant", "packet", modulation, snr) for modulation, snr in (("bpsk", 8.0), ("qpsk", 11.0), ("16qam", 18.0))),
    ("constant", "packet", "64qam", 24.0),
    ("constant", "packet", "256qam", 30.0),
    ("rayleigh", "packet", "qpsk", 20.0),
    ("rayleigh", "packet", "16qam", 24.0),
    ("rayleigh", "symbol", "qpsk", 20.0),
    ("rayleigh", "symbol", "16qam", 24.0),
]
DEVICES, MODEL_BITS = 20, 27_800_000


def our_send(fading: str, coherence: str, modulation: str, snr_max_db: float, engine: str) -> Callable[[], Any]:
    """One device sends random packed bits; another round each time."""
    num_bits = NUM_BITS[engine]
    config = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": modulation,
            "channel": {"fading": fading, "coherence": coherence},
            "power": {"policy": "fixed", "snr_max_db": snr_max_db},
            "packet_size_bytes": BLOCK_SYMBOLS * BITS_PER_SYMBOL[modulation] // 8,
            "engine": engine,
        }
    )
    uplink = compile_digital(config, num_devices=1, num_bits=num_bits)
    payload = np.random.default_rng(1).integers(0, 256, (1, 1, num_bits // 8), dtype=np.uint8)
    rounds = itertools.count()
    return lambda: uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=next(rounds)), caps={})


def plain_sionna(fading: str, coherence: str, modulation: str, snr_max_db: float) -> Callable[[], Any]:
    """Sionna's own blocks in their usual order, under XLA, received bits packed."""
    import tensorflow as tf
    from sionna.phy.channel import AWGN, ApplyFlatFadingChannel, GenerateFlatFadingChannel
    from sionna.phy.mapping import BinarySource, Demapper, Mapper

    num_bits, bits_per_symbol = NUM_BITS["plain"], BITS_PER_SYMBOL[modulation]
    kind = "pam" if bits_per_symbol == 1 else "qam"
    source, mapper, awgn = BinarySource(), Mapper(kind, bits_per_symbol), AWGN()
    generate, apply_taps = GenerateFlatFadingChannel(1, 1), ApplyFlatFadingChannel()
    demapper = Demapper("maxlog", kind, bits_per_symbol, hard_out=True)
    num_symbols = num_bits // bits_per_symbol
    block = 1 if coherence == "symbol" else BLOCK_SYMBOLS

    @tf.function(jit_compile=True)
    def chain(no: Any) -> Any:
        symbols = mapper(source([num_bits]))
        if fading == "constant":
            received = awgn(symbols, no)
        else:
            taps = tf.repeat(generate(num_symbols // block), block, axis=0)
            received = apply_taps(symbols[:, None], taps, no)[:, 0] / taps[:, 0, 0]
        return pack_bits(tf.cast(demapper(received, no), tf.int32))

    no = tf.constant(2.0 / 10.0 ** (snr_max_db / 10.0), tf.float32)
    return lambda: chain(no).numpy()


def table() -> None:
    """Mbit/s and ratios of each link."""
    rows = []
    for fading, coherence, modulation, snr_max_db in LINKS:
        link = (fading, coherence, modulation, snr_max_db)
        seconds = interleaved_medians(
            {
                "fused": our_send(*link, "fused"),
                "sionna": our_send(*link, "sionna"),
                "plain": plain_sionna(*link),
            },
            repeats=7,
        )
        rate = {name: NUM_BITS[name] / seconds[name] / 1e6 for name in seconds}
        where = "AWGN" if fading == "constant" else f"Rayleigh per {'block' if coherence == 'packet' else 'symbol'}"
        rows.append(
            (
                f"{modulation} {where}",
                *(f"{rate[name]:.1f}" for name in ("fused", "sionna", "plain")),
                *(f"{rate['fused'] / rate[name]:.1f}" for name in ("sionna", "plain")),
            )
        )
        print("...", *rows[-1], file=sys.stderr)
    print("Mbit/s, median of 7 interleaved calls, and how many times faster fused kernels are")
    print_table(("link", "fused", "Sionna engine", "plain Sionna XLA", "/engine", "/plain"), rows)


def one_round() -> None:
    """Time of a round after the kernels are compiled, and peak memory of the process."""
    config = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "qpsk",
            "channel": {"fading": "rayleigh", "coherence": "packet"},
            "power": {"policy": "fixed", "snr_max_db": 20.0},
            "engine": "fused",
        }
    )
    shape = (1, DEVICES, MODEL_BITS // 8)
    payload = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    uplink = compile_digital(config, num_devices=DEVICES, num_bits=MODEL_BITS)
    compile_digital(config, num_devices=1, num_bits=8).send(
        payload[:, :1, :1], context=UplinkContext(seed=1, trials=(0,)), caps={}
    )
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    counts = uplink.send(payload, context=UplinkContext(seed=1, trials=(0,)), caps={}).counts
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{DEVICES} devices x {MODEL_BITS / 1e6:.1f} Mbit, QPSK over Rayleigh fading per packet: {wall:.2f} s "
        f"({after.ru_utime - before.ru_utime:.2f} s of processor), peak memory {after.ru_maxrss / 1024:.0f} MB, "
        f"{before.ru_maxrss / 1024:.0f} MB of it before, BER {counts.bit_errors.sum() / counts.bits.sum():.3e}"
    )


def main() -> int:
    """The table, or one round."""
    if "--round" in sys.argv[1:]:
        one_round()
    else:
        table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
