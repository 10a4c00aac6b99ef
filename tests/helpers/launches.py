"""What the tests of front-ends share: launches with random keys, a channel with known paths, and NumPy in and out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig, LinkConfig, OfdmConfig
from phy.stages import Frontend, Launch, Observation


@dataclass(frozen=True, kw_only=True)
class FixedPaths:
    """The same path gains for every key, turning together by `doppler_hz`; gains `[antennas, paths]`."""

    gains: NDArray[np.complex128]
    delays_s: NDArray[np.float64]
    doppler_hz: float = 0.0
    powers: NDArray[np.float64] = field(init=False)
    num_antennas: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "powers", np.mean(np.abs(self.gains) ** 2, axis=0))
        object.__setattr__(self, "num_antennas", len(self.gains))

    def taps(self, key: Any, instants_s: Any) -> Any:
        import tensorflow as tf

        turning = tf.exp(tf.complex(0.0, np.float32(2.0 * np.pi * self.doppler_hz) * instants_s))
        gains = tf.constant(self.gains.astype(np.complex64))
        shape = [key.shape[0], *gains.shape, turning.shape[1]]
        return tf.broadcast_to(gains[None, :, :, None] * turning[:, None, None], shape)

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        turning = np.exp(-2j * np.pi * self.doppler_hz * np.asarray(lag_s))
        return np.broadcast_to(turning, (len(self.powers), *turning.shape))


@dataclass(frozen=True, kw_only=True)
class ScatteredPaths:
    """Independent CN(0, power) gains per key, antenna and path that stand still."""

    powers: NDArray[np.float64]
    delays_s: NDArray[np.float64]
    num_antennas: int = 1

    def taps(self, key: Any, instants_s: Any) -> Any:
        import tensorflow as tf

        from phy.frontends.air import draw_normals

        drawn = draw_normals(key, rows=self.num_antennas, columns=len(self.powers))
        scaled = drawn * tf.constant(np.sqrt(self.powers).astype(np.complex64))
        return tf.repeat(scaled[..., None], instants_s.shape[1], axis=-1)

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        return np.ones((len(self.powers), *np.shape(lag_s)), np.complex128)


def link(channel: ChannelConfig | None = None, *, ofdm: OfdmConfig | str = "none", **more: Any) -> LinkConfig:
    """A QPSK link over `channel` (left out: AWGN)."""
    return LinkConfig(
        access="orthogonal",
        modulation="qpsk",
        channel=channel or ChannelConfig(model="awgn"),
        ofdm=ofdm,
        **more,
    )


def launch(
    rows: int,
    num_symbols: int,
    *,
    users: int = 1,
    amplitude: Any = 1.0,
    gain: Any = 1.0,
    noise_power: float = 0.0,
    seed: int = 5,
) -> Launch:
    """Random QPSK symbols and keys; `amplitude` and `gain` broadcast against `[rows, users]`; NumPy arrays."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (2, rows, users, num_symbols))
    keys = [rng.integers(0, 1 << 32, (rows, users, 2), dtype=np.uint32) for _ in range(3)]
    return Launch(
        ((1 - 2 * bits[0] + 1j * (1 - 2 * bits[1])) / np.sqrt(2)).astype(np.complex64),
        np.broadcast_to(np.asarray(amplitude, np.float32), (rows, users)),
        np.broadcast_to(np.asarray(gain, np.float32), (rows, users)),
        *keys,
        rng.integers(0, 1 << 32, (rows, 2), dtype=np.uint32),
        np.zeros(rows, np.float32),
        np.float32(noise_power),
    )


def observe(frontend: Frontend, sent: Launch) -> Observation:
    """One compiled call, NumPy arrays out."""
    import tensorflow as tf

    run = tf.function(frontend.observe, autograph=False)
    return Observation(*(np.asarray(part) for part in run(Launch(*(tf.constant(part) for part in sent)))))


def residual(observation: Observation, sent: Launch) -> NDArray[np.complex64]:
    """Received less what the known channel makes of the symbols, `[rows, antennas, num_symbols]`."""
    return observation.received - np.einsum("ruan,run->ran", observation.channel, sent.symbols)
