"""Who holds which samples, as pictures: labels over devices, the darker the more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.learning.fedavg import FedAvgConfig
from scenarios.plan.points import Point, value_of
from scenarios.report.figures.layout import wrap
from scenarios.report.figures.style import COLOURS, STYLE, FigureFiles, write_picture
from scenarios.schema.labels.labels import setting_cell

if TYPE_CHECKING:
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    from scenarios.plan.points import Plan
    from scenarios.schema.schema import Scenario

TICK = 0.16
"""Inches that the number of a label needs in height."""
MANY = 300
"""Devices beyond which the picture is wide, so that each of 1000 still has a pixel of its own."""
WIDE_RANGE = 30.0
"""Where the largest cell has so many times the samples of the usual one, colours go by decades."""


def draw_partition(counts: NDArray[np.int64], *, path_stem: Path, title: str) -> FigureFiles:
    """Write the picture of `counts` `[num_devices, num_classes]` as `path_stem`.png and .svg.

    Every cell is a device (counted from 0, as in the exported tables) and a label; without samples it is white. Above,
    where they differ by more than a tenth, the samples of each device.
    """
    paths = write_picture(partition_figure(counts, title=title), path_stem)
    return FigureFiles(title=title, caption=partition_caption(counts), **paths)


def partition_caption(counts: NDArray[np.int64]) -> str:
    """The sentence below the picture of `counts` `[num_devices, num_classes]`."""
    sizes, kinds = counts.sum(axis=1), (counts > 0).sum(axis=1)
    return (
        f"Training samples of each label on each of {len(counts):,} devices, the darker the more, white for none; "
        f"{_span(sizes)} samples and {_span(kinds)} of {counts.shape[1]} labels per device."
    )


def partition_figure(counts: NDArray[np.int64], *, title: str) -> Figure:
    """The figure itself; `counts` `[num_devices, num_classes]`."""
    from matplotlib import colormaps, rc_context
    from matplotlib.colors import ListedColormap, LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    num_devices, num_classes = counts.shape
    sizes = counts.sum(axis=1)
    uneven = bool(sizes.max() > 1.1 * sizes.min())
    width, map_height = 6.4 if num_devices <= MANY else 10.4, float(np.clip(0.24 * num_classes, 1.6, 4.6))
    with rc_context(STYLE):
        figure = Figure(figsize=(width, map_height + (0.9 if uneven else 0.0) + 1.1), layout="constrained")
        if uneven:
            above, cells = figure.subplots(2, 1, sharex=True, height_ratios=(0.9, map_height))
            edges = np.arange(num_devices + 1) - 0.5
            above.stairs(sizes, edges, fill=True, color=COLOURS[0], alpha=0.35)
            above.stairs(sizes, edges, color=COLOURS[0], linewidth=1.0 if num_devices <= MANY else 0.4)
            above.set_ylabel("samples")
            above.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
            above.grid(visible=True, axis="y", color="#d9d9d9", linewidth=0.7)
            above.tick_params(labelbottom=False)
        else:
            cells = figure.subplots()
        # From a tint that is no longer white to nearly black: in grey as in colour, dark is many.
        colours = ListedColormap(colormaps["Blues"](np.linspace(0.18, 1.0, 256)))
        # Beyond a pixel per device colours of neighbours mix, rather than one be left out; a row in eight copies keeps
        # them from mixing with other labels as well.
        mixed = num_devices > 1000
        image = cells.imshow(
            np.ma.masked_equal(np.repeat(counts.T, 8 if mixed else 1, axis=0), 0),
            extent=(-0.5, num_devices - 0.5, -0.5, num_classes - 0.5),
            aspect="auto",
            origin="lower",
            cmap=colours,
            norm=_norm(counts),
            interpolation="antialiased" if mixed else "nearest",
            interpolation_stage="rgba",
        )
        for side in ("top", "right"):
            cells.spines[side].set_visible(True)
        cells.set_xlabel("device")
        cells.set_ylabel("label")
        cells.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, steps=[1, 2, 5, 10]))
        if num_classes * TICK <= map_height:
            cells.set_yticks(range(num_classes))
        else:
            cells.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        bar = figure.colorbar(image, ax=cells, label="samples", fraction=0.05, pad=0.02)
        if counts.max() == counts[counts > 0].min():  # one colour, one number
            bar.set_ticks([int(counts.max())])
        elif type(image.norm) is not LogNorm:  # nobody holds half a sample
            bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        if title:
            figure.suptitle(wrap(title.replace("$", r"\$"), width=0.8 * width), fontsize=11.5, fontweight="bold")
    return figure


def _norm(counts: NDArray[np.int64]) -> Normalize:
    from matplotlib.colors import LogNorm, Normalize

    held = counts[counts > 0]
    low, high = int(held.min()), int(held.max())
    if high > WIDE_RANGE * np.median(held):
        return LogNorm(low, high)
    return Normalize(min(1, high - 1), high)


def _span(values: NDArray[np.int64]) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


MOST_PARTITIONS = 3


def draw_partitions(folder: Path, plan: Plan) -> tuple[FigureFiles, ...]:
    """The partition of the first trial of every way of sharing in the plan, the first three at most.

    Dealt again from the seed, as the run deals it; absent where the images are no longer here.
    """
    seen: dict[str, Scenario] = {}
    for point in plan.points:
        learning = point.scenario.learning
        if isinstance(learning, FedAvgConfig):
            shared = learning.model_dump_json(include={"data", "partition", "num_devices"})
            seen.setdefault(shared, point.scenario)
    drawn = []
    for number, scenario in enumerate(list(seen.values())[:MOST_PARTITIONS], start=1):
        counts = label_counts(scenario, trial=0)
        if counts is not None:
            stem = folder / f"partition-{number}"
            drawn.append(draw_partition(counts, path_stem=stem, title=_title(scenario)))
    if drawn and len(seen) > MOST_PARTITIONS:
        last = drawn[-1]
        more = f"The sweep deals in {len(seen)} ways; the first {MOST_PARTITIONS} are drawn."
        drawn[-1] = replace(last, caption=f"{last.caption} {more}")
    return tuple(drawn)


def label_counts(scenario: Scenario, *, trial: int) -> NDArray[np.int64] | None:
    """Samples of each label on each device `[num_devices, num_classes]`; None if the images are not at hand."""
    from fl.data import find_data, load_images
    from fl.partition.split import partition
    from fl.tasks.base import LearningError
    from phy.numerics.random import Purpose, generator

    learning = scenario.learning
    if not isinstance(learning, FedAvgConfig) or find_data(learning.data.name).place in ("nowhere", "download"):
        return None
    try:
        data = load_images(learning.data, seed=scenario.seed, trial=trial)
        shares = partition(
            data.y_train,
            config=learning.partition,
            num_devices=learning.num_devices,
            num_classes=data.num_classes,
            generator=generator(scenario.seed, trial, Purpose.PARTITION),
        )
    except LearningError:  # the files are not those of the run
        return None
    return shares.label_counts()


def _title(scenario: Scenario) -> str:
    point = Point(index=0, settings={}, scenario=scenario)
    paths = ("learning.data.name", "learning.partition.kind")
    words = [setting_cell(path, value_of(point, path)) for path in paths]
    return ", ".join([*words, f"{scenario.learning.num_devices} devices: samples in the first trial"])
