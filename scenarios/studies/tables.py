"""Tables of run folders as DataFrames, and as CSV, Parquet or netCDF files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from phy.config.conflict import listing
from privacy.errors import PrivacyError
from scenarios.engine.study import Study
from scenarios.files.replacement import replacement, writing
from scenarios.report.claims import gather_claims, strongest
from scenarios.report.figures.drawing import DATA, rows_of, stem
from scenarios.report.settings import column_cell, columns_of_settings
from scenarios.report.tables.quantities import CODED
from scenarios.report.tables.summaries import KEYS, summarise
from scenarios.report.tables.table import csv_cell
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label
from scenarios.store.store import Store
from scenarios.studies.accounts import Accounts
from scenarios.studies.folders import refuse_foreign

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
        return read_from(study, store, table)


def read_from(study: Any, store: Store, table: str) -> pd.DataFrame:
    """One table of an open store, see `read_table`."""
    if table not in (readers := READERS[study.store.study]):
        problem, remedy = f"results of phyloop {study.store.study} have no table {table}", f"use {listing(readers)}"
        raise ScenarioError(file=store.folder, problem=problem, remedy=remedy)
    return readers[table](study, store)


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Rows as a DataFrame, with the labels of its columns."""
    return _labelled(pd.DataFrame(list(rows), columns=columns))


_OF_ONE = {"airtime_s": "airtime [s]", "energy_j": "transmit energy [J]"}


def _labelled(frame: pd.DataFrame) -> pd.DataFrame:
    frame.attrs["labels"] = {name: axis_label(name) for name in frame.columns}
    if "device" in frame.columns or "round" not in frame.columns:  # of one device, or of a point, not of a round
        frame.attrs["labels"] |= {name: label for name, label in _OF_ONE.items() if name in frame.columns}
    return frame


def _rows(study: Any, store: Store) -> pd.DataFrame:
    return frame_of(*study.rows(store))


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


def _rates(study: LearningStudy, store: Store) -> pd.DataFrame:
    """A row per sweep point and error rate that its trials have counted, with the 95 % interval of the report."""
    paths = study.plan.swept_paths
    settings = columns_of_settings(study.plan.points, paths)
    rows = [
        {path: settings[path][at] for path in paths}
        | {"rate": name, "errors": rate.errors, "total": rate.total}
        # Without an error only an upper limit is known.
        | {"mean": rate.value if rate.errors else np.nan, "low": rate.low if rate.errors else np.nan, "high": rate.high}
        for at, summary in enumerate(summarise(store, study.plan))
        for name, rate in summary.rates.items()
    ]
    return frame_of(rows, [*paths, "rate", "errors", "total", "mean", "low", "high"])


def _privacy(study: LearningStudy, store: Store) -> pd.DataFrame:
    """The privacy loss of every round where one is recorded, else the strongest claims of `phyloop privacy`."""
    frame = _series(study, store, table="privacy")
    if len(frame):
        return frame
    try:
        found = tuple(replace(one, claims=strongest(one.claims)) for one in gather_claims(store, study.plan))
    except PrivacyError:  # phyloop privacy says which accountant can treat these ledgers
        return frame
    return claims_frame(Accounts(plan=study.plan, claims=found, flipping=())) if found else frame


def claims_frame(accounts: Accounts) -> pd.DataFrame:
    """A row per claim; see `phyloop.epsilon`."""
    frame = pd.DataFrame(accounts.rows(), columns=list(accounts.columns))
    for path in accounts.plan.swept_paths:
        words = (column_cell(path, value) for value in frame[path])
        frame[path] = pd.Series(list(words), index=frame.index, dtype=object)
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
    "run": {
        **{table: partial(_series, table=table) for table in KEYS},
        "privacy": _privacy,
        "rates": _rates,
        "curves": _curves,
    },
    "link": {"link": _rows, "curves": _curves},
    "audit": {"privacy": _rows},
    "flower": {
        "link": _rows,
        "rounds": lambda study, _: frame_of({"round": one.index + 1, **one.numbers} for one in study.rounds),
        "metrics": lambda study, _: frame_of(
            {"round": at, "metric": name, "value": value}
            for name, values in study.logged.items()
            for at, value in values.items()
        ),
        "curves": _curves,
    },
    "verify": {"checks": _rows},
}
"""Tables of each kind of study, by the command that computes it; the first has the results."""

DIMENSIONS = ("trial", "round", "device")
CURVES = "curves"


def export(
    study: Study, folder: Path, out: Path, *, tables: Sequence[str] = (), file_format: str = "csv"
) -> tuple[Path, ...]:
    """Write tables of a study in `folder` into `out`, a file each, whole or not at all.

    Without `tables` these are the results of each trial or sweep point, and the curves of the figures; `all` names all.
    ScenarioError if `folder` holds no result of the study or no such table, or `out` cannot be written.
    """
    if file_format not in _WRITERS:
        raise ScenarioError(key="--format", value=file_format, problem="is unknown", remedy=f"use {listing(_WRITERS)}")
    readers = READERS[study.store.study]
    paths = []
    with study.store.open_existing(folder) as store:
        refuse_foreign(study, store)
        usual = [name for name in readers if name in (next(iter(readers)), CURVES)]
        for table in readers if "all" in tables else tables or usual:
            frame = read_from(study, store, table)
            path = out / f"{table}.{'nc' if file_format == 'netcdf' else file_format}"
            with writing(out, "tables"), replacement(path) as file:
                _WRITERS[file_format](frame, file)
            paths.append(path)
    return tuple(paths)


def _write_csv(frame: pd.DataFrame, file: IO[bytes]) -> None:
    """UTF-8; floats with all digits that they need, an empty cell where nothing was measured."""
    safe = frame.rename(columns=lambda name: csv_cell(name))
    for name in safe.select_dtypes(exclude="number"):
        safe[name] = safe[name].astype(object).map(csv_cell)
    safe.to_csv(file, index=False, lineterminator="\n")


def _write_parquet(frame: pd.DataFrame, file: IO[bytes]) -> None:
    """With the labels of columns as metadata."""
    try:
        _plain(frame).to_parquet(file, engine="pyarrow", index=False)
    except ImportError as error:
        problem = "needs pyarrow, which is not installed"
        remedy = "run pip install 'phyloop[parquet]', or write --format csv"
        raise ScenarioError(key="--format", value="parquet", problem=problem, remedy=remedy) from error


def _write_netcdf(frame: pd.DataFrame, file: IO[bytes]) -> None:
    """NetCDF 3: dimensions `point` and those of `DIMENSIONS` that the table has; rows where it is no such grid.

    Settings go along `point`. Numbers are float64, NaN where nothing was measured; `long_name` is name and unit.
    """
    from scipy.io import netcdf_file

    frame = _plain(frame)
    keys = [name for name in frame.columns if name in DIMENSIONS]
    settings = list(frame.columns[: frame.columns.get_loc(keys[0])]) if keys else []
    points = frame.groupby(settings, sort=False, dropna=False).ngroup() if settings else np.zeros(len(frame), int)
    grid: dict[str, object] = {"point": points, **{key: frame[key] for key in keys}}
    if not keys or pd.DataFrame(grid).duplicated().any():
        grid, settings = {"row": np.arange(len(frame))}, []
    axes = {name: np.unique(np.asarray(column), return_inverse=True) for name, column in grid.items()}
    buffer = BytesIO()
    out = netcdf_file(buffer, "w", version=2)
    for name, (values, _) in axes.items():
        out.createDimension(name, len(values))
        out.createVariable(name, "i4", (name,))[:] = values
    for name in frame.columns:
        if name in axes:
            continue
        column, along = frame[name], ["point"] if name in settings else list(axes)
        places, shape = tuple(axes[one][1] for one in along), tuple(len(axes[one][0]) for one in along)
        if pd.api.types.is_numeric_dtype(column):
            data = np.full(shape, np.nan)
            data[places] = column.to_numpy(float, na_value=np.nan)
            variable = out.createVariable(name, "f8", tuple(along))
        else:
            texts = np.char.encode(column.fillna("").to_numpy(str), "utf-8")
            texts = texts.astype(f"S{max(texts.dtype.itemsize, 1)}")
            filled = np.zeros(shape, texts.dtype)
            filled[places] = texts
            data = filled.view("S1").reshape(*shape, texts.dtype.itemsize)
            if (length := f"length_{data.shape[-1]}") not in out.dimensions:
                out.createDimension(length, data.shape[-1])
            variable = out.createVariable(name, "S1", (*along, length))
            variable._Encoding = b"utf-8"
        variable[:] = data
        variable.long_name = frame.attrs["labels"][name].encode()
    out.flush()
    file.write(buffer.getvalue())


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with columns of one type each: numbers, or text where some values are words."""
    plain = frame.copy(deep=False)
    for name in frame.select_dtypes(exclude="number"):
        column = frame[name].astype(object)
        plain[name] = column.where(column.isna(), column.map(str)).astype("str")
    return plain


_WRITERS: dict[str, Callable[[pd.DataFrame, IO[bytes]], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "netcdf": _write_netcdf,
}
