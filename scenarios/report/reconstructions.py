"""What only an attack on uploads has to show: images beside what the server made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fl.config import ReconstructionConfig
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.figures.curves import applies
from scenarios.report.figures.reconstruction import Row, draw_reconstructions
from scenarios.schema.labels.labels import setting_label

if TYPE_CHECKING:
    from scenarios.report.figures.style import FigureFiles
    from scenarios.report.tables.tables import TaskIds
    from scenarios.store.store import Store

MOST_ROWS = 12
"""In one picture; more settings of one label go on in a second."""


def draw_attacks(folder: Path, plan: Plan, *, task_ids: TaskIds, store: Store) -> tuple[FigureFiles, ...]:
    """A picture per label (all in one without labels) of the first trial of every point that has one."""
    groups: dict[str, list[tuple[Point, str]]] = {}
    for point, ids in zip(plan.points, task_ids, strict=True):
        if isinstance(point.scenario.learning, ReconstructionConfig):
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
    learning = members[0][0].scenario.learning
    assert isinstance(learning, ReconstructionConfig)
    several = learning.samples_per_device
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
