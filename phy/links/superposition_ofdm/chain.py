"""Compiled chain of superposition over OFDM.

On resource element (t, c), with H_k(t, c) of device k and its own estimate H^_k (see `knowledge`):

    s_k = A w(H^_k) x_k        level times weight of `power` times payload, then impaired as a waveform; of a jammer
                               sqrt(P0) conj(H^_k) / |H^_k| x_k, of a silent device 0
    y   = sum_k H_k s'_k + z   z ~ CN(0, 2 N0)

In the time domain the samples of all devices add up before the Fourier transform instead: see `waveform`.

Every chunk is some OFDM symbols of some trials, with all their devices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from phy.coding.modulation import modulator
from phy.config.power import PowerPolicy
from phy.fading.block_taps import draw_normals, precoding_weights
from phy.frontends.air import power_of
from phy.frontends.impairments import Offsets, clock_phase, draw_offsets, impair_grid
from phy.links.jamming import with_own_amplitude
from phy.links.policies.fixed import Fixed
from phy.links.superposition_ofdm.knowledge import CUTOFF, NOISE_POWER, ChannelKnowledge, SumChainSpec
from phy.links.superposition_ofdm.sums import SumInputs, Who
from phy.links.superposition_ofdm.waveform import Waveform
from phy.numerics.random import RECEIVER
from phy.numerics.streaming import Program, stream


class Chain:
    """`measure` and `carry` over chunks, called as in `phy.numerics.streaming.stream`.

    - `measure`: no payload; `[5, trials, devices]` float32 per chunk: sums of |w|^2, of |h^ w| and of active elements,
      then the largest |h^ w| and |h w|;
    - `carry`: received `[trials, n]` complex64, active devices `[trials, n]` int32, energy sent `[devices, trials]`
      float32 per chunk, received after the chunk `[trials, 0 or 1, carriers]` complex64, without noise, and the sum of
      ||f||^2 over payload symbols `[1, trials]` float32.
    """

    def __init__(self, spec: SumChainSpec) -> None:
        self._spec = spec
        self._knowledge = ChannelKnowledge(spec)
        self._waveform = Waveform(spec) if spec.layout.ofdm.domain == "time" else None
        self._modem = None if spec.modulation == "analog" else modulator(spec.modulation)
        self._shape = (spec.trials, spec.layout.num_devices)
        self._columns = int(np.prod(spec.plane))

        def compiled(method: Any) -> Any:
            return tf.function(method, jit_compile=True, autograph=False)

        self._draw_noise, self._draw_offsets = compiled(self._noise_of), compiled(self._offsets_of)
        self._measure, self._carry = compiled(self._measure_gains), compiled(self._carry_payload)
        keys, per_device = ((*self._shape, 2), tf.uint32), (self._shape, tf.float32)
        per_trial = ((spec.trials,), tf.float32)
        who = (keys, keys, keys, per_device, per_trial)
        own = per_device if spec.own else ((spec.trials, 1), tf.float32)
        sending = (per_trial, ((spec.trials, 2), tf.uint32), keys, per_device, own)
        width, kind = (self._columns // 8, tf.uint8) if self._modem else (self._columns, tf.complex64)
        self.measure = stream(Program(run=self._run_measure, payload=((), tf.float32), rows=who, outputs=(tf.float32,)))
        self.carry = stream(
            Program(
                run=self._run_carry,
                payload=((*self._shape, width), kind),
                rows=(*who, *sending),
                outputs=(tf.complex64, tf.int32, tf.float32, tf.complex64, tf.float32),
            )
        )

    def _run_measure(self, payload: Any, start: Any, valid: Any, rows: Any, block: Any, numbers: Any) -> Any:
        del payload, block
        who = Who(*rows)
        channel, estimate, _ = self._knowledge.channel_and_estimate(who, start, numbers)
        return (self._measure(channel, estimate, who.gain, valid, numbers),)

    def _run_carry(self, payload: Any, start: Any, valid: Any, rows: Any, block: Any, numbers: Any) -> Any:
        del block
        who, sending = Who(*rows[: len(Who._fields)]), SumInputs(*rows[len(Who._fields) :])
        known = self._knowledge.channel_and_estimate(who, start, numbers)
        noise = self._draw_noise(sending.noise_key, start)
        offsets = self._draw_offsets(sending.impairment_key)
        taps = None if self._waveform is None else self._waveform.taps(who, start)
        return self._carry(payload, *known, taps, noise, offsets, who, sending, start, valid, numbers)

    def _offsets_of(self, key: Any) -> Any:
        ofdm, config = self._spec.layout.ofdm, self._spec.impairments
        return draw_offsets(key, config=config, sample_s=ofdm.sample_s, carrier_hz=ofdm.subcarrier_spacing_hz)

    def _noise_of(self, key: Any, start: Any) -> Any:
        receiver = tf.fill([self._spec.trials], tf.constant(RECEIVER, tf.uint32))
        return draw_normals(key, receiver, tf.cast(tf.range(self._columns), tf.uint32) + start)

    def _weights(self, estimate: Any, gain: Any, numbers: Any, *, policy: PowerPolicy | None = None) -> Any:
        """Weights `[rows, ofdm symbols, carriers]` of `policy`, or of the link's policy."""
        rows = self._spec.rows
        gain_of_row = tf.reshape(gain, [rows])
        flat = tf.reshape(estimate, [rows, -1])
        weights = precoding_weights(flat, gain_of_row, numbers[CUTOFF], policy or self._spec.policy)
        return tf.broadcast_to(tf.reshape(weights, estimate.shape), [rows, *self._spec.plane])

    def _on_carriers(self, offsets: Offsets) -> Offsets:
        """What acts carrier by carrier: no phase and delay that the weights undo; as samples, no frequency offset."""
        if self._spec.impairments.estimated:
            offsets = offsets._replace(phase=None, delay=None)
        return offsets if self._waveform is None else offsets._replace(frequency=None)

    def _counted(self, valid: Any) -> Any:
        """Mask of payload symbols, `[ofdm symbols, carriers]` float32."""
        return tf.reshape(tf.cast(tf.range(self._columns) < valid, tf.float32), self._spec.plane)

    def _measure_gains(self, channel: Any, estimate: Any, gain: Any, valid: Any, numbers: Any) -> Any:
        weights, counted = self._weights(estimate, gain, numbers), self._counted(valid)
        power = power_of(weights) * counted
        reached = tf.abs(estimate * weights) * counted
        arrived = tf.abs(channel * weights) * counted
        sums = [tf.reduce_sum(value, axis=[1, 2]) for value in (power, reached, tf.cast(power > 0.0, tf.float32))]
        peaks = [tf.reduce_max(value, axis=[1, 2]) for value in (reached, arrived)]
        return tf.reshape(tf.stack([*sums, *peaks]), [5, *self._shape])

    def _carry_payload(
        self,
        payload: Any,
        channel: Any,
        estimate: Any,
        noise_amplitude: Any,
        taps: Any,
        noise: Any,
        offsets: Offsets,
        who: Who,
        sending: SumInputs,
        start: Any,
        valid: Any,
        numbers: Any,
    ) -> tuple[Any, ...]:
        spec, grid, gain = self._spec, self._spec.layout.grid, who.gain
        planes = [*self._shape, *spec.plane]
        weights = tf.reshape(self._weights(estimate, gain, numbers), planes)
        symbols = tf.cast(payload, tf.complex64) if self._modem is None else self._modem.modulate(payload)
        level = tf.cast(sending.level, tf.complex64)[:, None, None, None]
        factor = level * weights
        if spec.own:
            in_phase = self._weights(estimate, gain, numbers, policy=Fixed())
            factor = with_own_amplitude(factor, tf.reshape(in_phase, planes), sending.own)
            silent = tf.reshape(sending.own, [*self._shape, 1, 1]) < 0.0
            weights = tf.where(silent, tf.zeros_like(weights), weights)
        sent = factor * (tf.reshape(symbols, planes) * tf.cast(self._counted(valid), tf.complex64))
        if not spec.impairments.none:
            sent = impair_grid(
                grid.spread(sent),
                self._on_carriers(offsets),
                config=spec.impairments,
                ofdm=grid.ofdm,
                symbol_index=spec.positions(start)[1],
                sample_power=sending.sample_power,
            )
        energy = tf.reduce_sum(power_of(sent), axis=[2, 3])
        if self._waveform is None:
            arrived = tf.reshape(channel, [*self._shape, *channel.shape[1:]]) * grid.select(sent)
            received, after = tf.reduce_sum(arrived, axis=1), tf.zeros([spec.trials, 0, spec.plane[1]], tf.complex64)
        else:
            received, after = self._waveform.add_up(
                grid.spread(sent), taps, offsets, clock_phase(sending.impairment_key), who, start
            )
        of_symbols = tf.broadcast_to(noise_amplitude, [spec.trials, *spec.plane])
        noise_gain = tf.reduce_sum(of_symbols**2 * self._counted(valid), axis=[1, 2])[None]
        noise *= tf.cast(tf.reshape(of_symbols, noise.shape), tf.complex64)
        received = tf.reshape(received, noise.shape)
        received += tf.cast(tf.sqrt(numbers[NOISE_POWER]), tf.complex64) * noise
        active = tf.reduce_sum(tf.cast(tf.abs(weights) > 0.0, tf.int32), axis=1)
        return received, tf.reshape(active, noise.shape), tf.transpose(energy), after, noise_gain


@lru_cache(maxsize=32)
def compiled_chain(spec: SumChainSpec) -> Chain:
    """The chain of a specification, built once and traced on its first call."""
    return Chain(spec)
