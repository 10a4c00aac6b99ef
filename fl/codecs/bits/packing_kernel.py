"""Codes of any width to packed bits and back, one row after the other: what `packing` gives, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import kernel, read_only
from phy.numerics.workers import available_threads, run_tasks

MOST_BITS = 56
"""Wider codes and the up to 7 bits in front of them do not fit a word."""


@kernel
def _pack(codes: Any, bits: Any, out: Any, first: Any, last: Any) -> None:
    width = np.uint64(bits)
    for row in range(first, last):
        line, waiting, held, place = out[row], np.uint64(0), np.uint64(0), 0
        for value in codes[row]:
            waiting = np.uint64(np.uint64(waiting << width) | np.uint64(value))
            held += width
            while held >= np.uint64(8):
                held -= np.uint64(8)
                line[place] = np.uint8(np.uint64(waiting >> held) & np.uint64(0xFF))
                place += 1
        if held:
            line[place] = np.uint8(np.uint64(waiting << np.uint64(np.uint64(8) - held)) & np.uint64(0xFF))


@kernel
def _unpack(payload: Any, bits: Any, out: Any, first: Any, last: Any) -> None:
    width = np.uint64(bits)
    mask = np.uint64(np.uint64(np.uint64(1) << width) - np.uint64(1))
    for row in range(first, last):
        line, codes, waiting, held, place = payload[row], out[row], np.uint64(0), np.uint64(0), 0
        for value in range(len(codes)):
            while held < width:
                waiting = np.uint64(np.uint64(waiting << np.uint64(8)) | np.uint64(line[place]))
                held += np.uint64(8)
                place += 1
            held -= width
            codes[value] = np.uint64(waiting >> held) & mask


def pack_rows(codes: NDArray[np.unsignedinteger[Any]] | NDArray[np.bool_], *, bits: int) -> NDArray[np.uint8]:
    """Packed bits `[rows, ceil(n bits / 8)]` of codes `[rows, n]` below 2^bits; bits at most `MOST_BITS`."""
    given = read_only(codes)
    out = np.empty((len(given), -(-given.shape[1] * bits // 8)), np.uint8)
    run_tasks(
        lambda first, last: _pack(given, bits, out, first, last), num_tasks=len(given), threads=available_threads()
    )
    return out


def unpack_rows(payload: NDArray[np.uint8], *, bits: int, num_values: int, dtype: Any) -> NDArray[Any]:
    """Codes `[rows, num_values]` of `dtype` of packed bits `[rows, ceil(num_values bits / 8)]`."""
    given = read_only(payload)
    out = np.empty((len(given), num_values), dtype)
    run_tasks(
        lambda first, last: _unpack(given, bits, out, first, last), num_tasks=len(given), threads=available_threads()
    )
    return out


@kernel
def _all_between(values: Any, low: Any, high: Any) -> Any:
    inside = True
    for value in values:
        inside &= low <= value <= high
    return inside


def all_between(values: NDArray[np.floating[Any]], low: np.floating[Any], high: np.floating[Any]) -> bool:
    """Whether all values, of the type of the limits, are between them or equal to one; NaN is not."""
    return bool(_all_between(read_only(values).reshape(-1), low, high))
