"""Bits flipped at random for real: the artificial noise of bit-flipping privacy, Li et al. 2025 Section IV."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError

_BYTES_AT_ONCE = 1 << 20
_MOST_BITS = 1 << 33


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
    once, one random word per digit; that decides all but 2^-10 of the bits, and only those draw the rest of U. So a
    bit costs ten random bits at any p, drawn in a kernel: counters are (10 block + digit, device), and the two words of
    one call are the two halves of a block.

    Raises LearningError for a probability that is NaN or outside [0, 1], and for arrays that do not fit.
    """
    probability = np.asarray(probability, np.float64)
    _check(payload, probability=probability, num_bits=num_bits, keys=keys)
    from fl.uplink.flip_kernels import LEVELS, flip_lines

    out = payload.copy(order="C")
    trials, devices = np.nonzero(probability > 0)
    lines = trials * probability.shape[1] + devices
    if not lines.size or not num_bits:
        return out
    flat = out.reshape(-1, out.shape[-1])
    thresholds = np.rint(probability[trials, devices] * 2.0 ** (LEVELS + 32)).astype(np.uint64)
    streams = np.concatenate([keys[trials], (devices[:, None] + first_device).astype(np.uint32)], axis=1)
    flip_lines(flat, lines=lines, streams=streams, thresholds=thresholds)
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
