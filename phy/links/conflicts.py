"""Settings of a link that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from phy.config.access import CsiEstimation
from phy.config.base import BITS_PER_SYMBOL
from phy.config.coding import CodingConfig
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write, rounded
from phy.config.delays import power_delay_profile
from phy.config.link import LinkConfig, with_mcs
from phy.config.mcs import entries_of, is_by_device
from phy.links.adaptation.conflicts import mcs_conflicts
from phy.links.antennas import antenna_conflicts
from phy.links.budget import power_conflicts
from phy.links.recorded import recorded_conflicts

MAX_LAGS = 1024
"""Latest path in the time domain [samples]: its cost grows with what falls behind the prefix."""


def link_conflicts(link: LinkConfig, *, num_devices: int, payload_bits: int) -> Iterator[Conflict]:
    """Yield all conflicts of a link; `access` and `modulation` may still be `auto`."""
    gain = link.channel.gain
    if isinstance(gain, tuple) and len(gain) != num_devices:
        yield Conflict(
            "channel.gain",
            f"gain has length {len(gain)}, num_devices is {num_devices}",
            Write({"num_devices": len(gain)}),
            Say("one gain for all"),
        )
        return
    unlike = list(power_conflicts(link, num_devices=num_devices))
    yield from unlike
    if unlike:
        return
    recorded = list(recorded_conflicts(link, num_devices=num_devices))
    yield from recorded
    if recorded:
        return
    yield from _cell(link, num_devices)
    yield from _error_model(link)
    yield from _silence(link)
    yield from _needs_ofdm(link)
    yield from _waveform(link)
    yield from _sharing(link, num_devices)
    yield from engine_conflicts(link)
    if link.access == "superposition":
        yield from _superposition(link, num_devices)
        return
    yield from _sums_only(link)
    yield from mcs_conflicts(link, num_devices=num_devices)
    yield from _noma(link, num_devices)
    yield from _coding(link, payload_bits)
    yield from _policies(link)
    yield from _packing(link)


def _error_model(link: LinkConfig) -> Iterator[Conflict]:
    """Error models of independent flips act on detected bits; closed forms have limits."""
    if not link.flips_independently:
        return
    if link.access == "superposition":
        yield Conflict(
            "error_model access",
            f"error model {link.error_model} flips detected bits, but superposition detects none per device",
            Write({"error_model": "measured"}),
            Write({"access": "orthogonal"}),
        )
    elif link.error_model == "analytic":
        if link.csi_error_variance > 0 or isinstance(link.csi, CsiEstimation):
            yield Conflict(
                "error_model csi",
                "the closed form of error model analytic holds for perfect csi only",
                Write({"error_model": "iid"}),
                Write({"error_model": "measured"}),
                Write({"csi": "perfect"}),
            )
        if link.channel.fades and not link.control.constant:
            yield Conflict(
                "error_model power.policy channel.fading",
                "the closed form of error model analytic holds in fading for power policy fixed only, the policy is "
                f"{link.control.name}",
                Write({"error_model": "iid"}),
                Write({"error_model": "measured"}),
                Write({"power.policy": "fixed"}),
            )


def _silence(link: LinkConfig) -> Iterator[Conflict]:
    """A power policy that silences every device, or that changes within a transmission of a plain link."""
    if not link.control.silences:
        return
    varies = link.channel.fades or link.csi_error_variance > 0
    if not varies and link.power.cutoff_db > 0:
        yield Conflict(
            "power.cutoff_db power.policy",
            "the channel never rises above its mean, so that every device is silent",
            Write({"cutoff_db": 0}),
        )
    if varies and link.channel.coherence in ("symbol", "packet") and link.plain:
        yield Conflict(
            "channel.coherence power.policy",
            f"on orthogonal access {link.control.name.replace('-', ' ')} silences a device for a whole "
            f"transmission, but the channel's coherence is {link.channel.coherence}",
            Write({"coherence": "round"}),
            Write({"coherence": "run"}),
            Say("another power policy"),
        )


def engine_conflicts(link: LinkConfig) -> Iterator[Conflict]:
    """Yield a conflict if the requested engine does not support the link."""
    open_yet = link.access == "auto" or link.modulation == "auto"
    if link.channel.traced and link.engine in ("sionna", "cuda"):
        problem = f"engine {link.engine} has no recorded channels"
        yield Conflict("engine channel.model", problem, Write({"engine": "auto"}))
        return
    if link.channel.traced and not link.fusible and not open_yet:
        yield Conflict(
            "channel.model access csi receiver noma.detector coding",
            "a recorded channel is in fused kernels alone, which do not have this link",
            Say("write csi: perfect, one antenna and ideal transmitters for sums, or another detector or code"),
        )
        return
    if link.engine == "sionna" and link.only_in_kernels:
        yield Conflict(
            "engine coding.standard coding mcs",
            "engine sionna has this code by the conventions of Sionna 1.2.2 only, coding.standard is 3gpp",
            Write({"coding.standard": "sionna"}),
            Write({"engine": "auto"}),
        )
        return
    if link.engine == "fused" and not link.fusible and not open_yet:
        yield Conflict(
            "engine",
            "engine fused has superposition (without csi that is estimated), orthogonal access and noma (uncoded, or "
            "with code ldpc5g and check_update boxplus; noma without csi that is estimated, detector lmmse, and "
            "equalizer lmmse of several antennas), over flat fading or OFDM with tdl models or, for orthogonal access "
            "and noma, cdl models; impairments and domain: time only under orthogonal access; this link only engine "
            "sionna has",
            Write({"engine": "sionna"}),
            Say("leave it at auto"),
        )
    if link.engine == "cuda" and not link.on_gpu and not open_yet:
        yield Conflict(
            "engine",
            "engine cuda has orthogonal access over a flat channel with one antenna, no OFDM and no impairments: "
            "uncoded (without CRC, packet policy, coherence doppler and estimated csi), or with code ldpc5g (coherence "
            "round, run or packet, csi perfect, not retransmit-combine); it has no kernels for this link",
            Write({"engine": "auto"}),
        )


def _cell(link: LinkConfig, num_devices: int) -> Iterator[Conflict]:
    if link.channel.cell is None:
        return
    from phy.fading.cell import check_cell

    try:
        check_cell(link.channel.cell, link.channel, num_devices=num_devices)
    except ConflictError as error:
        yield error.conflict.under("channel")


def _needs_ofdm(link: LinkConfig) -> Iterator[Conflict]:
    if isinstance(link.csi, CsiEstimation) and link.channel.coherence == "symbol" and link.channel.fades:
        yield Conflict(
            "channel.coherence csi.estimator access",
            "pilots tell nothing about the symbols around them on a channel of coherence symbol",
            Write({"coherence": "packet"}),
            Write({"coherence": "round"}),
            Write({"csi": "perfect"}),
        )
    if link.ofdm != "none":
        if isinstance(link.csi, CsiEstimation) and not link.ofdm.pilot_symbols:
            yield Conflict(
                "csi.estimator ofdm.pilot_symbols",
                f"estimator {link.csi.estimator} needs pilots, ofdm.pilot_symbols is empty",
                Write({"ofdm.pilot_symbols": [2, 11]}, example=True),
                Write({"csi": "perfect"}),
            )
        return
    if link.channel.selective:
        yield Conflict(
            "channel.model ofdm",
            f"{link.channel.model} spreads every symbol over several delays, which a single carrier without "
            "OFDM cannot undo",
            Write({"ofdm": {"num_subcarriers": 72}}),
            Write({"model": "flat"}),
        )
    if isinstance(link.csi, CsiEstimation):
        yield Conflict(
            "csi.estimator ofdm",
            f"estimator {link.csi.estimator} works on the pilots of an OFDM grid, the link has none",
            Write({"ofdm": {"num_subcarriers": 72}}),
            Write({"csi": "perfect"}),
        )
    if link.impairments.timing_offset_s > 0:
        yield Conflict(
            "impairments.timing_offset_s ofdm",
            "a timing offset acts on the carriers of an OFDM grid, the link has none",
            Write({"ofdm": {"num_subcarriers": 72}}),
            LeaveOut("timing_offset_s"),
        )
    if link.multiplexing == "ofdma":
        yield Conflict(
            "multiplexing ofdm",
            "ofdma splits the carriers of an OFDM grid, the link has none",
            Write({"ofdm": {"num_subcarriers": 72}}),
            Write({"multiplexing": "tdma"}),
        )


def _waveform(link: LinkConfig) -> Iterator[Conflict]:
    channel, ofdm = link.channel, link.ofdm
    if link.impairments.estimated and (ofdm == "none" or link.access in ("orthogonal", "noma")):
        yield Conflict(
            "impairments.estimated ofdm access",
            "only devices that undo their own channel on the carriers of an OFDM grid undo offsets with it",
            LeaveOut("estimated"),
            Say("write access: superposition and an ofdm: section"),
        )
    if ofdm == "none":
        return
    if link.bandwidth_hz != LinkConfig.model_fields["bandwidth_hz"].default:
        yield Conflict(
            "bandwidth_hz ofdm",
            "bandwidth_hz is that of a single carrier, and OFDM has its own: num_subcarriers x spacing",
            LeaveOut("bandwidth_hz"),
        )
    doppler_hz = channel.max_doppler_hz
    if doppler_hz > 0.5 * ofdm.subcarrier_spacing_hz:
        yield Conflict(
            "channel.speed_m_s channel.carrier_frequency_hz ofdm.subcarrier_spacing_hz",
            f"the Doppler shift of {doppler_hz:.3g} Hz is more than half the subcarrier spacing of "
            f"{ofdm.subcarrier_spacing_hz:.3g} Hz, so no carrier stays where it is",
            Write({"speed_m_s": rounded(0.4 * ofdm.subcarrier_spacing_hz / doppler_hz * channel.speed_m_s, 3)}),
            Write({"ofdm.subcarrier_spacing_hz": rounded(2.5 * doppler_hz, 3)}),
        )
    if ofdm.domain == "time":
        lags = _last_path_s(link) * ofdm.num_subcarriers * ofdm.subcarrier_spacing_hz
        if lags > MAX_LAGS:
            yield Conflict(
                "channel.delay_spread_s ofdm.domain ofdm.num_subcarriers",
                f"the last path of {channel.model} is {lags:.0f} samples late, in the time domain at most {MAX_LAGS}",
                Write({"ofdm.domain": "frequency"}),
                Say("a smaller delay_spread_s"),
            )


def _sharing(link: LinkConfig, num_devices: int) -> Iterator[Conflict]:
    if link.multiplexing != "ofdma" or link.ofdm == "none":
        return
    if link.access in ("superposition", "noma"):
        yield Conflict(
            "multiplexing access",
            f"ofdma is a way of orthogonal access, the access is {link.access}",
            LeaveOut("multiplexing"),
            Write({"access": "orthogonal"}),
        )
    elif num_devices > link.ofdm.num_carriers:
        yield Conflict(
            "multiplexing ofdm.num_subcarriers ofdm",
            f"{num_devices} devices cannot share {link.ofdm.num_carriers} carriers under ofdma",
            Write({"multiplexing": "tdma"}),
            Say("a larger ofdm.num_subcarriers"),
        )


def _packing(link: LinkConfig) -> Iterator[Conflict]:
    """Packets that share slots are those of one device that has all carriers."""
    if link.ofdm == "none" or link.ofdm.packing == "whole-slots":
        return
    whole = Write({"packing": "whole-slots"})
    if link.access == "noma":
        problem = "packets share slots under access orthogonal only: a NOMA group sends packets again one by one"
        yield Conflict("ofdm.packing access", problem, whole, Write({"access": "orthogonal"}))
    elif link.multiplexing == "ofdma":
        problem = "packets share slots under multiplexing tdma only, where a device has all carriers"
        yield Conflict("ofdm.packing multiplexing", problem, whole, Write({"multiplexing": "tdma"}))


def _superposition(link: LinkConfig, num_devices: int) -> Iterator[Conflict]:
    if isinstance(link.coding, CodingConfig) or link.mcs is not None:
        coded_by_mcs = "mcs" in link.model_fields_set
        yield Conflict(
            "mcs coding access" if coded_by_mcs else "coding mcs access",
            "symbols that add up in the air cannot be decoded, so superposition carries no code",
            LeaveOut("mcs") if coded_by_mcs else Write({"coding": "none"}),
            Write({"access": "orthogonal"}, note="(under flmc learning.scheme: digital-orthogonal)"),
        )
    if link.packets.policy != "accept" or link.packets.crc not in ("auto", "none"):
        yield Conflict(
            "packets.policy packets.crc access",
            "a sum of devices has no packets to check or send again",
            LeaveOut("packets"),
            Write({"access": "orthogonal"}),
        )
    yield from antenna_conflicts(link, num_devices=num_devices)
    yield from link.control.conflicts(link)
    if not link.steady:
        yield from _one_gain(link)
    if link.ofdm != "none" and link.ofdm.domain == "time":
        late_s, useful_s = link.impairments.timing_offset_s + _last_path_s(link), 1.0 / link.ofdm.subcarrier_spacing_hz
        if late_s > useful_s:
            yield Conflict(
                "impairments.timing_offset_s channel.delay_spread_s ofdm.subcarrier_spacing_hz ofdm.domain",
                f"a device may arrive {late_s * 1e6:.3g} us late, more than an OFDM symbol without its prefix "
                f"({useful_s * 1e6:.3g} us), whose window it then misses",
                Write({"ofdm.subcarrier_spacing_hz": rounded(0.9 / late_s, 3)}),
                Say("a smaller timing_offset_s or delay_spread_s"),
            )
    if link.ofdm == "none" and link.channel.coherence == "doppler":
        yield Conflict(
            "channel.coherence access",
            "superposition on a single carrier has block fading only",
            Write({"ofdm": {"num_subcarriers": 72}}),
            Say("another coherence"),
        )


def _one_gain(link: LinkConfig) -> Iterator[Conflict]:
    """What takes one channel gain per device and round, on a link that has several."""
    several = "but this link has several (paths, pilots, or a coherence shorter than a round)"
    keys = "channel.coherence channel.model csi.estimator receiver.combining"
    if link.receiver.scaling == "mmse":
        yield Conflict(
            f"receiver.scaling {keys}",
            f"scaling mmse takes one channel gain per device and round, {several}",
            Write({"scaling": "unbiased"}),
        )
    if link.power.budget is not None and not link.control.constant:
        yield Conflict(
            f"power.budget {keys} power.policy",
            f"a budget under policy {link.control.name} takes one channel gain per device and round, {several}",
            Write({"policy": "fixed"}),
        )


def _sums_only(link: LinkConfig) -> Iterator[Conflict]:
    """Keys of sums over the air, where devices are detected one by one."""
    if link.access == "auto":
        return
    if link.receiver.scaling != "auto":
        yield Conflict(
            "receiver.scaling access",
            f"receiver.scaling divides a sum over the air, the access is {link.access}",
            LeaveOut("scaling"),
            Write({"access": "superposition"}),
        )
    if link.power.budget is not None:
        yield Conflict(
            "power.budget access",
            f"power.budget is kept by devices that send over the air together, the access is {link.access}",
            LeaveOut("budget"),
            Write({"access": "superposition"}),
        )


def _noma(link: LinkConfig, num_devices: int) -> Iterator[Conflict]:
    if link.access != "noma":
        return
    group = link.noma.group_size
    if num_devices % group:
        yield Conflict(
            "noma.group_size access",
            f"{num_devices} device{'s' * (num_devices != 1)} cannot form groups of {group}",
            Write({"num_devices": num_devices + -num_devices % group}),
            Say("another group_size"),
        )
    if link.modulation == "auto" and link.mcs is None:
        return
    from phy.receivers.capability import receiver_problem

    found = receiver_problem(link.resolve_mcs())
    if found is not None:
        yield found


def _coding(link: LinkConfig, payload_bits: int) -> Iterator[Conflict]:
    if is_by_device(link.mcs):
        problems = (next(_coding(with_mcs(link, entry), payload_bits), None) for entry in entries_of(link.mcs))
        yield from islice(filter(None, problems), 1)
        return
    link = link.resolve_mcs()
    if not isinstance(link.coding, CodingConfig):
        return
    from phy.coding.plan import coding_problem

    bits = BITS_PER_SYMBOL.get(link.modulation, 1)
    packet_bits, rest = min(8 * link.packet_size_bytes, payload_bits), payload_bits % (8 * link.packet_size_bytes)
    for length in dict.fromkeys((packet_bits, rest or packet_bits)):
        crc = link.packets.crc_name(length)
        found = coding_problem(link.coding, payload_bits=length, bits_per_symbol=bits, crc=crc)
        if found is not None:
            yield found
            return


def _policies(link: LinkConfig) -> Iterator[Conflict]:
    if link.flips_independently and link.packets.policy == "retransmit-combine":
        yield Conflict(
            "packets.policy error_model",
            f"retransmit-combine adds up soft values, and the flips of error model {link.error_model} have none",
            Write({"packets.policy": "retransmit"}),
            Write({"error_model": "measured"}),
        )
    coding = link.resolve_mcs().coding
    if link.packets.combining == "incremental-redundancy":
        if not (isinstance(coding, CodingConfig) and coding.cuts_by_standard):
            yield Conflict(
                "packets.combining coding.standard coding",
                "incremental redundancy sends other bits of the circular buffer of TS 38.212, which only code ldpc5g "
                "of standard 3gpp has here",
                Write({"combining": "chase"}),
                Write({"coding": {"code": "ldpc5g"}}),
            )
        elif link.access == "noma":
            yield Conflict(
                "packets.combining access",
                "incremental redundancy is not built for noma, whose receiver adds soft values of the same bits",
                Write({"combining": "chase"}),
                Write({"access": "orthogonal"}),
            )
    yield from link.control.conflicts(link)
    if link.error_model == "analytic" and link.access == "noma":
        yield Conflict(
            "error_model access",
            "error model analytic has no closed form for noma",
            Write({"error_model": "measured"}),
            Write({"error_model": "iid"}),
            Write({"access": "orthogonal"}),
        )


def _last_path_s(link: LinkConfig) -> float:
    """Delay of the last path behind the first [s]."""
    if not link.channel.selective:
        return 0.0
    return float(power_delay_profile(link.channel.model)[0].max()) * link.channel.delay_spread_s
