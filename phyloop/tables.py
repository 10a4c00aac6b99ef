"""Tables of run folders as DataFrames, those of each kind of study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, value_of
from scenarios.report.tables.quantities import CODED
from scenarios.report.tables.tables import KEYS
from scenarios.schema.errors import ScenarioError, listing
from scenarios.schema.labels.labels import plain_label, setting_cell
from scenarios.store.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scenarios.studies.audit.study import AuditStudy
    from scenarios.studies.flower.study import FlowerStudy
    from scenarios.studies.learning import LearningStudy
    from scenarios.studies.link.study import LinkStudy

    AnyStudy = LearningStudy | LinkStudy | AuditStudy | FlowerStudy


def read_table(study: AnyStudy, folder: Path, table: str) -> pd.DataFrame:
    """One table of a run folder; ScenarioError for one that studies of this kind do not have."""
    with study.store.open_existing(folder) as store:
        if table not in (readers := READERS[study.store.study]):
            raise ScenarioError(
                file=folder,
                problem=f"results of phyloop {study.store.study} have no table {table}",
                remedy=f"use {listing(readers)}",
            )
        return readers[table](study, store)


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Rows as a DataFrame, with the labels of its columns."""
    return _labelled(pd.DataFrame(list(rows), columns=columns))


def _labelled(frame: pd.DataFrame) -> pd.DataFrame:
    frame.attrs["labels"] = {name: plain_label(name) for name in frame.columns}
    return frame


def _points(study: LinkStudy, store: Store) -> pd.DataFrame:
    from scenarios.studies.link.results import read_results
    from scenarios.studies.link.tables import columns_of, point_rows

    return frame_of(point_rows(study.plan, read_results(store, study.plan)), columns_of(study.plan))


def _audits(study: AuditStudy, store: Store) -> pd.DataFrame:
    audits = study.read(store)
    return frame_of(audits.rows(), audits.columns)


def _clients(study: FlowerStudy, store: Store) -> pd.DataFrame:
    del store  # the study holds its rounds
    return frame_of(row for one in study.rounds for row in one.rows())


def _transmissions(study: FlowerStudy, store: Store) -> pd.DataFrame:
    del store
    return frame_of({"round": one.index + 1, **one.numbers} for one in study.rounds)


def _series(study: LearningStudy, store: Store, *, table: str) -> pd.DataFrame:
    """One table of all stored trials, in the order of the plan."""
    paths, keys = study.plan.swept_paths, KEYS[table]
    parts: list[dict[str, NDArray[Any]]] = []
    points: list[int] = []
    for point, ids in enumerate(study.task_ids):
        for trials, arrays in _batches(store, ids, table):
            shape = next(iter(arrays.values())).shape
            index = np.indices(shape[: len(keys)]).reshape(len(keys), -1)
            places = {"trial": np.asarray(trials)[index[0]]} | dict(zip(keys[1:], index[1:], strict=True))
            if "round" in places:
                places["round"] += 1
            parts.append(places | {name: array.reshape(-1) for name, array in arrays.items()})
            points.append(point)
    rows = [len(part["trial"]) for part in parts]
    of_row = np.repeat(np.array(points, int), rows)
    settings = _settings(study.plan)
    columns: dict[str, Any] = {path: pd.Series(settings[path]).take(of_row).array for path in paths}
    for name in dict.fromkeys([*keys, *(name for part in parts for name in part)]):
        missing = (np.full(count, np.nan) for count in rows)
        found = [part.get(name, empty) for part, empty in zip(parts, missing, strict=True)]
        columns[name] = np.concatenate(found) if found else []
    frame = pd.DataFrame(columns)
    for name in CODED.keys() & set(frame.columns):
        codes = frame[name].fillna(-1).astype(int)
        frame[name] = pd.Categorical.from_codes(codes.to_list(), categories=list(CODED[name]))
    return _labelled(frame)


def _settings(plan: Plan) -> dict[str, list[Any]]:
    """Value of each swept path at each sweep point: numbers and words as they are, mappings and lists in words."""
    found = {}
    for path in plan.swept_paths:
        values = [value_of(point, path) for point in plan.points]
        texts = [canonical_json(value) for value in values]
        words = [setting_cell(path, value) if isinstance(value, dict | list) else value for value in values]
        alike = len({canonical_json(word) for word in words}) < len(set(texts))
        found[path] = texts if alike else words
    return found


def _batches(store: Store, task_ids: Sequence[str], table: str) -> Iterable[tuple[list[int], dict[str, NDArray[Any]]]]:
    """Trials and arrays `[trials, ...]` by name of each batch that holds some of these tasks; empty ones left out."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for task in store.read_tasks(task_ids).values():
        if table != "metrics" or task.status == "done":
            rows.setdefault(task.batch, []).append((task.trial, task.row))
    for batch, found in rows.items():
        trials, places = map(list, zip(*found, strict=True))
        arrays = {name: a[places] for name, a in store.table(batch, table).items()}
        if arrays:
            yield trials, arrays


READERS: dict[str, dict[str, Callable[[Any, Store], pd.DataFrame]]] = {
    "run": {table: partial(_series, table=table) for table in KEYS},
    "link": {"link": _points},
    "audit": {"privacy": _audits},
    "flower": {"link": _clients, "rounds": _transmissions},
}
"""Tables of each kind of study, by the command that computes it."""
