"""`phyloop export`: tables of a run folder as CSV, Parquet or netCDF files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from scenarios.engine.study import Study
from scenarios.files.replacement import replacement, writing
from scenarios.report.tables.table import csv_cell
from scenarios.schema.errors import ScenarioError, listing
from scenarios.studies.folders import refuse_foreign
from scenarios.studies.tables import READERS, read_from

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
        raise ScenarioError(
            key="--format",
            value="parquet",
            problem="needs pyarrow, which is not installed",
            remedy="run pip install 'phyloop[parquet]', or write --format csv",
        ) from error


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
