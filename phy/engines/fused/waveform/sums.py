"""Superposition of waveforms over a recorded channel; see `phy.links.superposition_ofdm.waveform` for the windows.

Everything is linear, so the sum is that of the carriers, of `packets.sums`, plus what the windows of every device add:
late paths, and motion within OFDM symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.engines.fused.packets.plan import plan_grid, recorded_lines_of
from phy.engines.fused.packets.sums import FusedSums
from phy.engines.fused.waveform.recorded import recorded_waves
from phy.frontends.resource_grid import Grid
from phy.links.superposition_ofdm.layout import Layout
from phy.links.superposition_ofdm.sums import Added, SumEngine, SumInputs, Who
from phy.numerics.workers import available_threads

_SAMPLES_AT_ONCE = 1 << 20


class RecordedSums(SumEngine):
    """`SumEngine` of `domain: time` over a recorded channel, on `threads` threads, all cores if left out."""

    def __init__(self, config: LinkConfig, layout: Layout, *, threads: int | None = None) -> None:
        threads = threads or available_threads()
        self._grid = Grid.of(layout.ofdm, num_users=1, num_symbols=layout.num_symbols)
        self._on_carriers = FusedSums(config, layout, threads=threads)
        self._alone = FusedSums(config, layout, threads=threads, noiseless=True)
        self._plane = plan_grid(config, self._grid).plane
        lines = recorded_lines_of(config, plan_grid(config, self._grid), threads=threads)
        waves = recorded_waves(config, self._grid, threads=threads)
        assert lines is not None
        assert waves is not None
        self._lines, self._waves = lines, waves

    def measure(self, who: Who) -> NDArray[np.float64]:
        return self._on_carriers.measure(who)

    def carry(self, payload: NDArray[Any], who: Who, sending: SumInputs) -> Added:
        added = self._on_carriers.carry(payload, who, sending)
        trials, devices = payload.shape[:2]
        samples = self._grid.num_ofdm_symbols * self._grid.ofdm.num_subcarriers
        step = max(_SAMPLES_AT_ONCE // (samples * max(self._waves.steps, 1)), 1)
        flat = np.arange(trials * devices)
        for part in (flat[first : first + step] for first in range(0, len(flat), step)):
            spilt = self._spill(payload, who, sending, part // devices, part % devices)
            if spilt is None:
                return added
            np.add.at(added.received, part // devices, spilt)
        return added

    def _spill(
        self, payload: NDArray[Any], who: Who, sending: SumInputs, trial: NDArray[np.int64], device: NDArray[np.int64]
    ) -> NDArray[np.complex64] | None:
        """What windows add to the received symbols of some devices, `[rows, n]`; None without."""
        mine = who._replace(
            **{name: np.asarray(getattr(who, name))[trial, device][:, None] for name in who._fields[:-1]}
        )
        one = mine._replace(start_s=np.asarray(who.start_s)[trial])
        own = None if sending.own is None else np.asarray(sending.own)[trial, device][:, None]
        key = np.asarray(sending.impairment_key)[trial, device]
        alone = SumInputs(np.asarray(sending.level)[trial], np.asarray(sending.noise_key)[trial], key, None, own)
        given = self._waves.given(one.channel_key[:, 0], one.start_s)
        grid, rows = self._grid, len(trial)
        arrived = self._alone.carry(payload[trial, device][:, None], one, alone).received
        elements = grid.num_slots * len(grid.data_rows) * grid.num_carriers
        arrived = np.pad(arrived, [(0, 0), (0, elements - grid.num_symbols)])
        arrived = arrived.reshape(rows, grid.num_slots, len(grid.data_rows), -1)
        channel = self._channel(one)  # of unit mean power, as that of windows: bins are what is sent times the gain
        places = (grid.carriers - grid.ofdm.num_subcarriers // 2) % grid.ofdm.num_subcarriers
        bins = np.zeros((rows, grid.num_slots, grid.ofdm.num_symbols, grid.ofdm.num_subcarriers), np.complex64)
        bins[:, :, np.array(grid.data_rows)[:, None], places] = np.divide(
            arrived, channel, out=np.zeros_like(arrived), where=channel != 0.0
        )
        keys = np.concatenate([np.zeros((rows, 6), np.uint32), key], axis=1)
        spilt = self._waves.spill(bins.reshape(rows, grid.num_ofdm_symbols, -1), keys, given)
        if spilt is None:
            return None
        of_data = spilt.reshape(bins.shape)[:, :, np.array(grid.data_rows)[:, None], places]
        return np.asarray(of_data.reshape(rows, -1)[:, : grid.num_symbols])

    def _channel(self, one: Who) -> NDArray[np.complex64]:
        """h `[rows, slots or 1, data symbols, carriers]`, as the sum on the carriers has it."""
        plane = self._plane
        assert plane.between is not None
        given = self._lines.given(one.channel_key[:, 0], one.start_s)
        parts = given.reshape(len(given), -1, plane.instants, 2, plane.width)
        nodes = parts[..., 0, :] + np.complex64(1j) * parts[..., 1, :]
        weights = plane.between[plane.data_rows][:, : plane.instants]
        found: NDArray[np.complex64] = np.einsum("rsnw,ln->rslw", nodes, weights)
        return found
