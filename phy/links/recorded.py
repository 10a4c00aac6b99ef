"""Recorded channels: what a link over one cannot have, and what is worth a warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from phy.config.channel import ChannelConfig
from phy.config.conflict import Conflict, Say, Write, rounded
from phy.config.delays import interference_share
from phy.config.link import LinkConfig
from phy.links.airtime import superposed_airtime_s, upload_airtime_s
from phy.traces.clock import TraceClock, trace_in
from phy.traces.errors import TraceError
from phy.traces.extent import extent_of
from phy.traces.statistics import neighbours_correlate
from phy.traces.trace import Trace

_LEAST_CORRELATION = 0.9
"""Of neighbouring snapshots, below which a straight line between them loses a twentieth of the power."""


def recorded_conflicts(link: LinkConfig, *, num_devices: int) -> Iterator[Conflict]:
    """Yield what excludes a recorded channel; nothing for other models."""
    channel = link.channel
    if not channel.traced:
        return
    name = _name_of(channel)
    try:
        trace = trace_in(channel)
        assert trace is not None
        amplitudes = trace.amplitudes
    except FileNotFoundError:
        yield Conflict("channel.file channel.model", f"{name} is no longer there", Say("put the file back"))
        return
    except TraceError as error:
        yield Conflict("channel.file channel.model", f"{name}: {error.problem}", Say(error.remedy))
        return
    if num_devices > trace.num_devices:
        yield Conflict(
            "channel.file channel.model num_devices",
            f"{name} has {trace.num_devices} devices, num_devices is {num_devices}",
            Write({"num_devices": trace.num_devices}),
        )
    used = amplitudes[: num_devices if channel.users == "identity" else None]
    silent = np.flatnonzero(~(np.isfinite(used) & (used > 0.0)))
    if len(silent):
        problem = f"{name} has no power, or no finite one, for device {silent[0]}"
        yield Conflict("channel.file channel.model", problem, Say("phyloop channel check tells what is wrong"))
    if link.receiver.num_antennas > trace.num_antennas:
        problem = f"{name} has {trace.num_antennas} receive antennas, the receiver {link.receiver.num_antennas}"
        yield Conflict(
            "receiver.num_antennas channel.file", problem, Write({"receiver.num_antennas": trace.num_antennas})
        )
    yield from _waveform(link, trace, name)
    if link.error_model == "analytic":
        yield Conflict(
            "error_model channel.model",
            "a recorded channel has no closed form of its error rate",
            Write({"error_model": "iid"}),
            Write({"error_model": "measured"}),
        )


def _name_of(channel: ChannelConfig) -> str:
    """The file of a recorded channel without its folders, or the word of a source."""
    return Path(channel.file or "").name if channel.source is None else channel.source.name


def _waveform(link: LinkConfig, trace: Trace, name: str) -> Iterator[Conflict]:
    channel, ofdm = link.channel, link.ofdm
    if channel.coherence == "doppler" and (trace.duration_s is None or ofdm == "none"):
        what = "needs the time of its snapshots" if trace.duration_s is None else "moves within a packet on a grid only"
        yield Conflict(
            "channel.coherence channel.file",
            f"coherence doppler of a recorded channel {what}",
            Write({"coherence": "packet"}),
            Say(f"add snapshot_s to {name}" if trace.duration_s is None else "add an ofdm: section"),
        )
    if link.multiplexing == "ofdma":
        problem = "a recorded channel has its carriers in their places, and ofdma gives all devices the same ones"
        yield Conflict("multiplexing channel.model", problem, Write({"multiplexing": "tdma"}))
    if ofdm == "none":
        if link.access == "superposition":
            yield Conflict(
                "channel.model access ofdm",
                "devices add up over a recorded channel on the carriers of an OFDM grid only",
                Write({"ofdm": {"num_subcarriers": 72}}),
            )
        return
    if link.access == "noma" and link.mixes_carriers:
        problem = "users of noma meet a recorded channel on carriers that stay apart, without domain: time and offsets"
        yield Conflict(
            "ofdm.domain impairments access channel.model",
            problem,
            Write({"ofdm.domain": "frequency"}),
            Write({"access": "orthogonal"}),
        )
    fastest_hz = extent_of(trace).doppler_hz if channel.coherence == "doppler" else 0.0
    if fastest_hz > 0.5 * ofdm.subcarrier_spacing_hz:
        yield Conflict(
            "ofdm.subcarrier_spacing_hz channel.file",
            f"{name} has Doppler shifts up to {fastest_hz:.3g} Hz, more than half the subcarrier spacing of "
            f"{ofdm.subcarrier_spacing_hz:.3g} Hz, so no carrier stays where it is",
            Write({"ofdm.subcarrier_spacing_hz": rounded(2.5 * fastest_hz, 3)}),
            Write({"coherence": "packet"}),
        )
    wide_hz = ofdm.num_subcarriers * ofdm.subcarrier_spacing_hz
    if trace.sample_rate_hz is not None and wide_hz > trace.sample_rate_hz * (1.0 + 1e-9):
        most = int(trace.sample_rate_hz / ofdm.subcarrier_spacing_hz)
        yield Conflict(
            "channel.file ofdm.num_subcarriers",
            f"the grid is {wide_hz / 1e6:.4g} MHz wide, and {name} was sampled at {trace.sample_rate_hz / 1e6:.4g} MHz",
            *([Write({"ofdm.num_subcarriers": most}, note="or fewer")] if most >= 1 else []),
            Say("record more"),
        )


def too_short_conflicts(
    link: LinkConfig, *, num_rounds: int, num_devices: int, payload_bits: int
) -> Iterator[Conflict]:
    """Yield a conflict if a recorded channel with an end does not last for all rounds of a study."""
    trace = trace_in(link.channel)
    if trace is None or link.channel.at_end == "loop" or num_rounds < 1:
        return
    packets, adds_up = -(-payload_bits // (8 * link.packet_size_bytes)), link.access == "superposition"
    retries = link.packets.max_retransmissions if link.packets.policy.startswith("retransmit") else 0
    turn, keys = num_rounds - 1, "channel.at_end channel.file"
    if link.channel.coherence == "packet" and not adds_up:
        turn = num_rounds * packets - 1 + retries
    each_s = superposed_airtime_s(link, payload_bits, num_devices) if adds_up else None
    if not adds_up:
        alone_s = upload_airtime_s(link, payload_bits=payload_bits) or 0.0
        each_s = alone_s * num_devices / (link.noma.group_size if link.access == "noma" else 1)
    needed_s = (num_rounds + (0 if adds_up else retries)) * (each_s or 0.0)
    turn = 0 if link.channel.coherence == "run" else turn
    problem = TraceClock(channel=link.channel, trace=trace).too_short(turn, needed_s)
    if problem is not None:
        yield Conflict(keys, problem, Write({"at_end": "loop"}), Say("write fewer rounds"))


def recorded_in_words(link: LinkConfig) -> str | None:
    """Return what of a recorded channel a link meets, for `phyloop check`; None for other models."""
    channel, trace = link.channel, trace_in(link.channel)
    if trace is None:
        return None
    each = {"doppler": "at the time of the trace", "run": "one for the whole run"}
    when = each.get(channel.coherence, f"one per {channel.coherence}, {channel.order}")
    power = {
        "none": "power as recorded",
        "per-link": "mean power 1 on every link",
        "per-site": "mean power 1 over all links",
    }
    name, kind = _name_of(channel), "recorded" if channel.source is None else "computed"
    return f"{kind} channel {name}: {trace.num_snapshots} snapshots, {when}; {power[channel.normalize]}"


def recorded_warnings(link: LinkConfig, *, num_rounds: int | None = None) -> Iterator[str]:
    """Yield a sentence, without its full stop, on paths behind the prefix, and on a trace that is used up."""
    channel, ofdm = link.channel, link.ofdm
    if not channel.traced:
        return
    try:
        trace = trace_in(channel)
    except (OSError, TraceError):  # a conflict
        return
    assert trace is not None
    loops = channel.order == "sequential" and channel.at_end == "loop"
    if num_rounds is not None and channel.coherence == "round" and loops:
        times = num_rounds / trace.num_snapshots
        if times > 1.0:
            yield (
                f"link.channel.file: {trace.num_snapshots} snapshots for {num_rounds:,} rounds, so that the trace runs "
                f"{times:.3g} times, and rounds that far apart meet the same channel"
            )
    if channel.coherence == "doppler" and not trace.has_doppler:
        correlation = neighbours_correlate(trace)
        if correlation < _LEAST_CORRELATION:
            yield (
                "link.channel.coherence: neighbouring snapshots of the recorded channel correlate by "
                f"{correlation:.2g}, and straight lines between them lose power; record more often, or write "
                "coherence: packet"
            )
    if ofdm == "none":
        return
    delays_s, powers = trace.delay_profile
    prefix_s = ofdm.cyclic_prefix_length * ofdm.sample_s
    late = float(powers[delays_s > prefix_s].sum())
    if late <= 1e-3:
        return
    what = (
        "behind the prefix, and domain: frequency has no interference from it; write a longer prefix, or domain: time"
    )
    if ofdm.domain == "time":
        useful_s = 1.0 / ofdm.subcarrier_spacing_hz
        share = interference_share(delays_s, powers, prefix_s=prefix_s, useful_s=useful_s)
        what = (
            f"behind the prefix; expect interference between symbols near {10.0 * np.log10(max(share, 1e-12)):.0f} dB "
            "relative to the signal, an error floor that power does not lower"
        )
    yield (
        f"link.ofdm.cyclic_prefix_length: {late:.1%} of the power of the recorded channel comes more than "
        f"{prefix_s * 1e6:.3g} us after the first path of its link, {what}"
    )
