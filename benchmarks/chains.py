"""The chains that every engine and peer is timed on: what is sent, and how many bits a call carries.

Ours goes the product's road: `send` takes a given packed payload and returns packed received bits, counts, energies and
burst statistics (`superpose` the received sums). Plain Sionna draws its bits, maps, fades, adds noise, equalises,
decides and packs what it received; it counts nothing. Both are medians of calls that take turns, each with as many bits
as keep it well above its overhead.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from coded import ldpc, polar, trellis, turbo
from noma import noma
from rivals import Chain, Rival, digital

from phy.coding.modulation import pack_bits
from phy.compile import compile_air
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.fading.block_taps import UplinkContext

BLOCK_SYMBOLS = 512
"""Symbols under one tap of block fading, and of an uncoded packet."""

CARRIED = {"fused": 3 << 23, "sionna": 3 << 19, "plain": 3 << 19}
"""Bits in one call of an uncoded link, by who computes it; fewer for constellations that plain Sionna searches."""

OFDM_BITS, OFDM_PACKETS = 1728, {"fused": 4096, "sionna": 256}
ADDING_DEVICES, ADDED_SYMBOLS, ADDING_ROUNDS = 20, 1 << 15, {"fused": 16, "sionna": 4, "plain": 4}


# --- uncoded links over flat channels ---------------------------------------------------------------------------------


def uncoded(modulation: str, fading: str, coherence: str, snr_max_db: float, *, plain: bool = True) -> Chain:
    """Flat channels; `snr_max_db` is P0 / N0 with N0 per real dimension, 3 dB above Es/N0."""
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    link = {
        "modulation": modulation,
        "channel": {"fading": fading, "coherence": coherence},
        "power": {"policy": "fixed", "snr_max_db": snr_max_db},
        "packet_size_bytes": BLOCK_SYMBOLS * bits_per_symbol // 8,
    }
    fewer = 4 if bits_per_symbol > 4 else 1

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: digital(link, engine=engine, num_bits=CARRIED[engine] // (1 if engine == "fused" else fewer))

    rivals: dict[str, Callable[[], Rival]] = {"fused": ours("fused"), "sionna": ours("sionna")}
    if plain:
        rivals["plain"] = lambda: _plain_uncoded(
            modulation, fading, coherence, snr_max_db, num_bits=CARRIED["plain"] // fewer
        )
    block = "block" if coherence == "packet" else "symbol"
    where = "AWGN" if fading == "constant" else f"{fading.capitalize()} per {block}"
    return Chain(
        name=f"{_written(modulation)}, {where}",
        modulation=modulation,
        channel=where,
        snr_db=snr_max_db - 10.0 * np.log10(2.0),
        rivals=rivals,
    )


def _plain_uncoded(modulation: str, fading: str, coherence: str, snr_max_db: float, *, num_bits: int) -> Rival:
    """Sionna's own blocks in their usual order, under XLA, received bits packed."""
    import tensorflow as tf
    from sionna.phy.channel import AWGN, ApplyFlatFadingChannel, GenerateFlatFadingChannel
    from sionna.phy.mapping import BinarySource, Demapper, Mapper

    bits_per_symbol = BITS_PER_SYMBOL[modulation]
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
    return Rival(num_bits, lambda: chain(no).numpy())


def impaired(name: str, impairments: Mapping[str, float]) -> Chain:
    """QPSK over Rayleigh fading per packet from transmitters with impairments."""
    link = {
        "modulation": "qpsk",
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "power": {"policy": "fixed", "snr_max_db": 20.0},
        "packet_size_bytes": BLOCK_SYMBOLS // 4,
        "impairments": impairments,
    }

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: digital(link, engine=engine, num_bits=CARRIED[engine])

    return Chain(
        name=f"QPSK, Rayleigh per block, {name}",
        modulation="qpsk",
        channel=name,
        snr_db=17.0,
        rivals={"fused": ours("fused"), "sionna": ours("sionna")},
    )


# --- OFDM -------------------------------------------------------------------------------------------------------------


def ofdm(model: str = "tdl-a", *, name: str = "", plain: bool = False, **changes: Any) -> Chain:
    """A model at 3 m/s, 72 subcarriers, slots of 14 symbols with 2 of pilots, LS estimates, one-tap equalisation."""
    link = {
        "modulation": "qpsk",
        "channel": {"model": model, "coherence": "packet", "speed_m_s": 3.0},
        "ofdm": {},
        "csi": {"estimator": "ls"},
        "power": {"policy": "fixed", "snr_max_db": 13.0},
        "packet_size_bytes": OFDM_BITS // 8,
        **changes,
    }

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: digital(link, engine=engine, num_bits=OFDM_PACKETS[engine] * OFDM_BITS)

    def sionna() -> Rival:
        from ofdm_link import CHANNEL, PACKETS, sionna_link

        return Rival(PACKETS * OFDM_BITS, sionna_link(CHANNEL, xla=True, one_tap=False))

    rivals = {"fused": ours("fused"), "sionna": ours("sionna")}
    return Chain(
        name=name or f"QPSK, OFDM over {model.upper()} at 3 m/s, LS",
        modulation="qpsk",
        channel=model.upper(),
        snr_db=10.0,
        rivals={**rivals, "plain": sionna} if plain else rivals,
    )


# --- superposition ----------------------------------------------------------------------------------------------------


def superposition() -> Chain:
    """The BPSK symbols of 20 devices add up over Rayleigh fading per block, each inverting its own channel."""
    link = {
        "access": "superposition",
        "modulation": "bpsk",
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "power": {"policy": "truncated-inversion", "snr_max_db": 20.0, "cutoff_db": -10.0},
        "packet_size_bytes": BLOCK_SYMBOLS // 8,
    }

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: _air(link, engine=engine, rounds=ADDING_ROUNDS[engine])

    return Chain(
        name=f"BPSK, {ADDING_DEVICES} devices add up over Rayleigh per block",
        modulation="bpsk",
        channel="superposition",
        snr_db=17.0,
        rivals={"fused": ours("fused"), "sionna": ours("sionna"), "plain": _plain_superposition},
    )


def _air(link: Mapping[str, Any], *, engine: str, rounds: int) -> Rival:
    uplink = compile_air(
        LinkConfig.model_validate({**link, "engine": engine}), num_devices=ADDING_DEVICES, num_symbols=ADDED_SYMBOLS
    )
    payload = np.random.default_rng(1).integers(0, 256, (rounds, ADDING_DEVICES, ADDED_SYMBOLS // 8), dtype=np.uint8)
    turns, trials = itertools.count(), tuple(range(rounds))
    return Rival(
        8 * payload.size,
        lambda: uplink.superpose(
            payload, context=UplinkContext(seed=1, trials=trials, round_index=next(turns)), caps={}
        ),
    )


def _plain_superposition() -> Rival:
    """Devices as the transmit antennas of one receive antenna, as Sionna's flat channel has them."""
    import tensorflow as tf
    from sionna.phy.channel import ApplyFlatFadingChannel, GenerateFlatFadingChannel
    from sionna.phy.mapping import BinarySource, Mapper

    source, mapper = BinarySource(), Mapper("pam", 1)
    generate, apply_taps = GenerateFlatFadingChannel(ADDING_DEVICES, 1), ApplyFlatFadingChannel()
    num_symbols = ADDING_ROUNDS["plain"] * ADDED_SYMBOLS

    @tf.function(jit_compile=True)
    def chain(no: Any) -> Any:
        symbols = mapper(source([num_symbols, ADDING_DEVICES]))
        taps = tf.repeat(generate(num_symbols // BLOCK_SYMBOLS), BLOCK_SYMBOLS, axis=0)
        power = tf.abs(taps[:, 0]) ** 2
        inverse = tf.where(power >= 0.1, 1.0 / power, 0.0)
        return apply_taps(symbols * tf.math.conj(taps[:, 0]) * tf.cast(inverse, tf.complex64), taps, no)

    no = tf.constant(2.0 / 10.0**2.0, tf.float32)
    return Rival(num_symbols * ADDING_DEVICES, lambda: chain(no).numpy())


def superposition_over_ofdm() -> Chain:
    """The same over the carriers of OFDM, 72 of them, and TDL-A channels that hold for the round."""
    link = {
        "access": "superposition",
        "modulation": "bpsk",
        "channel": {"model": "tdl-a"},
        "ofdm": {},
        "power": {"policy": "truncated-inversion", "snr_max_db": 20.0, "cutoff_db": -10.0},
    }

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: _air(link, engine=engine, rounds=ADDING_ROUNDS[engine])

    return Chain(
        name=f"BPSK, {ADDING_DEVICES} devices add up over OFDM, TDL-A",
        modulation="bpsk",
        channel="superposition over OFDM",
        snr_db=17.0,
        rivals={"fused": ours("fused"), "sionna": ours("sionna"), "plain": _plain_superposition_over_ofdm},
    )


def _plain_superposition_over_ofdm() -> Rival:
    """Devices as transmitters to one receiver; a channel of each for the whole round, as ours."""
    import tensorflow as tf
    from sionna.phy.channel import ApplyOFDMChannel, cir_to_ofdm_channel, subcarrier_frequencies
    from sionna.phy.channel.tr38901 import TDL
    from sionna.phy.mapping import BinarySource, Mapper

    rounds, carriers = ADDING_ROUNDS["plain"], 72
    times = ADDED_SYMBOLS // carriers
    source, mapper, tdl = BinarySource(), Mapper("pam", 1), TDL("A", 100e-9, 3.5e9)
    frequencies, apply_channel = subcarrier_frequencies(carriers, 15e3), ApplyOFDMChannel()

    @tf.function(jit_compile=True)
    def chain(no: Any) -> Any:
        symbols = mapper(source([rounds, ADDING_DEVICES, 1, times, carriers]))
        paths, delays = tdl(rounds * ADDING_DEVICES, 1, 15e3)
        h = tf.reshape(cir_to_ofdm_channel(frequencies, paths, delays), [rounds, ADDING_DEVICES, 1, 1, carriers])
        power = tf.abs(h) ** 2
        inverse = tf.where(power >= 0.1, 1.0 / power, 0.0)
        sent = symbols * tf.math.conj(h) * tf.cast(inverse, tf.complex64)
        everywhere = tf.broadcast_to(h[:, None, None], [rounds, 1, 1, ADDING_DEVICES, 1, times, carriers])
        return apply_channel(sent, everywhere, no)

    no = tf.constant(2.0 / 10.0**2.0, tf.float32)
    return Rival(rounds * ADDING_DEVICES * times * carriers, lambda: chain(no).numpy())


# --- the table's rows -------------------------------------------------------------------------------------------------


def _written(modulation: str) -> str:
    return modulation.upper() if not modulation[0].isdigit() else modulation.upper().replace("QAM", "-QAM")


FEW = (
    uncoded("qpsk", "constant", "packet", 11.0),
    uncoded("16qam", "rayleigh", "packet", 24.0),
    ofdm(plain=True),
    ldpc(3.0),
    superposition(),
)
"""What a trial run shows."""

EVERY = (
    uncoded("bpsk", "constant", "packet", 8.0),
    FEW[0],
    uncoded("16qam", "constant", "packet", 18.0),
    uncoded("64qam", "constant", "packet", 24.0),
    # Plain Sionna decides by comparing all points, and takes 2000 times as long.
    uncoded("256qam", "constant", "packet", 30.0, plain=False),
    uncoded("qpsk", "rayleigh", "packet", 20.0),
    FEW[1],
    uncoded("qpsk", "rayleigh", "symbol", 20.0),
    uncoded("16qam", "rayleigh", "symbol", 24.0),
    uncoded("qpsk", "nakagami", "symbol", 20.0, plain=False),
    impaired("phase error", {"phase_error_deg": 10.0}),
    impaired("clipping", {"clipping_db": 3.0}),
    FEW[2],
    ofdm("cdl-a"),
    ofdm(name="the same over TDL-A, carrier offset", impairments={"cfo_hz": 300.0}),
    ofdm(name="the same over TDL-A, clipped 3 dB above RMS", impairments={"clipping_db": 3.0}),
    ofdm(name="the same over TDL-A, in the time domain", ofdm={"domain": "time"}),
    ldpc(1.2),
    FEW[3],
    ldpc(5.0, modulation="16qam"),
    ldpc(5.0, modulation="16qam", demapper="maxlog"),
    trellis(5),
    trellis(7),
    turbo(6, -0.5),
    turbo(6, 3.5),
    turbo(20, -0.5),
    turbo(20, 3.5),
    polar(1),
    polar(4),
    polar(8),
    FEW[4],
    noma("sic"),
    noma("ml"),
    noma("sic", coded=True),
    noma("sic-codeword", coded=True),
    superposition_over_ofdm(),
)

COLD = (
    uncoded("bpsk", "constant", "packet", 8.0),
    impaired("phase error", {"phase_error_deg": 10.0}),
    impaired("clipping", {"clipping_db": 3.0}),
    ldpc(3.0),
    trellis(5),
    turbo(6, -0.5),
    polar(4),
    ofdm(),
    ofdm("cdl-a"),
    ofdm(name="OFDM in the time domain", ofdm={"domain": "time"}),
    superposition(),
    superposition_over_ofdm(),
    noma("sic"),
    noma("ml"),
    noma("sic", coded=True),
)
"""A chain of every kind with kernels of its own."""
