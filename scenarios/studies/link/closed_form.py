"""Closed forms beside a measured curve, where one exists for exactly this link and this axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from phy.config import LinkConfig
    from scenarios.studies.link.plan import Curve


def has_closed_form(link: LinkConfig) -> bool:
    """Uncoded, one tap, perfect CSI, ideal transmitters at fixed power, every packet kept: detection alone errs."""
    return (
        link.access == "orthogonal"
        and link.coding == "none"
        and link.packets.policy == "accept"
        and link.power.control.constant
        and link.csi == "perfect"
        and link.impairments.none
        and link.channel.cell is None
        and not link.channel.selective
        and not (link.ofdm != "none" and link.ofdm.domain == "time" and link.channel.fades)
    )


def bit_error_rate(curve: Curve, esno_db: ArrayLike, *, device: int | None = None) -> NDArray[np.float64] | None:
    """BER at Es/N0 [dB] per antenna of the mean device, elementwise; the mean over devices for `device` None.

    None where no closed form holds. Sources: `phy.measure.theory`.
    """
    if not has_closed_form(curve.link):
        return None
    esno = 10.0 ** (np.asarray(esno_db, float) / 10.0)
    gains = np.square(curve.link.channel.gains(curve.num_devices)) / curve.budget.mean_gain
    chosen = gains if device is None else gains[device : device + 1]
    return np.asarray(np.mean([_at(curve, esno * gain) for gain in chosen], axis=0))


def packet_error_rate(curve: Curve, esno_db: ArrayLike, *, device: int | None = None) -> NDArray[np.float64] | None:
    """PER 1 - (1 - BER)^n of packets of n bits, where bits err independently: BPSK and QPSK without fading."""
    if curve.link.channel.fades or curve.link.bits_per_symbol > 2 or not has_closed_form(curve.link):
        return None
    devices = range(curve.num_devices) if device is None else (device,)
    found = [bit_error_rate(curve, esno_db, device=one) for one in devices]
    packet_bits = 8 * curve.link.packet_size_bytes
    return np.asarray(np.mean([-np.expm1(packet_bits * np.log1p(-p)) for p in found if p is not None], axis=0))


def theory(curve: Curve, quantity: str, esno_db: ArrayLike, *, device: int | None = None) -> NDArray[np.float64] | None:
    """The closed form of `bit_error_rate` or `packet_error_rate`."""
    closed = bit_error_rate if quantity == "bit_error_rate" else packet_error_rate
    return closed(curve, esno_db, device=device)


def _at(curve: Curve, esno: NDArray[np.float64]) -> NDArray[np.float64]:
    from phy.measure.theory import awgn_bit_error_rate, fading_bit_error_rate

    channel, num_antennas = curve.link.channel, curve.budget.num_antennas
    if not channel.fades:
        return awgn_bit_error_rate(num_antennas * esno, bits_per_symbol=curve.link.bits_per_symbol)
    bits_per_symbol = curve.link.bits_per_symbol
    return fading_bit_error_rate(esno, bits_per_symbol=bits_per_symbol, mgf=channel.law.mgf, num_antennas=num_antennas)
