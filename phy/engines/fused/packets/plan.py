"""Plan of a packet for kernels: positions of symbols, channel of the carriers, and channel knowledge.

Every packet is a plane of **lines**: OFDM symbols of `width` carriers, `line_rows` of them in a slot. A single carrier
is the plane whose slots are one line of `LINE` symbols, the last one shorter. Noise is numbered line by line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import CsiEstimation, LinkConfig
from phy.engines.fused.fading.fades import WAVES, Fades, fades_of
from phy.engines.fused.fading.nodes import nodes_between, straight_between
from phy.engines.fused.fading.traces import TraceLines, lines_of
from phy.engines.fused.packets.lines import LINE, ROOM
from phy.fading.build import build_propagation
from phy.frontends.air import motion
from phy.frontends.estimation import Lerp, LinearMmse
from phy.frontends.joint_estimation import JointMmse, linear_mmse
from phy.frontends.resource_grid import Grid

PERFECT, GIVEN_ERROR, LEAST_SQUARES, MMSE = range(4)


class Plane(NamedTuple):
    """Positions of symbols, and response of the carriers to a unit path.

    - `data_rows`, `pilot_rows`: lines of a slot; `instants`: of the channel in a slot, lines where not `between` them;
    - `between` `[line_rows, MOST_NODES]` float32: weights of the instants in every line, or empty, and `response`
      `[tiles, paths of 4, 2, ROOM]` float32, zero for paths that are padding; both None where all carriers are equal;
    - `along_line`: instants run along a line, one per symbol of a single carrier;
    - `pilots` `[2, pilot rows * width]` float32;
    - `known_energy`: of pilots and filler at unit amplitude; `prefix_share`: energy with the prefix over that without.
    """

    line_rows: int
    width: int
    num_slots: int
    num_symbols: int
    data_rows: NDArray[np.int64]
    pilot_rows: NDArray[np.int64]
    instants: int
    between: NDArray[np.float32] | None
    response: NDArray[np.float32] | None
    along_line: bool
    pilots: NDArray[np.float32]
    known_energy: float
    prefix_share: float


class KernelModes(NamedTuple):
    """Linear MMSE over I modes in time and J in frequency, with the numbers of `phy.frontends.estimation`.

    - `of_pilots` `[pilot rows, I]` and `wanted` `[data rows, I]` complex64, `of_carriers` `[2, J * width]` float32;
    - `level` `[I, J]` and `explained_time` `[data rows, I]`, `unexplained` `[data rows, width]` float32;
    - `basis` `[tiles, modes of 4, 2, ROOM]`, `explained` `[1, tiles, modes of 4, ROOM]` float32.

    Or over M modes of both at once, with the numbers of `phy.frontends.joint_estimation`: `of_pilots`
    `[pilot rows, J, M]`, `wanted` `[data rows, J, M]`, `level` `[1, M]`, `explained_time` ones `[data rows, 1]`, and
    `explained` `[data rows, tiles, modes of 4, ROOM]`.
    """

    of_pilots: NDArray[np.complex64]
    wanted: NDArray[np.complex64]
    of_carriers: NDArray[np.float32]
    level: NDArray[np.float32]
    explained_time: NDArray[np.float32]
    unexplained: NDArray[np.float32]
    basis: NDArray[np.float32]
    explained: NDArray[np.float32]


class Knowledge(NamedTuple):
    """Channel knowledge of the receiver, with the numbers of `phy.frontends.estimation`.

    - `trusting`: the variance of the estimate is not counted as noise;
    - `error_std`, and whether the error has a draw per line and per carrier;
    - least squares: `low`, `high`, `weight` and `noise_gain` of every data row;
    - `modes`: of linear MMSE, None for others.
    """

    kind: int
    trusting: bool
    error_std: np.float32
    error_per_line: bool
    error_per_carrier: bool
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weight: NDArray[np.float32]
    noise_gain: NDArray[np.float32]
    modes: KernelModes | None


class ChannelPlan(NamedTuple):
    """What of a `KernelPacketPlan` kernels of the channel alone take."""

    plane: Plane
    fades: Fades


class KernelPacketPlan(NamedTuple):
    """All inputs of kernels that follow from a link and a number of symbols."""

    plane: Plane
    fades: Fades
    knowledge: Knowledge

    @property
    def channel(self) -> ChannelPlan:
        """The plan without the receiver's knowledge."""
        return ChannelPlan(self.plane, self.fades)

    @property
    def arrived(self) -> KernelPacketPlan:
        """The plan for packets that went through the channel already: their kernel is one for all channels."""
        return self._replace(
            plane=self.plane._replace(between=None, response=None),
            fades=self.fades._replace(number=None, counter=None, amplitude=None),
        )

    @property
    def is_simple(self) -> bool:
        """True for a channel of one path without waves, known without pilots."""
        return self.fades.kind != WAVES and self.knowledge.kind in (PERFECT, GIVEN_ERROR)


def plan_waveform(config: LinkConfig, *, num_symbols: int, num_devices: int) -> tuple[KernelPacketPlan, int, float]:
    """(plan, channel uses, airtime [s]) of a packet of `num_symbols` symbols."""
    if config.ofdm == "none":
        return plan_single_carrier(config, num_symbols=num_symbols), num_symbols, num_symbols * config.symbol_s
    blocks = num_blocks(config, num_devices)
    grid = Grid.of(config.ofdm, num_users=1, num_symbols=num_symbols, num_blocks=blocks)
    uses = grid.num_ofdm_symbols * (grid.num_carriers + config.ofdm.cyclic_prefix_length)
    return plan_grid(config, grid), uses, grid.num_ofdm_symbols * config.ofdm.symbol_s


def recorded_lines_of(config: LinkConfig, plan: KernelPacketPlan, *, threads: int) -> TraceLines | None:
    """Return the lines of a recorded channel on the carriers and at the instants of a plan; None for other models."""
    frequencies_hz = np.zeros(1)
    if config.ofdm != "none":
        frequencies_hz = Grid.of(config.ofdm, num_users=1, num_symbols=plan.plane.num_symbols).frequencies_hz
    return lines_of(
        config.channel,
        frequencies_hz=np.asarray(frequencies_hz, np.float64).reshape(-1),
        offsets_s=plan.fades.offsets_s.astype(np.float64),
        moves=not plan.fades.still,
        num_antennas=config.receiver.num_antennas,
        threads=threads,
    )


def num_blocks(config: LinkConfig, num_devices: int) -> int:
    """Blocks of carriers into which devices divide the grid."""
    return num_devices if config.multiplexing == "ofdma" else 1


def plan_single_carrier(config: LinkConfig, *, num_symbols: int) -> KernelPacketPlan:
    """Plan of one symbol per 1 / bandwidth over a flat channel; see `phy.frontends.single_carrier`."""
    moves = motion(config.channel)
    width = min(LINE, num_symbols)
    times = 1 if moves == "still" else num_symbols
    plane = Plane(
        line_rows=1,
        width=width,
        num_slots=-(-num_symbols // width),
        num_symbols=num_symbols,
        data_rows=np.zeros(1, np.int64),
        pilot_rows=np.zeros(0, np.int64),
        instants=1,
        between=None,
        response=None,
        along_line=moves != "still",
        pilots=np.zeros((2, 0), np.float32),
        known_energy=0.0,
        prefix_share=1.0,
    )
    return KernelPacketPlan(
        plane=plane,
        fades=fades_of(
            config.channel,
            num_antennas=config.receiver.num_antennas,
            still=moves == "still",
            offsets_s=np.arange(times, dtype=float) * config.symbol_s,
            width=1,
        ),
        # Each symbol has its own error only if each symbol has its own draw.
        knowledge=_given(config, per_line=moves == "symbol", per_carrier=moves == "symbol"),
    )


def plan_grid(config: LinkConfig, grid: Grid) -> KernelPacketPlan:
    """Plan of whole slots of a grid, with the channel at every carrier; see `phy.frontends.ofdm`."""
    ofdm, moves = grid.ofdm, motion(config.channel)
    propagation = build_propagation(config.channel, num_antennas=config.receiver.num_antennas)
    response = np.exp(-2j * np.pi * propagation.delays_s[:, None] * grid.frequencies_hz)
    elements = grid.num_ofdm_symbols * grid.num_carriers
    pilots = grid.pilots[0].reshape(-1)
    traced = config.channel.traced
    selective = len(propagation.delays_s) > 1 or traced
    slots_s = grid.middles_s.reshape(grid.num_slots, ofdm.num_symbols)
    doppler_hz = 0.0 if moves == "still" else config.channel.max_doppler_hz
    nodes_s, between = nodes_between(slots_s[0], doppler_hz=doppler_hz)
    if traced and moves != "still":
        nodes_s, between = straight_between(slots_s[0])
    if selective and len(nodes_s):
        slots_s = slots_s[:, :1] + (nodes_s - nodes_s[0])
    else:
        between = between[:0]
    plane = Plane(
        line_rows=ofdm.num_symbols,
        width=grid.num_carriers,
        num_slots=grid.num_slots,
        num_symbols=grid.num_symbols,
        data_rows=np.array(grid.data_rows, np.int64),
        pilot_rows=np.array(grid.pilot_rows, np.int64),
        instants=1 if moves == "still" else slots_s.shape[1],
        between=between if selective else None,
        response=tiled(response) if selective else None,
        along_line=False,
        pilots=np.stack([pilots.real, pilots.imag]),
        known_energy=float(elements - grid.num_symbols),
        prefix_share=ofdm.prefix_share,
    )
    knowledge = _given(config, per_line=moves == "symbol", per_carrier=selective)
    if isinstance(config.csi, CsiEstimation):
        lerp = Lerp.between(np.array(grid.pilot_rows), np.array(grid.data_rows))
        knowledge = knowledge._replace(
            kind=LEAST_SQUARES, low=lerp.low, high=lerp.high, weight=lerp.weight, noise_gain=lerp.noise_gain
        )
        if config.csi.estimator == "lmmse":
            estimator = linear_mmse(grid, propagation=propagation, response=response)
            knowledge = knowledge._replace(
                kind=MMSE,
                modes=_modes_of(estimator) if isinstance(estimator, LinearMmse) else _joint_modes_of(estimator),
            )
    return KernelPacketPlan(
        plane=plane,
        fades=fades_of(
            config.channel,
            num_antennas=config.receiver.num_antennas,
            still=moves == "still",
            offsets_s=slots_s.ravel()[: 1 if moves == "still" else None],
            width=grid.num_carriers,
        ),
        knowledge=knowledge,
    )


def _given(config: LinkConfig, *, per_line: bool, per_carrier: bool) -> Knowledge:
    nothing = np.zeros(0, np.float32)
    return Knowledge(
        kind=GIVEN_ERROR if config.csi_error_variance else PERFECT,
        trusting=config.receiver.equalizer == "zf",
        error_std=np.float32(config.csi_error_variance**0.5),
        error_per_line=per_line,
        error_per_carrier=per_carrier,
        low=np.zeros(0, np.int64),
        high=np.zeros(0, np.int64),
        weight=nothing,
        noise_gain=nothing,
        modes=None,
    )


def _modes_of(estimator: LinearMmse) -> KernelModes:
    over, along = estimator.over_time, estimator.over_frequency[0]
    vectors = along.vectors.T.reshape(-1)
    told = np.outer(over.explained.sum(axis=1), along.explained.sum(axis=1))
    return KernelModes(
        of_pilots=np.ascontiguousarray(over.vectors),
        wanted=np.ascontiguousarray(over.wanted),
        level=np.outer(over.eigenvalues, along.eigenvalues).astype(np.float32),
        explained_time=np.ascontiguousarray(over.explained, np.float32),
        of_carriers=np.stack([vectors.real, vectors.imag]),
        basis=tiled(along.wanted.T),
        explained=np.ascontiguousarray(tiled(along.explained.T.astype(complex))[None, :, :, 0]),
        unexplained=np.maximum(np.outer(over.prior, along.prior) - told, 0.0).astype(np.float32),
    )


def _joint_modes_of(estimator: JointMmse) -> KernelModes:
    modes = estimator.modes[0]
    vectors = modes.carriers.T.reshape(-1)
    return KernelModes(
        of_pilots=np.ascontiguousarray(modes.of_pilots),
        wanted=np.ascontiguousarray(modes.wanted),
        level=modes.eigenvalues[None].astype(np.float32),
        explained_time=np.ones((len(modes.wanted), 1), np.float32),
        of_carriers=np.stack([vectors.real, vectors.imag]),
        basis=tiled(modes.basis.T),
        explained=np.stack([tiled(row.T.astype(complex))[:, :, 0] for row in modes.explained]),
        unexplained=modes.unexplained.astype(np.float32),
    )


def tiled(rows: NDArray[np.complexfloating]) -> NDArray[np.float32]:
    """`[n, width]` complex to `[tiles, n padded to fours, 2, ROOM]`."""
    count, width = rows.shape
    tiles = np.zeros((-(-width // LINE), -(-count // 4) * 4, 2, ROOM), np.float32)
    for tile, part in enumerate(tiles):
        here = rows[:, tile * LINE : (tile + 1) * LINE]
        part[:count, 0, : here.shape[1]], part[:count, 1, : here.shape[1]] = here.real, here.imag
    return tiles
