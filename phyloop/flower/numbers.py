"""Floating-point arrays of a Flower message as one vector, and back."""

from __future__ import annotations

import io
import math
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

from fl.models.federated import Piece

FLOATING = ("float16", "bfloat16", "float32", "float64")
"""Types that travel over the radio. Others, such as counters of batch normalisation, stay as the client has them."""

Numbers = NDArray[np.floating[Any]]


class ArrayPlace(NamedTuple):
    """An array of a message: its record, its name in the record, and its shape."""

    record: str
    name: str
    shape: tuple[int, ...]


Layout = tuple[ArrayPlace, ...]


def layout_of(content: RecordDict) -> Layout:
    """Return the floating-point arrays of all ArrayRecords, in their order."""
    return tuple(
        ArrayPlace(record, name, tuple(array.shape))
        for record, arrays in content.array_records.items()
        for name, array in arrays.items()
        if array.dtype in FLOATING
    )


def pieces_of(layout: Layout) -> tuple[Piece, ...]:
    """Return the place of each array in the vector."""
    pieces, offset = list[Piece](), 0
    for place in layout:
        pieces.append(Piece(name=f"{place.record}/{place.name}", shape=place.shape, offset=offset))
        offset += pieces[-1].size
    return tuple(pieces)


def size_of(layout: Layout) -> int:
    """Return the number of values in all arrays."""
    return sum(math.prod(place.shape) for place in layout)


def vector(content: RecordDict, layout: Layout) -> Numbers:
    """Return the arrays of `layout` as one vector `[M]`: float64 where one of them is, else float32.

    An array that `content` lacks counts as zeros. A record of another name stands in for one that is missing, if it is
    the only one.
    """
    records = content.array_records
    only = next(iter(records.values())) if len(records) == 1 else ArrayRecord()
    parts = []
    for place in layout:
        array = records.get(place.record, only).get(place.name)
        if array is not None and array.dtype in FLOATING and tuple(array.shape) == place.shape:
            parts.append(to_numpy(array).ravel())
        else:
            parts.append(np.zeros(math.prod(place.shape), np.float32))
    wide = any(part.dtype == np.float64 for part in parts)
    return np.concatenate(parts, dtype=np.float64 if wide else np.float32)


def with_vector(content: RecordDict, layout: Layout, numbers: Numbers) -> RecordDict:
    """Return a copy of `content` whose arrays of `layout` hold `numbers` `[M]`, each in its own type."""
    records: dict[str, Any] = dict(content.items())
    for piece, place in zip(pieces_of(layout), layout, strict=True):
        if records[place.record] is content[place.record]:
            records[place.record] = ArrayRecord(dict(content.array_records[place.record].items()))
        like = records[place.record][place.name]
        records[place.record][place.name] = from_numpy(numbers[piece.place].reshape(place.shape), dtype=like.dtype)
    return RecordDict(records)


def to_numpy(array: Array) -> Numbers:
    """Return the numbers of an array; bfloat16, which NumPy lacks, as float32."""
    numbers = array.numpy()
    if array.dtype != "bfloat16":
        return numbers
    return (numbers.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def from_numpy(numbers: Numbers, *, dtype: str) -> Array:
    """Return numbers as an array of a type; those beyond its range become infinite."""
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return Array(np.asarray(numbers, dtype))
    words = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))  # to nearest, ties to even
    upper = np.where(np.isnan(numbers), words | np.uint32(0x400000), rounded) >> np.uint32(16)
    buffer = io.BytesIO()
    np.save(buffer, upper.astype(np.uint16).view("V2"), allow_pickle=False)
    return Array(dtype=dtype, shape=tuple(numbers.shape), stype="numpy.ndarray", data=buffer.getvalue())
