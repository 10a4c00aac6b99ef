"""Curves that a browser draws with Bokeh: the description of a figure as JSON, and what the page needs to draw it.

`draw.py` draws the same `Drawing` with matplotlib. All text is data here: `page.js` puts none of it into HTML or into
the placeholders of tooltips.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.frame import Frame, frame_of
from scenarios.report.figures.style import look
from scenarios.report.tables.quantities import RATES
from scenarios.schema.errors import printable
from scenarios.schema.labels.labels import axis_label, format_value, value_names

DIGITS = 7
"""Significant digits of what is drawn: a screen shows four."""

_FIELDS = ("y", "low", "high", "n", "errors", "total")


def describe(drawing: Drawing) -> str:
    """Return a figure as JSON that may stand in a `<script>` element; equal drawings give equal text."""
    config, frame = drawing.config, frame_of(drawing)
    words = value_names(config.x)
    described = {
        "x": {
            "label": drawing.x_label,
            "log": frame.x_log,
            "whole": frame.whole,
            "words": [words.get(word, word) for word in frame.words],
            "ticks": {f"{tick:g}": format_value(tick) for tick in frame.ticks},
        },
        "y": {"label": axis_label(config.y), "log": frame.y_log, "limits": frame.y_limits},
        "counted": RATES[config.y].said if config.y in RATES else "",
        "bars": frame.bars,
        "seed": drawing.seed,
        "theory": drawing.dashed,
        "beside": config.beside is not None,
        "panels": [
            {"title": title, "curves": [_curve(curve, frame) for curve in curves]} for title, curves in drawing.panels
        ],
    }
    return in_script(plain(described))


def in_script(value: Any) -> str:
    """Return a value as compact JSON without a character that could end the element, or begin another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _curve(curve: Curve, frame: Frame) -> dict[str, Any]:
    own = look(curve.series)
    placed = [spot for spot in curve.spots if spot.x is not None]
    levels = [spot for spot in curve.spots if spot.x is None and spot.y is not None]
    theory = [spot for spot in curve.theory if spot.x is not None and spot.y is not None]
    return {
        "label": curve.label,
        "series": curve.series,
        "colour": [own.colour, own.on_dark],
        "dash": own.dash,
        "shape": own.shape,
        "hollow": own.hollow,
        "width": round(frame.width(curve), 2),
        "spots": {"x": frame.places(curve), **_columns(placed)},
        "levels": _columns(levels),
        "theory": {"x": [spot.x for spot in theory], "y": [spot.y for spot in theory]},
    }


def _columns(spots: Sequence[Spot]) -> dict[str, list[Any]]:
    """The fields of spots as lists; those that no spot has are left out."""
    columns = {name: [getattr(spot, name) for spot in spots] for name in _FIELDS}
    return {name: values for name, values in columns.items() if name == "y" or any(one is not None for one in values)}


def plain(value: Any) -> Any:
    """Return the value with rounded numbers, and without characters that turn the direction of text."""
    match value:
        case dict():
            return {printable(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case str():
            return printable(value)
        case float():
            return float(f"{value:.{DIGITS}g}")
    return value
