"""Names of the axes of a link study and of what is counted, and closed forms over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import LinkConfig
from phy.config.levels import listed_gains
from scenarios.schema.consistency.link_axes import nominal_rate, sent_rate
from scenarios.schema.schema import Axis

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
