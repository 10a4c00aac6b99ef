"""The look of all figures, and their files as PNG and SVG.

No pyplot and no global state; the same figure yields the same SVG, byte for byte.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios.files.replacement import Replacement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow, which white paper swallows; then darker repeats. Line
# style and marker walk at other periods, so that twelve curves differ in grey as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7A4B9A")


LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")


STYLE: dict[str, Any] = {
    "svg.hashsalt": "phyloop",  # else element ids are random
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.labelsize": 10.5,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.axisbelow": True,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "mathtext.fontset": "dejavusans",
}


@dataclass(frozen=True, kw_only=True)
class FigureFiles:
    """One figure on disk, and the sentence that goes below it."""

    title: str
    caption: str
    png: Path
    svg: Path


def write_picture(figure: Figure, stem: Path) -> dict[str, Path]:
    """Write `figure` as PNG and SVG beside each other, each whole or not; their paths by kind."""
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")}
    for kind, path in paths.items():
        with Replacement(path) as file:
            file.write(render(figure, kind))
    return paths


def render(figure: Figure, kind: str) -> bytes:
    """The bytes of a PNG or SVG file, without a date."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context(STYLE):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()
