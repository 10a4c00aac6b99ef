"""Pictures that are no curves: who holds which samples, and what an attacker made of uploads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.base.words import plural
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.figures.curves import applies
from scenarios.report.figures.style import COLOURS, STYLE, FigureFiles, put_title, wrap, write_picture
from scenarios.schema.labels.labels import setting_cell, setting_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenarios.schema.schema import Scenario
    from scenarios.store.store import Store

# --- who holds which samples ----------------------------------------------------------------------

TICK = 0.16
"""Inches that the number of a label needs in height."""
MANY = 300
"""Devices beyond which the picture is wide, so that each of 1000 still has a pixel of its own."""
WIDE_RANGE = 30.0
"""Where the largest cell has so many times the samples of the usual one, colours go by decades."""
MOST_PARTITIONS = 3


def draw_partitions(folder: Path, plan: Plan) -> tuple[FigureFiles, ...]:
    """The partition of the first trial of every way of sharing in the plan, the first three at most.

    Dealt again from the seed, as the run deals it; absent where the images are no longer here, and where devices draw
    from all samples alike: such a picture shows chance alone.
    """
    seen: dict[str, tuple[Scenario, FedAvgConfig]] = {}
    for point in plan.points:
        learning = point.scenario.learning
        if isinstance(learning, FedAvgConfig) and learning.partition.kind != "iid":
            shared = learning.model_dump_json(include={"data", "partition", "num_devices"})
            seen.setdefault(shared, (point.scenario, learning))
    drawn = []
    for number, (scenario, dealt) in enumerate(list(seen.values())[:MOST_PARTITIONS], start=1):
        counts = label_counts(dealt, seed=scenario.seed, trial=0)
        if counts is not None:
            point = Point(index=0, settings={}, scenario=scenario)
            paths = ("learning.data.name", "learning.partition.kind")
            words = [setting_cell(path, value_of(point, path)) for path in paths]
            if dealt.data.source is not None:
                words[0] = Path(dealt.data.source).name
            title = f"{', '.join(words)}, {plural(dealt.num_devices, 'device')}: samples in the first trial"
            make, shows = partial(partition_figure, counts), (counts.tolist(), title)
            path, caption = folder / f"partition-{number}", partition_caption(counts)
            drawn.append(write_picture(make, path, shows=shows, title=title, caption=caption))
    if drawn and len(seen) > MOST_PARTITIONS:
        more = f"The sweep deals in {plural(len(seen), 'way')}; the first {MOST_PARTITIONS} are drawn."
        drawn[-1] = replace(drawn[-1], caption=f"{drawn[-1].caption} {more}")
    return tuple(drawn)


def label_counts(learning: FedAvgConfig, *, seed: int, trial: int) -> NDArray[np.int64] | None:
    """Samples of each label on each device `[num_devices, num_classes]`; None if the images are not at hand."""
    from fl.base.errors import LearningError
    from fl.data.images import load_images
    from fl.data.partition.split import partition
    from fl.data.whereabouts import where_is
    from phy.numerics.random import Purpose, generator

    if where_is(learning.data).place in ("nowhere", "download"):
        return None
    try:
        data = load_images(learning.data, seed=seed, trial=trial)
        shares = partition(
            data.y_train,
            config=learning.partition,
            num_devices=learning.num_devices,
            num_classes=data.num_classes,
            generator=generator(seed, trial, Purpose.PARTITION),
            owner=data.owner,
            num_owners=data.num_owners,
        )
    except LearningError:  # the files are not those of the run
        return None
    return shares.label_counts()


def partition_caption(counts: NDArray[np.int64]) -> str:
    """The sentence below the picture of `counts` `[num_devices, num_classes]`."""
    spans = []
    for values in (counts.sum(axis=1), (counts > 0).sum(axis=1)):
        low, high = int(values.min()), int(values.max())
        spans.append(f"{low:,}" if low == high else f"{low:,} to {high:,}")
    return (
        f"Training samples of each label on each of {plural(len(counts), 'device')}, the darker the more, "
        f"white for none; {spans[0]} samples and {spans[1]} of {plural(counts.shape[1], 'label')} per device."
    )


def partition_figure(counts: NDArray[np.int64]) -> Figure:
    """The picture of `counts` `[num_devices, num_classes]`, without a title: the page has one above it.

    Every cell is a device (counted from 0, as in the exported tables) and a label; without samples it is white. Above,
    where they differ by more than a tenth, the samples of each device.
    """
    from matplotlib import colormaps, rc_context
    from matplotlib.colors import ListedColormap, LogNorm, Normalize
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
        held = counts[counts > 0]
        low, high = int(held.min()), int(held.max())
        norm = LogNorm(low, high) if high > WIDE_RANGE * np.median(held) else Normalize(min(1, high - 1), high)
        image = cells.imshow(
            np.ma.masked_equal(np.repeat(counts.T, 8 if mixed else 1, axis=0), 0),
            extent=(-0.5, num_devices - 0.5, -0.5, num_classes - 0.5),
            aspect="auto",
            origin="lower",
            cmap=colours,
            norm=norm,
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
        if low == high:  # one colour, one number
            bar.set_ticks([high])
        elif type(norm) is not LogNorm:  # nobody holds half a sample
            bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    return figure


# --- what an attacker made of uploads -------------------------------------------------------------

SIDE = 0.46
"""Inches of an image."""
FRAME = 2
"""Pixels of the frame, of at least 96."""
GAP = 0.12
"""Of an image, between neighbours."""
LEFT, RIGHT = 1.7, 1.25
"""Inches for the setting of a row and for how well it went."""
MOST_ROWS = 12
"""In one picture; more settings of one label go on in a second."""
NOTHING = 0.1
"""Correlation below which a reconstruction is a grey block; the caption names its setting."""


@dataclass(frozen=True, kw_only=True)
class ImageRow:
    """Reconstructions `[n, height, width, channels]`, greys 0 to 255, of one setting; `told` on the right."""

    setting: str
    images: NDArray[np.int64]
    told: str
    correlation: float = 1.0


def draw_attacks(folder: Path, plan: Plan, *, store: Store) -> tuple[FigureFiles, ...]:
    """A picture per label (all in one without labels) of the first trial of every point that has one."""
    groups: dict[str, list[tuple[Point, str]]] = {}
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        if point.scenario.learning.algorithm == "reconstruction":
            groups.setdefault(point.scenario.label, []).append((point, ids[0]))
    drawn: list[FigureFiles] = []
    for label, group in groups.items():
        title = f"{label or plan.points[0].scenario.name}: images rebuilt from one upload"
        for first in range(0, len(group), MOST_ROWS):
            members = group[first : first + MOST_ROWS]
            originals, everything = _read_rows(members, plan=plan, store=store)
            rows = [row for row in everything if row.correlation >= NOTHING]
            if originals is None or not rows:
                continue
            several = value_of(members[0][0], "learning.samples_per_device")
            behind = "" if several == 1 else f", the first of {several} that the device holds"
            which = "the original" if several == 1 else "whichever image of the device it is most like"
            caption = (
                f"First row: images of the first trial, one of each label{behind}. Below, one row per setting: the "
                "least-squares inversion of the update that the server received. On the right, over all games of that "
                f"trial: mean correlation with {which}, and share of images recognised among all of the set. "
                f"Seed {plan.seed}."
            )
            if unlike := [row.setting for row in everything if row.correlation < NOTHING]:
                caption += f" Not drawn, because the correlation is below {NOTHING:g}: {'; '.join(unlike)}."
            told, shows = "correlation,\nrecognised", (title, [(r.setting, r.told, r.images.tolist()) for r in rows])
            make = partial(reconstruction_figure, originals, rows, title=title, told=told)
            path = folder / f"reconstruction-{len(drawn) + 1}"
            drawn.append(write_picture(make, path, shows=shows, title=title, caption=caption))
    return tuple(drawn)


def _read_rows(
    members: Sequence[tuple[Point, str]], *, plan: Plan, store: Store
) -> tuple[NDArray[np.int64] | None, list[ImageRow]]:
    """Originals and a row of each point that has these; its words are the swept settings in which they differ."""
    points, ids = zip(*members, strict=True)
    kept, metrics = store.read_series(ids, "pictures"), store.read_metrics(ids)
    differ = [
        path
        for path in plan.swept_paths
        if path != "label" and len({canonical_json(value_of(point, path)) for point in points}) > 1
    ]
    telling = [path for path in differ if not any(other.startswith(f"{path}.") for other in differ)]
    rows: list[ImageRow] = []
    originals = None
    for point, task_id in members:
        images, found, told = kept.get(task_id, {}), metrics.get(task_id, {}), ""
        if "original" not in images or (originals is not None and not np.array_equal(originals, images["original"])):
            continue  # nothing yet, or other data: another picture's business
        originals = images["original"]
        if "mean_correlation" in found:
            # Adding zero takes the sign off what is rounded to it.
            told = f"{round(found['mean_correlation'], 2) + 0.0:.2f}, {100 * found['recognised_share']:.0f} %"
        said = [setting_label(path, value_of(point, path)) for path in telling if applies(path, point)]
        setting, correlation = ", ".join(filter(None, said)) or "rebuilt", found.get("mean_correlation", 1.0)
        rows.append(ImageRow(setting=setting, images=images["rebuilt"], told=told, correlation=correlation))
    return originals, rows


def reconstruction_figure(originals: NDArray[np.int64], rows: Sequence[ImageRow], *, title: str, told: str) -> Figure:
    """The originals in the first row, then `rows`; `told` is the head of the column on the right.

    Ink is dark on white, as digits are written; colours as they are.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    across, down = len(originals) * SIDE * (1.0 + GAP), SIDE * (1.0 + GAP)
    width = LEFT + across + RIGHT
    top = 0.5 + 0.2 * wrap(title, width=0.8 * width).count("\n")
    height = top + 0.1 + down * (len(rows) + 1.25)
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        put_title(figure, title, y=1.0 - 0.12 / height)
        everything = [ImageRow(setting="original", images=originals, told=told), *rows]
        for number, row in enumerate(everything):
            # A little more room below the originals than between reconstructions.
            bottom = height - top - down * (number + 1 + (0.25 if number else 0.0))
            axes = figure.add_axes((LEFT / width, bottom / height, across / width, SIDE / height))
            axes.imshow(_in_a_row(row.images), cmap="gray_r", vmin=0, vmax=255, aspect="auto", interpolation="nearest")
            axes.set_axis_off()
            middle, setting = (bottom + SIDE / 2.0) / height, wrap(row.setting, width=LEFT - 0.2)
            figure.text((LEFT - 0.12) / width, middle, setting, va="center", ha="right", fontsize=9.5)
            figure.text((LEFT + across + 0.1) / width, middle, row.told, va="center", fontsize=9)
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
