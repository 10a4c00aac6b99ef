"""Airtime of a payload, known before anything is sent."""

from __future__ import annotations

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
    whole = full * _packet_airtime_s(link, packet_bits=packet_bits) if full else 0.0
    return whole + (_packet_airtime_s(link, packet_bits=rest) if rest else 0.0)


@dataclass(frozen=True, kw_only=True)
class PacketCut:
    """How a packet of `payload_bits` is cut: code blocks and check sum (`plan`), symbols, and slots of OFDM.

    A packet has its slots for itself: `slot_symbols` data symbols in each of `slots`, 0 on a single carrier.
    """

    plan: PacketPlan
    symbols: int
    slots: int = 0
    slot_symbols: int = 0

    @property
    def used(self) -> float:
        """Share of the data symbols of its slots that a packet fills; 1 on a single carrier."""
        return self.symbols / (self.slots * self.slot_symbols) if self.slots else 1.0


def cut_packet(link: LinkConfig, *, packet_bits: int) -> PacketCut:
    """Return how a packet of so many payload bits is cut. ValueError where the code cannot carry it."""
    plan = _plan(link.coding, packet_bits, link.bits_per_symbol, link.packets.crc_name(packet_bits))
    symbols = plan.coded_bits // link.bits_per_symbol
    if link.ofdm == "none":
        return PacketCut(plan=plan, symbols=symbols)
    each = link.ofdm.data_symbols_per_slot
    return PacketCut(plan=plan, symbols=symbols, slots=-(-symbols // each), slot_symbols=each)


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


def _packet_airtime_s(link: LinkConfig, *, packet_bits: int) -> float:
    cut = cut_packet(link, packet_bits=packet_bits)
    symbols = cut.symbols if link.ofdm == "none" else cut.slots * link.ofdm.num_symbols
    return symbols * link.symbol_s
