"""Pictures of a few packets of a link: where wrong bits lie, the constellation at the receiver, and the channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.base.words import plural
from phy.inspection import Inspection
from phy.receivers.demapping import constellation_points
from scenarios.files.replacement import writing
from scenarios.report.figures.radio_marks import constellation_marks, error_marks, fade_marks, grid_marks
from scenarios.report.figures.style import COLOURS, STYLE, FigureFiles, look, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DEVICES = 4
MOST_SYMBOLS = 3000
"""Received symbols in a panel."""
MOST_INSTANTS = 256
"""Symbols along which a channel that moves is drawn."""
MAPS = 3
"""Packets whose grid of carriers is drawn."""
DEEPEST_DB = -30.0
"""End of the scale of |h|^2: deeper fades look alike."""


def draw_radio(folder: Path, found: Inspection, *, setting: str) -> tuple[FigureFiles, ...]:
    """Write the pictures of inspected packets into `folder`; what a link does not have, is left out."""
    shows = (setting, *(value.tobytes() for value in vars(found).values() if isinstance(value, np.ndarray)))
    drawn = []
    with writing(folder, "figures"):
        for stem, title, caption, make, curves in _pictures(found):
            path, whole = folder / stem, f"{title}: {setting}"
            files = write_picture(make, path, shows=(shows, stem), title=whole, caption=caption)
            drawn.append(replace(files, curves=curves))
    return tuple(drawn)


def _pictures(found: Inspection) -> Iterator[tuple[str, str, str, Callable[[], Figure], str]]:
    """(file name, title, caption, how to draw, description for the page) of each picture."""
    devices, first = len(found.kept), ""
    shown = min(devices, MOST_DEVICES)
    if devices > MOST_DEVICES:
        first = f" The first {MOST_DEVICES} of {devices} devices."
    lost = " Grey: packets that the receiver does not hold." if not found.kept.all() else ""
    caption = f"Each stroke is a wrong payload bit behind the receiver.{lost}{first}"
    yield "errors", "Error positions", caption, partial(draw_errors, found), error_marks(found, devices=shown)
    caption = (
        "Symbols behind the receiver's filter; crosses are symbols with a wrong hard decision, plus signs the "
        "constellation sent, lines the borders of decisions. EVM: root mean square of the distance to the symbol "
        f"sent, over the root mean square of the constellation.{_left_out(found)}{first}"
    )
    curves = constellation_marks(found, devices=shown, step=_step(found), limit=_limit(found))
    yield "constellation", "Constellation at the receiver", caption, partial(draw_constellation, found), curves
    if found.grid is not None:
        antennas = ", mean over the antennas" if found.channel.shape[1] > 1 else ""
        caption = (
            f"Power |h|² of the channel{antennas}, the darker the stronger, {DEEPEST_DB:g} dB and less white; dots are "
            "symbols with a wrong hard decision before any decoder; hatched or empty are pilots and filler. Three "
            "packets: with the most such symbols, the median, and the fewest. Below: |h|² of antenna 0 along the first "
            f"OFDM symbol with data{', dashed the estimate of the receiver' * estimated(found)}."
        )
        for device in range(shown):
            name = f"Channel and wrong symbols{f' of device {device}' * (devices > 1)}"
            chosen, heights = _maps(found, device)
            cuts = [_cut(found, device, packet) for packet in chosen]
            curves = grid_marks(found, device, maps={one: heights[one] for one in chosen}, cuts=cuts)
            yield f"channel-{device}", name, caption, partial(draw_grid, found, device), curves
    elif fades(found) or estimated(found):
        along, unit = (
            (f"along the first {MOST_INSTANTS} symbols", "symbol") if moves(found) else ("in each packet", "packet")
        )
        caption = f"Power |h|² of the channel {along}; hollow where a {unit} is wrong or lost"
        caption += f"; dashed the estimate of the receiver.{first}" if estimated(found) else f".{first}"
        values, seen, wrong = _fades(found)
        known = seen[:shown] if estimated(found) else None
        curves = fade_marks(values[:shown], known, wrong[:shown], unit=unit)
        yield "channel", "Channel", caption, partial(draw_fades, found), curves


def power(channel: NDArray[np.complex64]) -> NDArray[np.float32]:
    """|h|^2 of `[num_devices, num_antennas, num_symbols]`, mean over antennas, `[num_devices, num_symbols]`."""
    return np.asarray((np.abs(channel) ** 2).mean(axis=1))


def fades(found: Inspection) -> bool:
    """True unless |h| is the same everywhere."""
    return bool(np.nanstd(np.abs(found.channel)) > 1e-5)


def moves(found: Inspection) -> bool:
    """True if |h| changes within a packet."""
    values = power(found.channel)
    return not np.allclose(found.per_packet(values)[:, found.packet], values, rtol=1e-4, equal_nan=True)


def estimated(found: Inspection) -> bool:
    """True if the receiver does not know the channel."""
    return not np.array_equal(found.channel, found.estimate, equal_nan=True)


def decibels(value: Any) -> NDArray[np.float64]:
    """10 log10, not below the scale of the figures."""
    return np.asarray(10.0 * np.log10(np.maximum(np.asarray(value, float), 10.0 ** (DEEPEST_DB / 10.0))))


# --- error positions ------------------------------------------------------------------------------


def draw_errors(found: Inspection) -> Figure:
    """Packets by payload bits, a stroke per wrong bit, and the wrong bits of each packet; a row per device."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    devices, packets, packet_bits = found.wrong.shape
    shown = min(devices, MOST_DEVICES)
    with rc_context(STYLE):
        each = float(np.clip(0.11 * packets, 1.4, 4.5))
        figure = Figure(figsize=(7.6, shown * (each + 0.35) + 0.5), layout="constrained")
        panels = figure.subplots(shown, 2, sharey="row", sharex="col", squeeze=False, width_ratios=(6, 1))
        for device, (places, counts) in enumerate(panels):
            wrong = found.wrong[device]
            places.eventplot(
                [np.flatnonzero(one) for one in wrong], linelengths=0.8, linewidths=0.9, colors="black", rasterized=True
            )
            for packet in np.flatnonzero(~found.kept[device]):
                places.axhspan(packet - 0.4, packet + 0.4, color="#cccccc", linewidth=0)
            places.set_xlim(-0.5, packet_bits - 0.5)
            places.set_ylim(packets - 0.5, -0.5)
            places.set_ylabel(f"packet{f' of device {device}' * (devices > 1)}")
            places.yaxis.set_major_locator(MaxNLocator(integer=True))
            counts.set_xlim(0.0, max(1.0, 1.05 * float(found.wrong.sum(axis=-1).max())))
            counts.barh(np.arange(packets), wrong.sum(axis=-1), height=0.8, color=COLOURS[0])
            counts.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        panels[-1][0].set_xlabel("payload bit of the packet")
        panels[-1][1].set_xlabel("wrong bits")
    return figure


# --- constellation --------------------------------------------------------------------------------


def _limit(found: Inspection) -> float:
    """End of both axes: most symbols are inside, and the constellation fills a third at least."""
    largest = float(np.abs(constellation_points(found.bits_per_symbol).real).max())
    parts = np.abs(np.stack([found.equalised.real, found.equalised.imag]))
    return float(np.clip(np.nanquantile(parts, 0.995) * 1.05, 1.4 * largest, 3.0 * largest))


def _step(found: Inspection) -> int:
    """Of how many symbols one is drawn."""
    return max(len(found.packet) // MOST_SYMBOLS, 1)


def _left_out(found: Inspection) -> str:
    values, limit, step = found.equalised, _limit(found), _step(found)
    count = int(((np.abs(values.real) > limit) | (np.abs(values.imag) > limit)).sum())
    thinned = f" One of {step} symbols is drawn." if step > 1 else ""
    return thinned + (f" {count:,} of {plural(values.size, 'symbol')} lie outside of the axes." if count else "")


def draw_constellation(found: Inspection) -> Figure:
    """In-phase and quadrature part of received symbols, a panel per device."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown, limit = min(len(found.sent), MOST_DEVICES), _limit(found)
    points = constellation_points(found.bits_per_symbol)
    error, wrong = found.squared_error, found.raw_errors > 0
    with rc_context(STYLE):
        figure = Figure(figsize=(3.6 * shown + 0.8 if shown > 1 else 5.0, 4.4), layout="constrained")
        panels = figure.subplots(1, shown, sharex=True, sharey=True, squeeze=False)[0]
        for device, axes in enumerate(panels):
            for part, line in ((points.real, axes.axvline), (points.imag, axes.axhline)):
                levels = np.unique(part.round(5))
                for border in (levels[1:] + levels[:-1]) / 2.0:
                    line(border, color="#999999", linewidth=0.7, linestyle="--", zorder=1)
            received, bad = found.equalised[device][:: _step(found)], wrong[device][:: _step(found)]
            for chosen, style in (
                (received[~bad], {"marker": ".", "s": 12, "color": COLOURS[0], "alpha": 0.5, "linewidths": 0}),
                (received[bad], {"marker": "x", "s": 12, "color": COLOURS[1], "linewidths": 0.7}),
            ):
                axes.scatter(chosen.real, chosen.imag, rasterized=True, **style)
            axes.scatter(points.real, points.imag, marker="+", s=60, color="black", linewidths=1.4, zorder=3)
            axes.set_xlim(-limit, limit)
            axes.set_ylim(-limit, limit)
            axes.set_aspect("equal")
            axes.set_title(f"{f'device {device}: ' * (len(found.sent) > 1)}EVM {evm_text(error[device])}")
            axes.set_xlabel("in-phase part")
        panels[0].set_ylabel("quadrature part")
    return figure


def evm_text(squared_error: NDArray[np.float32]) -> str:
    """`28 % (-11.1 dB)`."""
    mean = float(np.nanmean(squared_error)) if np.isfinite(squared_error).any() else np.nan
    return f"{100.0 * mean**0.5:.3g} % ({10.0 * np.log10(mean):.1f} dB)"


# --- channel --------------------------------------------------------------------------------------


def _fades(found: Inspection) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """(|h|^2 [dB], its estimate [dB], wrong or lost), `[num_devices, number of packets, or of symbols]`."""
    own, known = power(found.channel), power(found.estimate)
    if moves(found):
        first = slice(MOST_INSTANTS)
        return decibels(own[:, first]), decibels(known[:, first]), found.raw_errors[:, first] > 0
    wrong = found.wrong.any(axis=-1) | ~found.kept
    return decibels(found.per_packet(own)), decibels(found.per_packet(known)), wrong


def _maps(found: Inspection, device: int) -> tuple[list[int], NDArray[np.float64]]:
    """(packets with the most, the median and the fewest wrong symbols, |h|^2 [dB] of each symbol of all packets)."""
    packets = found.kept.shape[1]
    order = np.argsort(-(found.raw_errors[device].reshape(packets, -1) > 0).sum(axis=-1), kind="stable")
    chosen = order[np.linspace(0, packets - 1, min(MAPS, packets)).round().astype(int)]
    return chosen.tolist(), decibels(power(found.channel)[device].reshape(packets, -1))


def _cut(
    found: Inspection, device: int, packet: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]:
    """(carriers, |h|^2 [dB] of antenna 0, its estimate) along the first OFDM symbol with data."""
    assert found.grid is not None
    marks = found.grid.counted.astype(bool)
    first = int(np.flatnonzero(marks.any(axis=1))[0])
    along = (np.cumsum(marks.ravel()).reshape(marks.shape)[first] - 1)[marks[first]]
    own, known = (
        decibels(np.abs(values[device, 0].reshape(found.kept.shape[1], -1)[packet][along]) ** 2)
        for values in (found.channel, found.estimate)
    )
    return np.flatnonzero(marks[first]), own, known if estimated(found) else None


def draw_fades(found: Inspection) -> Figure:
    """|h|^2 of a single carrier in dB: of each packet, or along symbols where it changes within packets."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    per_symbol, devices = moves(found), len(found.kept)
    size = 3.0 if per_symbol else 5.0
    values, seen, wrong = _fades(found)
    place = np.arange(values.shape[1])
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        axes = figure.subplots()
        for device in range(min(devices, MOST_DEVICES)):
            own, height = look(device), values[device]
            label = f"device {device}" if devices > 1 else None
            axes.plot(place, height, color=own.colour, linewidth=0.8, marker=own.marker, markersize=size, label=label)
            if estimated(found):
                axes.plot(place, seen[device], color=own.colour, linewidth=1.2, linestyle="--")
            bad = wrong[device]
            hollow = {"linestyle": "none", "marker": own.marker, "markersize": size, "mfc": "white"}
            axes.plot(place[bad], height[bad], color=own.colour, **hollow)
        axes.axhline(0.0, color="#999999", linewidth=0.7, linestyle="--", zorder=1)
        axes.set_xlabel("symbol" if per_symbol else "packet")
        axes.set_ylabel("|h|² [dB]")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if devices > 1:
            figure.legend(loc="outside lower center", ncols=MOST_DEVICES)
    return figure


def draw_grid(found: Inspection, device: int) -> Figure:
    """|h|^2 over carriers and OFDM symbols with the wrong symbols of three packets, and a cut along the carriers."""
    from matplotlib import colormaps, rc_context
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    assert found.grid is not None
    marks, packets = found.grid.counted.astype(bool), found.kept.shape[1]
    times, carriers = marks.shape
    per_packet = found.raw_errors[device].reshape(packets, -1) > 0
    chosen, heights = _maps(found, device)
    end = int(np.flatnonzero(marks.any(axis=1))[-1]) + 0.5
    with rc_context(STYLE):
        figure = Figure(figsize=(3.3 * len(chosen) + 0.9, 4.9), layout="constrained")
        rows = figure.subplots(2, len(chosen), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 2))
        colours = ListedColormap(colormaps["Blues"](np.linspace(0.0, 0.85, 256)))
        for packet, above, below in zip(chosen, *rows, strict=True):
            plane, wrong = np.full(marks.shape, np.nan), np.zeros(marks.shape, bool)
            plane[marks], wrong[marks] = heights[packet], per_packet[packet]
            above.patch.set(hatch="////", edgecolor="#bbbbbb", facecolor="#f2f2f2")
            edges = {"extent": (-0.5, carriers - 0.5, -0.5, times - 0.5), "origin": "lower", "aspect": "auto"}
            image = above.imshow(plane, cmap=colours, vmin=DEEPEST_DB, vmax=10.0, interpolation="nearest", **edges)
            time, carrier = np.nonzero(wrong)
            size = float(np.clip(1e4 / max(times * carriers, 1), 0.6, 9.0))
            above.scatter(carrier, time, s=size, color="black", linewidths=0, rasterized=True)
            above.set_ylim(-0.5, end)
            above.set_title(f"packet {packet}: {wrong.sum():,} of {plural(marks.sum(), 'symbol')} wrong", fontsize=9)
            carriers_used, own, known = _cut(found, device, packet)
            below.plot(carriers_used, own, color=COLOURS[0], linewidth=1.3)
            if known is not None:
                below.plot(carriers_used, known, linestyle="--", color="black", linewidth=1.3)
            below.grid(visible=True, color="#d9d9d9", linewidth=0.7)
            below.set_xlabel("subcarrier in use")
        rows[0][0].set_ylabel("OFDM symbol")
        rows[1][0].set_ylabel("|h|² [dB]")
        figure.colorbar(image, ax=list(rows[0]), label="|h|² [dB]", fraction=0.04, pad=0.01, extend="min")
    return figure
