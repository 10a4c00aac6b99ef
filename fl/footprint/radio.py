"""Rough time of bits on a digital link of many devices."""

from __future__ import annotations

from phy.coding.plan import plan_packet
from phy.config import CodingConfig, LinkConfig

# Measured on two cores of a 2024 server processor; good to a factor of two, which is what `check` claims.
SECONDS_PER_PLAIN_BIT = 6e-9
SECONDS_PER_FLIPPED_BIT = 2e-9
_SECONDS_PER_SYMBOL_AND_ANTENNA = 4e-8
_SECONDS_PER_CARRIER_AND_ANTENNA = 1.3e-7
_SECONDS_PER_DECODED_BIT = {"repetition": 2e-8, "convolutional": 5e-8, "turbo": 4.5e-7, "polar5g": 8e-8, "ldpc5g": 1e-7}


def seconds_per_bit(link: LinkConfig, *, payload_bits: int) -> float:
    """Rough time of one bit of one device among many [s]; access and modulation of `link` are named."""
    if link.error_model == "error_free" or payload_bits == 0:
        return 0.0
    if link.error_model != "measured":
        return SECONDS_PER_FLIPPED_BIT
    if link.plain:
        return SECONDS_PER_PLAIN_BIT
    packet_bits = min(8 * link.packet_size_bytes, payload_bits)
    return packet_seconds(link, packet_bits=packet_bits) / packet_bits


def packet_seconds(link: LinkConfig, *, packet_bits: int) -> float:
    """Rough time of one packet of one device, of `packet_bits` before coding [s]."""
    plan = plan_packet(
        link.coding,
        payload_bits=packet_bits,
        bits_per_symbol=link.bits_per_symbol,
        crc=link.packets.crc_name(packet_bits),
    )
    symbols = plan.coded_bits // link.bits_per_symbol
    if link.ofdm == "none":
        on_air = symbols * _SECONDS_PER_SYMBOL_AND_ANTENNA
    else:
        slots = -(-symbols // link.ofdm.data_symbols_per_slot)
        on_air = slots * link.ofdm.data_symbols_per_slot * _SECONDS_PER_CARRIER_AND_ANTENNA
    decoding = packet_bits * _decoding_seconds_per_bit(link.coding) if isinstance(link.coding, CodingConfig) else 0.0
    return on_air * link.receiver.num_antennas + decoding


def _decoding_seconds_per_bit(coding: CodingConfig) -> float:
    work = {
        "convolutional": 2.0 ** (coding.constraint_length - 5),
        "turbo": coding.iterations,
        "polar5g": coding.list_size,
        "ldpc5g": coding.iterations,
    }
    return _SECONDS_PER_DECODED_BIT[coding.code] * work.get(coding.code, 1.0)


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
    plan = plan_packet(
        link.coding,
        payload_bits=packet_bits,
        bits_per_symbol=link.bits_per_symbol,
        crc=link.packets.crc_name(packet_bits),
    )
    symbols = plan.coded_bits // link.bits_per_symbol
    if link.ofdm != "none":
        symbols = -(-symbols // link.ofdm.data_symbols_per_slot) * link.ofdm.num_symbols
    return symbols * link.symbol_s
