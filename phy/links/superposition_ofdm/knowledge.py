"""Channel on every resource element, and the channel estimate of each device.

`H_k(t, c)` of device k is the response of its paths in the middle of OFDM symbol t on carrier c, gain included. Its own
estimate is H itself, H + gain sqrt(v) e, or an LS or LMMSE estimate from its pilots. The estimate of the pilot slot
serves for the same position in every slot of data, and ages accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from phy.config import ImpairmentsConfig
from phy.config.power import PowerPolicy
from phy.fading.block_taps import draw_normals
from phy.frontends.air import Motion
from phy.frontends.estimation import LeastSquares, LinearMmse, PilotEstimator
from phy.frontends.ofdm import respond
from phy.links.superposition_ofdm.layout import Layout, keys_of_symbols
from phy.numerics.random import complex_normal, threefry
from phy.stages import Propagation

Csi = Literal["perfect", "given", "ls", "lmmse"]

CUTOFF, NOISE_POWER, CSI_STD, PILOT_AMPLITUDE = range(4)
"""Places among the numbers fed to a chain."""


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """Compiled part of the link; chunks of `trials` trials and `ofdm_symbols` OFDM symbols."""

    layout: Layout
    modulation: str
    policy: PowerPolicy
    csi: Csi
    motion: Motion
    max_doppler_hz: float
    impairments: ImpairmentsConfig
    propagation: Propagation
    own: bool
    trials: int
    ofdm_symbols: int

    @property
    def rows(self) -> int:
        """Devices of all trials of a chunk."""
        return self.trials * self.layout.num_devices

    @property
    def plane(self) -> tuple[int, int]:
        """(OFDM symbols, carriers) of a chunk."""
        return self.ofdm_symbols, self.layout.ofdm.num_carriers

    def positions(self, start: Any) -> tuple[Any, Any]:
        """`Layout.positions` of the chunk whose first data symbol has number `start`."""
        return self.layout.positions(start // np.uint32(self.plane[1]), self.ofdm_symbols)


class Who(NamedTuple):
    """Rows of a chunk, `[trials, devices]` each: keys `[..., 2]` uint32, gain float32; `start_s` `[trials]` float32."""

    channel_key: Any
    csi_key: Any
    pilot_noise_key: Any
    gain: Any
    start_s: Any


class ChannelKnowledge:
    """H and H^ of a chunk, `[rows, ofdm symbols, carriers]` complex64, constant axes with length 1."""

    def __init__(self, spec: ChainSpec) -> None:
        self._spec = spec
        self._response = np.exp(-2j * np.pi * spec.propagation.delays_s[:, None] * spec.layout.grid.frequencies_hz)
        self._estimator = _estimator(spec, self._response)

        def compiled(method: Any) -> Any:
            return tf.function(method, jit_compile=True, autograph=False)

        # Separate calls: fused into its users, XLA draws every value once per user.
        self._at_data, self._at_pilots = compiled(self._instants_of), compiled(self._pilot_instants_of)
        self._at_symbols, self._respond = compiled(self._keys_of_symbols), compiled(self._respond_with_gain)
        self._draw_error, self._spoil = compiled(self._error_of), compiled(self._spoil_channel)
        self._draw_pilot_noise, self._receive = compiled(self._pilot_noise_of), compiled(self._receive_pilots)
        if self._estimator is not None:
            self._estimate = compiled(partial(self._estimate_at_data, self._estimator))

    def channel_and_estimate(self, who: Who, start: Any, numbers: Any) -> tuple[Any, Any]:
        """(H, H^) from data symbol `start` on."""
        spec = self._spec
        if spec.motion == "symbol":
            keys, at = self._at_symbols(who.channel_key, start)
        else:
            keys, at = self._at_data(who.channel_key, who.start_s, start)
        channel = self._respond(spec.propagation.taps(keys, at), who.gain)
        if self._estimator is not None:
            keys, at = self._at_pilots(who.channel_key, who.start_s)
            faded = self._respond(spec.propagation.taps(keys, at), who.gain)
            received = self._receive(faded, self._draw_pilot_noise(who.pilot_noise_key), numbers)
            return channel, self._estimate(received, who.gain, start, numbers)
        if spec.csi == "given":
            return channel, self._spoil(channel, self._draw_error(who.csi_key, start), who.gain, numbers)
        return channel, channel

    def _instants_of(self, channel_key: Any, start_s: Any, start: Any) -> tuple[Any, Any]:
        spec, layout = self._spec, self._spec.layout
        number = tf.cast(spec.positions(start)[1], tf.float32)
        after = np.float32(layout.pilots_s + layout.grid.middles_s[0]) + number * np.float32(layout.ofdm.symbol_s)
        at = start_s[:, None] + (after[:1] if spec.motion == "still" else after)[None, :]
        return tf.reshape(channel_key, [spec.rows, 2]), tf.repeat(at, layout.num_devices, axis=0)

    def _pilot_instants_of(self, channel_key: Any, start_s: Any) -> tuple[Any, Any]:
        rows = self._spec.rows
        at = start_s[:, None, None] + self._spec.layout.pilot_instants_s()
        return tf.reshape(channel_key, [rows, 2]), tf.reshape(at, [rows, at.shape[2]])

    def _keys_of_symbols(self, channel_key: Any, start: Any) -> tuple[Any, Any]:
        return keys_of_symbols(tf.reshape(channel_key, [self._spec.rows, 2]), self._spec.positions(start)[1])

    def _respond_with_gain(self, taps: Any, gain: Any) -> Any:
        at = respond(taps, self._response)
        at = tf.reshape(at, [self._spec.rows, -1, at.shape[-1]])
        return tf.cast(tf.reshape(gain, [self._spec.rows, 1, 1]), tf.complex64) * at

    def _error_of(self, csi_key: Any, start: Any) -> Any:
        """Estimation error per coherence block, independent per carrier if the channel has several paths."""
        spec = self._spec
        key = tf.reshape(csi_key, [spec.rows, 2])[:, None, None]
        time = tf.cast(spec.positions(start)[1] if spec.motion == "symbol" else tf.zeros([1], tf.int32), tf.uint32)
        carrier = tf.cast(tf.range(spec.plane[1] if len(spec.propagation.delays_s) > 1 else 1), tf.uint32)
        counter = (carrier[None, None, :], time[None, :, None])
        return complex_normal(threefry((key[..., 0], key[..., 1]), counter, tf.bitwise))

    def _spoil_channel(self, channel: Any, error: Any, gain: Any, numbers: Any) -> Any:
        spread = tf.reshape(gain, [self._spec.rows, 1, 1]) * numbers[CSI_STD]
        return channel + tf.cast(spread, tf.complex64) * error

    def _pilot_noise_of(self, key: Any) -> Any:
        rows, plane = self._spec.rows, self._spec.layout.grid.pilots.shape[1:]
        position = tf.cast(tf.range(int(np.prod(plane))), tf.uint32)
        drawn = draw_normals(tf.reshape(key, [rows, 2]), tf.zeros([rows], tf.uint32), position)
        return tf.reshape(drawn, [rows, *plane])

    def _receive_pilots(self, faded: Any, noise: Any, numbers: Any) -> Any:
        sent = tf.cast(numbers[PILOT_AMPLITUDE], tf.complex64) * tf.constant(self._spec.layout.grid.pilots[0])
        return faded * sent + tf.cast(tf.sqrt(numbers[NOISE_POWER]), tf.complex64) * noise

    def _estimate_at_data(self, estimator: PilotEstimator, received: Any, gain: Any, start: Any, numbers: Any) -> Any:
        amplitude = numbers[PILOT_AMPLITUDE]
        arrival = amplitude * tf.reshape(gain, [self._spec.rows, 1])
        # One user, one antenna, one slot.
        estimate, _ = estimator.estimate(received[:, None, None], arrival, numbers[NOISE_POWER])
        planes = estimate[:, 0, 0, 0] / tf.cast(amplitude, tf.complex64)
        return tf.gather(planes, self._spec.positions(start)[0], axis=1)


def _estimator(spec: ChainSpec, response: Any) -> PilotEstimator | None:
    if spec.csi == "ls":
        return LeastSquares(spec.layout.grid)
    if spec.csi == "lmmse":
        return LinearMmse(spec.layout.grid, propagation=spec.propagation, response=response)
    return None
