"""Encoding and decoding in parts of bounded size, with the checks that all codecs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fl.codecs.bits.packing import VALUES_PER_GROUP, pack, unpack
from fl.config.codec import Encoded
from fl.tasks.base import LearningError

_VALUES_AT_ONCE = 1 << 18

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.unsignedinteger[Any]] | NDArray[np.bool_]


def encode_in_parts(
    values: Floats,
    *,
    bits: int,
    dtype: type[np.float32] | type[np.float64],
    limits: tuple[float, float],
    to_codes: Callable[[Any, int], Codes] | None = None,
    to_bytes: Callable[[Any, int], NDArray[np.uint8]] | None = None,
) -> Encoded:
    """Bits of `values` `[num_trials, num_devices, num_values]`, read as `dtype` and clipped to `limits`.

    `to_codes(part, first)` gives the codes below 2^bits of values `[num_trials, num_devices, n]` within the limits,
    the first of them number `first` of its device; `to_bytes(part, first)` their packed bits, where a codec has a way
    of its own. Raises LearningError for NaN, infinity, or another shape.
    """
    if values.ndim != 3:
        raise LearningError(
            f"values to encode have shape {values.shape}; a codec takes [num_trials, num_devices, num_values]"
        )
    # Here, because numba takes a while to import.
    from fl.codecs.bits.packing_kernel import all_between

    num_bytes = _num_bytes(values.shape[-1], bits)
    payload = np.empty((*values.shape[:2], num_bytes), np.uint8)
    clipped = np.zeros(values.shape[:2], np.int64)
    low, high = dtype(limits[0]), dtype(limits[1])
    for columns, stored in _parts(values.shape, bits):
        part: Floats = values[..., columns]
        if part.dtype != dtype:
            with np.errstate(over="ignore"):
                part = part.astype(dtype)
        if not all_between(part, low, high):
            _refuse_what_is_not_finite(values[..., columns], first=columns.start)
            clipped += np.count_nonzero((part < low) | (part > high), axis=-1)
            part = np.clip(part, low, high)
        if to_bytes is not None:
            packed = to_bytes(part, columns.start)
        else:
            assert to_codes is not None
            packed = pack(to_codes(part, columns.start), bits=bits)
        if packed.shape[-1] == num_bytes:  # all of it: nothing is copied
            payload = np.ascontiguousarray(packed)
        else:
            payload[..., stored] = packed
    return Encoded(payload=payload, clipped=clipped)


def decode_in_parts(
    payload: NDArray[np.uint8],
    *,
    bits: int,
    num_values: int,
    dtype: DTypeLike,
    to_values: Callable[[Any], NDArray[Any]],
) -> NDArray[Any]:
    """Values `[..., num_values]` of `dtype` from packed bits `[..., ceil(num_values bits / 8)]`.

    `to_values(codes)` decodes codes `[..., n]`, see `unpack`. Raises LearningError for a payload of another length.
    """
    expected = _num_bytes(num_values, bits)
    if payload.dtype != np.uint8 or payload.shape[-1] != expected:
        raise LearningError(
            f"a payload of {payload.shape[-1]} entries of {payload.dtype} cannot hold {num_values} values of {bits} "
            f"bits; that takes {expected} bytes (uint8) per device"
        )
    out = np.empty((*payload.shape[:-1], num_values), dtype)
    for columns, stored in _parts(out.shape, bits):
        codes = unpack(payload[..., stored], bits=bits, num_values=columns.stop - columns.start)
        out[..., columns] = to_values(codes)
    return out


def _num_bytes(num_values: int, bits: int) -> int:
    return -(-num_values * bits // 8)


def _parts(shape: tuple[int, ...], bits: int) -> Iterator[tuple[slice, slice]]:
    """Columns of the values and of the bytes that hold them."""
    num_rows, num_values = prod(shape[:-1]), shape[-1]
    width = max(_VALUES_AT_ONCE // max(num_rows, 1) // VALUES_PER_GROUP, 1) * VALUES_PER_GROUP
    for first in range(0, num_values, width):
        last = min(first + width, num_values)
        yield slice(first, last), slice(first * bits // 8, _num_bytes(last, bits))


def _refuse_what_is_not_finite(part: Floats, *, first: int) -> None:
    lost = np.argwhere(~np.isfinite(part))
    if len(lost):
        trial, device, column = lost[0]
        raise LearningError(
            f"entry {first + column} of device {device} (row {trial} of the batch of trials) is "
            f"{part[trial, device, column]} and has no bits; training diverged: lower the learning rate or clip"
        )
