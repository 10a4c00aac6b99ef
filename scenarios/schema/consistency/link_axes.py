"""The axes of a link study: the power behind a value on them, and what Eb/N0 charges."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10

import numpy as np

from phy.coding.plan import PacketPlan, plan_packet
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.config.levels import listed_gains
from scenarios.schema.schema import Axis, Ebno

THROUGHPUT = "throughput"
"""Payload bits of packets without an error per channel use."""


def uses_in_turn(link: LinkConfig) -> bool:
    """Tell if devices use the channel one after another, so that their channel uses add up."""
    return link.access == "orthogonal" and link.multiplexing == "tdma"


def packet_plan(link: LinkConfig) -> PacketPlan:
    """Return how a packet of the link is coded."""
    link = link.resolve_mcs()
    payload_bits = 8 * link.packet_size_bytes
    crc = link.packets.crc_name(payload_bits)
    return plan_packet(link.coding, payload_bits=payload_bits, bits_per_symbol=link.bits_per_symbol, crc=crc)


def nominal_rate(link: LinkConfig) -> float:
    """Return the code rate of the setting, 1 without a code."""
    coding = link.resolve_mcs().coding
    return 1.0 if coding == "none" else coding.rate


def sent_rate(link: LinkConfig) -> float:
    """Return payload bits over bits on the air: less than the code rate by check sum, tail, filler and padding."""
    return 1.0 if link.plain or link.access == "superposition" else packet_plan(link).rate


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Linear factors between the axes: mean of gain^2 P_k / P0 over devices; payload bits per symbol are the next two.

    `code_rate` is what Eb/N0 charges: payload bits over bits on the air, or the nominal rate of the code.
    """

    mean_gain: float
    bits_per_symbol: int
    code_rate: float
    num_antennas: int

    @classmethod
    def of(cls, link: LinkConfig, *, num_devices: int, ebno: Ebno = "sent") -> Budget:
        """The budget of a link whose modulation is named (also by `mcs`)."""
        link = link.resolve_mcs()
        return cls(
            mean_gain=float(np.mean(np.square(listed_gains(link, num_devices)))),
            bits_per_symbol=BITS_PER_SYMBOL[link.modulation],
            code_rate=sent_rate(link) if ebno == "sent" else nominal_rate(link),
            num_antennas=link.receiver.num_antennas,
        )

    def esno_db(self, value_db: float, over: Axis) -> float:
        """Es/N0 at one antenna at `value_db` on the axis `over` [dB]."""
        if over == "ebno_db":
            return value_db + 10.0 * log10(self.bits_per_symbol * self.code_rate)
        return value_db - 10.0 * log10(self.num_antennas) if over == "snr_db" else value_db

    def value_db(self, esno_db: float, over: Axis) -> float:
        """The inverse of `esno_db`."""
        return esno_db - self.esno_db(0.0, over)

    def snr_max_db(self, value_db: float, over: Axis) -> float:
        """P0 / N0 of the strongest device such that mean gain^2 P_k / (2 N0) over devices is Es/N0 [dB]."""
        return self.esno_db(value_db, over) + 10.0 * log10(2.0 / self.mean_gain)
