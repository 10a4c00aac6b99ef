"""Small plans and trials with known numbers, for everything that comes after the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fl.base.results import TrialResult
from scenarios.files.provenance import Provenance
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.page import write_report
from scenarios.schema.loader import as_yaml, load_scenario, resolved_root
from scenarios.schema.schema import FigureConfig, Scenario
from scenarios.store.store import Store


def make_plan(settings: Sequence[dict[str, Any]], *, trials: int, **scenario: Any) -> Plan:
    """A plan with one point per entry of `settings`, dotted paths and their values."""
    points = []
    for index, values in enumerate(settings):
        document: dict[str, Any] = {"name": "fake", "seed": 2022, "trials": trials, **scenario}
        for path, value in values.items():
            *parents, key = path.split(".")
            entry = document
            for parent in parents:
                entry = entry.setdefault(parent, {})
            entry[key] = value
        points.append(Point(index=index, settings=values, scenario=Scenario.model_validate(document)))
    swept = tuple(dict.fromkeys(path for values in settings for path in values))
    return FakePlan(points=tuple(points), swept_paths=swept, trials=trials, seed=2022)


class FakePlan(Plan):
    """A plan whose points may have equal physics: their tasks differ all the same."""

    @property
    def task_ids(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(f"{p.index:04x}{t:04x}" for t in range(self.trials)) for p in self.points)


def make_trial(
    trial: int,
    *,
    metrics: Mapping[str, float],
    failure: str | None = None,
    num_rounds: int = 3,
    errors: int | None = 1,
    private: bool = False,
) -> TrialResult:
    """A trial of two devices; each sends 1000 bits a round with `errors` of them wrong (None: no link)."""
    shape = (num_rounds, 2)
    link = (
        {}
        if errors is None
        else {
            "bits": np.full(shape, 1000, dtype=np.int64),
            "bit_errors": np.full(shape, errors, dtype=np.int64),
            "packets": np.full(shape, 10, dtype=np.int64),
            "packet_errors": np.full(shape, min(errors, 10), dtype=np.int64),
            "dropped": np.zeros(shape, dtype=np.int64),
            "retransmissions": np.ones(shape, dtype=np.int64),
            "raw_bits": np.full(shape, 2000, dtype=np.int64),
            "raw_bit_errors": np.full(shape, 2 * errors, dtype=np.int64),
            "airtime_s": np.full(shape, 0.5),
            "energy_j": np.full(shape, 0.25),
            "snr_db": np.linspace(10.0, 11.0, 2 * num_rounds).reshape(shape),
        }
    )
    return TrialResult(
        trial=trial,
        metrics=metrics,
        rounds={
            "amplitude": np.linspace(1.0, 2.0, num_rounds) / 3,
            "active_cap": np.arange(num_rounds, dtype=np.float64) % 4,
        },
        link=link,
        bursts={} if errors is None else bursts_of_two_devices(errors),
        privacy={"epsilon": np.full(num_rounds, 5.0)} if private else {},
        failure=failure,
    )


def bursts_of_two_devices(errors: int) -> dict[str, np.ndarray]:
    """A run of `errors` wrong bits in each of 100 packets of 1000 bits, QPSK, of two devices."""
    n, starts = 100, np.clip(errors - np.arange(8), 0, None)
    label = [(errors + 1) // 2, errors // 2]
    return {
        "packets": np.full(2, n),
        "packet_bits": np.full(2, 1000 * n),
        "packet_errors": np.full(2, errors * n),
        "packet_errors_squared": np.full(2, errors * errors * n),
        "bits": np.full(2, 1000 * n),
        "pairs": np.full(2, 999 * n),
        "in_a_row": np.tile(starts * n, (2, 1)),
        "label_bits": np.full((2, 2), 500 * n),
        "label_errors": np.tile(np.array(label) * n, (2, 1)),
    }


def store_trials(folder: Path, plan: Plan, trials: Mapping[int, Sequence[TrialResult]]) -> None:
    """A run folder holding `trials` of each point index."""
    with Store.open(folder, scenario_name="fake") as store:
        for index, results in trials.items():
            ids = plan.task_ids[index]
            store.write({ids[r.trial]: r for r in results}, physics=plan.points[index].settings, seconds=1.0)


PROVENANCE = Provenance(
    command="phyloop run fake.yaml",
    date_utc="2026-11-20T12:00:00+00:00",
    versions={"phyloop": "0.1.0", "sionna": None},
    commit="0123456789abcdef",
    dirty=True,
    platform="Linux",
    cpu_model="A <fast> CPU",
    cpu_count=2,
)

FIGURE = FigureConfig(x="link.power.snr_max_db", y="mse", series="learning.scheme", y_scale="log")


def stored_run(folder: Path, *values: Sequence[float], text: str, overrides: tuple[str, ...] = ()) -> Path:
    """A run folder of the scenario `text` with `values` of the MSE by trial at each sweep point, finished."""
    folder.mkdir(parents=True)
    file = folder / "given.yaml"
    file.write_text(text)
    loaded = load_scenario(file, overrides=overrides)
    plan = expand(loaded)
    root = resolved_root(loaded, swept_paths=plan.swept_paths)
    with Store.open(folder, scenario_name=loaded.scenario.name) as store:
        store.save_scenario(yaml=as_yaml(root), root=root)
        store.finish_run(store.record_run(PROVENANCE))
        for point, ids, some in zip(plan.points, plan.task_ids, values, strict=False):
            trials = [make_trial(t, metrics={"mse": value}) for t, value in enumerate(some)]
            store.write({ids[t.trial]: t for t in trials}, physics=point.settings, seconds=1.0)
    return folder


def library_run(
    folder: Path, name: str, *overrides: str, trials: int | None = None, step: float = 0.0
) -> tuple[Plan, Path]:
    """A stored run of a library scenario with accuracies of 0.8, 0.8 + `step`, .. by trial; its plan and its page."""
    loaded = load_scenario(name, overrides=overrides, trials=trials)
    plan = expand(loaded)
    ids = plan.task_ids
    root = resolved_root(loaded, swept_paths=plan.swept_paths)
    with Store.open(folder, scenario_name=name) as store:
        store.save_scenario(yaml=as_yaml(root), root=root)
        run = store.record_run(PROVENANCE)
        for point, some in zip(plan.points, ids, strict=True):
            results = [make_trial(t, metrics={"validated_accuracy": 0.8 + step * t}) for t in range(plan.trials)]
            store.write(dict(zip(some, results, strict=True)), physics=point.settings, seconds=1.0)
        store.finish_run(run)
        return plan, write_report(folder, plan, store=store).html
