"""Airtime of a payload, known before anything is sent."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

from phy.coding.plan import Coding, PacketPlan, plan_packet
from phy.config import CsiEstimation, LinkConfig


def superposed_airtime_s(link: LinkConfig, symbols: int, num_devices: int) -> float | None:
    """Duration of a round in which all devices send at once, their pilots included [s]; None without a radio."""
    if link.error_model == "error_free":
        return None
    if link.ofdm == "none":
        return symbols * link.symbol_s
    # Without `phy.links.superposition_ofdm.layout`, which loads TensorFlow.
    slots = -(-symbols // link.ofdm.data_symbols_per_slot)
    pilot_slots = num_devices if isinstance(link.csi, CsiEstimation) else 0
    return (slots + pilot_slots) * link.ofdm.num_symbols * link.ofdm.symbol_s


def superposed_seconds(link: LinkConfig, symbols: int) -> tuple[float, float]:
    """Seconds of a device's symbols, and of its pilots: at mean power p it spends p times the first, P0 the second."""
    if link.ofdm == "none":
        return symbols * link.symbol_s, 0.0
    element_s = link.ofdm.prefix_share * link.ofdm.sample_s
    pilots = len(link.ofdm.pilot_symbols) * link.ofdm.num_carriers if isinstance(link.csi, CsiEstimation) else 0
    return symbols * element_s, pilots * element_s


def upload_airtime_s(link: LinkConfig, *, payload_bits: int) -> float | None:
    """Time on the air of one payload of one device that has the whole band, sent once [s]; None without a radio."""
    if link.error_model == "error_free":
        return None
    if link.plain:
        return -(-payload_bits // link.bits_per_symbol) * link.symbol_s
    packet_bits = 8 * link.packet_size_bytes
    full, rest = divmod(payload_bits, packet_bits)
    whole = _packets_airtime_s(link, packet_bits=packet_bits, packets=full) if full else 0.0
    return whole + (_packets_airtime_s(link, packet_bits=rest, packets=1) if rest else 0.0)


@dataclass(frozen=True, kw_only=True)
class PacketCut:
    """How a packet of `payload_bits` is cut: code blocks and check sum (`plan`), symbols, and slots of OFDM.

    `packets` of this length take `slots` of `slot_symbols` data symbols, both 0 on a single carrier.
    """

    plan: PacketPlan
    symbols: int
    slots: int = 0
    slot_symbols: int = 0
    packets: int = 1

    @property
    def used(self) -> float:
        """Share of the data symbols of their slots that packets fill; 1 on a single carrier."""
        return self.packets * self.symbols / (self.slots * self.slot_symbols) if self.slots else 1.0

    def slots_of(self, packets: int) -> int:
        """Slots of so many packets of this length."""
        runs, last = runs_of(packets, shared=self.packets)
        return runs * self.slots + slots_for(last * self.symbols, self.slot_symbols)


FILLED = 0.95
"""Share of the data symbols of shared slots that packets fill at least. 20 slots more than one packet takes suffice."""


def packets_of_a_run(link: LinkConfig) -> int:
    """Packets that follow each other over shared slots, 1 where each has its own; a last run may have nearly twice."""
    if link.ofdm == "none" or link.ofdm.packing == "whole-slots":
        return 1
    return cut_packet(link.resolve_mcs(), packet_bits=8 * link.packet_size_bytes).packets


def packets_share_luck(link: LinkConfig) -> bool:
    """Tell if packets share slots in which one fade, or one estimate of the channel, hits all of them."""
    same_draw = link.channel.fades or link.csi_error_variance > 0.0 or isinstance(link.csi, CsiEstimation)
    return same_draw and packets_of_a_run(link) > 1


def runs_of(packets: int, *, shared: int) -> tuple[int, int]:
    """(runs of `shared` packets, packets of a last run, which has what is left too): runs start a slot each."""
    runs, rest = divmod(packets, shared)
    return (runs - 1, shared + rest) if runs and rest else (runs, rest)


def slots_for(symbols: int, slot_symbols: int) -> int:
    """Whole slots that so many data symbols take."""
    return -(-symbols // slot_symbols)


def packets_in_shared_slots(symbols: int, slot_symbols: int) -> int:
    """Return how many packets of so many symbols follow each other before the next one starts a slot.

    The most that fit into n slots, for the smallest n whose data symbols they fill to `FILLED`. Packets that fill
    their own slots so far stay alone.
    """
    for slots in itertools.count(slots_for(symbols, slot_symbols)):
        packets = slots * slot_symbols // symbols
        if packets * symbols >= FILLED * slots * slot_symbols:
            return packets
    raise AssertionError("20 slots more than one packet takes suffice")


def cut_packet(link: LinkConfig, *, packet_bits: int) -> PacketCut:
    """Return how a packet of so many payload bits is cut. ValueError where the code cannot carry it."""
    plan = _plan(link.coding, packet_bits, link.bits_per_symbol, link.packets.crc_name(packet_bits))
    symbols = plan.coded_bits // link.bits_per_symbol
    if link.ofdm == "none":
        return PacketCut(plan=plan, symbols=symbols)
    each = link.ofdm.data_symbols_per_slot
    packets = packets_in_shared_slots(symbols, each) if link.ofdm.packing == "shared" else 1
    slots = slots_for(packets * symbols, each)
    return PacketCut(plan=plan, symbols=symbols, slots=slots, slot_symbols=each, packets=packets)


@lru_cache(maxsize=4096)
def _plan(coding: Coding, payload_bits: int, bits_per_symbol: int, crc: str | None) -> PacketPlan:
    """As `plan_packet`: sweep points ask for the same packets, and a search for the fullest for many."""
    return plan_packet(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)


def fullest_packet_bytes(link: LinkConfig, *, slots: int) -> int:
    """Return the size of the largest packet that takes at most so many slots of OFDM [bytes]; 0: none does."""

    def fits(size: int) -> bool:
        try:
            return cut_packet(link, packet_bits=8 * size).slots <= slots
        except ValueError:  # longer than the code allows
            return False

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _packets_airtime_s(link: LinkConfig, *, packet_bits: int, packets: int) -> float:
    cut = cut_packet(link, packet_bits=packet_bits)
    if link.ofdm == "none":
        return packets * (cut.symbols * link.symbol_s)
    return cut.slots_of(packets) * link.ofdm.num_symbols * link.symbol_s
