"""OFDM in the time domain: waveforms behind a real cyclic prefix; see `phy.frontends.windows`.

The OFDM symbols of a packet follow each other without a gap, so a path later than the prefix brings the end of the
symbol before (inter-symbol interference) and misses its own beginning (inter-carrier interference).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from phy.config import ChannelConfig, OfdmConfig
from phy.frontends import air
from phy.frontends.impairments import clock_phase
from phy.frontends.ofdm import FrequencyDomain, respond
from phy.frontends.resource_grid import Grid
from phy.frontends.windows import Windows
from phy.stages import Launch, Propagation

_FEW_SAMPLES = 64
"""Missed samples up to which products are faster than transforms, and take as little memory."""


class TimeDomain(FrequencyDomain):
    """The product of the frequency domain plus what `Windows` adds to it; see `phy.frontends.ofdm.Domain`."""

    def __init__(self, ofdm: OfdmConfig, *, channel: ChannelConfig, grid: Grid, propagation: Propagation) -> None:
        super().__init__(ofdm, channel=channel, grid=grid, propagation=propagation)
        size, prefix = ofdm.num_subcarriers, ofdm.cyclic_prefix_length
        doppler_hz = channel.max_doppler_hz if air.motion(channel) == "moving" else 0.0
        self.windows = Windows.of(ofdm, doppler_hz=doppler_hz, delays_s=propagation.delays_s)
        if self.windows.steps:
            self.offsets_s = self.windows.instants_s(grid.num_ofdm_symbols)
        bins = np.arange(size) - size // 2
        delays = propagation.delays_s / ofdm.sample_s
        self._every_response = np.exp(-2j * np.pi * delays[:, None] * bins / size)
        self._ahead = np.exp(2j * np.pi * bins * prefix / size).astype(np.complex64)

    def carry(self, launch: Launch, grid: Any, taps: Any) -> tuple[Any, Any]:
        faded, energy = super().carry(launch, grid, taps)
        if self.windows.exact_on_carriers:
            return faded, energy
        rows, users = launch.amplitude.shape
        sent = self._grid.spread(grid)
        by_row = tf.reshape(sent, [rows * users, *sent.shape[2:]])
        samples = 0.0
        if self.windows.steps:
            samples += self._motion_within(by_row, taps)
        if len(self.windows.late):
            samples += self._beyond_prefix(by_row, taps, clock_phase(launch.impairment_key))
        # Samples of a grid with DC in the middle are those of the waveform times (-1)^n, which the transform undoes.
        size = np.float32(self._ofdm.num_subcarriers)
        more = self._grid.select(tf.signal.fft(samples) / np.complex64(np.sqrt(size)))
        arrival = tf.cast(launch.amplitude * launch.gain, tf.complex64)[:, :, None, None, None]
        return faded + arrival * tf.reshape(more, [rows, users, *more.shape[1:]]), energy

    def at_carriers(self, taps: Any) -> Any:
        steps = self.windows.steps
        return respond(taps[..., steps // 2 :: steps] if steps else taps, self.response)

    def _motion_within(self, sent: Any, taps: Any) -> Any:
        """Samples `[n, antennas, times, size]` of `sent` `[n, times, size]` by what gains change around the middle."""
        windows, total = self.windows, 0.0
        middle = taps[..., windows.steps // 2 :: windows.steps]
        for step in range(windows.steps + 1):
            if step != windows.steps // 2:
                change = self._at_step(taps, step) - middle
                waves = self._waves(sent[:, None] * respond(change, self._every_response))
                total += waves * tf.constant(windows.between[step].astype(np.complex64))
        return total

    def _at_step(self, taps: Any, step: int) -> Any:
        steps, times = self.windows.steps, self._grid.num_ofdm_symbols
        return taps[..., step : step + steps * (times - 1) + 1 : steps]

    def _beyond_prefix(self, sent: Any, taps: Any, phase: Any) -> Any:
        """Samples of late paths: those of the symbol before, less their own; `phase` `[n]` of the sample clocks."""
        windows, size = self.windows, self._ofdm.num_subcarriers
        swapped = tf.pad(sent[:, :-1] * self._ahead, [[0, 0], [1, 0], [0, 0]]) - sent
        if not windows.steps and windows.missed[-1] < _FEW_SAMPLES:
            return self._few_samples(swapped, taps, phase)
        total = tf.zeros([sent.shape[0], taps.shape[1], sent.shape[1], size], tf.complex64)
        for late, path in enumerate(windows.late):
            most = min(int(windows.missed[late]) + 1, size)
            wave = self._waves(swapped * self._every_response[path].astype(np.complex64))[..., :most]
            missed = self._missed(phase)[:, late, None, None]
            wave = tf.where(tf.range(most) < missed, wave, tf.zeros_like(wave))
            echo = self._gains(taps[:, :, path], most) * wave[:, None]
            total += tf.pad(echo, [[0, 0], [0, 0], [0, 0], [0, size - most]])
        return total

    def _missed(self, phase: Any) -> Any:
        """Samples that every late path misses, `[n, late paths]` int32."""
        begun = tf.cast(phase[:, None] + self.windows.part >= 1.0, tf.int32)
        return tf.minimum(begun + self.windows.missed.astype(np.int32), self._ofdm.num_subcarriers)

    def _few_samples(self, swapped: Any, taps: Any, phase: Any) -> Any:
        """`_beyond_prefix` for gains that hold: one product per sample, without a transform per path."""
        windows, size = self.windows, self._ofdm.num_subcarriers
        most = min(int(windows.missed[-1]) + 1, size)
        late = tf.range(most)[None, :] < self._missed(phase)[..., None]
        gains = tf.gather(taps[..., 0], windows.late, axis=2)[..., None] * tf.cast(late, tf.complex64)[:, None]
        response = self._every_response[windows.late].astype(np.complex64)
        turns = np.exp(2j * np.pi * np.outer(np.arange(most), np.arange(size)) / size) / np.sqrt(size)
        channel = tf.einsum("napm,pc->namc", gains, response) * turns.astype(np.complex64)
        echo = tf.einsum("ntc,namc->natm", swapped, channel)
        return tf.pad(echo, [[0, 0], [0, 0], [0, 0], [0, size - most]])

    def _gains(self, taps: Any, count: int) -> Any:
        """Gains `[n, antennas, times or 1, count or 1]` of a path over the first samples of every window."""
        if not self.windows.steps:
            return taps[..., None]
        between = self.windows.between[:, :count].astype(np.complex64)
        return sum(self._at_step(taps, step)[..., None] * part for step, part in enumerate(between))

    def _waves(self, grid: Any) -> Any:
        return tf.signal.ifft(grid) * np.complex64(np.sqrt(self._ofdm.num_subcarriers))
