"""Settings of a link that are allowed, and that degrade it, leave out a part of it, or leave the standard."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from phy.coding.plan import LDPC_SHORT_BITS, LDPC_SHORT_RATE
from phy.config.coding import CodingConfig
from phy.config.delays import interference_share, power_delay_profile
from phy.config.link import LinkConfig
from phy.links.recorded import recorded_warnings

_NEAREST_M, _FARTHEST_RURAL_M = 10.0, 5000.0
"""Ends of TR 38.901 Table 7.4.1-1, the second one for RMa without line of sight."""


def link_warnings(link: LinkConfig) -> Iterator[str]:
    """Yield one sentence per setting that degrades the link or leaves the standard."""
    yield from _closed_form(link.resolve_mcs())
    yield from _leaves_standard(link.resolve_mcs())
    yield from _beyond_the_path_loss(link)
    channel, ofdm = link.channel, link.ofdm
    if ofdm == "none":
        return
    sampled = link.access == "superposition" and ofdm.domain == "time"
    if link.impairments.timing_offset_s > ofdm.prefix_s and not sampled:
        yield (
            f"link.impairments.timing_offset_s: up to {link.impairments.timing_offset_s * 1e6:.3g} us is beyond the "
            f"prefix of {ofdm.prefix_s * 1e6:.3g} us, but timing offsets turn phases only; the interference between "
            "symbols that such an offset causes is left out; write domain: time under access: superposition to see it"
        )
    if ofdm.domain == "frequency" and channel.max_doppler_hz > 0.02 * ofdm.subcarrier_spacing_hz:
        yield (
            f"link.channel.speed_m_s: a Doppler shift of {channel.max_doppler_hz:.3g} Hz is "
            f"{channel.max_doppler_hz / ofdm.subcarrier_spacing_hz:.0%} of the subcarrier spacing; domain: frequency "
            "leaves out the interference between carriers it causes; write domain: time to see it"
        )
    if channel.traced:
        yield from recorded_warnings(link)
        return
    if not channel.selective or channel.delay_spread_s == 0:
        return
    delays, powers = power_delay_profile(channel.model)
    delays_s = delays * channel.delay_spread_s
    if delays_s.max() <= ofdm.prefix_s:
        return
    share = interference_share(delays_s, powers, prefix_s=ofdm.prefix_s, useful_s=1.0 / ofdm.subcarrier_spacing_hz)
    level = f"{10.0 * np.log10(max(share, 1e-12)):.0f} dB"
    what = (
        f"expect interference between symbols near {level} relative to the signal, an error floor that power does "
        "not lower"
        if ofdm.domain == "time"
        else f"domain: frequency leaves out the interference it causes (near {level} relative to the signal); "
        "write domain: time to see it"
    )
    yield (
        f"link.ofdm.cyclic_prefix_length: the last path of {channel.model} comes {delays_s.max() * 1e6:.3g} us late, "
        f"the prefix lasts {ofdm.prefix_s * 1e6:.3g} us; {what}"
    )


def _leaves_standard(link: LinkConfig) -> Iterator[str]:
    """Codes of 3GPP with the conventions of a library, or at another rate than the one that is written."""
    coding = link.coding
    if not isinstance(coding, CodingConfig) or link.access == "superposition":
        return
    if coding.standard == "sionna":
        yield (
            f"link.coding.standard: sionna has code {coding.code} by the conventions of Sionna 1.2.2, which leave the "
            "standard (docs/conformance.md says where, and what that costs); write standard: 3gpp to follow it"
        )
    elif coding.cuts_by_standard and coding.transport_block == "payload":
        bits, held = 8 * link.packet_size_bytes, float(LDPC_SHORT_RATE)
        if bits <= LDPC_SHORT_BITS and coding.rate > held:
            yield (
                f"link.coding.rate: packets of {bits} bits are sent at rate 8/9, not {coding.rate:.3g}: at that rate "
                "belief propagation leaves bits of small codes undecided without any noise (docs/conformance.md); "
                "write rate: 8/9, or transport_block: ts38214 to follow TS 38.214"
            )


def _beyond_the_path_loss(link: LinkConfig) -> Iterator[str]:
    """Distances outside TR 38.901 Table 7.4.1-1, at which its formulas go on."""
    cell = link.channel.cell
    if cell is None:
        return
    nearest, farthest = cell.min_distance_m, cell.radius_m
    key, remedy = "min_distance_m", "write min_distance_m: 10 or more"
    if cell.positions_m is not None:
        distances = [float(np.hypot(*xy)) for xy in cell.positions_m]
        nearest, farthest = min(distances), max(distances)
        key, remedy = "positions_m", "move the device away from the server"
    if cell.reference_distance_m < min(nearest, _NEAREST_M):
        nearest, key, remedy = (
            cell.reference_distance_m,
            "reference_distance_m",
            "write reference_distance_m: 10 or more",
        )
    if nearest < _NEAREST_M:
        yield (
            f"link.channel.cell.{key}: {nearest:.3g} m is nearer than the 10 m at which the path loss of TR 38.901 "
            f"Table 7.4.1-1 begins; its formulas are used below that, outside the standard; {remedy}"
        )
    if cell.scenario == "rma" and cell.line_of_sight != "always" and farthest > _FARTHEST_RURAL_M:
        yield (
            f"link.channel.cell: a device at {farthest:.4g} m is beyond the 5000 m at which the path loss of rma "
            "without line of sight ends (TR 38.901 Table 7.4.1-1); its formula is used beyond, outside the standard; "
            "write radius_m: 5000, or line_of_sight: always"
        )


def _closed_form(link: LinkConfig) -> Iterator[str]:
    """What the closed form of error model `analytic` leaves out."""
    left_out = [f"the code {link.coding.code}"] if isinstance(link.coding, CodingConfig) else []
    left_out += [] if link.impairments.none else ["link.impairments"]
    if link.error_model == "analytic" and left_out:
        yield (
            "link.error_model: analytic is the closed form of the uncoded link with ideal transmitters, which leaves "
            f"out {' and '.join(left_out)}, so that its bit error rate is not that of this link; write error_model: "
            "iid, which flips bits at the measured rate"
        )
