"""What an attacker made of uploads, as pictures: originals in the first row, a row of rebuilt images per setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.figures.curves import applies
from scenarios.report.figures.layout import wrap
from scenarios.report.figures.style import STYLE, FigureFiles, write_picture
from scenarios.schema.labels.labels import setting_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenarios.report.tables.tables import TaskIds
    from scenarios.store.store import Store

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


MOST_ROWS = 12
"""In one picture; more settings of one label go on in a second."""


def draw_attacks(folder: Path, plan: Plan, *, task_ids: TaskIds, store: Store) -> tuple[FigureFiles, ...]:
    """A picture per label (all in one without labels) of the first trial of every point that has one."""
    groups: dict[str, list[tuple[Point, str]]] = {}
    for point, ids in zip(plan.points, task_ids, strict=True):
        if point.scenario.learning.algorithm == "reconstruction":
            groups.setdefault(point.scenario.label, []).append((point, ids[0]))
    drawn: list[FigureFiles] = []
    for label, members in groups.items():
        for first in range(0, len(members), MOST_ROWS):
            found = _picture(
                members[first : first + MOST_ROWS],
                folder=folder,
                plan=plan,
                store=store,
                number=len(drawn) + 1,
                title=f"{label or plan.points[0].scenario.name}: what the server makes of one upload",
            )
            drawn += [] if found is None else [found]
    return tuple(drawn)


def _picture(
    members: Sequence[tuple[Point, str]], *, folder: Path, plan: Plan, store: Store, number: int, title: str
) -> FigureFiles | None:
    kept = store.read_series([task_id for _, task_id in members], "pictures")
    metrics = store.read_metrics([task_id for _, task_id in members])
    rows, originals = [], None
    telling = _telling(plan, [point for point, _ in members])
    for point, task_id in members:
        images = kept.get(task_id, {})
        if "original" not in images:
            continue
        if originals is not None and (
            originals.shape != images["original"].shape or (originals != images["original"]).any()
        ):
            continue  # other data: another picture's business
        originals = images["original"]
        found = metrics[task_id]
        told = ""
        if "mean_correlation" in found:
            # Adding zero takes the sign off what is rounded to it.
            told = f"{round(found['mean_correlation'], 2) + 0.0:.2f}, {100 * found['recognised_share']:.0f} %"
        said = [setting_label(path, value_of(point, path)) for path in telling if applies(path, point)]
        rows.append(Row(setting=", ".join(filter(None, said)) or "rebuilt", images=images["rebuilt"], told=told))
    if originals is None:
        return None
    several = value_of(members[0][0], "learning.samples_per_device")
    behind = "" if several == 1 else f", the first of {several} that the device holds"
    which = "the original" if several == 1 else "whichever image of the device it is most like"
    return draw_reconstructions(
        originals,
        rows,
        path_stem=folder / f"reconstruction-{number}",
        title=title,
        told="correlation,\nrecognised",
        caption=f"First row: images of the first trial, one of each label{behind}. Below, one row per setting: the "
        "least-squares inversion of the update that the server received. On the right, over all games of that trial: "
        f"mean correlation with {which}, and share of images recognised among all of the set. Seed {plan.seed}.",
    )


def _telling(plan: Plan, points: Sequence[Point]) -> list[str]:
    """Swept settings, labels aside, in which these points differ; none of which another one is a part."""
    differ = [
        path
        for path in plan.swept_paths
        if path != "label" and len({canonical_json(value_of(point, path)) for point in points}) > 1
    ]
    return [path for path in differ if not any(other.startswith(f"{path}.") for other in differ)]
