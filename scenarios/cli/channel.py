"""`phyloop channel`: what a file of a recorded channel holds, what is wrong with it, and its pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fl.base.words import plural
from phy.traces.container import TraceError, is_npz
from phy.traces.foreign import Asked, read_foreign
from phy.traces.recording import write_recording
from phy.traces.statistics import ChannelStatistics, channel_statistics
from phy.traces.trace import Trace, defects, open_trace
from scenarios.files.replacement import replacement, writing
from scenarios.schema.errors import ScenarioError, printable
from scenarios.schema.labels.units import byte_size
from scenarios.schema.loader import LIBRARY


def check_channel(file: Path) -> bool:
    """`phyloop channel check`: print what a file holds and what is wrong; return True if it can be simulated."""
    trace = _opened(file)
    for line in in_words(trace):
        print(printable(line))
    found = list(defects(trace))
    print()
    for wrong, sentence in found:
        print(printable(f"{'error' if wrong else 'warning'}: {sentence}."))
    sound = not any(wrong for wrong, _ in found)
    if sound:
        for line in _numbers(channel_statistics(trace), trace):
            print(line)
        print(f"\nlink.channel: {{model: trace, file: {file}}}")
    return sound


def show_channel(file: Path, out: Path | None) -> list[Path]:
    """`phyloop channel show`: print the numbers of a recorded channel, draw it, and return the files."""
    from scenarios.report.channel import write_channel_page
    from scenarios.report.figures.channels import draw_channel

    trace = _opened(file)
    if wrong := [sentence for is_wrong, sentence in defects(trace) if is_wrong]:
        problem, _, remedy = wrong[0].partition("; ")
        raise ScenarioError(problem=problem, remedy=remedy or "phyloop channel check tells more", file=file)
    statistics = channel_statistics(trace)
    facts, numbers, stem = list(in_words(trace)), list(_numbers(statistics, trace)), out or Path(file.stem)
    for line in (*facts, *numbers):
        print(printable(line))
    paths = draw_channel(trace, statistics, stem)
    for path in paths:
        print(f"figure  {path}")
    page = stem.parent / f"{stem.name}-channel.html"
    write_channel_page(trace, statistics, page, facts=facts, numbers=numbers)
    print(f"page    {page}")
    return [*paths, page]


def import_channel(file: Path, out: Path, asked: Asked) -> bool:
    """`phyloop channel import`: write a foreign file as a recorded channel, and check it as `check_channel`."""
    if not is_npz(out):
        raise ScenarioError(problem="is no .npz file", remedy="name one that ends in .npz", file=out)
    try:
        recording = read_foreign(file, asked)
        with writing(out.parent, "the channel"), replacement(out) as stream:
            write_recording(stream, recording)
    except TraceError as error:
        raise ScenarioError(problem=error.problem, remedy=error.remedy, file=file) from error
    for sentence in recording.assumed:
        print(printable(f"assumed: {sentence}."))
    print(f"channel {out}")
    return check_channel(out)


def named_arrays(names: Sequence[str]) -> dict[str, str]:
    """Return `{"h": "H"}` for `["h=H"]`."""
    if bad := [one for one in names if "=" not in one]:
        raise ScenarioError(problem=f"{bad[0]} names no variable", remedy="write for example --name h=H", file="--name")
    return dict(one.partition("=")[::2] for one in names)


def _opened(file: Path) -> Trace:
    if not file.exists() and len(file.parts) == 1 and (LIBRARY / file).is_file():
        file = LIBRARY / file
    try:
        return open_trace(file)
    except TraceError as error:
        raise ScenarioError(problem=error.problem, remedy=error.remedy, file=file) from error


def in_words(trace: Trace) -> Iterator[str]:
    """The lines on axes, time and source."""
    of = f"{trace.num_paths} taps" if trace.has_taps else f"up to {plural(trace.num_paths, 'path')}"
    yield (
        f"{trace.arrays.path.name}: {plural(trace.num_snapshots, 'snapshot')} x {plural(trace.num_devices, 'device')} "
        f"x {plural(trace.num_antennas, 'receive antenna')} x {of}, {byte_size(trace.arrays.path.stat().st_size)}"
    )
    facts = []
    if trace.sample_rate_hz is not None:
        facts.append(f"sampled at {trace.sample_rate_hz / 1e6:.6g} MHz")
    if trace.carrier_frequency_hz is not None:
        facts.append(f"carrier {trace.carrier_frequency_hz / 1e9:.6g} GHz")
    if trace.duration_s is not None:
        facts.append(f"{trace.duration_s:.4g} s long")
    if trace.has_doppler:
        facts.append("with Doppler shifts of paths")
    if trace.source:
        facts.append(f"from {trace.source[:200]}")
    if facts:
        yield ", ".join(facts)


def _numbers(found: ChannelStatistics, trace: Trace) -> Iterator[str]:
    gain_db = found.gain_db
    low, high = float(gain_db.min()), float(gain_db.max())
    yield f"mean gain of links {low:.1f} to {high:.1f} dB, {10 * np.log10(found.power.mean()):.1f} dB over all"
    bandwidth = found.coherence_bandwidth_hz
    wide = "" if np.isinf(bandwidth) else f", coherence bandwidth about {bandwidth / 1e6:.3g} MHz"
    yield f"median delay spread {found.median_spread_s * 1e9:.4g} ns{wide}"
    if trace.num_snapshots > 2:
        correlation = found.autocorrelation()
        below = np.flatnonzero(correlation < 0.5)
        when = f"below 1/2 after {plural(int(below[0]), 'snapshot')}" if len(below) else "never below 1/2"
        yield f"correlation over time of a narrow band {correlation[1]:.2f} from snapshot to snapshot, {when}"
        k_db = 10.0 * np.log10(np.maximum(np.median(found.rician_k), 1e-3))
        k = "below -30" if k_db <= -30 else f"{k_db:.1f}"
        yield f"Rician K of a narrow band by moments, median over devices {k} dB"
