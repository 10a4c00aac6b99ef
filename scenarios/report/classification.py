"""What only federated averaging has to show: who holds which samples, and what privacy asked for and got."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.config import FedAvgConfig
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig
from privacy.mechanisms.flip_plans import CLAMP_WORDS
from scenarios.report.figures.partition import draw_partition
from scenarios.report.tables.tables import TRIALS_AT_ONCE
from scenarios.schema.labels.labels import setting_cell

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.report.figures.style import FigureFiles
    from scenarios.report.tables.tables import TaskIds
    from scenarios.schema.schema import Scenario
    from scenarios.store.store import Store

MOST_PARTITIONS = 3

PRIVACY_METRICS = (
    *("sensitivity", "kappa", "kappa_measured", "kappa_standard_error", "target_bit_error_rate", "target_unclamped"),
    *("sigma", "sigma_printed", "sigma_calibrated", "delta", "epsilon_accounted"),
)
"""Numbers per trial that stand in the table of privacy, not among the results."""


# --- who holds which samples ----------------------------------------------------------------------


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
    learning = scenario.learning
    assert isinstance(learning, FedAvgConfig)
    data = setting_cell("learning.data.name", learning.data.name)
    kind = setting_cell("learning.partition.kind", learning.partition.kind)
    return f"{data}, {kind}, {learning.num_devices} devices: samples in the first trial"


# --- privacy --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PointPrivacy:
    """A point with a mechanism: the epsilon asked for and whose it is, mean p_A, and the share of each clamp."""

    point: Point
    asked: str
    flip_probability: float | None
    clamps: str | None


def read_privacy(store: Store, plan: Plan, *, task_ids: TaskIds) -> Iterator[PointPrivacy]:
    """The points of federated averaging that have a mechanism and a whole trial, in the order of the plan."""
    for point, ids in zip(plan.points, task_ids, strict=True):
        privacy = point.scenario.privacy
        if not isinstance(privacy, BitFlippingConfig | GaussianConfig | BitFlippingBudget | GaussianBudget):
            continue
        done = [task_id for task_id, record in store.read_tasks(ids).items() if record.status == "done"]
        if done:
            flips, clamps = _flips(store, done)
            yield PointPrivacy(point=point, asked=_asked(privacy), flip_probability=flips, clamps=clamps)


def _asked(privacy: BitFlippingConfig | GaussianConfig | BitFlippingBudget | GaussianBudget) -> str:
    """An epsilon, and the accountant it comes from."""
    if isinstance(privacy, BitFlippingBudget | GaussianBudget):
        return f"{privacy.budget.epsilon:g} for the run ({privacy.budget.accountant})"
    if isinstance(privacy, BitFlippingConfig):
        return f"{privacy.epsilon:g}, Rényi of order {privacy.order:g} (Theorem 1)"
    by = "dp-accounting" if privacy.calibration == "dp-accounting" else "as printed"
    return f"{privacy.epsilon:g} ({by})"


def _flips(store: Store, task_ids: Sequence[str]) -> tuple[float | None, str | None]:
    """Mean p_A over devices, rounds and trials, and how often which clamp acted."""
    total, observed, codes = 0.0, 0, np.zeros(len(CLAMP_WORDS), np.int64)
    for start in range(0, len(task_ids), TRIALS_AT_ONCE):
        for arrays in store.read_series(task_ids[start : start + TRIALS_AT_ONCE], "devices").values():
            if "flip_probability" not in arrays or "clamp" not in arrays:
                continue
            took_part = ~np.isnan(arrays["flip_probability"])
            total += float(arrays["flip_probability"][took_part].sum())
            observed += int(took_part.sum())
            codes += np.bincount(arrays["clamp"][took_part], minlength=len(codes))
    if not observed:
        return None, None
    shares = (f"{CLAMP_WORDS[code]} {count / observed:.1%}" for code, count in enumerate(codes) if count)
    return total / observed, ", ".join(shares)
