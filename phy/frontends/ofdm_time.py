"""OFDM in the time domain: samples with a real cyclic prefix through a tapped delay line.

    y[n] = sum_l h_l[n] s[n - l],   h_l(t) = sum_p a_p(t) sinc(l - tau_p W),   W = num_subcarriers * spacing

(Sionna's `cir_to_time_channel` and `ApplyTimeChannel`, with the range of lags of `time_lag_discrete_time_channel`). The
OFDM symbols of a packet follow each other without a gap, so a path later than the prefix brings the end of the symbol
before (inter-symbol interference) and misses its own beginning (inter-carrier interference).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.config import ChannelConfig, OfdmConfig
from phy.frontends import air
from phy.frontends.ofdm import Domain, respond
from phy.frontends.resource_grid import Grid
from phy.stages import Launch, Propagation

_SINC_LAGS = 6
"""Lags of the sinc kept on both sides, as in Sionna."""

_TURN_BETWEEN_KNOTS = 0.05
"""Phase [rad] that the fastest path may turn between two instants with linear interpolation in between; the error of
that interpolation is at most its square over 8, 70 dB below the path."""


def pulse(delays_s: NDArray[np.float64], *, bandwidth_hz: float) -> tuple[NDArray[np.float64], int]:
    """(sinc(l - tau_p W) `[paths, lags]`, first lag), without lags at the ends that hold nothing."""
    last = int(np.ceil(delays_s.max() * bandwidth_hz)) + _SINC_LAGS
    lags = np.arange(-_SINC_LAGS, last + 1)
    shape = np.sinc(lags - delays_s[:, None] * bandwidth_hz)
    used = np.flatnonzero(np.abs(shape).max(axis=0) > 1e-9)
    return shape[:, used[0] : used[-1] + 1], int(lags[used[0]])


class TimeDomain(Domain):
    """Samples of the whole packet; see `phy.frontends.ofdm.Domain`.

    The receiver opens its window `advance` samples before the end of the prefix: half of what the prefix has left over
    the latest path, at most as early as the first lag of the pulse, and takes the known turn of every carrier back.
    """

    def __init__(self, ofdm: OfdmConfig, *, channel: ChannelConfig, grid: Grid, propagation: Propagation) -> None:
        size, prefix = ofdm.num_subcarriers, ofdm.cyclic_prefix_length
        bandwidth_hz = size * ofdm.subcarrier_spacing_hz
        self._pulse, self._first_lag = pulse(propagation.delays_s, bandwidth_hz=bandwidth_hz)
        lags = self._first_lag + np.arange(self._pulse.shape[1])
        bins = grid.carriers - size // 2
        self.response = self._pulse @ np.exp(-2j * np.pi * lags[:, None] * bins / size)
        latest = int(np.ceil(propagation.delays_s.max() * bandwidth_hz))
        self.advance = int(np.clip((prefix - latest) // 2, 0, max(-self._first_lag, 0)))
        self._grid = grid
        self._motion = air.motion(channel)
        doppler_hz = channel.max_doppler_hz
        turn = 2.0 * np.pi * doppler_hz * ofdm.symbol_s
        self._knots = int(np.ceil(turn / _TURN_BETWEEN_KNOTS)) if self._motion == "moving" else 0
        if self._motion == "moving":
            knots_s = np.arange(grid.num_ofdm_symbols * self._knots + 1) * ofdm.symbol_s / self._knots
            self.offsets_s = np.concatenate([grid.middles_s, knots_s])
        else:
            self.offsets_s = grid.middles_s[: 1 if self._motion == "still" else None]

    def carry(self, launch: Launch, grid: Any, taps: Any) -> tuple[Any, Any]:
        ofdm, (rows, users) = self._grid.ofdm, launch.amplitude.shape
        size, prefix, times = ofdm.num_subcarriers, ofdm.cyclic_prefix_length, self._grid.num_ofdm_symbols
        level = tf.cast(launch.amplitude, tf.complex64)[:, :, None, None]
        in_order = tf.roll(self._grid.spread(grid), -(size // 2), axis=-1)
        useful = tf.signal.ifft(in_order) * np.complex64(np.sqrt(size))
        sent = tf.concat([useful[..., size - prefix :], useful], axis=-1)
        samples = tf.reshape(level * sent, [rows * users, 1, times * (size + prefix)])
        faded = self._convolve(samples, taps)
        antennas = faded.shape[1]
        windows = tf.reshape(faded, [rows, users, antennas, times, size + prefix])[..., prefix:]
        bins = self._grid.carriers - size // 2
        turned_back = np.exp(2j * np.pi * bins * self.advance / size) / np.sqrt(size)
        carriers = tf.gather(tf.signal.fft(windows), bins % size, axis=-1) * tf.constant(turned_back, tf.complex64)
        gain = tf.cast(launch.gain, tf.complex64)[:, :, None, None, None]
        return gain * carriers, tf.reduce_sum(tf.reshape(air.power_of(samples), [rows, users, -1]), axis=-1)

    def _convolve(self, samples: Any, taps: Any) -> Any:
        """Samples `[n, 1, num]` through the delay line, from `advance` before the first: `[n, antennas, num]`."""
        num, lags = samples.shape[-1], self._pulse.shape[1]
        # Sample n - advance - lag for n = 0 .. num - 1 and every lag.
        latest = self._first_lag + lags - 1 + self.advance
        before, after = max(latest, 0), max(-(self._first_lag + self.advance), 0)
        padded = tf.pad(samples, [[0, 0], [0, 0], [before, after]])
        lines = self._delay_line(taps)
        total = None
        for index in range(lags):
            first = before - (self._first_lag + index + self.advance)
            echo = lines[:, :, index] * padded[..., first : first + num]
            total = echo if total is None else total + echo
        return total

    def _delay_line(self, taps: Any) -> Any:
        """h_l at every sample, `[n, antennas, lags, 1 or samples]`.

        Of a moving channel at most `advance` samples late, a time in which it does not move.
        """
        ofdm, times = self._grid.ofdm, self._grid.num_ofdm_symbols
        each = ofdm.num_subcarriers + ofdm.cyclic_prefix_length
        shape = tf.constant(self._pulse.astype(np.complex64))
        if self._motion != "moving":
            lines = tf.einsum("napt,pl->nalt", taps, shape)
            return lines if self._motion == "still" else tf.repeat(lines, each, axis=-1)
        lines = tf.einsum("napt,pl->nalt", taps[..., times:], shape)
        position = np.arange(times * each) * (self._knots / each)
        low = np.floor(position).astype(np.int64)
        weight = tf.constant((position - low).astype(np.complex64))
        start, end = tf.gather(lines, low, axis=-1), tf.gather(lines, low + 1, axis=-1)
        return start + (end - start) * weight

    def at_carriers(self, taps: Any) -> Any:
        return respond(taps[..., : self._grid.num_ofdm_symbols], self.response)
