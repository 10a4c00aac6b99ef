"""The axes of a link study, the power behind a value on them, closed forms over them, and names of what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.coding.plan import PacketPlan, plan_packet
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.config.levels import listed_gains
from scenarios.schema.schema import Axis, Ebno

if TYPE_CHECKING:
    from scenarios.studies.link.plan import LinkCurve

PLAIN_LABELS: dict[Axis, str] = {"ebno_db": "Eb/N0 [dB]", "esno_db": "Es/N0 [dB]", "snr_db": "SNR [dB]"}

MEANINGS: dict[Axis, str] = {
    "ebno_db": "received energy per payload bit at one antenna over the complex noise power, "
    "Es/N0 / (bits per symbol x rate)",
    "esno_db": "mean received energy per data symbol at one antenna over the complex noise power",
    "snr_db": "received SNR over all antennas, Es/N0 x number of antennas",
}

COUNTS = (
    *("bits", "bit_errors", "packets", "packet_errors", "dropped", "retransmissions"),
    *("raw_bits", "raw_bit_errors", "symbols"),
)
"""Fields of `LinkCounts` kept per device."""

AMOUNTS = ("transmit_energy", "signal_energy", "noise_energy", "airtime_s", "energy_j")
"""The others, energies and airtime."""


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


def charged(curves: Sequence[LinkCurve], over: str) -> str:
    """Return `as sent` or `nominal` if `over` is Eb/N0, and that of any curve depends on the rate, else nothing."""
    measure = curves[0].measure
    if over != "ebno_db" or all(sent_rate(one.link) == nominal_rate(one.link) for one in curves):
        return ""
    return {"sent": "as sent", "nominal": "nominal"}[measure.ebno]


def axis_name(curves: Sequence[LinkCurve]) -> str:
    """Return the quantity on the x axis in plain letters, with the rate that Eb/N0 charges, and without its unit."""
    over = curves[0].measure.over
    return f"{PLAIN_LABELS[over].removesuffix(' [dB]')} {charged(curves, over)}".rstrip()


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


def has_closed_form(link: LinkConfig) -> bool:
    """Uncoded, one tap, perfect CSI, ideal transmitters at fixed power, every packet kept: detection alone errs."""
    return (
        link.access == "orthogonal"
        and link.coding == "none"
        and link.packets.policy == "accept"
        and link.control.constant
        and link.csi == "perfect"
        and link.impairments.none
        and link.channel.cell is None
        and not link.channel.selective
        and not link.channel.traced
        and not (link.ofdm != "none" and link.ofdm.domain == "time" and link.channel.fades)
    )


def theory(
    curve: LinkCurve, quantity: str, esno_db: ArrayLike, *, device: int | None = None
) -> NDArray[np.float64] | None:
    """`bit_error_rate` or `packet_error_rate` at Es/N0 [dB] per antenna of the mean device; None without a closed form.

    Elementwise, the mean over devices for `device` None. The packet error rate 1 - (1 - BER)^n of packets of n bits
    holds where bits err independently: BPSK and QPSK without fading. Sources: `phy.measure.theory`.
    """
    link, packets = curve.link, quantity == "packet_error_rate"
    if not has_closed_form(link) or (packets and (link.channel.fades or link.bits_per_symbol > 2)):
        return None
    rates = bit_error_rates(link, esno_db, num_devices=curve.num_devices)
    rates = rates if device is None else rates[device : device + 1]
    if packets:
        rates = -np.expm1(8 * link.packet_size_bytes * np.log1p(-rates))
    return np.asarray(np.mean(rates, axis=0))


def bit_error_rates(link: LinkConfig, esno_db: ArrayLike, *, num_devices: int) -> NDArray[np.float64]:
    """Return the closed form of each device, `[num_devices, ...]`, at Es/N0 [dB] per antenna of the mean device.

    The link must have a closed form.
    """
    from phy.measure.theory import awgn_bit_error_rate, fading_bit_error_rate

    channel, num_antennas, bits_per_symbol = link.channel, link.receiver.num_antennas, link.bits_per_symbol
    esno = 10.0 ** (np.asarray(esno_db, float) / 10.0)
    gains = np.square(listed_gains(link, num_devices))
    rates = []
    for gain in gains / np.mean(gains):
        if channel.fades:
            rate = fading_bit_error_rate(
                esno * gain, bits_per_symbol=bits_per_symbol, mgf=channel.law.mgf, num_antennas=num_antennas
            )
        else:
            rate = awgn_bit_error_rate(num_antennas * (esno * gain), bits_per_symbol=bits_per_symbol)
        rates.append(rate)
    return np.asarray(rates)
