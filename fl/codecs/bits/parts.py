"""Codecs of one code per number: encoding and decoding in parts of bounded size."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config.codec import Codec, Encoded
from fl.tasks.base import LearningError

_VALUES_AT_ONCE = 1 << 18
VALUES_PER_GROUP = 64
"""Parts hold a multiple of this many values: whole bytes at every width."""

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.unsignedinteger[Any]] | NDArray[np.bool_]


class PartwiseCodec(Codec):
    """A codec that reads numbers as `dtype`, clips them to `limits`, and gives each a code below 2^bits_per_value."""

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        """Type of the numbers before and after."""
        return np.float32

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Least and largest number that has a code."""

    @abstractmethod
    def to_codes(self, part: Any, *, keys: NDArray[np.uint32], first: int) -> Codes:
        """Return codes of numbers `[num_trials, num_devices, n]` within the limits, from number `first` on."""

    @abstractmethod
    def to_values(self, codes: Any) -> Floats:
        """Return numbers of codes `[..., n]`."""

    def encode(self, values: Floats, *, keys: NDArray[np.uint32]) -> Encoded:
        from fl.codecs.bits.packing import all_between, pack  # numba takes a while to import

        bits, dtype = self.bits_per_value, self.dtype
        payload = np.empty((*values.shape[:2], _num_bytes(values.shape[-1], bits)), np.uint8)
        clipped = np.zeros(values.shape[:2], np.int64)
        low, high = (dtype(limit) for limit in self.limits)
        for columns, stored in _parts(values.shape, bits):
            part: Floats = values[..., columns]
            if part.dtype != dtype:
                with np.errstate(over="ignore"):
                    part = part.astype(dtype)
            if not all_between(part, low, high):
                refuse_infinite_values(values[..., columns], first=columns.start)
                clipped += np.count_nonzero((part < low) | (part > high), axis=-1)
                part = np.clip(part, low, high)
            packed = pack(self.to_codes(part, keys=keys, first=columns.start), bits=bits)
            if packed.shape == payload.shape:  # all of it: nothing is copied
                payload = np.ascontiguousarray(packed)
            else:
                payload[..., stored] = packed
        return Encoded(payload=payload, clipped=clipped)

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> Floats:
        from fl.codecs.bits.packing import unpack

        out = np.empty((*payload.shape[:-1], num_values), self.dtype)
        for columns, stored in _parts(out.shape, self.bits_per_value):
            count = columns.stop - columns.start
            out[..., columns] = self.to_values(unpack(payload[..., stored], bits=self.bits_per_value, num_values=count))
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


def refuse_infinite_values(part: Floats, *, first: int = 0) -> None:
    """Raises LearningError for the first number that is not finite, counted from `first`."""
    lost = np.argwhere(~np.isfinite(part))
    if len(lost):
        trial, device, column = lost[0]
        raise LearningError(
            f"entry {first + column} of device {device} (row {trial} of the batch of trials) is "
            f"{part[trial, device, column]} and has no bits; training diverged: lower the learning rate or clip"
        )
