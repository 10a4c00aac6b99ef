"""Tables with a sample per row: CSV, tab-separated text, Parquet."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fl.data.arrays import reading
from fl.data.files.parts import Columns, FilePart, refuse
from phy.config.conflict import Write, listing

_LISTED = 8


def read_table(path: Path, columns: Columns) -> FilePart:
    """Return the samples of a table. LearningError for columns that are not there, empty cells, and words.

    Features are all columns but the label and the owner where none are named.
    """
    frame = _frame(path)
    names = [str(name) for name in frame.columns]
    frame.columns = names
    more = [f"{len(names) - _LISTED} others"] if len(names) > _LISTED else []
    some = f"it has {listing([*names[:_LISTED], *more], last='and')}"
    if columns.label is None:
        refuse(path, f"no column is named as the label; {some}", Write({"label": names[-1]}, example=True), key="label")
    given = columns.features
    wanted = tuple(n for n in names if n not in (columns.label, columns.owner)) if given is None else given
    for key, asked in (("label", [columns.label]), ("owner", [columns.owner]), ("features", wanted)):
        for name in asked:
            if name is not None and names.count(name) != 1:
                if name in names:
                    refuse(path, f"two columns are called {name}", "rename one of them", key=key)
                near = get_close_matches(name, names, n=1)
                remedy = f"did you mean {near[0]}" if near else f"name a column of it: {some}"
                refuse(path, f"it has no column {name}", remedy, key=key)
    if not wanted:
        refuse(path, "it has no column beside the label and the owner", "add features")
    if columns.label in wanted:
        refuse(path, f"the label {columns.label} is one of the features", "leave it out of features", key="features")
    for name in filter(None, (columns.label, columns.owner, *wanted)):
        empty = int(frame[name].isna().sum())
        if empty:
            first = int(np.flatnonzero(frame[name].isna())[0])
            refuse(
                path,
                f"column {name} has {empty} empty cells, the first in row {first + 2}",
                "fill them, or leave the rows or the column out",
                key="features" if name in wanted else "file",
            )
    x = np.empty((len(frame), len(wanted)), np.float32)
    for place, name in enumerate(wanted):
        column = frame[name]
        if column.dtype.kind not in "buif":
            refuse(
                path,
                f"column {name} holds words, such as {column.iloc[0]}, and features are numbers",
                "write it as columns of 0 and 1, name the features without it, or name it as the owner",
                key="features",
            )
        with np.errstate(over="ignore"):  # told below
            x[:, place] = column.to_numpy(np.float32)
        if not np.isfinite(x[:, place]).all():
            refuse(path, f"column {name} holds numbers beyond single precision", "rescale or correct it")
    owner = None if columns.owner is None else frame[columns.owner].astype(str).to_numpy(str)
    return FilePart(x=x, y=_plain(frame[columns.label]), owner=owner, features=wanted)


def _plain(column: Any) -> Any:
    """A column as an array of numbers, truth values or words."""
    return column.to_numpy() if column.dtype.kind in "buif" else column.astype(str).to_numpy(str)


def _frame(path: Path) -> Any:
    import pandas as pd

    suffix = path.suffix.lower()
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        refuse(path, "Parquet needs pyarrow", "pip install 'phyloop[parquet]'")
    with reading("table", source=path):
        if suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = pd.read_csv(path, sep="\t" if suffix == ".tsv" else ",", skipinitialspace=True)
    if not len(frame):
        refuse(path, "it has no rows", "add samples")
    return frame
