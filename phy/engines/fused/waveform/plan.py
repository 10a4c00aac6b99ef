"""Plan of OFDM symbols as samples, for kernels: places of carriers, impairments, and the delay line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.engines.fused.fading.fades import padded_paths
from phy.engines.fused.fading.nodes import MOST_NODES, nodes_between
from phy.engines.fused.impairments import Impairments, impairments_of_bins, impairments_of_samples
from phy.engines.fused.packets.lines import LINE, ROOM, VECTOR
from phy.engines.fused.packets.plan import PacketPlan, Plane
from phy.fading.build import build_propagation
from phy.frontends.delay_line import DelayLine
from phy.frontends.resource_grid import Grid


class Carriers(NamedTuple):
    """Symbols on the bins of a transform, in numbers for kernels.

    - `size`: bins; `low`: carriers below DC; `low_bin`, `high_bin`: bins of the first of them, and of the first beyond;
    - `order` `[OFDM symbols of a slot]`: number among those with data, or -1 less the number among those with pilots;
    - `filler` `[2, n]` float32: known symbols behind the data;
    - `turned_back` `[tiles, 2, ROOM]` float32: undoes the early window of the receiver, None without a delay line.
    """

    size: int
    low: int
    low_bin: int
    high_bin: int
    order: NDArray[np.int64]
    filler: NDArray[np.float32]
    turned_back: NDArray[np.float32] | None


class Waveform(NamedTuple):
    """OFDM symbols of a packet on their way through a delay line, in numbers for kernels.

    - `size`, `prefix`: samples of an OFDM symbol without, and of, its prefix;
    - `pulse` `[lags, paths]` float32, the lags padded with zeros to a multiple of four; `first`: lag of the first one
      from the window's start;
    - `knots`: lines of the delay line per OFDM symbol, 0 where one holds for the packet; `moves`: linear interpolation
      up to the next one;
    - `starts` `[knots + 1]`: first sample of each, prefix included; `weight` `[samples]` float32: of the next one, and
      whole vectors behind them;
    - `between` `[lines of a slot, MOST_NODES]` float32: weights of instants in every line, or empty.
    """

    size: int
    prefix: int
    pulse: NDArray[np.float32]
    first: int
    knots: int
    moves: bool
    starts: NDArray[np.int64]
    weight: NDArray[np.float32]
    between: NDArray[np.float32]


class WaveformPlan(NamedTuple):
    """All that follows from a link and a number of symbols.

    `waveform`: None where the channel multiplies carriers and no samples pass a delay line; `packet`: plan of the
    carriers; `line`: that of the instants of the delay line; `samples`, `bins`: impairments of samples and of bins,
    None for ideal ones.
    """

    carriers: Carriers
    waveform: Waveform | None
    packet: PacketPlan
    line: PacketPlan
    samples: Impairments | None
    bins: Impairments | None


def plan_samples(config: LinkConfig, packet: PacketPlan, *, num_blocks: int) -> WaveformPlan:
    """Plan of the packets of `packet`, `num_blocks` devices sharing the carriers."""
    ofdm, plane = config.ofdm, packet.plane
    assert ofdm != "none"
    grid = Grid.of(ofdm, num_users=1, num_symbols=plane.num_symbols, num_blocks=num_blocks)
    bins = grid.carriers - ofdm.num_subcarriers // 2
    low = int(np.count_nonzero(bins < 0))
    order = np.empty(ofdm.num_symbols, np.int64)
    order[grid.data_rows], order[grid.pilot_rows] = np.arange(len(grid.data_rows)), -1 - np.arange(len(grid.pilot_rows))
    filler = grid.filler
    carriers = Carriers(
        size=ofdm.num_subcarriers,
        low=low,
        low_bin=int(bins[0]) % ofdm.num_subcarriers,
        high_bin=int(bins[low]) if low < len(bins) else 0,
        order=order,
        filler=np.stack([filler.real, filler.imag]),
        turned_back=None,
    )
    waveform, line = None, packet
    if ofdm.domain == "time":
        channel = build_propagation(config.channel, num_antennas=packet.fades.num_antennas)
        delays = DelayLine.of(grid, channel=config.channel, delays_s=channel.delays_s)
        carriers = carriers._replace(turned_back=_turned_back(delays))
        waveform, line = _pass_line(config, grid, delays, packet)
    return WaveformPlan(
        carriers=carriers,
        waveform=waveform,
        packet=packet,
        line=line,
        samples=impairments_of_samples(config, num_symbols=grid.num_ofdm_symbols),
        bins=impairments_of_bins(config, num_symbols=grid.num_ofdm_symbols),
    )


def _turned_back(line: DelayLine) -> NDArray[np.float32]:
    turned = np.zeros((-(-len(line.turned_back) // LINE), 2, ROOM), np.float32)
    for tile, part in enumerate(turned):
        here = line.turned_back[tile * LINE : (tile + 1) * LINE]
        part[0, : len(here)], part[1, : len(here)] = here.real, here.imag
    return turned


def _pass_line(config: LinkConfig, grid: Grid, line: DelayLine, packet: PacketPlan) -> tuple[Waveform, PacketPlan]:
    """The delay line, and the plan of its instants; see `phy.frontends.ofdm_time`."""
    ofdm, fades, each = grid.ofdm, packet.fades, grid.ofdm.num_subcarriers + grid.ofdm.cyclic_prefix_length
    paths, lags = line.pulse.shape
    pulse = np.zeros((-(-lags // 4) * 4, padded_paths(paths)), np.float32)
    pulse[:lags, :paths] = line.pulse.T
    waveform = Waveform(
        size=ofdm.num_subcarriers,
        prefix=ofdm.cyclic_prefix_length,
        pulse=pulse,
        first=line.first_lag + line.advance,
        knots=0 if fades.still else 1,
        moves=False,
        starts=np.array([0, each]),
        weight=np.zeros(each + VECTOR, np.float32),
        between=np.zeros((0, MOST_NODES), np.float32),
    )
    if not line.knots:
        return waveform, packet
    position = np.arange(each) * (line.knots / each)
    slots_s = np.arange(grid.num_slots)[:, None] * (ofdm.num_symbols * ofdm.symbol_s)
    knots_s = np.asarray(np.arange(ofdm.num_symbols * line.knots + 1) * (ofdm.symbol_s / line.knots), float)
    nodes_s, between = nodes_between(knots_s, doppler_hz=config.channel.max_doppler_hz)
    in_slot_s = nodes_s if len(nodes_s) else knots_s
    instants_s = slots_s + in_slot_s
    return waveform._replace(
        knots=line.knots,
        moves=True,
        starts=np.ceil(np.arange(line.knots + 1) * (each / line.knots)).astype(np.int64),
        weight=np.append(position - np.floor(position), np.zeros(VECTOR)).astype(np.float32),
        between=between,
    ), packet._replace(
        plane=packet.plane._replace(instants=instants_s.shape[1]),
        fades=fades._replace(
            offsets_s=instants_s.ravel().astype(np.float32),
            step_s=float(in_slot_s[1] - in_slot_s[0]) if len(in_slot_s) > 1 else 0.0,
        ),
    )


def line_scratch(waveform: Waveform, plane: Plane) -> tuple[NDArray[np.float32], ...]:
    """Scratch arrays of a thread: samples of a packet, a window, and the delay line at nodes and at every knot."""
    lags, each = len(waveform.pulse), waveform.size + waveform.prefix
    before, after = max(waveform.first + lags - 1, 0), max(-waveform.first, 0)
    sizes = (
        before + plane.num_slots * plane.line_rows * each + after + VECTOR,
        waveform.size + VECTOR,
        lags * MOST_NODES,
        lags * max(plane.instants, plane.line_rows * waveform.knots + 1),
    )
    return tuple(np.zeros(2 * size, np.float32) for size in sizes)
