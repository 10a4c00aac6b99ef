"""A few packets of a link under the magnifying glass: which bits are wrong, what the receiver saw, and the channel.

Bits go through the engine of the link, as in any transmission, so that wrong bits are those that a measurement counts.
Symbols and channel are computed beside it by Sionna's blocks, since the fused kernels keep none: from the same keys,
hence of the same fades and noise, and equal to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.config.mcs import is_by_device
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.frontends.resource_grid import Grid
from phy.links.flat_chain import FlatChain, Load
from phy.links.link import LinkError, Reception
from phy.links.orthogonal import OrthogonalLink
from phy.links.packets.chain import Arrival, ChainSpec, Departure, PacketChain
from phy.links.packets.layout import all_rows, cut_payload, row_keys
from phy.links.packets.link import PacketLink
from phy.links.power import AmplitudeDecision
from phy.measure.burstiness import Burstiness, measure_bursts
from phy.numerics.random import Purpose
from phy.stages import Watched


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Packets of all devices, transmission by transmission; symbols of a device follow each other over its packets.

    - `wrong` `[num_devices, num_packets, packet_bits]` bool: payload bits that the receiver holds and that are wrong;
    - `kept` `[num_devices, num_packets]` bool: packets that the receiver holds; others were dropped or never sent;
    - `transmission` `[num_packets]`, `packet` `[num_symbols]`: to which transmission a packet belongs, and to which
      packet a symbol, by its first bit;
    - `raw_wrong` `[num_devices, num_bits]` bool: wrong hard decisions before any decoder, at the first attempt;
    - `sent`, `equalised` `[num_devices, num_symbols]`, `channel`, `estimate` `[num_devices, num_antennas, num_symbols]`
      complex64: see `phy.stages.Watched`;
    - `bits_per_symbol`; `grid`: the OFDM grid of a packet, None on a single carrier.
    """

    wrong: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    transmission: NDArray[np.int64]
    packet: NDArray[np.int64]
    raw_wrong: NDArray[np.bool_]
    sent: NDArray[np.complex64]
    equalised: NDArray[np.complex64]
    channel: NDArray[np.complex64]
    estimate: NDArray[np.complex64]
    bits_per_symbol: int
    grid: Grid | None

    @property
    def bursts(self) -> Burstiness:
        """Runs and pairs of wrong payload bits, `[num_devices]`."""
        devices, packets, packet_bits = self.wrong.shape
        wrong = np.packbits(self.wrong.reshape(devices, -1), axis=-1)
        sizes = {"num_bits": packets * packet_bits, "packet_bits": packet_bits, "bits_per_symbol": self.bits_per_symbol}
        return measure_bursts(np.zeros_like(wrong), wrong, present=self.kept, **sizes)

    def per_packet(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Mean of values of symbols `[num_devices, num_symbols]` over each packet, `[num_devices, num_packets]`."""
        packets = self.kept.shape[1]
        count = np.maximum(np.bincount(self.packet, minlength=packets), 1)
        return np.stack([np.bincount(self.packet, weights=row, minlength=packets) for row in values]) / count

    @property
    def raw_errors(self) -> NDArray[np.int64]:
        """Wrong bits of each symbol before any decoder, `[num_devices, num_symbols]`."""
        devices, symbols = self.sent.shape
        return np.asarray(self.raw_wrong.reshape(devices, symbols, self.bits_per_symbol).sum(axis=-1))

    @property
    def squared_error(self) -> NDArray[np.float32]:
        """`|x^ - x|^2` of each symbol, `[num_devices, num_symbols]`; the squared EVM, for `|x|^2` is 1 on average."""
        return np.asarray(np.abs(self.equalised - self.sent) ** 2)


@dataclass(kw_only=True)
class _FlatTap(FlatChain):
    """A chain that notes what it carried."""

    chain: FlatChain
    carried: list[tuple[NDArray[np.uint8], Load, AmplitudeDecision]] = field(default_factory=list)

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        return self.chain.measure_gains(channel, context)

    def carry(
        self, payload: NDArray[np.uint8], load: Load, *, context: UplinkContext, decision: AmplitudeDecision
    ) -> Reception:
        self.carried.append((payload, load, decision))
        return self.chain.carry(payload, load, context=context, decision=decision)


class _PacketTap(PacketChain):
    """A chain that notes what it sent."""

    def __init__(self, chain: PacketChain, *, spec: ChainSpec) -> None:
        self.spec, self._chain = spec, chain
        self.bits_per_symbol, self.coded_bits = chain.bits_per_symbol, chain.coded_bits
        self.soft_bits = chain.soft_bits
        self.rows, self.channel_uses, self.airtime_s = chain.rows, chain.channel_uses, chain.airtime_s
        self.sent: list[tuple[NDArray[np.uint8], Departure]] = []

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        self.sent.append((payload, departure))
        return self._chain.send(payload, departure, earlier_llrs)

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        return self._chain.mean_power(channel_key, start_s)


@dataclass(frozen=True, kw_only=True)
class Chains:
    """Chains of a link in the engine that its configuration selects, those of `phy.compile`."""

    flat: Callable[[LinkConfig], FlatChain]
    packets: Callable[[ChainSpec], PacketChain]


def inspect_packets(
    config: LinkConfig,
    *,
    chains: Chains,
    num_bits: int,
    num_packets: int,
    payload: NDArray[np.uint8],
    context: UplinkContext,
) -> Inspection:
    """Send packed bits `[num_trials, num_devices, num_bits / 8]` of whole packets; keep the first `num_packets`.

    Packets count trial by trial. `config` has modulation, access and engine by name.
    """
    if is_by_device(config.mcs):
        raise LinkError("symbols are kept of one MCS, and mcs is for each device", "write one index")
    config = config.resolve_mcs()
    if config.ofdm != "none" and config.ofdm.packing == "shared":
        raise LinkError("an inspection shows packets with slots of their own", "write ofdm.packing: whole-slots")
    trials, num_devices = payload.shape[:2]
    packet_bits = 8 * config.packet_size_bytes
    of_trial = num_bits // packet_bits
    transmission = np.repeat(np.arange(trials), of_trial)[:num_packets]
    watch = _watch_flat if config.plain else _watch_packets
    reception, watched, packet, grid = watch(config, chains, num_bits, len(transmission), payload, context)
    wrong = np.unpackbits(payload ^ reception.payload, axis=-1).astype(bool)
    kept = np.broadcast_to(reception.decision.active[..., None], (trials, num_devices, of_trial))
    if reception.delivered is not None:
        kept = reception.delivered
    by_device = np.moveaxis(wrong.reshape(*kept.shape, packet_bits), 1, 0).reshape(num_devices, -1, packet_bits)
    kept = np.moveaxis(kept, 1, 0).reshape(num_devices, -1)[:, :num_packets]
    return Inspection(
        wrong=by_device[:, :num_packets] & kept[..., None],
        kept=kept,
        transmission=transmission,
        packet=packet,
        bits_per_symbol=config.bits_per_symbol,
        grid=grid,
        **watched._asdict(),
    )


_Seen = tuple[Reception, Watched, NDArray[np.int64], Grid | None]


def _watch_flat(
    config: LinkConfig,
    chains: Chains,
    num_bits: int,
    num_packets: int,
    payload: NDArray[np.uint8],
    context: UplinkContext,
) -> _Seen:
    from phy.engines.sionna.flat import SionnaChain

    trials, devices = payload.shape[:2]
    tap = _FlatTap(chain=chains.flat(config))
    link = OrthogonalLink(config, num_devices=devices, num_bits=num_bits, chain=tap)
    reception = link.send(payload, context=context, caps={})
    ((carried, load, decision),) = tap.carried
    bits, packet_bits = config.bits_per_symbol, 8 * config.packet_size_bytes
    of_trial = num_bits // packet_bits
    num_symbols = -(-min(num_packets, of_trial) * packet_bits // bits)
    watched = SionnaChain(config).watch(carried, load, num_symbols=num_symbols, context=context, decision=decision)
    packet = (np.arange(trials)[:, None] * of_trial + np.arange(num_symbols) * bits // packet_bits).ravel()

    def by_device(values: NDArray[Any]) -> NDArray[Any]:
        split = np.moveaxis(values.reshape(trials, devices, *values.shape[2:]), 0, -2)
        return split.reshape(*split.shape[:-2], -1)[..., : len(packet) * split.shape[-1] // num_symbols]

    return reception, Watched(*map(by_device, watched)), packet, None


def _watch_packets(
    config: LinkConfig,
    chains: Chains,
    num_bits: int,
    num_packets: int,
    payload: NDArray[np.uint8],
    context: UplinkContext,
) -> _Seen:
    from phy.engines.sionna.packets import compiled_chain

    trials, devices = payload.shape[:2]
    taps: dict[ChainSpec, _PacketTap] = {}

    def tapped(spec: ChainSpec) -> PacketChain:
        if spec not in taps:
            taps[spec] = _PacketTap(chains.packets(spec), spec=spec)
        return taps[spec]

    link = PacketLink(config, num_devices=devices, num_bits=num_bits, chain_of=tapped)
    reception = link.send(payload, context=context, caps={})
    tap = next(iter(taps.values()))  # of the first attempt; those of other redundancy versions come later
    spec, (batch,) = tap.spec, cut_payload(num_bits, packet_size_bytes=config.packet_size_bytes)
    rows = all_rows(trials, devices // spec.users, batch)
    rows = rows.take(np.flatnonzero(rows.trial * batch.num_packets + rows.packet < num_packets))
    # Retransmissions have noise of their own: the key tells the first attempt of every packet.
    bits, *parts = (np.concatenate(part) for part in zip(*((p, *d.arrays) for p, d in tap.sent), strict=True))
    departure = Departure._make([*parts, tap.sent[0][1].noise_power, None])
    place = {key.tobytes(): index for index, key in enumerate(departure.noise_key)}
    keys = [key.tobytes() for key in row_keys(Purpose.NOISE, rows, attempt=0, context=context)]
    rows = rows.take(np.flatnonzero([key in place for key in keys]))
    order = np.array([place[key] for key in keys if key in place])
    chain = compiled_chain(spec)
    found = [
        chain.watch(
            bits[some], Departure._make([*(part[some] for part in departure.arrays), departure.noise_power, None])
        )
        for some in np.split(order, range(chain.rows, len(order), chain.rows))
    ]
    users, packets = rows.devices(spec.users), (rows.trial * batch.num_packets + rows.packet)[:, None]

    def by_device(*chunks: NDArray[Any]) -> NDArray[Any]:
        values = np.concatenate(chunks)
        nothing = np.nan if values.dtype.kind == "c" else False
        filled = np.full((devices, num_packets, *values.shape[2:]), nothing, values.dtype)
        filled[users, packets] = values
        joined = np.moveaxis(filled, 1, -2)
        return joined.reshape(*joined.shape[:-2], -1)

    watched = Watched(*map(by_device, *found))
    num_symbols = tap.coded_bits // tap.bits_per_symbol
    grid = None
    if config.ofdm != "none":
        blocks = devices if config.multiplexing == "ofdma" else 1
        grid = Grid.of(config.ofdm, num_users=spec.users, num_symbols=num_symbols, num_blocks=blocks)
    return reception, watched, np.repeat(np.arange(num_packets), num_symbols), grid
