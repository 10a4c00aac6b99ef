"""Stochastic signs in one pass: from numbers to packed bits, words drawn on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.fused.compiled import kernel, read_only
from phy.fused.threefry import threefry
from phy.fused.workers import available_threads, run_tasks

_VALUES_OF_A_THREAD = 1 << 14
"""Fewer are drawn before another thread would have begun."""
_WORDS = 2.0**32


@kernel
def _draw(values: Any, slope: Any, keys: Any, first_pair: Any, payload: Any, first: Any, last: Any) -> None:
    """Devices `first` to `last` of all trials, one after the other."""
    num_devices, num_values = values.shape[1], values.shape[2]
    for row in range(first, last):
        trial, device = row // num_devices, row % num_devices
        key0, key1, counter = keys[trial, 0], keys[trial, 1], np.uint32(device)
        for byte in range(payload.shape[2]):
            bits = np.uint32(0)
            for place in range(8 * byte, min(8 * byte + 8, num_values), 2):
                words = threefry(key0, key1, np.uint32(first_pair + (place >> 1)), counter)
                for half in range(min(num_values - place, 2)):
                    plus = 1.0 / (1.0 + np.exp(-slope * values[trial, device, place + half]))
                    if np.float64(words[half]) >= plus * _WORDS:
                        bits |= np.uint32(0x80) >> np.uint32(place + half - 8 * byte)
            payload[trial, device, byte] = np.uint8(bits)


def stochastic_signs(
    values: NDArray[np.float64], *, slope: float, keys: NDArray[np.uint32], first: int
) -> NDArray[np.uint8]:
    """Packed bits `[num_trials, num_devices, ceil(n / 8)]` of finite `values` `[num_trials, num_devices, n]`.

    A bit is 0 with probability 1 / (1 + exp(-`slope` g)), by the words that `phy.random.uniform_words` gives for `keys`
    `[num_trials, 2]`, from number `first` (even) on.
    """
    num_trials, num_devices, num_values = values.shape
    payload = np.empty((num_trials, num_devices, -(-num_values // 8)), np.uint8)
    numbers, streams = read_only(values), read_only(keys)
    run_tasks(
        lambda start, stop: _draw(numbers, slope, streams, first // 2, payload, start, stop),
        num_tasks=num_trials * num_devices,
        threads=min(available_threads(), max(values.size // _VALUES_OF_A_THREAD, 1)),
    )
    return payload
