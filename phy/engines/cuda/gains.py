"""`phy.engines.fused.flat.gains.sum_taps` on a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from phy.engines.cuda.carry import draw_tap
from phy.engines.cuda.compiled import fold, gpu_kernel
from phy.engines.cuda.memory import on_gpu
from phy.engines.fused.flat.gains import NUM_SUMS
from phy.engines.fused.flat.taps import TapLaw, coefficient

_THREADS, _TAPS_OF_A_THREAD = 128, 32
_SUMMED = 3
"""Rows that are added up, before those of which the largest value is kept."""
_ONE = np.float32(1.0)


@gpu_kernel
def _measure(law: Any, keys: Any, devices: Any, gains: Any, num_symbols: Any, out: Any) -> None:
    """Block b takes span b % spans of row b // spans; `out` `[rows, spans, 5]`."""
    found = cuda.shared.array((NUM_SUMS, _THREADS), np.float64)
    spans, thread = out.shape[1], cuda.threadIdx.x
    row, span = cuda.blockIdx.x // spans, cuda.blockIdx.x % spans
    block = min(law.block_symbols, num_symbols)
    num_taps = (num_symbols + block - 1) // block
    weight, reached, active, peak, arrival = 0.0, 0.0, 0.0, 0.0, 0.0
    for turn in range(_TAPS_OF_A_THREAD):
        tap = (span * _TAPS_OF_A_THREAD + turn) * _THREADS + thread
        if tap < num_taps:
            taps = draw_tap(law, keys[row], devices[row], tap)
            scale, _, _, amplitude, tap_power = coefficient(law, gains[row], _ONE, taps)
            power, symbols = np.float64(amplitude * amplitude), min(block, num_symbols - tap * block)
            if power > 0.0:
                reach = np.float64(law.noise_std / scale)
                weight += symbols * power
                reached += symbols * reach
                active += symbols
                peak = max(peak, reach)
                arrival = max(arrival, power * np.float64(tap_power))
    found[0, thread], found[1, thread], found[2, thread] = weight, reached, active
    found[3, thread], found[4, thread] = peak, math.sqrt(arrival)
    fold(found, _THREADS, _SUMMED)
    if thread < NUM_SUMS:
        out[row, span, thread] = found[thread, 0]


def sum_taps(
    law: TapLaw,
    keys: NDArray[np.uint32],
    devices: NDArray[np.uint32],
    gains: NDArray[np.float32],
    *,
    num_symbols: int,
    threads: int,
) -> NDArray[np.float64]:
    """See `phy.engines.fused.flat.gains.sum_taps`; `threads` of the CPU have no effect."""
    del threads
    num_taps = -(-num_symbols // min(law.block_symbols, num_symbols))
    spans = -(-num_taps // (_THREADS * _TAPS_OF_A_THREAD))
    out = cuda.device_array((len(devices), spans, NUM_SUMS), np.float64)
    law = law._replace(table=on_gpu(law.table))
    _measure[len(devices) * spans, _THREADS](law, on_gpu(keys), on_gpu(devices), on_gpu(gains), num_symbols, out)
    sums: NDArray[np.float64] = out.copy_to_host()
    return sums
