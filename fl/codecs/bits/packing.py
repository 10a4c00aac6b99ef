"""Integers of any width up to 64 bits to packed bits and back, by arithmetic on 64-bit words.

lcm(bits, 64) bits hold whole values and whole words. Groups of that many bits are laid side by side, so that each shift
acts on one value of every group at once: for 23 bits 1.3 shifts per value, where unpacked bits cost 23 steps and
23 bytes per value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.codecs.bits.packing_kernel import MOST_BITS, pack_rows, unpack_rows

VALUES_PER_GROUP = 64
"""A multiple of this many values fills whole bytes (and words) at every width."""

_FEW_VALUES = 1 << 16
"""Of fewer values, the calls of the shifts take longer than the shifts, and a kernel takes them one by one."""

_WORD = 64
_WHOLE_BYTES = {8: ">u1", 16: ">u2", 32: ">u4", 64: ">u8"}


def code_dtype(bits: int) -> type[np.uint32] | type[np.uint64]:
    """The unsigned integer that holds codes of this width."""
    return np.uint32 if bits <= 32 else np.uint64


def pack(codes: NDArray[np.unsignedinteger[Any]] | NDArray[np.bool_], *, bits: int) -> NDArray[np.uint8]:
    """Packed bits `[..., ceil(n bits / 8)]` of codes `[..., n]` below 2^bits, most significant bit first.

    One-bit codes may be bool. A code of more bits than `bits` would spill into its neighbours: the caller masks.
    """
    num_values = codes.shape[-1]
    if bits == 1:
        return np.packbits(codes.astype(bool, copy=False), axis=-1)
    if bits in _WHOLE_BYTES:
        return np.ascontiguousarray(codes.astype(_WHOLE_BYTES[bits])).view(np.uint8)
    if codes.size <= _FEW_VALUES and bits <= MOST_BITS:
        packed_rows = pack_rows(codes.reshape(math.prod(codes.shape[:-1]), num_values), bits=bits)
        return packed_rows.reshape(*codes.shape[:-1], packed_rows.shape[1])
    group, words = _group(bits)
    num_groups = -(-num_values // group)
    if num_groups * group != num_values:
        padding = [(0, 0)] * (codes.ndim - 1) + [(0, num_groups * group - num_values)]
        codes = np.pad(codes, padding)
    columns = np.ascontiguousarray(codes.reshape(-1, group).T).astype(np.uint64, copy=False)
    out = np.zeros((words, columns.shape[1]), np.uint64)
    shifted = np.empty(columns.shape[1], np.uint64)
    for value in range(group):
        word, offset = divmod(value * bits, _WORD)
        spill = offset + bits - _WORD
        if spill <= 0:
            np.left_shift(columns[value], np.uint64(-spill), out=shifted)
            out[word] |= shifted
        else:
            np.right_shift(columns[value], np.uint64(spill), out=shifted)
            out[word] |= shifted
            np.left_shift(columns[value], np.uint64(_WORD - spill), out=out[word + 1])
    packed = np.ascontiguousarray(out.T).astype(">u8").view(np.uint8)
    packed = packed.reshape(*codes.shape[:-1], num_groups * words * 8)
    return packed[..., : -(-num_values * bits // 8)]


def unpack(payload: NDArray[np.uint8], *, bits: int, num_values: int) -> NDArray[np.unsignedinteger[Any]]:
    """Codes `[..., num_values]`, uint32 (uint64 above 32 bits), of packed bits `[..., ceil(num_values bits / 8)]`."""
    dtype = code_dtype(bits)
    if bits == 1:
        return np.unpackbits(payload, axis=-1, count=num_values).astype(dtype)
    if bits in _WHOLE_BYTES:
        return np.ascontiguousarray(payload).view(_WHOLE_BYTES[bits]).astype(dtype)
    rows = math.prod(payload.shape[:-1])
    if rows * num_values <= _FEW_VALUES and bits <= MOST_BITS:
        flat = payload.reshape(rows, payload.shape[-1])
        return unpack_rows(flat, bits=bits, num_values=num_values, dtype=dtype).reshape(*payload.shape[:-1], num_values)
    group, words = _group(bits)
    num_groups = -(-num_values // group)
    missing = num_groups * words * 8 - payload.shape[-1]
    if missing:
        payload = np.pad(payload, [(0, 0)] * (payload.ndim - 1) + [(0, missing)])
    packed = np.ascontiguousarray(payload).view(">u8").reshape(-1, words)
    columns = np.ascontiguousarray(packed.T).astype(np.uint64)
    out = np.empty((group, columns.shape[1]), dtype)
    code, rest = np.empty((2, columns.shape[1]), np.uint64)
    for value in range(group):
        word, offset = divmod(value * bits, _WORD)
        spill = offset + bits - _WORD
        np.left_shift(columns[word], np.uint64(offset), out=code)
        code >>= np.uint64(_WORD - bits)
        if spill > 0:
            np.right_shift(columns[word + 1], np.uint64(_WORD - spill), out=rest)
            code |= rest
        out[value] = code
    codes = np.ascontiguousarray(out.T).reshape(*payload.shape[:-1], num_groups * group)
    return codes[..., :num_values]


def _group(bits: int) -> tuple[int, int]:
    """Values and words in lcm(bits, 64) bits."""
    common = math.gcd(bits, _WORD)
    return _WORD // common, bits // common
