"""The page of a recorded channel: its figures, a table of its devices, and what the file says."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phy.traces.dispersion import Dispersion, channel_dispersion
from phy.traces.statistics import ChannelStatistics
from phy.traces.trace import Trace, defects
from scenarios.files.replacement import replace_text, writing
from scenarios.report.figures.channels import device_name, k_factor_db, page_figures
from scenarios.report.figures.style import render
from scenarios.report.html import Head, Part, counted, data_uri, render_page
from scenarios.report.tables.table import Table

_MOST_ROWS = 200
_CAPTIONS = {
    "Gain over time and map": "Sum of the power of all paths, mean over antennas. The map shows where devices begin; "
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


def write_channel_page(
    trace: Trace, found: ChannelStatistics, path: Path, *, facts: Sequence[str], numbers: Sequence[str]
) -> Path:
    """Write one HTML file with all figures inside; return its path. ScenarioError if it cannot be written.

    `facts` and `numbers` are sentences on what the file holds, and on what was found.
    """
    spread = channel_dispersion(trace)
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
        "In short": [Part(items=[("", line) for line in (*facts, *numbers)])],
        **{
            title: [Part(head=title, soft=_CAPTIONS[title], image=data_uri(render(figure, "svg")))]
            for title, figure in page_figures(trace, found, spread).items()
        },
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
        [device_name(trace, one) for one in range(trace.num_devices)],
        [f"{one:.1f}" for one in found.gain_db],
        [f"{one:.3g}" for one in delay_ns],
        [f"{200.0 / one:.3g}" if one > 0.0 else "∞" for one in delay_ns],
    ]
    if angles is not None:
        columns.append("azimuth spread [degrees]")
        cells.append([f"{one:.3g}" for one in np.nanmedian(angles, axis=0)])
    if trace.num_snapshots > 2:
        columns.append("K-factor [dB]")
        cells.append([f"{one:.1f}" for one in k_factor_db(found)])
    rows = tuple(zip(*(one[:_MOST_ROWS] for one in cells), strict=True))
    return Table(columns=tuple(columns), rows=rows, left=("device",))


def _left_out(trace: Trace) -> str:
    more = trace.num_devices - _MOST_ROWS
    said = "Medians over snapshots; coherence bandwidth 1 / (5 delay spread)."
    return f"{said} {more} more devices are left out." if more > 0 else said
