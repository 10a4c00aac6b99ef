"""Packed bits: integers of up to 56 bits to bits and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import kernel, read_only
from phy.numerics.workers import run_tasks

_WHOLE_BYTES = {8: ">u1", 16: ">u2", 32: ">u4"}


def code_dtype(bits: int) -> type[np.uint32] | type[np.uint64]:
    """The unsigned integer that holds codes of this width."""
    return np.uint32 if bits <= 32 else np.uint64


def pack(codes: NDArray[np.unsignedinteger[Any]] | NDArray[np.bool_], *, bits: int) -> NDArray[np.uint8]:
    """Packed bits `[..., ceil(n bits / 8)]` of codes `[..., n]` below 2^bits, most significant bit first.

    One-bit codes may be bool. A code of more bits than `bits` would spill into its neighbours: the caller masks.
    """
    if bits == 1:
        return np.packbits(codes.astype(bool, copy=False), axis=-1)
    if bits in _WHOLE_BYTES:
        return np.ascontiguousarray(codes.astype(_WHOLE_BYTES[bits])).view(np.uint8)
    rows = read_only(codes.reshape(math.prod(codes.shape[:-1]), codes.shape[-1]))
    out = np.empty((len(rows), -(-codes.shape[-1] * bits // 8)), np.uint8)
    run_tasks(lambda first, last: _pack(rows, bits, out, first, last), num_tasks=len(rows), cost_us=2e-3 * rows.size)
    return out.reshape(*codes.shape[:-1], out.shape[1])


def unpack(payload: NDArray[np.uint8], *, bits: int, num_values: int) -> NDArray[np.unsignedinteger[Any]]:
    """Codes `[..., num_values]`, uint32 (uint64 above 32 bits), of packed bits `[..., ceil(num_values bits / 8)]`."""
    dtype = code_dtype(bits)
    if bits == 1:
        return np.unpackbits(payload, axis=-1, count=num_values).astype(dtype)
    if bits in _WHOLE_BYTES:
        return np.ascontiguousarray(payload).view(_WHOLE_BYTES[bits]).astype(dtype)
    rows = read_only(payload.reshape(math.prod(payload.shape[:-1]), payload.shape[-1]))
    out = np.empty((len(rows), num_values), dtype)
    run_tasks(lambda first, last: _unpack(rows, bits, out, first, last), num_tasks=len(rows), cost_us=2e-3 * out.size)
    return out.reshape(*payload.shape[:-1], num_values)


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


def regroup(packed: NDArray[np.uint8], *, rows: int, num_bits: int) -> NDArray[np.uint8]:
    """Bits of packed rows `[n, ceil(num_bits / 8)]` as so many rows of equal length, padding of each left out."""
    if rows == len(packed):
        return packed
    if num_bits % 8 == 0 and len(packed) * num_bits // rows % 8 == 0:
        return packed.reshape(rows, -1)
    bits = np.unpackbits(packed, axis=1, count=num_bits)
    return np.packbits(bits.reshape(rows, -1), axis=1)
