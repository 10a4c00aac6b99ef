"""Samples of one file as they are read, before they are split and numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fl.base.errors import LearningError
from phy.config.conflict import Conflict, Remedy, Say

MOST_BYTES = 8 << 30
"""Largest size of a file's arrays, unpacked [B]."""
KEYS = "learning.data.file learning.data"

TABLES = (".csv", ".tsv", ".txt", ".parquet")
ARRAYS = (".npz", ".h5", ".hdf5")
COLLECTIONS = (".json", ".sqlite", ".lzma")
"""Files of LEAF and of TensorFlow Federated, which name samples, labels and owners themselves."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FilePart:
    """Samples of a file.

    - `x` `[N, features]` or `[N, height, width(, channels)]`, uint8 or float32; `features`: names of columns;
    - `y` `[N]`: words, whole numbers or floats;
    - `owner` `[N]`: whose each sample is; None where the file does not tell;
    - `is_test` `[N]`: to test on, where the file says so; else None.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    owner: NDArray[Any] | None = None
    is_test: NDArray[np.bool_] | None = None
    features: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names that the scenario gives to parts of a file: columns of a table, or arrays; None: not named."""

    label: str | None
    features: tuple[str, ...] | None
    owner: str | None


def refuse(source: Path, problem: str, *remedies: Remedy | str, key: str = "") -> NoReturn:
    """Raise the error of a file that cannot be learnt from; `key` of `learning.data` is to blame, else the file."""
    keys = f"learning.data.{key} {KEYS}" if key else KEYS
    said = (Say(one) if isinstance(one, str) else one for one in remedies)
    raise LearningError(Conflict(keys, f"{source.name}: {problem}", *said))


def joined_parts(parts: Sequence[FilePart], *, sources: Sequence[Path]) -> FilePart:
    """Return the samples of several files as one; where no file names owners, every file is one.

    Raises LearningError for files with other features.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    for part, source in zip(parts, sources, strict=True):
        if part.x.shape[1:] != first.x.shape[1:] or part.features != first.features:
            refuse(
                source,
                f"its samples have {_width(part)}, those of {sources[0].name} {_width(first)}",
                "name the features that all files have",
                key="features",
            )
    owners = [
        np.full(len(part.y), source.stem) if part.owner is None else part.owner
        for part, source in zip(parts, sources, strict=True)
    ]
    tested = None
    if first.is_test is not None:
        tested = np.concatenate([np.zeros(len(one.y), bool) if one.is_test is None else one.is_test for one in parts])
    return FilePart(
        x=np.concatenate([part.x for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        owner=np.concatenate([one.astype(str) for one in owners]),
        is_test=tested,
        features=first.features,
    )


def _width(part: FilePart) -> str:
    return f"{part.x.shape[1]} features" if part.x.ndim == 2 else f"shape {part.x.shape[1:]}"
