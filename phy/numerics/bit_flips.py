"""Bits of packed payloads flipped at random, each device at its own probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import inlined, kernel, read_only
from phy.numerics.threefry import draw_lanes, positions, threefry
from phy.numerics.workers import run_tasks

LEVELS = 10
"""Binary digits of a probability that are compared for every bit; one bit in 1024 needs 32 more."""

TIE_STREAM = np.uint32(1 << 31)

_BLOCKS = 64
"""Blocks of 64 bits that are worked on together."""

_ALL, _ONE = np.uint32(0xFFFFFFFF), np.uint32(1)


@inlined
def _compare(
    key0: Any, key1: Any, device: Any, start: Any, one: Any, words: Any, below: Any, tied: Any, blocks: Any
) -> None:
    """One digit of blocks whose counters lie `LEVELS` apart from `start` on; `one`: the threshold's digit, in all bits.

    `below` and `tied` `[2, _BLOCKS]` hold the first and the second halves of the blocks.
    """
    less0, less1, even0, even1 = below[0], below[1], tied[0], tied[1]
    draw_lanes((key0, key1), positions(device, start, LEVELS), words, np.int64(0), np.int64(_BLOCKS), blocks)
    for i in range(blocks):
        word0, word1 = words[i], words[_BLOCKS + i]
        less0[i] |= np.uint32(even0[i] & np.uint32(np.uint32(~word0) & one))
        less1[i] |= np.uint32(even1[i] & np.uint32(np.uint32(~word1) & one))
        even0[i] &= np.uint32(~np.uint32(word0 ^ one))
        even1[i] &= np.uint32(~np.uint32(word1 ^ one))


@kernel
def _flip(streams: Any, thresholds: Any, lines: Any, num_bytes: Any, payload: Any, first: Any, last: Any) -> None:
    """Rows `first` to `last`: the line of `payload` that each stands for, `num_bytes` of it."""
    below, tied = np.empty((2, _BLOCKS), np.uint32), np.empty((2, _BLOCKS), np.uint32)
    drawn = np.empty(2 * _BLOCKS, np.uint32)
    for row in range(first, last):
        key0, key1, device = streams[row, 0], streams[row, 1], streams[row, 2]
        leading = np.uint32(thresholds[row] >> np.uint64(32))
        rest = np.uint32(thresholds[row] & np.uint64(0xFFFFFFFF))
        line = payload[lines[row]]
        # A probability of 1 has its only digit in front of the point.
        sure = _ALL if leading >> np.uint32(LEVELS) else np.uint32(0)
        for begin in range(0, num_bytes, 8 * _BLOCKS):
            below[:], tied[:] = sure, np.uint32(~sure)
            start, blocks = np.uint32(begin // 8 * LEVELS), min(_BLOCKS, (num_bytes - begin + 7) // 8)
            for level in range(LEVELS):
                digit = np.uint32(np.uint32(leading >> np.uint32(LEVELS - 1 - level)) & _ONE)
                one = np.uint32(np.uint32(0) - digit)
                _compare(key0, key1, device, np.uint32(start + np.uint32(level)), one, drawn, below, tied, blocks)
            for i in range(blocks):
                for half in range(2):
                    flips, open_ = below[half, i], tied[half, i]
                    at = begin + 8 * i + 4 * half
                    if open_:
                        # Bytes lie in memory from the lowest on, bits in a byte from the highest.
                        for lane in range(32):
                            bit = np.uint32(_ONE << np.uint32(8 * (lane // 8) + 7 - lane % 8))
                            if open_ & bit:
                                # The position itself may take 33 bits, its half does not.
                                pair = np.uint32(4 * at + lane // 2)
                                words = threefry(key0, key1, pair, np.uint32(device | TIE_STREAM))
                                if (words[1] if lane % 2 else words[0]) < rest:
                                    flips |= bit
                    for byte in range(min(4, num_bytes - at)):
                        line[at + byte] ^= np.uint8(flips >> np.uint32(8 * byte))


def flip_bits(
    payload: NDArray[np.uint8],
    *,
    probability: NDArray[np.float64],
    num_bits: int,
    keys: NDArray[np.uint32],
    first_device: int = 0,
) -> NDArray[np.uint8]:
    """The payload with each of its first `num_bits` bits flipped independently with its device's probability.

    `payload` `[num_trials, num_devices, ceil(num_bits / 8)]` uint8; `probability` `[num_trials, num_devices]` from 0 to
    1, kept to 2^-43; `keys` `[num_trials, 2]` uint32 of `random.round_keys`. Padding bits stay as they are. What
    happens to a bit is a function of its trial's key, its device, numbered from `first_device` on, and its position
    alone.

    A bit flips where a uniform U in [0, 1) lies below p. The leading digits of U and p are compared for 32 bits at
    once, one random word per digit; that decides all but 2^-10 of the bits, and only those draw the rest of U.
    Counters are (10 block + digit, device), and the two words of one call are the two halves of a block.

    Raises ValueError for a probability that is NaN or outside [0, 1].
    """
    probability = np.asarray(probability, np.float64)
    wrong = probability[~((probability >= 0.0) & (probability <= 1.0))]
    if wrong.size:
        raise ValueError(f"flip probability {wrong[0]} lies outside 0 to 1; compute it from rates that are numbers")
    out = payload.copy(order="C")
    trials, devices = np.nonzero(probability > 0)
    lines, num_bytes = trials * probability.shape[1] + devices, out.shape[-1]
    if not lines.size or not num_bits:
        return out
    flat = out.reshape(-1, num_bytes)
    thresholds = np.rint(probability[trials, devices] * 2.0 ** (LEVELS + 32)).astype(np.uint64)
    streams = np.concatenate([keys[trials], (devices[:, None] + first_device).astype(np.uint32)], axis=1)
    rows, of_rows, limits = read_only(lines), read_only(streams), read_only(thresholds)
    run_tasks(lambda first, last: _flip(of_rows, limits, rows, num_bytes, flat, first, last), num_tasks=len(lines))
    if num_bits % 8:
        padding = np.uint8(0xFF >> (num_bits % 8))
        out[..., -1] = (out[..., -1] & ~padding) | (payload[..., -1] & padding)
    return out
