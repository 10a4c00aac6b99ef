"""Arrays with a sample per row: `.npz` of NumPy and HDF5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.data.arrays import reading
from fl.data.files.parts import MOST_BYTES, Columns, FilePart, refuse
from fl.data.formats import read_npz
from phy.config.conflict import listing
from phy.numerics.npz import shapes_in_npz

Read = Callable[[str], NDArray[Any]]


def read_arrays(path: Path, columns: Columns) -> FilePart:
    """Return the samples of a file with arrays `x` and `y`, or `x_train`, `y_train`, `x_test` and `y_test`.

    The owner of each sample is in an array `owner` (`owner_train`, `owner_test`) where there is one. `columns` may name
    other arrays than `x`, `y` and `owner`. LearningError for arrays that are missing or do not fit each other.
    """
    if path.suffix.lower() == ".npz":
        with reading(".npz file", source=path):
            held = shapes_in_npz(path)
        return _part(path, held, lambda name: read_npz(path, name)[0], columns)
    import h5py

    with reading("HDF5 file", source=path), h5py.File(path, "r") as file:
        shapes = {name: (one.shape, one.dtype) for name, one in file.items() if isinstance(one, h5py.Dataset)}
        return _part(path, shapes, lambda name: np.asarray(file[name]), columns)


def _part(
    path: Path,
    shapes: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    read: Read,
    columns: Columns,
) -> FilePart:
    some = f"it has {listing(sorted(shapes)[:8], last='and') or 'none'}"
    if columns.features is not None and len(columns.features) != 1:
        refuse(path, f"features of arrays are one array; {some}", "name one array", key="features")
    x = columns.features[0] if columns.features else "x"
    y, owner = columns.label or "y", columns.owner or "owner"
    split = x not in shapes and f"{x}_train" in shapes
    ends = ("_train", "_test") if split else ("",)
    for key, name in (("features", x), ("label", y), ("owner", columns.owner)):
        for absent in [f"{name}{end}" for end in ends if name is not None and f"{name}{end}" not in shapes]:
            refuse(path, f"there is no array {absent}; {some}", "name an array of it, or add it", key=key)
    size = sum(int(np.prod(shapes[f"{x}{end}"][0], dtype=float)) * shapes[f"{x}{end}"][1].itemsize for end in ends)
    if size > MOST_BYTES:
        refuse(path, f"array {x} takes {size >> 30} GiB, at most {MOST_BYTES >> 30}", "write fewer samples, or uint8")
    found = [_one(path, read, f"{x}{end}", f"{y}{end}", f"{owner}{end}" if f"{owner}{end}" in shapes else None)
             for end in ends]  # fmt: skip
    if not split:
        return found[0]
    train, test = found
    if train.x.shape[1:] != test.x.shape[1:]:
        refuse(path, f"{x}_train and {x}_test hold samples of shape {train.x.shape[1:]} and {test.x.shape[1:]}")
    owners = None
    if train.owner is not None:
        of_test = np.full(len(test.y), "") if test.owner is None else test.owner
        owners = np.concatenate([train.owner.astype(str), of_test.astype(str)])
    return FilePart(
        x=np.concatenate([train.x, test.x]),
        y=np.concatenate([train.y, test.y]),
        owner=owners,
        is_test=np.arange(len(train.y) + len(test.y)) >= len(train.y),
    )


def _one(path: Path, read: Read, x: str, y: str, owner: str | None) -> FilePart:
    values, labels = read(x), read(y)
    if values.ndim not in (2, 3, 4) or values.dtype.kind not in "buif" or not values.size:
        problem = f"array {x} is {values.dtype} of shape {values.shape}"
        refuse(path, problem, "write numbers [samples, features], or images [samples, height, width, channels]")
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or len(labels) != len(values) or labels.dtype.kind not in "buifSU":
        problem = f"array {y} is {labels.dtype} of shape {labels.shape}, and {x} has {len(values)} samples"
        refuse(path, problem, "write one label or number for each sample", key="label")
    if values.dtype.kind != "u" or values.itemsize != 1:
        values = values.astype(np.float32)
        if not np.isfinite(values).all():
            refuse(path, f"array {x} has entries that are no finite numbers", "correct or leave out those samples")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        refuse(path, f"array {y} has entries that are no finite numbers", "correct or leave out those samples")
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    owners = None if owner is None else read(owner)
    if owners is not None:
        if owners.shape != (len(values),):
            problem = f"array {owner} has shape {owners.shape}, and {x} has {len(values)} samples"
            refuse(path, problem, "write one owner for each sample", key="owner")
        owners = np.char.decode(owners, "utf-8") if owners.dtype.kind == "S" else owners.astype(str)
    return FilePart(x=values, y=labels, owner=owners)
