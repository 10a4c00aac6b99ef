"""Airtime of a payload, known before anything is sent."""

from __future__ import annotations

from phy.coding.plan import plan_packet
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


def superposed_energy(link: LinkConfig, symbols: int) -> tuple[float, float]:
    """(seconds, joules): a device at mean power p spends p times the first on its symbols, the second on its pilots."""
    if link.ofdm == "none":
        return symbols * link.symbol_s, 0.0
    element_s = link.ofdm.prefix_share * link.ofdm.sample_s
    pilots = len(link.ofdm.pilot_symbols) * link.ofdm.num_carriers if isinstance(link.csi, CsiEstimation) else 0
    return symbols * element_s, pilots * element_s * link.max_power


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


def _packet_airtime_s(link: LinkConfig, *, packet_bits: int) -> float:
    crc, width = link.packets.crc_name(packet_bits), link.bits_per_symbol
    plan = plan_packet(link.coding, payload_bits=packet_bits, bits_per_symbol=width, crc=crc)
    symbols = plan.coded_bits // link.bits_per_symbol
    if link.ofdm != "none":
        symbols = -(-symbols // link.ofdm.data_symbols_per_slot) * link.ofdm.num_symbols
    return symbols * link.symbol_s
