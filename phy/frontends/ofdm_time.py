"""OFDM in the time domain: samples with a real cyclic prefix through a tapped delay line, `phy.frontends.delay_line`.

The OFDM symbols of a packet follow each other without a gap, so a path later than the prefix brings the end of the
symbol before (inter-symbol interference) and misses its own beginning (inter-carrier interference).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from phy.config import ChannelConfig, OfdmConfig
from phy.frontends import air
from phy.frontends.delay_line import DelayLine
from phy.frontends.ofdm import Domain, respond
from phy.frontends.resource_grid import Grid
from phy.stages import Launch, Propagation


class TimeDomain(Domain):
    """Samples of the whole packet; see `phy.frontends.ofdm.Domain`."""

    def __init__(self, ofdm: OfdmConfig, *, channel: ChannelConfig, grid: Grid, propagation: Propagation) -> None:
        line = DelayLine.of(grid, channel=channel, delays_s=propagation.delays_s)
        self.line = line
        self.response = line.response
        self._grid = grid
        self._motion = air.motion(channel)
        if line.knots:
            knots_s = np.arange(grid.num_ofdm_symbols * line.knots + 1) * ofdm.symbol_s / line.knots
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
        turned_back = self.line.turned_back / np.sqrt(size)
        carriers = tf.gather(tf.signal.fft(windows), bins % size, axis=-1) * tf.constant(turned_back, tf.complex64)
        gain = tf.cast(launch.gain, tf.complex64)[:, :, None, None, None]
        return gain * carriers, tf.reduce_sum(tf.reshape(air.power_of(samples), [rows, users, -1]), axis=-1)

    def _convolve(self, samples: Any, taps: Any) -> Any:
        """Samples `[n, 1, num]` through the delay line, from `advance` before the first: `[n, antennas, num]`."""
        num, lags = samples.shape[-1], self.line.pulse.shape[1]
        # Sample n - advance - lag for n = 0 .. num - 1 and every lag.
        first_lag = self.line.first_lag + self.line.advance
        before, after = max(first_lag + lags - 1, 0), max(-first_lag, 0)
        padded = tf.pad(samples, [[0, 0], [0, 0], [before, after]])
        lines = self._delay_line(taps)
        total = None
        for index in range(lags):
            first = before - (first_lag + index)
            echo = lines[:, :, index] * padded[..., first : first + num]
            total = echo if total is None else total + echo
        return total

    def _delay_line(self, taps: Any) -> Any:
        """h_l at every sample, `[n, antennas, lags, 1 or samples]`.

        Of a moving channel at most `advance` samples late, a time in which it does not move.
        """
        ofdm, times = self._grid.ofdm, self._grid.num_ofdm_symbols
        each = ofdm.num_subcarriers + ofdm.cyclic_prefix_length
        shape = tf.constant(self.line.pulse.astype(np.complex64))
        if self._motion != "moving":
            lines = tf.einsum("napt,pl->nalt", taps, shape)
            return lines if self._motion == "still" else tf.repeat(lines, each, axis=-1)
        lines = tf.einsum("napt,pl->nalt", taps[..., times:], shape)
        position = np.arange(times * each) * (self.line.knots / each)
        low = np.floor(position).astype(np.int64)
        weight = tf.constant((position - low).astype(np.complex64))
        start, end = tf.gather(lines, low, axis=-1), tf.gather(lines, low + 1, axis=-1)
        return start + (end - start) * weight

    def at_carriers(self, taps: Any) -> Any:
        return respond(taps[..., : self._grid.num_ofdm_symbols], self.response)
