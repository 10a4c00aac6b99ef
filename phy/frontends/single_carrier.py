"""Single carrier over a flat channel: one symbol per 1 / bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from phy.config import LinkConfig
from phy.frontends import air
from phy.frontends.impairments import draw_offsets, impair_stream
from phy.stages import Frontend, Launch, Observation, Propagation


class SingleCarrier(Frontend):
    """y_k = a g h(t_k) x_k + noise per antenna at t_k = start + k / bandwidth; see `phy.stages.Frontend`.

    The receiver knows h, or h^ = h + sqrt(v) e with e ~ CN(0, 1) per antenna, one e for every value of a block-fading
    channel and one per packet of a channel that moves.
    """

    def __init__(self, config: LinkConfig, *, num_users: int, num_symbols: int, propagation: Propagation) -> None:
        self.num_symbols = num_symbols
        self.channel_uses = num_symbols
        self.airtime_s = num_symbols * config.symbol_s
        self._config = config
        self._propagation = propagation
        self._motion = air.motion(config.channel)
        times = 1 if self._motion == "still" else num_symbols
        self._offsets_s = np.arange(times) * config.symbol_s
        self._users = num_users
        self._draw_offsets = tf.function(self._offsets_of, jit_compile=True, autograph=False)
        self._impair = tf.function(self._impair_stream, jit_compile=True, autograph=False)
        self._draw_noise = tf.function(self._noise_of, jit_compile=True, autograph=False)
        self._draw_error = tf.function(self._error_of, jit_compile=True, autograph=False)
        self._carry = tf.function(self._carry_symbols, jit_compile=True, autograph=False)
        self._average = tf.function(
            lambda taps: tf.reduce_mean(air.power_of(taps), axis=[1, 2, 3]), jit_compile=True, autograph=False
        )

    def observe(self, launch: Launch) -> Observation:
        config = self._config
        if not config.impairments.none:
            offsets = self._draw_offsets(launch.impairment_key)
            launch = launch._replace(symbols=self._impair(launch.symbols, offsets))
        error = self._draw_error(launch.csi_key) if config.csi_error_variance else None
        noise = self._draw_noise(launch.noise_key)
        return Observation(*self._carry(launch, self._taps(launch.channel_key, launch.start_s), noise, error))

    def mean_power(self, channel_key: Any, start_s: Any) -> Any:
        taps = self._taps(channel_key, start_s)
        return tf.reshape(self._average(taps), channel_key.shape[:2])

    def _taps(self, channel_key: Any, start_s: Any) -> Any:
        at = air.instants(start_s, self._offsets_s, num_users=self._users)
        return self._propagation.taps(air.flat_keys(channel_key), at)

    def _offsets_of(self, key: Any) -> Any:
        blocks = tf.range(self.num_symbols if self._motion == "symbol" else 1, dtype=tf.int32)
        config = self._config
        return draw_offsets(key, config=config.impairments, sample_s=config.symbol_s, block=tf.cast(blocks, tf.uint32))

    def _impair_stream(self, symbols: Any, offsets: Any) -> Any:
        return impair_stream(symbols, offsets, config=self._config.impairments)

    def _noise_of(self, key: Any) -> Any:
        return air.draw_normals(key, rows=self._propagation.num_antennas, columns=self.num_symbols)

    def _error_of(self, key: Any) -> Any:
        columns = self.num_symbols if self._motion == "symbol" else 1
        return air.draw_normals(key, rows=self._propagation.num_antennas, columns=columns)

    def _carry_symbols(self, launch: Launch, taps: Any, noise: Any, error: Any) -> tuple[Any, ...]:
        rows, antennas, variance = launch.symbols.shape[0], self._propagation.num_antennas, 0.0
        channel = tf.reshape(taps, [rows, self._users, antennas, 1, taps.shape[-1]])
        counted = tf.ones([1, self.num_symbols])
        faded = air.arrive(launch, launch.symbols[:, :, None], channel)
        noise = noise[:, :, None]
        received = air.add_noise(faded, noise, launch.noise_power)
        known = channel[:, :, :, 0]
        if error is not None:
            variance = self._config.csi_error_variance
            known = known + np.complex64(np.sqrt(variance)) * error
        arrival = launch.amplitude * launch.gain
        shape = [rows, self._users, antennas, self.num_symbols]
        return (
            received[:, :, 0],
            tf.broadcast_to(tf.cast(arrival, tf.complex64)[:, :, None, None] * known, shape),
            tf.broadcast_to((arrival**2 * np.float32(variance))[:, :, None], [*shape[:2], self.num_symbols]),
            launch.noise_power,
            launch.amplitude**2 * tf.reduce_sum(air.power_of(launch.symbols), axis=-1),
            air.mean_energy(faded, counted),
            air.mean_energy(noise, counted) * launch.noise_power,
        )
