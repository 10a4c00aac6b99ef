"""Coded and OFDM links: `send` on packed payloads against the same chain in plain Sionna under XLA.

    python benchmarks/packet_link.py

- LDPC: k = 4096, rate 1/2, 20 iterations of boxplus-phi, QPSK over AWGN, APP demapping;
- OFDM: TDL-A, 100 ns, 3 m/s, 72 subcarriers of 15 kHz, slots of 14 symbols of which 2 are pilots, QPSK, LS estimation
  with linear interpolation, LMMSE equalisation, one antenna.

Ours takes a packed payload, scrambles, packs and counts; Sionna's chain draws its bits and hands floats back. Same
payload bits per call, taking turns in one run.
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
from phy.config import LinkConfig

LDPC_BLOCKS, LDPC_K, EBNO_DB = 64, 4096, 2.0
OFDM_SLOTS = 512
DATA_BITS_PER_SLOT = 2 * 72 * 12
SNR_DB = 15.0


def our_send(config: dict[str, Any], num_bits: int) -> Callable[[], Any]:
    """One device sends random packed bits; another round each time."""
    uplink = compile_digital(
        LinkConfig.model_validate({"access": "orthogonal", "modulation": "qpsk", **config}),
        num_devices=1,
        num_bits=num_bits,
    )
    payload = np.random.default_rng(1).integers(0, 256, (1, 1, num_bits // 8), dtype=np.uint8)
    rounds = itertools.count()
    return lambda: uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=next(rounds)), caps={})


def our_ldpc() -> Callable[[], Any]:
    """Packets of one code block each."""
    return our_send(
        {
            "coding": {"code": "ldpc5g", "rate": 0.5, "iterations": 20},
            "channel": {"model": "awgn"},
            # Es / 2 N0 = Eb / No for QPSK at rate 1/2.
            "power": {"policy": "fixed", "snr_max_db": EBNO_DB + 10 * np.log10(2.0)},
            "packet_size_bytes": LDPC_K // 8,
        },
        LDPC_BLOCKS * LDPC_K,
    )


def our_ofdm() -> Callable[[], Any]:
    """Packets of one slot each, every one through a channel of its own."""
    return our_send(
        {
            "channel": {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3.0},
            "ofdm": {},
            "csi": {"estimator": "ls"},
            "power": {"policy": "fixed", "snr_max_db": SNR_DB},
            "packet_size_bytes": DATA_BITS_PER_SLOT // 8,
        },
        OFDM_SLOTS * DATA_BITS_PER_SLOT,
    )


def sionna_ldpc() -> Callable[[], Any]:
    """Sionna's own blocks in their usual order."""
    from sionna.phy.channel import AWGN
    from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder
    from sionna.phy.mapping import BinarySource, Demapper, Mapper

    source, encoder, awgn = BinarySource(), LDPC5GEncoder(LDPC_K, 2 * LDPC_K), AWGN()
    decoder = LDPC5GDecoder(encoder, num_iter=20, hard_out=True)
    mapper, demapper = Mapper("qam", 2), Demapper("app", "qam", 2)

    @tf.function(jit_compile=True)
    def chain(no: Any) -> Any:
        bits = source([LDPC_BLOCKS, LDPC_K])
        return bits, decoder(demapper(awgn(mapper(encoder(bits)), no), no))

    no = tf.constant(10 ** (-EBNO_DB / 10), tf.float32)
    return lambda: chain(no)[1].numpy()


def sionna_ofdm() -> Callable[[], Any]:
    """The same with Sionna's OFDM blocks."""
    from sionna.phy.channel import OFDMChannel
    from sionna.phy.channel.tr38901 import TDL
    from sionna.phy.mapping import BinarySource, Demapper, Mapper
    from sionna.phy.mimo import StreamManagement
    from sionna.phy.ofdm import LMMSEEqualizer, LSChannelEstimator, ResourceGrid, ResourceGridMapper

    grid = ResourceGrid(
        14, 72, 15e3, cyclic_prefix_length=6, pilot_pattern="kronecker", pilot_ofdm_symbol_indices=[2, 11]
    )
    streams = StreamManagement(np.array([[1]]), 1)
    source, mapper, demapper = BinarySource(), Mapper("qam", 2), Demapper("maxlog", "qam", 2, hard_out=True)
    place = ResourceGridMapper(grid)
    channel = OFDMChannel(TDL("A", 100e-9, 3.5e9, min_speed=3.0), grid, normalize_channel=False)
    estimate, equalise = LSChannelEstimator(grid, interpolation_type="lin"), LMMSEEqualizer(grid, streams)

    @tf.function(jit_compile=True)
    def chain(no: Any) -> Any:
        bits = source([OFDM_SLOTS, 1, 1, DATA_BITS_PER_SLOT])
        received = channel(place(mapper(bits)), no)
        taps, error = estimate(received, no)
        symbols, noise = equalise(received, taps, error, no)
        return bits, demapper(symbols, noise)

    no = tf.constant(2 * 10 ** (-SNR_DB / 10), tf.float32)
    return lambda: chain(no)[1].numpy()


def main() -> int:
    """Print the table; exit 1 if a chain is slower than plain Sionna."""
    rows, worst = [], np.inf
    for name, num_bits, ours, theirs in (
        ("LDPC k 4096 rate 1/2, 20 iterations", LDPC_BLOCKS * LDPC_K, our_ldpc(), sionna_ldpc()),
        ("OFDM TDL-A, LS and LMMSE", OFDM_SLOTS * DATA_BITS_PER_SLOT, our_ofdm(), sionna_ofdm()),
    ):
        seconds = interleaved_medians({"ours": ours, "sionna": theirs}, repeats=5)
        ratio = seconds["sionna"] / seconds["ours"]
        worst = min(worst, ratio)
        rows.append((name, *(f"{num_bits / seconds[who] / 1e6:.2f}" for who in ("ours", "sionna")), f"{ratio:.2f}"))
    print("Mbit/s of payload, median of 5 interleaved calls; ratio above 1: ours is faster")
    print_table(("link", "ours", "Sionna XLA", "ratio"), rows)
    return 0 if worst >= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
