"""Sums over OFDM in Sionna's engine: the compiled chain over chunks of trials and OFDM symbols."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import CsiError, CsiEstimation, LinkConfig
from phy.fading.block_taps import CHUNK_SYMBOLS
from phy.fading.build import build_propagation
from phy.frontends import air
from phy.links.superposition_ofdm.chain import Chain, compiled_chain
from phy.links.superposition_ofdm.knowledge import Csi, SumChainSpec
from phy.links.superposition_ofdm.layout import Layout
from phy.links.superposition_ofdm.sums import Added, SumEngine, SumInputs, Who
from phy.numerics.streaming import Cut
from phy.stages import Propagation


class SionnaSums(SumEngine):
    """`SumEngine` of a link of one configuration; `propagation` replaces that of its channel."""

    def __init__(self, config: LinkConfig, layout: Layout, *, propagation: Propagation | None = None) -> None:
        self._config, self._layout = config, layout
        antennas = config.receiver.num_antennas
        self._propagation = propagation or build_propagation(config.channel, num_antennas=antennas)

    def measure(self, who: Who) -> NDArray[np.float64]:
        chain, cut = self.chain(len(who.gain))
        (measured,) = chain.measure(
            np.zeros(len(cut.start()), np.float32),
            cut.block(),
            cut.start(),
            cut.valid(),
            tuple(cut.by_row(array) for array in who),
            np.uint32(0),
            self._numbers(),
        )
        # [row blocks, column blocks, 5, trials of a chunk, devices]
        shape = (cut.row_blocks, cut.column_blocks, 5, -1, self._layout.num_devices)
        parts = np.asarray(measured, float).reshape(shape)
        found = np.concatenate([parts[:, :, :3].sum(axis=1), parts[:, :, 3:].max(axis=1)], axis=1)
        return np.moveaxis(found, 1, 0).reshape(5, -1, self._layout.num_devices)[:, : cut.rows]

    def carry(self, payload: NDArray[Any], who: Who, sending: SumInputs) -> Added:
        num_trials, num_symbols = len(who.gain), self._layout.num_symbols
        chain, cut = self.chain(num_trials, own=sending.own is not None)
        if sending.own is None:
            sending = sending._replace(own=np.zeros((num_trials, 1), np.float32))
        received, active, energy, after, noise_gain = chain.carry(
            cut.chunks(payload, cut.columns // 8 if payload.dtype == np.uint8 else cut.columns),
            cut.block(),
            cut.start(),
            cut.valid(),
            tuple(cut.by_row(array) for array in (*who, *sending)),
            np.uint32(0),
            self._numbers(),
        )
        num_active = cut.join(np.asarray(active)).astype(np.int64)
        return Added(
            received=_joined(cut, np.asarray(received), np.asarray(after))[:, :num_symbols],
            num_active=num_active[:, : num_symbols if self._config.control.silences else 1],
            energy=cut.add_up(np.asarray(energy)).T,
            noise_gain=cut.add_up(np.asarray(noise_gain))[0] / num_symbols,
        )

    def chain(self, num_trials: int, *, own: bool = False) -> tuple[Chain, Cut]:
        """Return the compiled chain and the chunks of `num_trials` trials."""
        config, layout = self._config, self._layout
        carriers = layout.ofdm.num_carriers
        per_symbol = layout.num_devices * layout.ofdm.num_subcarriers
        if air.motion(config.channel) != "still" or layout.pilots:
            per_symbol *= config.receiver.num_antennas
        # Packed bits come in bytes.
        step = 1 if config.modulation == "analog" else 8 // gcd(carriers, 8)
        wanted = -(-layout.used_ofdm_symbols // step) * step
        ofdm_symbols = min(wanted, max(CHUNK_SYMBOLS // per_symbol // step, 1) * step)
        spec = SumChainSpec(
            layout=layout,
            modulation=config.modulation,
            policy=config.control.compiled,
            csi=_csi(config),
            motion=air.motion(config.channel),
            max_doppler_hz=config.channel.max_doppler_hz,
            impairments=config.impairments,
            propagation=self._propagation,
            own=own,
            combining=config.receiver.combining if config.combines else None,
            trials=max(CHUNK_SYMBOLS // (per_symbol * ofdm_symbols), 1),
            ofdm_symbols=ofdm_symbols,
        )
        cut = Cut(
            rows=num_trials, symbols=layout.num_symbols, rows_per_chunk=spec.trials, columns=ofdm_symbols * carriers
        )
        return compiled_chain(spec), cut

    def _numbers(self) -> NDArray[np.float32]:
        config = self._config
        cutoff = 10.0 ** (config.power.cutoff_db / 10.0)
        values = (cutoff, 2.0 * config.channel.noise_power, config.csi_error_variance**0.5, config.max_power**0.5)
        return np.array(values, np.float32)


def _joined(cut: Cut, received: NDArray[np.complex64], after: NDArray[np.complex64]) -> NDArray[np.complex64]:
    """Received `[trials, n]` of chunks, each of which ends in the first OFDM symbol of the next one."""
    if after.shape[2]:
        received = received.copy()
        chunks, late = (part.reshape(cut.row_blocks, cut.column_blocks, *part.shape[1:]) for part in (received, after))
        chunks[:, 1:, :, : after.shape[3]] += late[:, :-1, :, 0]
    return cut.join(received)


def _csi(config: LinkConfig) -> Csi:
    if isinstance(config.csi, CsiEstimation):
        return config.csi.estimator
    return "given" if isinstance(config.csi, CsiError) and config.csi.error_variance > 0.0 else "perfect"
