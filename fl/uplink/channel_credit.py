"""How far the bit errors and the noise of a link may count as privacy."""

from __future__ import annotations

from phy.config import CsiEstimation, LinkConfig
from phy.links.airtime import packets_of_a_run, packets_share_luck
from privacy.config import ReceiverMechanism
from privacy.evidence import Law


def sure_noise_power(link: LinkConfig, *, privacy: ReceiverMechanism | None) -> float:
    """Return the receiver's noise power that may count as privacy [W]."""
    nominal = link.channel.noise_power
    return nominal if privacy is None else privacy.sure_noise_power(nominal)


def errors_arrive(link: LinkConfig) -> bool:
    """Return True if the server keeps packets with errors. Otherwise only deliberate flips are wrong."""
    return link.packets.policy == "accept"


def law_of_errors(link: LinkConfig) -> Law:
    """What the law of a link, with its modulation named, says of its bit errors.

    Bits of BPSK and QPSK err independently and at one rate if a device has one known fade for the whole round, since
    noise on the real and on the imaginary axis is independent. Bits of larger constellations share an axis. A phase
    that the receiver does not know, and devices that share resources (NOMA), mix the axes. Carriers with fades of their
    own have rates of their own.
    """
    if not errors_arrive(link):
        return "dropped"
    if link.flips_independently:
        return "independent"
    frequencies = link.channel.selective or (link.channel.traced and link.ofdm != "none")
    known = link.csi_error_variance == 0.0 and link.impairments.none and not frequencies
    alone = link.access != "noma" and link.modulation in ("bpsk", "qpsk")
    return "independent" if known and alone and errors_together(link) == 1 else "unknown"


def packets_are_independent(link: LinkConfig) -> bool:
    """Return True if what hits a packet of a device says nothing of its next one, and nothing of other devices'."""
    channel = link.channel
    own = not channel.fades or channel.coherence in ("symbol", "packet")
    alone = link.access != "noma" and link.impairments.none and not link.control.closed_loop
    # Neighbouring snapshots of a trace are alike, for all devices; packets of one slot share what hits it.
    shared = channel.cell is not None or channel.traced or packets_share_luck(link)
    return own and alone and not shared and link.error_model == "measured"


def rate_moves_by_round(link: LinkConfig) -> bool:
    """Tell if the error rate of a device differs from round to round on a link whose bits err independently in each.

    Counts of many rounds are then a mixture of rates, and say nothing against independence within a round.
    """
    fades_by_round = link.channel.fades and link.channel.coherence == "round"
    return law_of_errors(link) == "independent" and (fades_by_round or link.control.closed_loop)


def errors_together(link: LinkConfig) -> int:
    """Bits that may err together for a cause which the next such group does not share, 1 for independent errors.

    A probe of n bits says no more of the rate than n over this many independent ones: a decoder fails on a packet or
    on none of it, a fade of a packet or symbol hits all its bits, and a channel estimate serves a packet. Packets that
    share slots share both. Fades of the whole round are met by probe and payload alike. On a channel that moves on, the
    whole probe is one look at it.
    """
    if link.error_model in ("error_free", "analytic", "iid-mean"):
        return 1
    channel, packet_bits = link.channel, 8 * link.packet_size_bytes
    if packets_share_luck(link):
        packet_bits *= 2 * packets_of_a_run(link) - 1
    if link.coding != "none" or link.mcs is not None or isinstance(link.csi, CsiEstimation):
        return packet_bits
    if not (channel.fades or link.csi_error_variance > 0.0):
        return 1
    match channel.coherence:
        case "doppler":
            return max(packet_bits, link.probe_bits)
        case "packet" if channel.traced:
            return max(packet_bits, link.probe_bits)
        case "packet":
            return packet_bits
        case "symbol":
            return link.bits_per_symbol * (1 if link.ofdm == "none" else link.ofdm.num_subcarriers)
        case _:
            return 1
