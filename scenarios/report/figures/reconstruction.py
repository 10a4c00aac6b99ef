"""What an attacker made of uploads, as one picture: originals in the first row, a row of rebuilt images per setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scenarios.report.figures.layout import wrap
from scenarios.report.figures.style import STYLE, FigureFiles, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 0.46
"""Inches of an image."""
FRAME = 2
"""Pixels of the frame, of at least 96."""
GAP = 0.12
"""Of an image, between neighbours."""
LEFT, RIGHT = 1.7, 1.25
"""Inches for the setting of a row and for how well it went."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Reconstructions `[n, height, width, channels]`, greys 0 to 255, of one setting; `told` on the right."""

    setting: str
    images: NDArray[np.int64]
    told: str


def draw_reconstructions(
    originals: NDArray[np.int64], rows: Sequence[Row], *, path_stem: Path, title: str, told: str, caption: str
) -> FigureFiles:
    """Write the picture as `path_stem`.png and .svg; `told` is the head of the column on the right."""
    paths = write_picture(reconstruction_figure(originals, rows, title=title, told=told), path_stem)
    return FigureFiles(title=title, caption=caption, **paths)


def reconstruction_figure(originals: NDArray[np.int64], rows: Sequence[Row], *, title: str, told: str) -> Figure:
    """The figure itself: ink is dark on white, as digits are written; colours as they are."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    count = len(originals)
    across = count * SIDE * (1.0 + GAP)
    down = SIDE * (1.0 + GAP)
    top = 0.5 + 0.2 * (len(wrap(title, width=0.8 * (LEFT + across + RIGHT)).split("\n")) - 1)
    width, height = LEFT + across + RIGHT, top + 0.1 + down * (len(rows) + 1.25)
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        figure.text(
            0.5,
            1.0 - 0.12 / height,
            wrap(title.replace("$", r"\$"), width=0.8 * width),
            va="top",
            ha="center",
            fontsize=11.5,
            fontweight="bold",
        )
        everything = [("original", originals, told), *((row.setting, row.images, row.told) for row in rows)]
        for number, (setting, images, right) in enumerate(everything):
            # A little more room below the originals than between reconstructions.
            bottom = height - top - down * (number + 1 + (0.25 if number else 0.0))
            axes = figure.add_axes((LEFT / width, bottom / height, across / width, SIDE / height))
            axes.imshow(_in_a_row(images), cmap="gray_r", vmin=0, vmax=255, aspect="auto", interpolation="nearest")
            axes.set_axis_off()
            middle = (bottom + SIDE / 2.0) / height
            figure.text(
                (LEFT - 0.12) / width, middle, wrap(setting, width=LEFT - 0.2), va="center", ha="right", fontsize=9.5
            )
            figure.text((LEFT + across + 0.1) / width, middle, right, va="center", fontsize=9)
    return figure


def _in_a_row(images: NDArray[np.int64]) -> NDArray[Any]:
    """Images side by side with white between them, each framed in light grey; `[H, W]`, or `[H, W, 3]` in colour."""
    scale = max(int(np.ceil(96 / images.shape[1])), 1)
    large = images.repeat(scale, axis=1).repeat(scale, axis=2)
    if large.shape[3] != 3:
        large = large[..., :1]
    white, frame = (0, 40) if large.shape[3] == 1 else (255, 215)
    # Thick enough that none of it is lost where the picture is shown smaller.
    for axis in (1, 2):
        sides = np.moveaxis(large, axis, 0)
        sides[:FRAME], sides[-FRAME:] = frame, frame
    gap = max(round(GAP * large.shape[2]), 1)
    padded = np.pad(large, ((0, 0), (0, 0), (0, gap), (0, 0)), constant_values=white)
    line = padded.transpose(1, 0, 2, 3).reshape(large.shape[1], -1, large.shape[3])
    return np.asarray(line[..., 0] if line.shape[2] == 1 else line)
