"""Pictures of a recorded channel: gain, positions, power over delay, spreads, coherence, correlation of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from phy.traces.dispersion import Dispersion, falls_below
from phy.traces.statistics import ChannelStatistics
from phy.traces.trace import Trace
from scenarios.report.figures.style import COLOURS, STYLE

MOST_LINES = 8
_MOST_DRAWN = 200
"""Devices with a line of their own, or a row of an image."""
_FLOOR_DB = -40.0
_STYLES = ("-", "--", ":", "-.")

Panel = Callable[[Any], object]


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
    panels: list[Panel] = [lambda axes: _gain(axes, trace, found), lambda axes: _profile(axes, trace)]
    panels.append(lambda axes: _delay_spread(axes, found))
    if trace.num_snapshots > 2:
        panels.append(lambda axes: _over_time(axes, trace, found))
    elif trace.num_devices > 1:
        panels.append(lambda axes: _over_weakest(axes, found))
    return _drawn(panels, rows=2)


def page_figures(trace: Trace, found: ChannelStatistics, spread: Dispersion) -> dict[str, Figure]:
    """Return the figures of the page by title; panels that the file has no arrays for are left out."""
    pairs: dict[str, list[Panel | None]] = {
        "Gain and map": [
            (lambda axes: _gain(axes, trace, found))
            if trace.num_snapshots > 1
            else (lambda axes: _shares(axes, found.gain_db, "gain of the link [dB]")),
            (lambda axes: _map(axes, trace, found)) if "position_m" in trace.arrays.shapes else None,
        ],
        "Power over delay": [
            lambda axes: _profile(axes, trace),
            lambda axes: _profiles(axes, spread),
        ],
        "Spread over delay and angle": [
            lambda axes: _delay_spread(axes, found),
            _angles(spread, trace),
        ],
        "Coherence over frequency and time": [
            (lambda axes: _over_frequency(axes, found, spread)) if found.median_spread_s > 0.0 else None,
            (lambda axes: _over_time(axes, trace, found)) if trace.num_snapshots > 2 else None,
        ],
        "K-factor and correlation between devices": [
            (lambda axes: _rician(axes, found)) if trace.num_snapshots > 2 else None,
            (lambda axes: _between(axes, found)) if trace.num_snapshots > 2 and trace.num_devices > 1 else None,
        ],
    }
    drawn = {title: [one for one in pair if one is not None] for title, pair in pairs.items()}
    return {title: _drawn(panels, rows=1) for title, panels in drawn.items() if panels}


def _drawn(panels: list[Panel], *, rows: int) -> Figure:
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.4 * rows), layout="constrained")
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, 2, number)
            axes.grid(visible=True, color="#d9d9d9", linewidth=0.7)
            panel(axes)
        return figure


# --- panels -------------------------------------------------------------------------------------------


def _times(trace: Trace) -> tuple[NDArray[np.float64], str]:
    if trace.times_s is None:
        return np.arange(trace.num_snapshots, dtype=np.float64), "snapshot"
    return trace.times_s, "time [s]"


def _step(trace: Trace) -> float:
    """From one snapshot to the next, in units of the axis of time."""
    return 1.0 if trace.times_s is None else float(np.median(np.diff(trace.times_s)))


def _gain(axes: Any, trace: Trace, found: ChannelStatistics) -> None:
    when, label = _times(trace)
    with np.errstate(divide="ignore"):
        level = np.where(found.power > 0.0, 10.0 * np.log10(found.power), np.nan)
    for device in range(min(trace.num_devices, _MOST_DRAWN) - 1, -1, -1):
        named = device < MOST_LINES
        axes.plot(
            when,
            level[:, device],
            color=COLOURS[device % len(COLOURS)] if named else "#cccccc",
            linestyle=_STYLES[device // 2 % len(_STYLES)] if named else "-",
            linewidth=1.0 if named else 0.5,
            label=trace.name_of(device) if named else None,
            marker="o" if trace.num_snapshots == 1 else None,
        )
    axes.set(xlabel=label, ylabel="gain of the link [dB]")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], fontsize=7, ncols=2)


def _map(axes: Any, trace: Trace, found: ChannelStatistics) -> None:
    place = trace.arrays.read("position_m").astype(np.float64)
    steps = place[:: max(len(place) // 100, 1)]
    for device in range(min(place.shape[1], _MOST_DRAWN)):
        if len(steps) > 1:
            axes.plot(steps[:, device, 0], steps[:, device, 1], color="#999999", linewidth=0.8)
    dots = axes.scatter(place[0, :, 0], place[0, :, 1], c=found.gain_db, cmap="Greys", edgecolor="#000000", s=28)
    axes.figure.colorbar(dots, ax=axes, label="mean gain [dB]")
    for device in range(min(place.shape[1], MOST_LINES)):
        axes.annotate(trace.name_of(device), place[0, device, :2], fontsize=6, xytext=(3, 3),
                      textcoords="offset points")  # fmt: skip
    if "server_m" in trace.arrays.shapes:
        mast = trace.arrays.read("server_m").reshape(-1)
        axes.plot(mast[0], mast[1], "^", color=COLOURS[4], markersize=9, label="server")
        axes.legend(fontsize=7)
    axes.set(xlabel="x [m]", ylabel="y [m]")
    axes.set_aspect("equal", adjustable="datalim")


def _profile(axes: Any, trace: Trace) -> None:
    delays_s, profile = trace.delay_profile
    bins_us = delays_s * 1e6
    width = bins_us[1] - bins_us[0] if len(bins_us) > 1 else 0.1
    height = 10.0 * np.log10(profile / profile.max()) - _FLOOR_DB
    axes.bar(bins_us, height, width=width, bottom=_FLOOR_DB, align="edge", color=COLOURS[0])
    axes.set(
        xlabel="delay behind the first path [us]", ylabel="mean power over the largest [dB]", ylim=(_FLOOR_DB, 2.0)
    )


def _profiles(axes: Any, spread: Dispersion) -> None:
    drawn = spread.profiles[:_MOST_DRAWN]
    with np.errstate(divide="ignore", invalid="ignore"):
        level = 10.0 * np.log10(drawn / drawn.max(axis=1, keepdims=True))
    end_us = (spread.delays_s[-1] + spread.delays_s[1]) * 1e6
    image = axes.imshow(
        np.nan_to_num(level, nan=_FLOOR_DB, neginf=_FLOOR_DB),
        cmap="Greys",
        vmin=_FLOOR_DB,
        vmax=0.0,
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, end_us, len(drawn) - 0.5, -0.5),
    )
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="power over the largest [dB]")
    axes.set(xlabel="delay behind the first path [us]", ylabel="device")
    axes.yaxis.get_major_locator().set_params(integer=True)


def _shares(axes: Any, values: NDArray[np.float64], label: str) -> None:
    """The share of values up to each one."""
    ordered = np.sort(values[np.isfinite(values)])
    axes.step(ordered, np.arange(1, len(ordered) + 1) / max(len(ordered), 1), where="post", color=COLOURS[0])
    axes.set(xlabel=label, ylabel="share of snapshots of links", ylim=(0.0, 1.02))


def _delay_spread(axes: Any, found: ChannelStatistics) -> None:
    _shares(axes, found.spread_s * 1e9, "delay spread of a link [ns]")


def _angles(spread: Dispersion, trace: Trace) -> Panel | None:
    """The spread over angles, or without angles the correlation of antennas; None for one antenna."""
    angles = spread.angular_spread_deg
    if angles is not None:
        return lambda axes: _shares(axes, angles, "azimuth spread at the server [degrees]")
    return (lambda axes: _antennas(axes, spread)) if trace.num_antennas > 1 else None


def _antennas(axes: Any, spread: Dispersion) -> None:
    count = len(spread.antennas)
    axes.plot(np.arange(count), spread.antennas[0], color=COLOURS[0], marker="o")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="antenna of the server", ylabel="correlation with antenna 0", ylim=(0.0, 1.02))


def _half(axes: Any, at: float | None, unit: str) -> None:
    """The level 1/2, and where a curve meets it."""
    axes.axhline(0.5, color="#555555", linestyle=":", linewidth=1.0)
    if at is not None:
        axes.annotate(f"1/2 at {at:.3g} {unit}", (at, 0.5), xytext=(6, 6), textcoords="offset points", fontsize=8)


def _over_frequency(axes: Any, found: ChannelStatistics, spread: Dispersion) -> None:
    offsets_hz = np.linspace(0.0, 3.0 * found.coherence_bandwidth_hz, 121)
    correlation = spread.over_frequency(offsets_hz)
    low, middle, high = np.quantile(correlation[correlation[:, 0] > 0.0], (0.1, 0.5, 0.9), axis=0)
    axes.fill_between(offsets_hz / 1e6, low, high, color="#d9d9d9", label="8 of 10 devices")
    axes.plot(offsets_hz / 1e6, middle, color=COLOURS[0], label="median device")
    at = falls_below(middle, 0.5)
    _half(axes, None if at is None else at * offsets_hz[1] / 1e6, "MHz")
    axes.set(xlabel="distance of two carriers [MHz]", ylabel="correlation", ylim=(0.0, 1.02))
    axes.legend(fontsize=7)


def _over_time(axes: Any, trace: Trace, found: ChannelStatistics) -> None:
    correlation, step = found.autocorrelation(), _step(trace)
    axes.plot(np.arange(len(correlation)) * step, correlation, color=COLOURS[0])
    at = falls_below(correlation, 0.5)
    _half(axes, None if at is None else at * step, "s" if trace.times_s is not None else "snapshots")
    axes.set(xlabel=f"lag, {_times(trace)[1]}", ylabel="correlation of a narrow band", ylim=(0.0, 1.02))


def _over_weakest(axes: Any, found: ChannelStatistics) -> None:
    axes.bar(np.arange(len(found.gain_db)), found.gain_db - found.gain_db.min(), color=COLOURS[0])
    axes.set(xlabel="device", ylabel="gain over the weakest link [dB]")


def _rician(axes: Any, found: ChannelStatistics) -> None:
    k_db = found.k_factor_db[:_MOST_DRAWN]
    axes.bar(np.arange(len(k_db)), k_db, color=COLOURS[0])
    axes.axhline(0.0, color="#000000", linewidth=0.8)
    axes.set(xlabel="device", ylabel="K-factor of a narrow band [dB]")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _between(axes: Any, found: ChannelStatistics) -> None:
    between = found.between_devices()[:_MOST_DRAWN, :_MOST_DRAWN]
    image = axes.imshow(np.abs(between), cmap="Greys", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="|correlation| of the gain in dB")
    axes.set(xlabel="device", ylabel="device")
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
