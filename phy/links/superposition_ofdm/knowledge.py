"""Channel on every resource element, and the channel estimate of each device.

`H_k(t, c)` of device k is the response of its paths in the middle of OFDM symbol t on carrier c, gain included. Its own
estimate is H itself, H + gain sqrt(v) e, or an LS or LMMSE estimate from its pilots. The estimate of the pilot slot
serves for the same position in every slot of data, and ages accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from phy.config import ImpairmentsConfig
from phy.config.access import Combining
from phy.config.power import PowerPolicy
from phy.fading.block_taps import draw_normals
from phy.frontends.air import Motion, power_of
from phy.frontends.estimation import LeastSquares, PilotEstimator
from phy.frontends.joint_estimation import linear_mmse
from phy.frontends.ofdm import respond
from phy.links.superposition_ofdm.layout import Layout, keys_of_symbols
from phy.links.superposition_ofdm.sums import Who
from phy.numerics.random import ANTENNA_BITS, complex_normal, threefry
from phy.receivers.towards_sum import towards_sum
from phy.stages import Propagation

Csi = Literal["perfect", "given", "ls", "lmmse"]

CUTOFF, NOISE_POWER, CSI_STD, PILOT_AMPLITUDE = range(4)
"""Places among the numbers fed to a chain."""


@dataclass(frozen=True, kw_only=True)
class SumChainSpec:
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
    combining: Combining | None
    """Combiner of the antennas; None for one antenna, at which devices align."""
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


class ChannelKnowledge:
    """H and H^ of a chunk, `[rows, ofdm symbols, carriers]` complex64, constant axes with length 1.

    Of several antennas, H_k = f^H h_k with the combiner f of `phy.receivers.towards_sum` for each resource element.
    """

    def __init__(self, spec: SumChainSpec) -> None:
        self._spec = spec
        self._antennas = spec.propagation.num_antennas
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
        # XLA has no solver of linear equations.
        solves = spec.combining in ("zf", "mmse")
        self._combine = self._combine_antennas if solves else compiled(self._combine_antennas)

    def channel_and_estimate(self, who: Who, start: Any, numbers: Any) -> tuple[Any, Any, Any]:
        """(H, H^, ||f|| `[trials, ofdm symbols, carriers]` float32) from data symbol `start` on."""
        channel, estimate = self._at_antennas(who, start, numbers)
        if self._spec.combining is None:
            return channel[:, 0], estimate[:, 0], tf.ones([self._spec.trials, 1, 1])
        return self._combine(channel, estimate, who.gain, numbers)

    def _at_antennas(self, who: Who, start: Any, numbers: Any) -> tuple[Any, Any]:
        """h and h^ `[rows, antennas, ofdm symbols, carriers]`."""
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
        # Where keys are those of OFDM symbols, their axis is behind that of rows.
        at = tf.transpose(tf.reshape(at, [self._spec.rows, -1, *at.shape[1:]]), [0, 2, 1, 3, 4])
        at = tf.reshape(at, [self._spec.rows, self._antennas, -1, at.shape[-1]])
        return tf.cast(tf.reshape(gain, [self._spec.rows, 1, 1, 1]), tf.complex64) * at

    def _error_of(self, csi_key: Any, start: Any) -> Any:
        """Estimation error per coherence block, independent per carrier if the channel has several paths."""
        spec = self._spec
        key = tf.reshape(csi_key, [spec.rows, 2])[:, None, None, None]
        time = tf.cast(spec.positions(start)[1] if spec.motion == "symbol" else tf.zeros([1], tf.int32), tf.uint32)
        carrier = tf.cast(tf.range(spec.plane[1] if len(spec.propagation.delays_s) > 1 else 1), tf.uint32)
        antenna = tf.constant(np.arange(self._antennas, dtype=np.uint32) << ANTENNA_BITS)
        counter = (carrier[None, None, None, :], time[None, None, :, None] + antenna[None, :, None, None])
        return complex_normal(threefry((key[..., 0], key[..., 1]), counter, tf.bitwise))

    def _spoil_channel(self, channel: Any, error: Any, gain: Any, numbers: Any) -> Any:
        spread = tf.reshape(gain, [self._spec.rows, 1, 1, 1]) * numbers[CSI_STD]
        return channel + tf.cast(spread, tf.complex64) * error

    def _pilot_noise_of(self, key: Any) -> Any:
        rows, plane = self._spec.rows, self._spec.layout.grid.pilots.shape[1:]
        position = tf.cast(tf.range(int(np.prod(plane))), tf.uint32)
        keys = tf.repeat(tf.reshape(key, [rows, 2]), self._antennas, axis=0)
        antenna = tf.constant(np.tile(np.arange(self._antennas, dtype=np.uint32), rows))
        return tf.reshape(draw_normals(keys, antenna, position), [rows, self._antennas, *plane])

    def _receive_pilots(self, faded: Any, noise: Any, numbers: Any) -> Any:
        sent = tf.cast(numbers[PILOT_AMPLITUDE], tf.complex64) * tf.constant(self._spec.layout.grid.pilots[0])
        return faded * sent + tf.cast(tf.sqrt(numbers[NOISE_POWER]), tf.complex64) * noise

    def _estimate_at_data(self, estimator: PilotEstimator, received: Any, gain: Any, start: Any, numbers: Any) -> Any:
        amplitude = numbers[PILOT_AMPLITUDE]
        arrival = amplitude * tf.reshape(gain, [self._spec.rows, 1])
        # One user, one slot.
        estimate, _ = estimator.estimate(received[:, :, None], arrival, numbers[NOISE_POWER])
        planes = estimate[:, 0, :, 0] / tf.cast(amplitude, tf.complex64)
        return tf.gather(planes, self._spec.positions(start)[0], axis=2)

    def _combine_antennas(self, channel: Any, estimate: Any, gain: Any, numbers: Any) -> tuple[Any, Any, Any]:
        """See `channel_and_estimate`; devices without a gain are off the air."""
        assert self._spec.combining is not None

        def by_element(value: Any) -> Any:
            wide = tf.reshape(value, [*gain.shape, *value.shape[1:]])
            return tf.transpose(wide, [0, 3, 4, 2, 1])  # trials, OFDM symbols, carriers, antennas, devices

        def behind(combiner: Any, value: Any) -> Any:
            arrived = tf.reduce_sum(tf.math.conj(combiner)[..., None] * value, axis=3)
            return tf.reshape(tf.transpose(arrived, [0, 3, 1, 2]), [self._spec.rows, *arrived.shape[1:3]])

        known = by_element(estimate) * tf.cast(gain > 0.0, tf.complex64)[:, None, None, None]
        level = numbers[NOISE_POWER] / numbers[PILOT_AMPLITUDE] ** 2
        level += numbers[CSI_STD] ** 2 * tf.reduce_sum(gain**2, axis=1)
        combiner = towards_sum(
            known,
            gain[:, None, None],
            combining=self._spec.combining,
            level=level[:, None, None],
            xp=tf.experimental.numpy,
            solve=tf.linalg.solve,
        )
        found = behind(combiner, by_element(channel))
        reached = behind(combiner, known)
        if self._spec.combining != "mrc":
            reached = tf.ones_like(reached)
        return found, reached, tf.sqrt(tf.reduce_sum(power_of(combiner), axis=3))


def _estimator(spec: SumChainSpec, response: Any) -> PilotEstimator | None:
    if spec.csi == "ls":
        return LeastSquares(spec.layout.grid)
    if spec.csi == "lmmse":
        return linear_mmse(spec.layout.grid, propagation=spec.propagation, response=response)
    return None
