"""Samples of the user's files, numbered and split: what every trial of a study learns from and is tested on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, I64, U8, Bools
from fl.data.files import arrays, leaf, tables, tff
from fl.data.files.parts import ARRAYS, TABLES, Columns, FilePart, joined_parts, refuse
from phy.config.conflict import Write

_SPLIT_SEED = 20_261
MOST_CLASSES = 1000

Target = Literal["auto", "class", "number"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples of the user, read-only.

    - `x` `[N, H, W, C]` uint8 or float32, a table being `[N, 1, features, 1]`; `is_table`;
    - `y` `[N]` int64, numbers of `classes`, or float32 where numbers are predicted, and there are no classes;
    - `owner` `[N]` int64, numbers of `owners`; None where nobody is named;
    - `is_test` `[N]`.
    """

    x: U8 | F32
    y: I64 | F32
    owner: I64 | None
    owners: tuple[str, ...]
    is_test: Bools
    classes: tuple[str, ...]
    features: tuple[str, ...]
    is_table: bool

    @property
    def sizes_of_owners(self) -> tuple[int, ...]:
        """Samples of each owner to train on."""
        if self.owner is None:
            return ()
        return tuple(np.bincount(self.owner[~self.is_test], minlength=len(self.owners)).tolist())

    @property
    def classes_of_owners(self) -> tuple[int, ...]:
        """Classes among the samples of each owner to train on; 0 of numbers."""
        if self.owner is None or not self.classes:
            return ()
        pairs = np.unique(np.stack([self.owner[~self.is_test], self.y[~self.is_test].astype(np.int64)]), axis=1)
        return tuple(np.bincount(pairs[0], minlength=len(self.owners)).tolist())


@lru_cache(maxsize=2)
def read_samples(
    files: tuple[Path, ...],
    test_files: tuple[Path, ...],
    *,
    digests: tuple[str, ...],
    columns: Columns,
    target: Target,
    test_share: float,
) -> Samples:
    """Return the samples of `files`, with those of `test_files` to test on; `digests` tell files apart that changed.

    Without test files, and where no file says what is for the test, `test_share` of each owner's samples are: of every
    class, or of every span of numbers, the same share. The draw is the same in every trial. LearningError for files
    that cannot be read or that do not fit each other.
    """
    del digests
    whole = joined_parts([_read(path, columns) for path in files], sources=files)
    if test_files:
        tested = joined_parts([_read(path, columns) for path in test_files], sources=test_files)
        only_there = np.repeat([False, True], [len(whole.y), len(tested.y)])
        alone = whole.owner is None  # then a test set has no owners either
        both = [replace(part, owner=None, is_test=None) if alone else part for part in (whole, tested)]
        whole = joined_parts(both, sources=(files[0], test_files[0]))
        whole = replace(whole, is_test=only_there, owner=None if alone else whole.owner)
    y, classes = _numbered(whole, source=files[0], target=target)
    owners: tuple[str, ...] = ()
    owner = None
    if whole.owner is not None:
        of_training = slice(None) if whole.is_test is None else ~whole.is_test
        names = np.unique(whole.owner[of_training])
        owners, owner = tuple(names.tolist()), np.searchsorted(names, whole.owner).clip(0, len(names) - 1)
    is_test = whole.is_test
    if is_test is None:
        is_test = _drawn_for_test(y, owner=owner, share=test_share)
    for what, some in (("to train on", ~is_test), ("to test on", is_test)):
        if not some.any():
            problem = f"none of its {len(y)} samples is {what}"
            refuse(files[0], problem, Write({"test_share": 0.2}, example=True), key="test_share")
    x, is_table = whole.x, whole.x.ndim == 2
    x = x[:, None, :, None] if is_table else x[..., None] if x.ndim == 3 else x
    x = np.ascontiguousarray(x.astype(np.float32) if is_table else x)
    for array in (x, y, is_test):
        array.setflags(write=False)
    return Samples(
        x=x,
        y=y,
        owner=owner,
        owners=owners,
        is_test=is_test,
        classes=classes,
        features=whole.features,
        is_table=is_table,
    )


def _read(path: Path, columns: Columns) -> FilePart:
    suffix = path.suffix.lower()
    if suffix in TABLES:
        return tables.read_table(path, columns)
    if suffix in ARRAYS:
        return arrays.read_arrays(path, columns)
    return leaf.read_leaf(path) if suffix == ".json" else tff.read_tff(path)


def _numbered(whole: FilePart, *, source: Path, target: Target) -> tuple[I64 | F32, tuple[str, ...]]:
    """Numbers of classes and their names, or what is to be predicted as float32 and no names."""
    y: NDArray[np.generic] = whole.y
    is_number = y.dtype.kind == "f" if target == "auto" else target == "number"
    if is_number:
        if y.dtype.kind not in "buif":
            problem = f"the label is {y[0]}, no number"
            refuse(source, problem, Write({"target": "class"}), "name another label", key="label")
        numbers = y.astype(np.float32)
        if numbers.std() == 0.0:
            refuse(source, f"every sample has the number {numbers[0]:g}", "name another label", key="label")
        return numbers, ()
    if y.dtype.kind == "f" and not np.array_equal(y, np.rint(y.astype(float))):
        refuse(source, f"the label {y[0]} is no class", Write({"target": "number"}), key="target")
    names, found = np.unique(y.astype(np.int64) if y.dtype.kind == "f" else y, return_inverse=True)
    if len(names) < 2:
        refuse(source, f"every sample has the label {names[0]}", "name another label", key="label")
    if len(names) > MOST_CLASSES:
        problem = f"the label has {len(names):,} classes, at most {MOST_CLASSES:,}"
        refuse(source, problem, Write({"target": "number"}), "name another label", key="label")
    return found.astype(np.int64), tuple(map(str, names.tolist()))


def _drawn_for_test(y: NDArray[np.generic], *, owner: I64 | None, share: float) -> Bools:
    """Every 1 / `share`-th of the samples by owner, label and lot; each owner keeps one to train on."""
    lot = np.random.Generator(np.random.Philox(_SPLIT_SEED)).random(len(y))
    whose = np.zeros(len(y), np.int64) if owner is None else owner
    order = np.lexsort((lot, y, whose))
    chosen = np.zeros(len(y), bool)
    chosen[order] = np.diff(np.floor(np.arange(len(y) + 1) * share + 0.5)) > 0.0
    left = np.bincount(whose[~chosen], minlength=int(whose.max()) + 1)
    for lone in np.flatnonzero(left == 0):
        first = np.flatnonzero(whose == lone)
        chosen[first[:1]] = False
    return chosen
