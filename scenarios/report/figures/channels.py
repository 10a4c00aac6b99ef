"""Pictures of a recorded channel: gain over time, power over delay, delay spread, correlation over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from phy.traces.statistics import ChannelStatistics
from phy.traces.trace import Trace
from scenarios.report.figures.style import COLOURS, STYLE

MOST_LINES = 8


def draw_channel(trace: Trace, found: ChannelStatistics, stem: Path) -> list[Path]:
    """Write the picture beside `stem` as SVG and PNG; return the paths."""
    figure, paths = channel_figure(trace, found), []
    for suffix in (".svg", ".png"):
        path = stem.parent / f"{stem.name}-channel{suffix}"
        figure.savefig(path, dpi=150)
        paths.append(path)
    return paths


def channel_figure(trace: Trace, found: ChannelStatistics) -> Figure:
    """Four panels; at most eight links by name, the others in grey."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = Figure(figsize=(9.6, 6.8), layout="constrained")
        (gain, delay), (spread, time) = figure.subplots(2, 2)
        axis = np.arange(trace.num_snapshots) if trace.times_s is None else trace.times_s
        when = "snapshot" if trace.times_s is None else "time [s]"
        with np.errstate(divide="ignore"):
            level = np.where(found.power > 0.0, 10.0 * np.log10(found.power), np.nan)
        styles = ("-", "--", ":", "-.")
        for device in range(min(trace.num_devices, 200) - 1, -1, -1):
            named = device < MOST_LINES
            gain.plot(
                axis,
                level[:, device],
                color=COLOURS[device % len(COLOURS)] if named else "#cccccc",
                linestyle=styles[device // 2 % len(styles)] if named else "-",
                linewidth=1.0 if named else 0.5,
                label=(trace.names[device] if device < len(trace.names) else f"device {device}") if named else None,
                marker="o" if trace.num_snapshots == 1 else None,
            )
        gain.set(xlabel=when, ylabel="gain of the link [dB]")
        handles, labels = gain.get_legend_handles_labels()
        gain.legend(handles[::-1], labels[::-1], fontsize=7, ncols=2)
        bins_us = found.delays_s * 1e6
        width = bins_us[1] - bins_us[0] if len(bins_us) > 1 else 0.1
        delay.bar(bins_us, 10.0 * np.log10(found.profile / found.profile.max()) + 40.0, width=width, bottom=-40.0,
                  align="edge", color=COLOURS[0])  # fmt: skip
        delay.set(
            xlabel="delay behind the first path [us]", ylabel="mean power over the largest [dB]", ylim=(-40.0, 2.0)
        )
        spreads = np.sort(found.spread_s[np.isfinite(found.spread_s)]) * 1e9
        spread.step(spreads, np.arange(1, len(spreads) + 1) / max(len(spreads), 1), where="post", color=COLOURS[0])
        spread.set(xlabel="delay spread of a link [ns]", ylabel="share of snapshots of links", ylim=(0.0, 1.02))
        if trace.num_snapshots > 2:
            correlation = found.autocorrelation()
            step = 1.0 if trace.times_s is None else float(np.median(np.diff(trace.times_s)))
            time.plot(np.arange(len(correlation)) * step, correlation, color=COLOURS[0])
            time.set(xlabel=f"lag, {when}", ylabel="correlation of a narrow band", ylim=(0.0, 1.02))
        elif trace.num_devices > 1:
            time.bar(np.arange(trace.num_devices), found.gain_db - found.gain_db.min(), color=COLOURS[0])
            time.set(xlabel="device", ylabel="gain over the weakest link [dB]")
        for panel in (gain, delay, spread, time):
            panel.grid(visible=True, color="#d9d9d9", linewidth=0.7)
        return figure
