"""The look of all figures, the room that words take in them, and their files as SVG.

No pyplot and no global state; the same figure yields the same SVG, byte for byte. Legends, ticks and titles are laid
out by counting letters.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scenarios.files.provenance import find_version
from scenarios.files.replacement import replacement
from scenarios.report.tables.quantities import RATES
from scenarios.schema.labels.labels import format_value, value_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenarios.report.figures.drawing import Spot

# The hues of Okabe and Ito, each with a contrast of at least 3 to the page, as WCAG 2.1 asks of graphics, in an order
# whose first five differ in grey. Dark red and brown replace yellow and vermilion, which is green in grey. Twelve looks
# differ in their markers as well.
COLOURS = ("#0058AB", "#CA830F", "#000000", "#008658", "#7E0C1D", "#C273A2", "#5096DD", "#925717")
ON_DARK = ("#3A86D0", "#F5B82E", "#FFFFFF", "#1DB58A", "#C8384A", "#EFA6CC", "#8FD0F5", "#A89058")
"""The same colours on the dark page."""
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
DASHES: tuple[list[int], ...] = ([], [6, 3], [7, 3, 2, 3], [2, 3], [8, 2, 2, 2, 2, 2])
"""`LINES` on the page, in pixels."""
MARKERS = ("o", "s", "^", "D", "v", "P", "x", "*", "h", "+", (6, 2, 0), "1")
SHAPES = (
    *("circle", "square", "triangle", "diamond", "inverted_triangle", "plus", "x", "star"),
    *("hex", "cross", "asterisk", "y"),
)
"""`MARKERS` on the page."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The look of a series in both back ends; `hollow` markers tell neighbours apart in grey."""

    colour: str
    on_dark: str
    line: Any
    dash: Sequence[int]
    marker: Any
    shape: str
    hollow: bool


def look(series: int) -> Look:
    """Return the look of the series of this number; numbers follow the sweep, see `figures.curves.looks_of`."""
    colour, line, marker = series % len(COLOURS), series % len(LINES), series % len(MARKERS)
    return Look(
        colour=COLOURS[colour],
        on_dark=ON_DARK[colour],
        line=LINES[line],
        dash=DASHES[line],
        marker=MARKERS[marker],
        shape=SHAPES[marker],
        hollow=series % 2 == 1,
    )


DPI = 150

_LOOK = (Path(__file__).parent, Path(__file__).parents[2] / "schema" / "labels")
"""Folders of all that decides how a figure looks: its style and its words."""

STYLE: dict[str, Any] = {
    "svg.hashsalt": "phyloop",  # else element ids are random
    "pdf.fonttype": 42,  # TrueType: publishers refuse the Type 3 fonts of the default
    "ps.fonttype": 42,
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.labelsize": 10.5,
    "axes.titlesize": 10.5,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.axisbelow": True,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "legend.frameon": False,
    "mathtext.fontset": "dejavusans",
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
}


def sized(scale: float) -> dict[str, Any]:
    """The style with all letters `scale` times as large."""
    return {name: scale * value if name.endswith("size") else value for name, value in STYLE.items()}


@dataclass(frozen=True, kw_only=True)
class FigureFiles:
    """One figure on disk, and the sentence below it; `curves` describes it for the page, see `interactive.describe`."""

    title: str
    caption: str
    svg: Path
    curves: str = ""


def write_picture(
    make: Callable[[], Figure], stem: Path, *, shows: object, title: str = "", caption: str = ""
) -> FigureFiles:
    """Write the figure that `make` draws as SVG, whole or not.

    A file that shows the same in the same style is left alone: it names the digest of what it `shows`.
    """
    sources = [path.read_bytes() for folder in _LOOK for path in sorted(folder.glob("*.*"))]
    digest = hashlib.sha256(b"".join([*sources, repr((find_version(("matplotlib",)), shows)).encode()])).hexdigest()
    svg = stem.with_name(f"{stem.name}.svg")
    if not (svg.is_file() and digest.encode() in svg.read_bytes()[:4096]):
        from matplotlib import rc_context

        figure = make()
        with rc_context(STYLE):
            # For good: `savefig` would draw the figure twice to lay it out.
            if (engine := figure.get_layout_engine()) is not None:
                figure.set_dpi(DPI)
                engine.execute(figure)
                figure.set_layout_engine(None)
        with replacement(svg) as file:
            file.write(render(figure, "svg", digest=digest))
    return FigureFiles(title=title, caption=caption, svg=svg)


def render(figure: Figure, kind: str, *, digest: str | None = None, dpi: int = DPI) -> bytes:
    """The bytes of a file, PNG or SVG for example, without a date."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context(STYLE):
        dated = {"svg": "Date", "png": "Software", "pdf": "CreationDate"}.get(kind)
        named = {"Identifier": digest} if digest else {}
        metadata: dict[str, Any] = {"metadata": {**named, dated: None}} if dated else {}  # a pgf takes none
        figure.savefig(buffer, format=kind, dpi=dpi, **metadata)
    return buffer.getvalue()


# --- room for words -------------------------------------------------------------------------------

LETTER = 0.08
"""Width of a letter of a legend in inches, on the wide side."""
LEGEND_LINE = 0.17
HANDLE = 0.7
ARROW = 0.5
"""Where the arrow of an upper limit ends, over the limit."""


def put_title(figure: Figure, title: str, **options: Any) -> None:
    """Write the user's title above a figure, in as many lines as it needs."""
    text = wrap(title, width=0.8 * figure.get_figwidth())
    figure.suptitle(text, fontsize=11.5, fontweight="bold", **options)


def legend_layout(labels: Sequence[str], *, width: float) -> tuple[int, list[str], float]:
    """Columns (at most four), labels wrapped to theirs, and height in inches of a legend `width` inches wide."""
    lengths = [len(label) for label in labels if label]
    if not lengths:
        return 1, list(labels), 0.0
    columns = max(1, min(4, len(labels), int(width / (HANDLE + LETTER * max(lengths)))))
    if columns == 1 and len(labels) > 6:  # two columns of two lines are no higher, and easier to read
        columns = 2
    wrapped = [wrap(label, width=width / columns - HANDLE) for label in labels]
    lines = max(text.count("\n") + 1 for text in wrapped)
    return columns, wrapped, (LEGEND_LINE * lines + 0.05) * -(-len(labels) // columns) + 0.1


def wrap(text: str, *, width: float) -> str:
    """`text` in lines of at most `width` inches, broken at spaces, but not inside `target = 0.1` or `40 dB`.

    A dollar is a dollar, which matplotlib would take for mathematics.
    """
    kept = re.sub(r"(?<=[=\d]) | (?==)", "\xa0", text)
    lines = textwrap.wrap(kept, max(int(width / LETTER), 12), break_on_hyphens=False)
    return ("\n".join(lines).replace("\xa0", " ") or text).replace("$", r"\$")


def word_ticks(path: str, words: Sequence[str], *, width: float) -> tuple[list[str], bool]:
    """What stands below words along `width` inches, wrapped, and whether it must be slanted to fit."""
    names = [value_names(path).get(word, word) for word in words]
    room = width / len(words)
    if room < 1.0 and LETTER * max(map(len, names)) > room:
        return [wrap(name, width=1.6) for name in names], True
    return [wrap(name, width=room) for name in names], False


WIDE = 30.0
"""Largest over smallest value from which a linear axis hides the small ones."""


def scale(asked: str, name: str, values: Sequence[float]) -> str:
    """The scale of an axis: as asked, or for `auto` by what its positive values span.

    Error rates are logarithmic; decibels, accuracies, rounds and what is left of a budget, which ends at 0, are linear.
    """
    if asked != "auto":
        return asked
    linear = name in ("round", "value", "energy_left_j") or name.endswith(("_db", "accuracy"))
    smallest = min(values, default=0.0)
    wide = name in RATES or (smallest > 0.0 and max(values) > WIDE * smallest)
    return "log" if wide and not linear else "linear"


def log_ticks(ticks: Sequence[float], *, width: float) -> list[str]:
    """What stands below `ticks`, ascending, of a logarithmic axis of `width` inches; empty where it touched another.

    The last one is kept, then from the first on whatever has a letter's room to both sides.
    """
    names = [format_value(tick) for tick in ticks]
    if len(ticks) < 2:
        return names
    places = np.log(np.array(ticks, dtype=np.float64))
    places = (places - places[0]) / (places[-1] - places[0]) * 0.88 * width  # margins take the rest
    half = [LETTER * (len(name) + 1) / 2 for name in names]
    end = -np.inf
    for index in range(len(names) - 1):
        fits = places[index] - half[index] >= end and places[index] + half[index] <= places[-1] - half[-1]
        if fits:
            end = places[index] + half[index]
        else:
            names[index] = ""
    return names


MOST_DECADES = 10
"""Powers of ten with a tick; of more, every second has one, or every third, and nothing stands between them."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def round_ticks(low: float, high: float) -> dict[float, str]:
    """Ticks of a logarithmic axis from `low` to `high`, with what stands beside each.

    Powers of ten; where there are fewer than two, 1, 2 and 5 times them, then equal steps. Left to itself, matplotlib
    draws nine ticks per decade and panel with a mark, a line and words each, which takes a third of a figure's time,
    and writes labels that are mathematics to be parsed.
    """
    from matplotlib.ticker import AutoLocator, LogLocator

    powers = LogLocator(numticks=MOST_DECADES)
    for locator in (powers, LogLocator(subs=(1.0, 2.0, 5.0)), AutoLocator()):
        ticks = [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]
        if len(ticks) >= 2:
            break
    if locator is powers:
        return {tick: "10" + str(round(math.log10(tick))).translate(SUPERSCRIPTS) for tick in ticks}
    return {tick: format_value(tick) for tick in ticks}


def log_limits(spots: Sequence[Spot]) -> tuple[float, float] | None:
    """Limits of a logarithmic axis, None if nothing is positive.

    Bands count for at most a factor 10 below the lowest spot: a band that reaches down to zero would
    else squeeze all curves against the upper edge.
    """
    seen = [s for s in spots if s.y is not None and s.y > 0]
    limits = [s.high for s in spots if s.y is None and s.x is not None and s.high]
    levels = [*(s.y for s in seen if s.y is not None), *limits]
    if not levels:
        return None
    floor = min(levels) / 10
    lows = [max(s.low, floor) for s in seen if s.low is not None]
    highs = [s.high for s in spots if s.high is not None and s.high > 0]
    bottom, top = min([*levels, *lows, *(0.8 * ARROW * limit for limit in limits)]), max([*levels, *highs])
    margin = max((top / bottom) ** 0.06, 1.15)
    return bottom / margin, top * margin
