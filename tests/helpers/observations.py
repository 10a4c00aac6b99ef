"""What the tests of the receivers share: packets through channels drawn by NumPy, and codecs of a few lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.coding.modulation import modulator
from phy.config import BITS_PER_SYMBOL, ChannelConfig, CodingConfig, LinkConfig, NomaConfig, ReceiverConfig
from phy.receivers.build import build_receiver
from phy.stages import Decoded, Observation


@dataclass(frozen=True)
class Sent:
    """Bits `[rows, users, n]`, symbols `[rows, users, S]`, channel `[rows, users, antennas, S]`, what is observed."""

    bits: NDArray[np.int32]
    symbols: NDArray[np.complex64]
    channel: NDArray[np.complex64]
    observation: Observation


def complex_normals(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    """CN(0, 1)."""
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) * np.sqrt(0.5)


def observe(
    symbols: NDArray[np.complex64],
    channel: NDArray[Any],
    *,
    noise_power: float = 1.0,
    seed: int = 3,
    estimate: NDArray[Any] | None = None,
    channel_error: float = 0.0,
) -> Observation:
    """y = sum_k h_k x_k + n; `estimate` stands for the channel in the receiver's hands, left out: the channel."""
    rows, users, antennas, num_symbols = channel.shape
    noise = np.sqrt(noise_power) * complex_normals(np.random.default_rng(seed), (rows, antennas, num_symbols))
    received = (channel * symbols[:, :, None]).sum(axis=1) + noise
    known = channel if estimate is None else estimate
    return Observation(
        received=tf.constant(received.astype(np.complex64)),
        channel=tf.constant(known.astype(np.complex64)),
        channel_error=tf.fill([rows, users, num_symbols], np.float32(channel_error)),
        noise_power=tf.constant(np.float32(noise_power)),
        transmit_energy=tf.zeros([rows, users]),
        signal_energy=tf.zeros([rows, users]),
        noise_energy=tf.zeros([rows]),
    )


def modulated(bits: NDArray[np.int32], modulation: str) -> NDArray[np.complex64]:
    """Symbols of bits, along the last axis."""
    return np.asarray(modulator(modulation).modulate_bits(tf.constant(bits)))


def send(modulation: str, channel: NDArray[Any], *, noise_power: float = 1.0, seed: int = 1) -> Sent:
    """Random bits of every user over a channel `[rows, users, antennas, S]`."""
    rows, users, _, num_symbols = channel.shape
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (rows, users, num_symbols * BITS_PER_SYMBOL[modulation])).astype(np.int32)
    symbols = modulated(bits, modulation)
    return Sent(bits, symbols, channel, observe(symbols, channel, noise_power=noise_power, seed=seed + 100))


def rayleigh(rows: int, users: int, antennas: int, num_symbols: int, *, snr_db: Any = 0.0, seed: int = 2) -> Any:
    """Channels drawn anew for every symbol and antenna; `snr_db` of each user over unit noise."""
    amplitude = 10.0 ** (np.broadcast_to(np.asarray(snr_db, float), (users,)) / 20.0)
    drawn = complex_normals(np.random.default_rng(seed), (rows, users, antennas, num_symbols))
    return drawn * amplitude[:, None, None]


@dataclass(frozen=True)
class Repetition:
    """Every bit `repeats` times, the copies of a packet one after another; accepted where all copies agree."""

    payload_bits: int
    repeats: int = 1

    @property
    def coded_bits(self) -> int:
        return self.payload_bits * self.repeats

    def encode(self, bits: Any) -> Any:
        return tf.tile(bits, [1, self.repeats])

    def decode(self, llrs: Any) -> tuple[Any, Any]:
        copies = tf.reshape(llrs, [-1, self.repeats, self.payload_bits])
        bits = tf.cast(tf.reduce_sum(copies, axis=1) > 0.0, tf.int32)
        return bits, tf.reduce_all(tf.cast(copies > 0.0, tf.int32) == bits[:, None], axis=(1, 2))


def configuration(
    modulation: str,
    *,
    users: int,
    antennas: int = 1,
    detector: str = "sic",
    equalizer: str = "lmmse",
    demapper: str = "",
) -> LinkConfig:
    """A link over a fading channel; `demapper` `app` or `maxlog` for a coded one."""
    return LinkConfig(
        access="noma" if users > 1 else "orthogonal",
        modulation=modulation,
        coding=CodingConfig(code="repetition", demapper=demapper) if demapper else "none",
        channel=ChannelConfig(fading="rayleigh"),
        receiver=ReceiverConfig(num_antennas=antennas, equalizer=equalizer),
        noma=NomaConfig(group_size=max(users, 2), detector=detector),
    )


def receive(
    config: LinkConfig, observation: Observation, *, codec: Any = None, earlier_llrs: NDArray[np.float32] | None = None
) -> Decoded:
    """One call of the receiver inside a graph, back as NumPy arrays; without a codec bits are hard decisions."""
    users, num_symbols = observation.channel.shape[1], observation.received.shape[-1]
    used = codec or Repetition(num_symbols * BITS_PER_SYMBOL[config.modulation])
    receiver = build_receiver(config, num_users=users)

    @tf.function(autograph=False)
    def call(observed: Observation, earlier: Any) -> Decoded:
        return receiver.receive(observed, codec=used, earlier_llrs=earlier)

    return Decoded(*(part.numpy() for part in call(observation, earlier_llrs)))
