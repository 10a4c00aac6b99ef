"""OFDM throughput: TDL-A, 14 x 72 grid, QPSK, LS estimates and one-tap LMMSE, against the plain Sionna chain.

    python benchmarks/ofdm_link.py [--still]

Ours is the chain of the fused engine, packed bits in and packed received bits, counts and energies out; and in the
Sionna engine the front-end (`build_frontend`) between `phy.coding.modulation` and one tap per resource element.
Sionna's chain is BinarySource, Mapper, ResourceGridMapper, TDL through OFDMChannel, LSChannelEstimator with linear
interpolation, LMMSEEqualizer, Demapper with hard decisions, under XLA and in graph mode. All draw bits, channel and
noise and return hard bits, Sionna's not packed; ours draw by counter, so that no packet depends on its batch. A second
pair has one tap in the place of Sionna's equaliser, which is built for many streams, so that channel and estimation are
compared alone. The devices move at 3 m/s, so the channel changes in a slot; `--still` stops them.
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

from phy.coding.modulation import modulator, pack_bits
from phy.config import ChannelConfig, CsiEstimation, LinkConfig, OfdmConfig
from phy.engines.fused.packets.chain import FusedPacketChain
from phy.frontends.build import build_frontend
from phy.links.packets.chain import ChainSpec, Departure
from phy.numerics.random import random_bits, threefry
from phy.stages import Launch

PACKETS = 256
"""Slots in one call."""

NOISE_POWER = 0.1
SPEED_M_S = 3.0
OFDM = OfdmConfig()
CHANNEL = ChannelConfig(model="tdl-a", coherence="packet", speed_m_s=SPEED_M_S)


def qpsk_link(estimator: str, channel: ChannelConfig) -> LinkConfig:
    """QPSK over the grid, with pilots."""
    csi = CsiEstimation(estimator=estimator)
    return LinkConfig(access="orthogonal", modulation="qpsk", channel=channel, ofdm=OFDM, csi=csi)


def our_link(estimator: str, channel: ChannelConfig) -> Callable[[], Any]:
    """Random bits through modulator, front-end and one tap; another key each time."""
    config = qpsk_link(estimator, channel)
    num_symbols = OFDM.data_symbols_per_slot
    frontend = build_frontend(config, num_users=1, num_symbols=num_symbols)
    modem = modulator("qpsk")
    ones = tf.ones([PACKETS, 1])

    @tf.function(jit_compile=True, autograph=False)
    def draw(call: Any) -> Any:
        row = tf.cast(tf.range(PACKETS), tf.uint32)
        keys = [
            tf.stack(threefry((call, tf.constant(purpose, tf.uint32)), (row, row), tf.bitwise), axis=-1)
            for purpose in range(5)
        ]
        position = tf.cast(tf.range(num_symbols), tf.uint32)[None]
        word = threefry((keys[4][:, 0, None], keys[4][:, 1, None]), (position, position), tf.bitwise)[0]
        bits = tf.stack([tf.bitwise.bitwise_and(tf.bitwise.right_shift(word, np.uint32(i)), 1) for i in (30, 31)], -1)
        packed = pack_bits(tf.reshape(tf.cast(bits, tf.int32), [PACKETS, 1, 2 * num_symbols]))
        return modem.modulate(packed), [key[:, None] for key in keys[:3]], keys[3]

    @tf.function(jit_compile=True, autograph=False)
    def decide(observation: Any) -> Any:
        channel = observation.channel[:, 0, 0]
        matched = observation.received[:, 0] * tf.math.conj(channel)
        power = tf.math.real(channel) ** 2 + tf.math.imag(channel) ** 2
        error = observation.channel_error[:, 0] + observation.noise_power
        return modem.detect(matched / tf.cast(power + error, tf.complex64))

    @tf.function(autograph=False)
    def chain(call: Any) -> Any:
        symbols, device_keys, noise_key = draw(call)
        channel_key, csi_key, impairment_key = device_keys
        start_s, noise_power = tf.zeros([PACKETS]), tf.constant(NOISE_POWER)
        launch = Launch(symbols, ones, ones, channel_key, csi_key, impairment_key, noise_key, start_s, noise_power)
        return decide(frontend.observe(launch))

    calls = iter(range(1 << 30))
    return lambda: chain(tf.constant(next(calls), tf.uint32)).numpy()


def fused_link(estimator: str, channel: ChannelConfig) -> Callable[[], Any]:
    """Random bits through the packet chain of fused kernels; other keys each time."""
    config = qpsk_link(estimator, channel)
    bits = 2 * OFDM.data_symbols_per_slot
    spec = ChainSpec(
        config=config, users=1, num_devices=1, payload_bits=bits, crc=None, combine=False, rows_per_trial=1
    )
    chain = FusedPacketChain(spec)
    ones = np.ones((PACKETS, 1), np.float32)
    row, calls = np.arange(PACKETS, dtype=np.uint32), itertools.count()
    purposes = np.arange(4, dtype=np.uint32)[:, None]

    def run() -> Any:
        call = np.uint32(next(calls))
        keys = np.stack(threefry((call, purposes), (row, row)), axis=-1)
        payload = random_bits(keys[3], num_devices=1, num_bits=bits)
        device_keys = (keys[0][:, None], keys[1][:, None], keys[1][:, None])
        start_s = np.zeros(PACKETS, np.float32)
        return chain.send(payload, Departure(ones, ones, *device_keys, keys[2], start_s, np.float32(NOISE_POWER)), None)

    return run


def sionna_link(channel: ChannelConfig, *, xla: bool, one_tap: bool) -> Callable[[], Any]:
    """Sionna's own blocks in their usual order."""
    from sionna.phy.channel import OFDMChannel
    from sionna.phy.channel.tr38901 import TDL
    from sionna.phy.mapping import BinarySource, Demapper, Mapper
    from sionna.phy.mimo import StreamManagement
    from sionna.phy.ofdm import LMMSEEqualizer, LSChannelEstimator, ResourceGrid, ResourceGridMapper

    grid = ResourceGrid(
        num_ofdm_symbols=OFDM.num_symbols,
        fft_size=OFDM.num_subcarriers,
        subcarrier_spacing=OFDM.subcarrier_spacing_hz,
        cyclic_prefix_length=OFDM.cyclic_prefix_length,
        pilot_pattern="kronecker",
        pilot_ofdm_symbol_indices=list(OFDM.pilot_symbols),
    )
    model = TDL("A", channel.delay_spread_s, channel.carrier_frequency_hz, min_speed=channel.speed_m_s)
    carry = OFDMChannel(model, grid)
    source, mapper, place = BinarySource(), Mapper("qam", 2), ResourceGridMapper(grid)
    estimate = LSChannelEstimator(grid, interpolation_type="lin")
    equalise = LMMSEEqualizer(grid, StreamManagement(np.array([[1]]), 1))
    demap = Demapper("maxlog", "qam", 2, hard_out=True)
    num_symbols = int(grid.num_data_symbols)
    data = [row for row in range(OFDM.num_symbols) if row not in OFDM.pilot_symbols]

    @tf.function(jit_compile=xla)
    def chain(no: Any) -> Any:
        bits = source([PACKETS, 1, 1, 2 * num_symbols])
        received = carry(place(mapper(bits)), no)
        channel_estimate, error = estimate(received, no)
        if not one_tap:
            symbols, noise = equalise(received, channel_estimate, error, no)
            return bits, demap(symbols, noise)
        known, heard = (
            tf.reshape(tf.gather(v, data, axis=-2), [PACKETS, num_symbols]) for v in (channel_estimate, received)
        )
        spread = tf.reshape(tf.gather(tf.broadcast_to(error, channel_estimate.shape), data, axis=-2), known.shape)
        power = tf.math.real(known) ** 2 + tf.math.imag(known) ** 2
        return bits, demap(heard * tf.math.conj(known) / tf.cast(power + no + spread, tf.complex64), no)

    no = tf.constant(NOISE_POWER)
    return lambda: chain(no)[1].numpy()


def main(arguments: list[str]) -> int:
    """Print the table; exit 1 where an engine of ours is slower than plain Sionna under XLA."""
    channel = CHANNEL.model_copy(update={"speed_m_s": 0.0}) if "--still" in arguments else CHANNEL
    calls = {
        "fused, LS": fused_link("ls", channel),
        "fused, LMMSE estimates": fused_link("lmmse", channel),
        "Sionna engine, LS": our_link("ls", channel),
        "Sionna engine, LMMSE estimates": our_link("lmmse", channel),
        "plain Sionna XLA": sionna_link(channel, xla=True, one_tap=False),
        "plain Sionna graph": sionna_link(channel, xla=False, one_tap=False),
        "plain Sionna XLA, one tap": sionna_link(channel, xla=True, one_tap=True),
    }
    seconds = interleaved_medians(calls, repeats=7)
    num_bits = PACKETS * 2 * OFDM.data_symbols_per_slot
    print(f"Mbit/s of {PACKETS} packets at {channel.speed_m_s:g} m/s, median of 7 interleaved calls")
    print_table(
        ("link", "Mbit/s", "fused, LS, over it", "Sionna engine, LS, over it"),
        [
            (
                name,
                f"{num_bits / t / 1e6:.1f}",
                f"{t / seconds['fused, LS']:.2f}",
                f"{t / seconds['Sionna engine, LS']:.2f}",
            )
            for name, t in seconds.items()
        ],
    )
    plain = min(seconds["plain Sionna XLA"], seconds["plain Sionna XLA, one tap"])
    return 0 if max(seconds["fused, LS"], seconds["Sionna engine, LS"]) <= plain else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
