"""The page of a recorded channel: its figures, a table of its devices, and what the file says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fl.base.words import plural
from phy.traces.dispersion import Dispersion
from phy.traces.errors import TraceError
from phy.traces.statistics import ChannelStatistics
from phy.traces.trace import Trace, defects, open_trace
from scenarios.files.replacement import replace_text, writing
from scenarios.report.figures.style import render
from scenarios.report.html import Head, Part, counted, data_uri, render_page
from scenarios.report.tables.table import Table
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.units import byte_size
from scenarios.schema.loader import LIBRARY

_MOST_ROWS = 200
_CAPTIONS = {
    "Gain and map": "Sum of the power of all paths, mean over antennas. The map shows where devices begin; "
    "darker is stronger. Lines are their ways.",
    "Power over delay": "Left: mean over all links, each of mean power 1. Right: the same for each device, over its "
    "strongest bin.",
    "Spread over delay and angle": "Root-mean-square delay spread, and circular spread of the azimuth at the server "
    "(3GPP TR 38.901, A-1) or, without angles, the correlation of its antennas.",
    "Coherence over frequency and time": "Left: Fourier transform of the power over delay. Right: correlation of the "
    "sum of all paths, mean over devices; for 1/2 the coherence time is given.",
    "K-factor and correlation between devices": "Left: by moments (Greenstein et al. 1999); -30 dB stands for no "
    "constant part. Right: correlation of the gain in dB over the snapshots.",
}


def write_channel_page(trace: Trace, found: ChannelStatistics, spread: Dispersion, path: Path) -> Path:
    """Write one HTML file with all figures inside; return its path. ScenarioError if it cannot be written."""
    from scenarios.report.figures.channels import page_figures

    head = Head(
        name=trace.arrays.path.name,
        description=trace.source,
        facts=(
            counted(trace.num_snapshots, "snapshot"),
            counted(trace.num_devices, "device"),
            counted(trace.num_antennas, "receive antenna"),
            counted(trace.num_paths, "tap" if trace.has_taps else "path"),
        ),
        about="A recorded channel. Delays are relative to the first path of each link, whose device sends that much "
        "earlier.",
        warnings=[f"{sentence}." for _, sentence in defects(trace)],
    )
    sections = {
        "In short": [Part(items=[("", line) for line in (*in_words(trace), *numbers_in_words(found, trace))])],
        "Figures": [
            Part(head=title, soft=_CAPTIONS[title], image=data_uri(render(figure, "svg")))
            for title, figure in page_figures(trace, found, spread).items()
        ],
        "Device by device": [Part(table=_devices(trace, found, spread), soft=_left_out(trace))],
        "In a scenario": [
            Part(code=f"link:\n  channel: {{model: trace, file: {shlex.quote(str(trace.arrays.path))}}}")
        ],
    }
    with writing(path.parent, "the page"):
        return replace_text(path, render_page(head, head, sections))


def _devices(trace: Trace, found: ChannelStatistics, spread: Dispersion) -> Table:
    """Gain, spreads, K-factor and coherence bandwidth of each device."""
    delay_ns = np.nan_to_num(np.nanmedian(found.spread_s, axis=0)) * 1e9
    angles = spread.angular_spread_deg
    columns = ["device", "mean gain [dB]", "delay spread [ns]", "coherence bandwidth [MHz]"]
    cells = [
        [trace.name_of(one) for one in range(trace.num_devices)],
        [f"{one:.1f}" for one in found.gain_db],
        [f"{one:.3g}" for one in delay_ns],
        [f"{200.0 / one:.3g}" if one > 0.0 else "∞" for one in delay_ns],
    ]
    if angles is not None:
        columns.append("azimuth spread [degrees]")
        cells.append([f"{one:.3g}" for one in np.nanmedian(angles, axis=0)])
    if trace.num_snapshots > 2:
        columns.append("K-factor [dB]")
        cells.append([f"{one:.1f}" for one in found.k_factor_db])
    rows = tuple(zip(*(one[:_MOST_ROWS] for one in cells), strict=True))
    return Table(columns=tuple(columns), rows=rows, left=("device",))


def _left_out(trace: Trace) -> str:
    more = trace.num_devices - _MOST_ROWS
    said = "Medians over snapshots; coherence bandwidth 1 / (5 delay spread)."
    return f"{said} {more} more devices are left out." if more > 0 else said


def open_channel(file: Path, *, sound: bool = False) -> Trace:
    """Return the trace in a file, or in the library file of this name; if asked for, a `sound` one alone.

    ScenarioError for a file that holds no channel, or if asked for none that could be simulated.
    """
    if not file.exists() and len(file.parts) == 1 and (LIBRARY / file).is_file():
        file = LIBRARY / file
    try:
        trace = open_trace(file)
        wrong = [sentence for is_wrong, sentence in defects(trace) if is_wrong] if sound else []
    except TraceError as error:
        raise ScenarioError(problem=error.problem, remedy=error.remedy, file=file) from error
    if wrong:
        problem, _, remedy = wrong[0].partition("; ")
        raise ScenarioError(problem=problem, remedy=remedy or "phyloop channel check tells more", file=file)
    return trace


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


def numbers_in_words(found: ChannelStatistics, trace: Trace) -> Iterator[str]:
    """The lines on gain, delay spread, and correlation over time."""
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
