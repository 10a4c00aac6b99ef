"""Tables of run folders as DataFrames, those of each kind of study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scenarios.report.figures.data import DATA, rows_of, stem
from scenarios.report.settings import columns_of_settings
from scenarios.report.tables.quantities import CODED
from scenarios.report.tables.tables import KEYS
from scenarios.schema.errors import ScenarioError, listing
from scenarios.schema.labels.labels import plain_label
from scenarios.store.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scenarios.studies.audit.study import AuditStudy
    from scenarios.studies.flower.study import FlowerStudy
    from scenarios.studies.learning import LearningStudy
    from scenarios.studies.link.study import LinkStudy
    from scenarios.studies.verify.study import VerifyStudy

    AnyStudy = LearningStudy | LinkStudy | AuditStudy | FlowerStudy


def read_table(study: AnyStudy, folder: Path, table: str) -> pd.DataFrame:
    """One table of a run folder; ScenarioError for one that studies of this kind do not have."""
    with study.store.open_existing(folder) as store:
        return read_from(study, store, table)


def read_from(study: Any, store: Store, table: str) -> pd.DataFrame:
    """One table of an open store, see `read_table`."""
    if table not in (readers := READERS[study.store.study]):
        raise ScenarioError(
            file=store.folder,
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


def _curves(study: LearningStudy | LinkStudy | FlowerStudy, store: Store) -> pd.DataFrame:
    """The data of all figures; `over` is the name of x."""
    columns = ["figure", "over", "x", *DATA]
    types = {"mean": float, "low": float, "high": float, "n": "Int64"}
    rows = [
        {"figure": stem(number, drawing), "over": drawing.config.x, **row}
        for number, drawing in enumerate(study.drawings(store), start=1)
        for row in rows_of(drawing, x="x")
    ]
    return _labelled(pd.DataFrame(rows, columns=columns).astype(types))


def _checks(study: VerifyStudy, store: Store) -> pd.DataFrame:
    from scenarios.studies.verify.check import CSV_HEADS, csv_values

    return frame_of(map(csv_values, study.read(store)), CSV_HEADS)


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
    taken = {*paths, *keys}  # a metric of the same name has a longer one
    parts: list[dict[str, NDArray[Any]]] = []
    points: list[int] = []
    for point, ids in enumerate(study.plan.task_ids):
        for trials, arrays in _batches(store, ids, table):
            shape = next(iter(arrays.values())).shape
            index = np.indices(shape[: len(keys)]).reshape(len(keys), -1)
            places = {"trial": np.asarray(trials)[index[0]]} | dict(zip(keys[1:], index[1:], strict=True))
            if "round" in places:
                places["round"] += 1
            values = dict(_columns(arrays, axes=len(keys)))
            parts.append(places | {f"metric {name}" * (name in taken) or name: one for name, one in values.items()})
            points.append(point)
    rows = [len(part["trial"]) for part in parts]
    of_row = np.repeat(np.array(points, int), rows)
    settings = columns_of_settings(study.plan.points, paths)
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


def _columns(arrays: Mapping[str, NDArray[Any]], *, axes: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Columns by name of arrays over `axes` axes; where there is one more, its k-th column has k in its name.

    `in_a_row_1` .. `in_a_row_8`: positions that start so many errors in a row; `label_bits_0`, .. and
    `label_errors_0`, ..: places in the symbol's label from the first.
    """
    for name, array in arrays.items():
        if array.ndim == axes:
            yield name, array.reshape(-1)
        else:
            first = 1 if name == "in_a_row" else 0
            for place in range(array.shape[-1]):
                yield f"{name}_{place + first}", array[..., place].reshape(-1)


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
    "run": {**{table: partial(_series, table=table) for table in KEYS}, "curves": _curves},
    "link": {"link": _points, "curves": _curves},
    "audit": {"privacy": _audits},
    "flower": {"link": _clients, "rounds": _transmissions, "curves": _curves},
    "verify": {"checks": _checks},
}
"""Tables of each kind of study, by the command that computes it; the first has the results."""
