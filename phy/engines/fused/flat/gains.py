"""Gains of a block for power control (`BlockGains`), from taps that a kernel draws and does not keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.flat.candidates import uniform
from phy.engines.fused.flat.lanes import FADED_POWER, NOISE_SCALE, OF_TAPS, SENT_POWER, TAP_REAL, TILE, tap_lanes
from phy.engines.fused.flat.taps import (
    TapLaw,
    coefficients,
    draw_errors,
    draw_taps,
    has_radius,
    parts_of,
    tap_law,
    taps_of_words,
)
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.numerics.compiled import inlined, lean_kernel, read_only
from phy.numerics.random_kernels import negative_log
from phy.numerics.threefry import positions
from phy.numerics.workers import of_thread, run_tasks

_TILES_OF_A_TASK = 32
_ZERO, _NOTHING = np.float32(0.0), np.int32(0)
_WEIGHT, _REACHED, _ACTIVE, _PEAK, _ARRIVAL, NUM_SUMS = range(6)


# Largest values by their bits, which order as positive numbers do: LLVM makes no vectors of a loop with the largest of
# floats, one of which might be no number.


@inlined
def _gains_of(noise_std: Any, lanes: Any, count: Any) -> Any:
    """Sums of |A w|^2, |A w h^| and active taps, and the largest |A w h^| and |A w h|^2."""
    weight, reached, active, peak, arrival = 0.0, 0.0, 0.0, _NOTHING, _NOTHING
    for i in range(count):
        power = lanes[SENT_POWER + i]
        reach = np.float32(noise_std / lanes[NOISE_SCALE + i] if power > _ZERO else _ZERO)
        weight += np.float64(power)
        reached += np.float64(reach)
        active += 1.0 if power > _ZERO else 0.0
        peak = max(peak, reach.view(np.int32))
        arrival = max(arrival, np.float32(lanes[FADED_POWER + i]).view(np.int32))
    return weight, reached, active, np.int32(peak).view(np.float32), np.int32(arrival).view(np.float32)


@inlined
def _gains_of_radii(amplitude: Any, lanes: Any, count: Any) -> Any:
    """`_gains_of` from the words of taps that `has_radius`, where |A w| = 1 and |A w h| is `amplitude` times |h|."""
    reached, active, bits = 0.0, 0.0, _NOTHING
    for i in range(count):
        reach = np.float32(amplitude * math.sqrt(max(negative_log(uniform(lanes, TAP_REAL + i)), _ZERO)))
        reached += np.float64(reach)
        active += 1.0 if reach > _ZERO else 0.0
        bits = max(bits, reach.view(np.int32))
    peak = np.int32(bits).view(np.float32)
    return active, reached, active, peak, peak * peak


@lean_kernel
def _measure(
    law: Any, table: Any, errors: Any, keys: Any, devices: Any, gains: Any, num_symbols: Any, out: Any, first: Any,
    last: Any, scratch: Any,
) -> None:  # fmt: skip
    """Tasks `first` to `last`: sums (and peaks) over `_TILES_OF_A_TASK` tiles of taps into `out` `[row, span, sum]`."""
    spans = out.shape[1]
    block = min(law.block_symbols, num_symbols)
    num_taps = (num_symbols + block - 1) // block
    words, lanes = scratch
    radii = has_radius(law)
    for task in range(first, last):
        row, span = task // spans, task % spans
        sums = out[row, span]
        sums[:] = 0.0
        for tile in range(_TILES_OF_A_TASK):
            start = (span * _TILES_OF_A_TASK + tile) * TILE
            count = min(num_taps - start, TILE)
            if count <= 0:
                break
            counters = positions(devices[row], start, 1)
            draw_taps(law, keys[row], counters, words, count)
            if not radii:
                taps_of_words(law, table, lanes, count)
                draw_errors(errors, keys[row], counters, words, lanes, count)
                coefficients(law, gains[row], np.float32(1.0), lanes, OF_TAPS, count)
            whole = min(num_symbols // block - start, count)
            for first_tap, num, symbols in ((0, whole, block), (whole, count - whole, num_symbols % block)):
                if radii:
                    found = _gains_of_radii(gains[row] * law.scattered_part, lanes[first_tap:], num)
                else:
                    found = _gains_of(law.noise_std, lanes[OF_TAPS + first_tap :], num)
                sums[_WEIGHT] += symbols * found[0]
                sums[_REACHED] += symbols * found[1]
                sums[_ACTIVE] += symbols * found[2]
                sums[_PEAK] = max(sums[_PEAK], found[3])
                sums[_ARRIVAL] = max(sums[_ARRIVAL], np.sqrt(found[4]))


SumTaps = Callable[..., NDArray[np.float64]]
"""`sum_taps` on one kind of processor."""


_scratch = of_thread(tap_lanes)


def sum_taps(
    law: TapLaw,
    keys: NDArray[np.uint32],
    devices: NDArray[np.uint32],
    gains: NDArray[np.float32],
    *,
    num_symbols: int,
    threads: int,
) -> NDArray[np.float64]:
    """Sums of |A w|^2, |A w h^| and active symbols, and the largest |A w h^| and |A w h|, `[rows, spans, 5]`."""
    num_taps = -(-num_symbols // min(law.block_symbols, num_symbols))
    spans = -(-num_taps // (TILE * _TILES_OF_A_TASK))
    sums = np.empty((len(devices), spans, NUM_SUMS))
    run_tasks(
        lambda first, last: _measure(
            law, *parts_of(law), keys, devices, gains, num_symbols, sums, first, last, _scratch()
        ),
        num_tasks=len(devices) * spans,
        threads=threads,
    )
    return sums


def measure_gains(
    channel: FlatChannel, context: UplinkContext, *, threads: int, sum_taps: SumTaps = sum_taps
) -> BlockGains:
    """`FlatChannel.block_gains` without TensorFlow, from the same taps to within float32 rounding."""
    channel_key, csi_key, devices, gains = channel.rows(context)
    sums = sum_taps(
        tap_law(channel),
        read_only(np.concatenate([channel_key, csi_key], axis=1)),
        read_only(devices),
        read_only(gains),
        num_symbols=channel.num_symbols,
        threads=threads,
    )
    shape = (len(context.trials), channel.num_devices)
    total, peak = sums.sum(axis=1).T.reshape(-1, *shape), sums.max(axis=1).T.reshape(-1, *shape)
    return BlockGains(
        weight_power=total[_WEIGHT] / channel.num_symbols,
        gain_sum=total[_REACHED],
        gain_peak=peak[_PEAK],
        arrival_peak=peak[_ARRIVAL],
        active_symbols=total[_ACTIVE],
    )
