"""Bits flipped at random for real: the artificial noise of bit-flipping privacy, Li et al. 2025 Section IV."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError
from phy.random import threefry

_BLOCK_BITS = 64
_BLOCKS_AT_ONCE = 1 << 16
_BLOCKS_IN_A_ROW = 1 << 14
_BYTES_AT_ONCE = 1 << 20

_LEVELS = 10
"""Binary digits of a probability that are compared for every bit; one bit in 1024 needs 32 more."""

_TIE_STREAM = np.uint32(1 << 31)
_MOST_BITS = 1 << 33


def flip_bits(
    payload: NDArray[np.uint8], *, probability: NDArray[np.float64], num_bits: int, keys: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """The payload with each of its first `num_bits` bits flipped independently with its device's probability.

    `payload` `[num_trials, num_devices, ceil(num_bits / 8)]` uint8; `probability` `[num_trials, num_devices]` from 0 to
    1, kept to 2^-43; `keys` `[num_trials, 2]` uint32 of `phy.random.round_keys`. Padding bits stay as they are. What
    happens to a bit is a function of its trial's key, its device and its position alone.

    A bit flips where a uniform U in [0, 1) lies below p. The leading digits of U and p are compared for 32 bits at
    once, one random word per digit; that decides all but 2^-10 of the bits, and only those draw the rest of U. So a
    bit costs ten random bits at any p, drawn by compiled code (as `phy.random.uniform_words` is).

    Raises LearningError for a probability that is NaN or outside [0, 1], and for arrays that do not fit.
    """
    probability = np.asarray(probability, np.float64)
    _check(payload, probability=probability, num_bits=num_bits, keys=keys)
    out = payload.copy(order="C")
    trials, devices = np.nonzero(probability > 0)
    lines = trials * probability.shape[1] + devices
    if not lines.size or not num_bits:
        return out
    flat = out.reshape(-1, out.shape[-1])
    thresholds = np.rint(probability[trials, devices] * 2.0 ** (_LEVELS + 32)).astype(np.uint64)
    streams = np.concatenate([keys[trials], devices[:, None].astype(np.uint32)], axis=1)
    num_blocks = -(-num_bits // _BLOCK_BITS)
    # Few different shapes, for each is compiled: blocks split evenly, rows padded.
    width = -(-num_blocks // -(-num_blocks // _BLOCKS_IN_A_ROW))
    height = min(_BLOCKS_AT_ONCE // width, 1 << (len(lines) - 1).bit_length())
    for top in range(0, len(lines), height):
        some = slice(top, min(top + height, len(lines)))
        for first in range(0, num_blocks, width):
            flips = _flips(streams[some], thresholds[some], first=first, width=width, height=height)
            stored = slice(8 * first, min(8 * (first + width), flat.shape[1]))
            flat[lines[some], stored] ^= flips[:, : stored.stop - stored.start]
    if num_bits % 8:
        padding = np.uint8(0xFF >> (num_bits % 8))
        out[..., -1] = (out[..., -1] & ~padding) | (payload[..., -1] & padding)
    return out


def count_differences(first: NDArray[np.uint8], second: NDArray[np.uint8], *, num_bits: int) -> NDArray[np.int64]:
    """Bits among the first `num_bits` that differ between packed payloads `[..., num_bytes]` uint8, `[...]` int64."""
    if first.shape != second.shape or 8 * first.shape[-1] < num_bits:
        raise LearningError(
            f"payloads of shapes {first.shape} and {second.shape} cannot be compared over {num_bits} bits; hand in "
            "what was sent and what came of it"
        )
    total = np.zeros(first.shape[:-1], np.int64)
    full, rest = divmod(num_bits, 8)
    width = max(_BYTES_AT_ONCE // max(total.size, 1), 1)
    for start in range(0, full, width):
        part = (..., slice(start, min(start + width, full)))
        total += np.bitwise_count(first[part] ^ second[part]).sum(axis=-1, dtype=np.int64)
    if rest:
        total += np.bitwise_count((first[..., full] ^ second[..., full]) >> np.uint8(8 - rest))
    return total


def _check(
    payload: NDArray[np.uint8], *, probability: NDArray[np.float64], num_bits: int, keys: NDArray[np.uint32]
) -> None:
    expected = (*probability.shape, -(-num_bits // 8))
    if payload.dtype != np.uint8 or payload.shape != expected or keys.shape != (len(probability), 2):
        raise LearningError(
            f"a payload {payload.shape} of {payload.dtype} with keys {keys.shape} does not fit probabilities "
            f"{probability.shape} of {num_bits} bits; it must be {expected} of uint8, with two words of key per trial"
        )
    if num_bits > _MOST_BITS:
        raise LearningError(f"{num_bits} bits per device exceed {_MOST_BITS}; flip them in several payloads")
    wrong = np.argwhere(~((probability >= 0.0) & (probability <= 1.0)))
    if len(wrong):
        trial, device = wrong[0]
        raise LearningError(
            f"flip probability {probability[trial, device]} of device {device} (row {trial} of the batch of trials) "
            "lies outside 0 to 1; compute it from a target and a measured rate that are numbers"
        )


def _flips(
    streams: NDArray[np.uint32], thresholds: NDArray[np.uint64], *, first: int, width: int, height: int
) -> NDArray[np.uint8]:
    """Packed flips `[num_rows, 8 width]` of `width` blocks from block `first` on.

    `streams` `[num_rows, 3]` are key and device, `thresholds` `[num_rows]` the probabilities times 2^42.
    """
    padding = height - len(streams)
    leading = (thresholds >> np.uint64(32)).astype(np.uint32)
    halves = _compare_kernel(height, width)(
        np.pad(streams, ((0, padding), (0, 0))), np.pad(leading, (0, padding)), np.uint32(first)
    )
    below_0, below_1, tied_0, tied_1 = (np.asarray(half)[: len(streams)] for half in halves)
    below = np.stack([below_0, below_1], axis=-1).reshape(len(streams), 2 * width)
    tied = np.stack([tied_0, tied_1], axis=-1).reshape(len(streams), 2 * width)
    row, word = np.nonzero(tied)
    lanes = np.unpackbits(tied[row, word].view(np.uint8).reshape(-1, 4), axis=1)
    which, lane = np.nonzero(lanes)
    row_of_tie = row[which]
    position = first * _BLOCK_BITS + 32 * word[which] + lane
    key = streams[row_of_tie]
    drawn = threefry((key[:, 0], key[:, 1]), ((position // 2).astype(np.uint32), np.bitwise_or(key[:, 2], _TIE_STREAM)))
    rest = (thresholds & np.uint64(0xFFFFFFFF)).astype(np.uint32)[row_of_tie]
    lanes[which, lane] = np.where(position % 2, drawn[1], drawn[0]) < rest
    below[row, word] |= np.packbits(lanes, axis=1).view(np.uint32)[:, 0]
    return below.view(np.uint8)


@lru_cache(maxsize=16)
def _compare_kernel(height: int, width: int) -> Any:
    """Which bits of `width` blocks lie below their threshold in the leading digits, and which are still equal.

    Counters are (10 block + digit, device); the two words of one call are the two halves of a block.
    """
    import tensorflow as tf

    bits = tf.bitwise

    @tf.function(
        jit_compile=True,
        autograph=False,
        input_signature=[
            tf.TensorSpec([height, 3], tf.uint32),
            tf.TensorSpec([height], tf.uint32),
            tf.TensorSpec([], tf.uint32),
        ],
    )
    def kernel(streams: Any, leading: Any, first: Any) -> Any:
        def digit(place: Any) -> Any:
            """All ones where the binary digit of the threshold is 1, place 0 standing for 2^0."""
            return (0 - bits.bitwise_and(bits.right_shift(leading, place), np.uint32(1)))[:, None]

        key = (streams[:, 0, None], streams[:, 1, None])
        block = (tf.cast(tf.range(width), tf.uint32) + first)[None, :] * np.uint32(_LEVELS)

        def compare(level: Any, below_0: Any, below_1: Any, tied_0: Any, tied_1: Any) -> tuple[Any, ...]:
            one = digit(np.uint32(_LEVELS - 1) - level)
            words = threefry(key, (block + level, streams[:, 2, None]), bits)
            pairs = ((below_0, tied_0, words[0]), (below_1, tied_1, words[1]))
            below = [
                bits.bitwise_or(less, bits.bitwise_and(tied, bits.bitwise_and(bits.invert(word), one)))
                for less, tied, word in pairs
            ]
            tied = [bits.bitwise_and(tied, bits.invert(bits.bitwise_xor(word, one))) for _, tied, word in pairs]
            return level + np.uint32(1), *below, *tied

        # A probability of 1 has its only digit in front of the point.
        sure = tf.broadcast_to(digit(np.uint32(_LEVELS)), [height, width])
        start = (tf.zeros([], tf.uint32), sure, sure, bits.invert(sure), bits.invert(sure))
        # A loop, and not ten comparisons in a row, compiles in a tenth of the time.
        return tf.while_loop(lambda level, *_: level < np.uint32(_LEVELS), compare, start)[1:]

    return kernel
