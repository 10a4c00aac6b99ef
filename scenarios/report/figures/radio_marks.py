"""The pictures of `radio` for the page: marks, lines and cells that a browser draws, with numbers at the pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.words import plural
from phy.inspection import Inspection
from phy.receivers.demapping import constellation_points
from scenarios.report.figures.interactive import in_script, plain
from scenarios.report.figures.style import COLOURS, ON_DARK, look

MOST_MARKS = 20_000
"""Marks of a figure, beyond which the page has the picture alone."""
NEUTRAL = ("#333333", "#eeeeee")
GREY = ("#cccccc", "#555555")


def marks(
    kind: str,
    data: Mapping[str, Any],
    *,
    label: str = "",
    series: int = 0,
    colour: tuple[str, str] | None = None,
    shape: str = "circle",
    hollow: bool = False,
    dash: Sequence[int] = (),
    size: float = 5.0,
    touched: bool = True,
) -> dict[str, Any]:
    """Return marks of one look: `kind` is `scatter`, `line`, `strokes` along y, `rows` across the panel, or `cells`.

    `data` has the columns x and y, and those that the pointer shows, equally long; marks without a number are left out.
    A `label` stands in the legend; those of one label are hidden together. `touched`: the pointer shows numbers.
    """
    columns = {name: np.asarray(values) for name, values in data.items()}
    numbers = [values for values in columns.values() if values.dtype.kind != "U"]
    kept = np.all([np.isfinite(values) for values in numbers], axis=0)
    return {
        "kind": kind,
        "label": label,
        "series": series,
        "colour": colour or (COLOURS[series], ON_DARK[series]),
        "shape": shape,
        "hollow": hollow,
        "dash": list(dash),
        "size": size,
        "width": 1.0,
        "touched": touched,
        "data": {name: values[kept].tolist() for name, values in columns.items()},
    }


def panel(
    groups: Sequence[dict[str, Any]],
    *,
    x: dict[str, Any],
    y: dict[str, Any],
    tips: Sequence[tuple[str, str]],
    title: str = "",
    **options: Any,
) -> dict[str, Any]:
    """Return a panel of groups of marks over the axes `x` and `y`; `tips` are heads and columns at the pointer."""
    return {"title": title, "groups": list(groups), "x": x, "y": y, "tips": tips, **options}


def axis(label: str, start: float, end: float, *, whole: bool = False) -> dict[str, Any]:
    """Return an axis from `start`, on the left or below, to `end`; `whole`: it has whole numbers alone."""
    return {"label": label, "limits": [float(start), float(end)], "whole": whole}


def described(panels: Sequence[dict[str, Any]]) -> str:
    """Return panels as JSON for the page; empty if they have more than `MOST_MARKS`."""
    count = sum(len(group["data"]["x"]) for one in panels for group in one["groups"])
    return in_script(plain({"panels": list(panels)})) if count <= MOST_MARKS else ""


def error_marks(found: Inspection, *, devices: int) -> str:
    """Return the wrong bits of the first `devices` over the payload, a stroke for each, a row for each packet."""
    number, bits = found.wrong.shape[1:]
    panels = []
    for device in range(devices):
        packet, bit = np.nonzero(found.wrong[device])
        data: dict[str, Any] = {"x": bit, "y": packet, "bit": bit, "wrong": found.wrong[device].sum(axis=-1)[packet]}
        lost = np.flatnonzero(~found.kept[device])
        unknown = {"x": 0 * lost, "y": lost, "bit": np.full(len(lost), "all"), "wrong": np.full(len(lost), "not held")}
        groups = [marks("rows", unknown, colour=GREY), marks("strokes", data, colour=NEUTRAL)]
        tips = [("packet", "y"), ("payload bit", "bit"), ("wrong bits of the packet", "wrong")]
        x = axis("payload bit of the packet", -0.5, bits - 0.5, whole=True)
        y = axis("packet", number - 0.5, -0.5, whole=True)
        panels.append(panel(groups, x=x, y=y, title=_of(found, device), tips=tips))
    return described(panels)


def constellation_marks(found: Inspection, *, devices: int, step: int, limit: float) -> str:
    """Return every `step`-th symbol behind the filter of the receiver, right and wrong decisions apart."""
    points, (symbol, packet) = constellation_points(found.bits_per_symbol), _places(found)
    x, y = axis("in-phase part", -limit, limit), axis("quadrature part", -limit, limit)
    levels = [np.unique(part.round(5)) for part in (points.real, points.imag)]
    borders = [((one[1:] + one[:-1]) / 2.0).tolist() for one in levels]
    tips = [("packet", "packet"), ("symbol of the packet", "symbol"), ("in-phase part", "x")]
    tips += [("quadrature part", "y"), ("distance to the symbol sent [%]", "error"), ("wrong bits", "wrong")]
    panels = []
    for device in range(devices):
        received, wrong = found.equalised[device], found.raw_errors[device]
        error = 100.0 * found.squared_error[device] ** 0.5
        data: dict[str, Any] = {"packet": packet, "symbol": symbol, "error": error, "wrong": wrong}
        data = {name: values[::step] for name, values in ({"x": received.real, "y": received.imag} | data).items()}
        bad = data["wrong"] > 0
        sent = {"x": points.real, "y": points.imag}
        groups = [
            marks("scatter", _only(~bad, data), label="right decision", size=4.0),
            marks("scatter", _only(bad, data), label="wrong decision", series=1, shape="x", size=6.0),
            marks("scatter", sent, label="constellation", series=2, shape="cross", size=13.0, touched=False),
        ]
        panels.append(panel(groups, x=x, y=y, title=_of(found, device), tips=tips, borders=borders))
    return described(panels)


def fade_marks(
    values: NDArray[np.float64], seen: NDArray[np.float64] | None, wrong: NDArray[np.bool_], *, unit: str
) -> str:
    """Return |h|^2 in dB `[num_devices, number]` over packets or symbols, hollow where `wrong`, dashed as `seen`."""
    groups: list[dict[str, Any]] = []
    known = values if seen is None else seen
    place, several = np.arange(values.shape[1]), len(values) > 1
    for device, (height, estimate, bad) in enumerate(zip(values, known, wrong, strict=True)):
        own, name = look(device), f"device {device}" * several
        named: dict[str, Any] = {"series": device, "colour": (own.colour, own.on_dark), "shape": own.shape}
        data: dict[str, Any] = {
            "x": place,
            "y": height,
            "estimate": estimate,
            "device": np.full(len(place), str(device)),
        }
        data["bits"] = np.where(bad, "wrong or lost", "right")
        groups.append(marks("line", data, label=name, touched=False, **named))
        if seen is not None:
            groups.append(marks("line", data | {"y": estimate}, label=name, dash=[5, 4], touched=False, **named))
        for some, hollow in ((~bad, False), (bad, True)):
            groups.append(marks("scatter", _only(some, data), label=name, hollow=hollow, size=6.0, **named))
    tips = [("device", "device")] * several + [(unit, "x"), ("|h|² [dB]", "y")]
    tips += [("estimate of |h|² [dB]", "estimate")] * (seen is not None) + [("bits", "bits")]
    finite = np.concatenate([one[np.isfinite(one)] for one in (values, known)])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    x, y = axis(unit, -0.5, len(place) - 0.5, whole=True), axis("|h|² [dB]", low - 1.0, max(high, 0.0) + 1.0)
    return described([panel(groups, x=x, y=y, tips=tips)])


def grid_marks(
    found: Inspection, device: int, *, maps: Mapping[int, NDArray[np.float64]], cuts: Sequence[Sequence[Any]]
) -> str:
    """Return |h|^2 in dB of each data symbol over carriers and OFDM symbols, `maps` by packet, and below it `cuts`.

    A dot in a cell stands for a wrong hard decision. A cut has carriers, |h|^2 [dB] and its estimate, None without one.
    """
    assert found.grid is not None
    time, carrier = np.nonzero(found.grid.counted)
    wrong = found.raw_errors[device].reshape(found.kept.shape[1], -1)
    x = axis("subcarrier in use", -0.5, found.grid.counted.shape[1] - 0.5, whole=True)
    y = axis("OFDM symbol", -0.5, time.max() + 0.5, whole=True)
    tips = [("subcarrier", "x"), ("OFDM symbol", "y"), ("|h|² [dB]", "height"), ("wrong bits", "wrong")]
    panels = []
    for packet, heights in maps.items():
        data: dict[str, Any] = {"x": carrier, "y": time, "height": heights, "wrong": wrong[packet]}
        bad = wrong[packet] > 0
        dots = marks("scatter", _only(bad, data), label="wrong decision", series=2, size=4.0, touched=False)
        title = f"packet {packet}: {bad.sum():,} of {plural(bad.size, 'symbol')} wrong"
        panels.append(panel([marks("cells", data), dots], x=x, y=y, title=title, tips=tips))
    levels = np.concatenate([one for cut in cuts for one in cut[1:] if one is not None])
    ends = (np.nanmin(levels) - 1.0, np.nanmax(levels) + 1.0) if np.isfinite(levels).any() else (-1.0, 1.0)
    for along, height, estimate in cuts:
        data, tips = {"x": along, "y": height}, [("subcarrier", "x"), ("|h|² [dB]", "y")]
        lines = [marks("line", data), marks("scatter", data, size=3.0)]
        if estimate is not None:
            lines.append(marks("line", {"x": along, "y": estimate}, colour=NEUTRAL, dash=[5, 4]))
        panels.append(panel(lines, x=x, y=axis("|h|² [dB]", *ends), tips=tips))
    return described(panels)


def _only(chosen: NDArray[np.bool_], data: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: values[chosen] for name, values in data.items()}


def _of(found: Inspection, device: int) -> str:
    return f"device {device}" if len(found.kept) > 1 else ""


def _places(found: Inspection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(number within its packet, packet) of each symbol."""
    first = np.searchsorted(found.packet, found.packet)
    return np.arange(len(found.packet)) - first, found.packet
