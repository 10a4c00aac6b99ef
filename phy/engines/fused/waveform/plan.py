"""Plan of OFDM symbols as waveforms, for kernels: places of carriers, impairments, motion, and late paths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.engines.fused.fading.nodes import MOST_NODES, nodes_between
from phy.engines.fused.impairments import Impairments, impairments_of_bins, impairments_of_samples
from phy.engines.fused.packets.plan import ChannelPlan, KernelPacketPlan, tiled
from phy.fading.build import build_propagation
from phy.frontends.air import motion
from phy.frontends.resource_grid import Grid
from phy.frontends.windows import Windows


class Carriers(NamedTuple):
    """Symbols on the bins of a transform, in numbers for kernels.

    - `size`: bins; `low`: carriers below DC; `low_bin`, `high_bin`: bins of the first of them, and of the first beyond;
    - `order` `[OFDM symbols of a slot]`: number among those with data, or -1 less the number among those with pilots;
    - `filler` `[2, n]` float32: known symbols behind the data;
    - `stride`, `offset`: instant of the channel of line r of a slot, r stride + offset.
    """

    size: int
    low: int
    low_bin: int
    high_bin: int
    order: NDArray[np.int64]
    filler: NDArray[np.float32]
    stride: int
    offset: int


class Motion(NamedTuple):
    """Gains that change within a window, in numbers for kernels; see `phy.frontends.windows`.

    - `steps`; `weights` `[steps, size]` float32: L of all instants but the middle;
    - `changes`: plan of the channel at every bin, whose line r * steps + j is the change from the middle of symbol r to
      its instant j, the middle left out.
    """

    steps: int
    weights: NDArray[np.float32]
    changes: ChannelPlan


class Late(NamedTuple):
    """Paths beyond the prefix in numbers for kernels, the latest last; see `phy.frontends.windows`.

    - `paths`, `missed`, `part` `[late paths]`: those of `Windows`;
    - `turns` `[late paths, 2, size]`, `ahead`, `next_sample` `[2, size]` float32: turns of the bins by a path, by the
      prefix, and from one sample to the next;
    - `steps`, `instants` `[steps + 1, size]` float32: L of all instants, 0 steps where gains hold;
    - `between` `[lines of a slot * steps + 1, MOST_NODES]` float32: weights of the nodes of a slot in every instant, or
      of no rows where path gains are those of the instants.
    """

    paths: NDArray[np.int64]
    missed: NDArray[np.int64]
    part: NDArray[np.float32]
    turns: NDArray[np.float32]
    ahead: NDArray[np.float32]
    next_sample: NDArray[np.float32]
    steps: int
    instants: NDArray[np.float32]
    between: NDArray[np.float32]


class WaveformPlan(NamedTuple):
    """All that follows from a link and a number of symbols.

    `packet`: plan of the carriers; `line`: that of the channel, at more instants where it moves within a window;
    `motion`, `late`: None without; `samples`, `bins`: impairments of samples and of bins, None for ideal ones.
    """

    carriers: Carriers
    packet: KernelPacketPlan
    line: ChannelPlan
    motion: Motion | None
    late: Late | None
    samples: Impairments | None
    bins: Impairments | None


def plan_samples(config: LinkConfig, packet: KernelPacketPlan, grid: Grid) -> WaveformPlan:
    """Plan of the packets of `packet` on `grid`. A recorded channel is not in it: see `recorded`."""
    ofdm = grid.ofdm
    bins = grid.carriers - ofdm.num_subcarriers // 2
    low = int(np.count_nonzero(bins < 0))
    order = np.empty(ofdm.num_symbols, np.int64)
    order[grid.data_rows], order[grid.pilot_rows] = np.arange(len(grid.data_rows)), -1 - np.arange(len(grid.pilot_rows))
    filler = grid.filler
    plan = WaveformPlan(
        carriers=Carriers(
            size=ofdm.num_subcarriers,
            low=low,
            low_bin=int(bins[0]) % ofdm.num_subcarriers,
            high_bin=int(bins[low]) if low < len(bins) else 0,
            order=order,
            filler=np.stack([filler.real, filler.imag]),
            stride=1,
            offset=0,
        ),
        packet=packet,
        line=packet.channel,
        motion=None,
        late=None,
        samples=impairments_of_samples(config, num_symbols=grid.num_ofdm_symbols),
        bins=impairments_of_bins(config, num_symbols=grid.num_ofdm_symbols),
    )
    return _through_windows(config, grid, plan) if ofdm.domain == "time" and not config.channel.traced else plan


def _through_windows(config: LinkConfig, grid: Grid, plan: WaveformPlan) -> WaveformPlan:
    """Add motion within windows and late paths."""
    delays_s = build_propagation(config.channel, num_antennas=config.receiver.num_antennas).delays_s
    doppler_hz = config.channel.max_doppler_hz if motion(config.channel) == "moving" else 0.0
    windows = Windows.of(grid.ofdm, doppler_hz=doppler_hz, delays_s=delays_s)
    size, steps = grid.ofdm.num_subcarriers, windows.steps
    bins = (np.fft.fftfreq(size) * size).round()
    response = np.exp(-2j * np.pi * delays_s[:, None] / grid.ofdm.sample_s * bins / size)
    weights = np.zeros((0, MOST_NODES), np.float32)
    if steps:
        plan, weights = _moving(config, grid, plan, windows, response)
    if len(windows.late):
        late = Late(
            paths=windows.late,
            missed=windows.missed,
            part=windows.part,
            turns=_halves(response[windows.late]),
            ahead=_halves(np.exp(2j * np.pi * bins * grid.ofdm.cyclic_prefix_length / size)),
            next_sample=_halves(np.exp(2j * np.pi * bins / size)),
            steps=steps,
            instants=windows.between.astype(np.float32),
            between=weights,
        )
        plan = plan._replace(late=late)
    return plan


def _moving(
    config: LinkConfig, grid: Grid, plan: WaveformPlan, windows: Windows, response: NDArray[np.complex128]
) -> tuple[WaveformPlan, NDArray[np.float32]]:
    """The plan with motion, and the weights of nodes in every instant, of no rows where there are no nodes."""
    steps, middle, rows = windows.steps, windows.steps // 2, grid.ofdm.num_symbols
    plane, fades = plan.packet.plane, plan.packet.fades
    instants_s, selective = windows.instants_s(rows), plan.packet.plane.response is not None
    nodes_s, weights = nodes_between(instants_s, doppler_hz=config.channel.max_doppler_hz)
    if not selective:
        nodes_s, weights = nodes_s[:0], weights[:0]
    in_slot_s = nodes_s if len(nodes_s) else instants_s
    slots_s = np.arange(grid.num_slots)[:, None] * (rows * grid.ofdm.symbol_s)
    fades = fades._replace(
        offsets_s=(slots_s + in_slot_s).ravel().astype(np.float32),
        step_s=float(in_slot_s[1] - in_slot_s[0]) if len(in_slot_s) > 1 else 0.0,
    )
    others = np.delete(np.arange(steps + 1), middle)
    at_middle, at_others = np.arange(rows) * steps + middle, np.arange(rows)[:, None] * steps + others
    changes = (weights[at_others] - weights[at_middle][:, None]).reshape(-1, MOST_NODES) if len(nodes_s) else weights
    line = plane._replace(instants=len(in_slot_s), between=weights[at_middle] if len(nodes_s) else weights)
    every = plane._replace(
        width=grid.ofdm.num_subcarriers,
        instants=len(nodes_s) or rows * steps,
        between=changes,
        response=tiled(response),
    )
    if not selective:
        line, every = (part._replace(between=None, response=None) for part in (line, every))
    if not len(nodes_s):
        plan = plan._replace(carriers=plan.carriers._replace(stride=steps, offset=middle))
    plan = plan._replace(
        line=ChannelPlan(line, fades),
        motion=Motion(
            steps=steps,
            weights=windows.between[others].astype(np.float32),
            changes=ChannelPlan(every, fades),
        ),
    )
    return plan, weights


def _halves(values: NDArray[np.complex128]) -> NDArray[np.float32]:
    """`[..., n]` complex to `[..., 2, n]`."""
    return np.ascontiguousarray(np.stack([values.real, values.imag], axis=-2), np.float32)


def late_scratch(late: Late) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Scratch arrays of a thread for `late_paths`: gains, missed samples, symbols and paths on bins."""
    count, _, size = late.turns.shape
    return (
        np.zeros((late.steps + 1, 2, count), np.float32),
        np.zeros(count, np.int64),
        np.zeros((2, size), np.float32),
        np.zeros_like(late.turns),
    )
