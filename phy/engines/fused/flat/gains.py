"""Gains of a block for power control (`BlockGains`), from taps that a kernel draws and does not keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.flat.lanes import FADED_POWER, NOISE_SCALE, OF_TAPS, SENT_POWER, TILE, tap_lanes
from phy.engines.fused.flat.taps import TapLaw, coefficients, draw_known, tap_law
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.numerics.compiled import inlined, lean_kernel, read_only
from phy.numerics.threefry import positions
from phy.numerics.workers import run_tasks

_TILES_OF_A_TASK = 32
_ZERO = np.float32(0.0)
_WEIGHT, _REACHED, _ACTIVE, _PEAK, _ARRIVAL, NUM_SUMS = range(6)


@inlined
def _gains_of(noise_std: Any, lanes: Any, count: Any) -> Any:
    """Sums of |A w|^2, |A w h^| and active taps, and the largest |A w h^| and |A w h|^2."""
    weight, reached, active, peak, arrival = 0.0, 0.0, 0.0, _ZERO, _ZERO
    for i in range(count):
        power = lanes[SENT_POWER + i]
        reach = noise_std / lanes[NOISE_SCALE + i] if power > _ZERO else _ZERO
        weight += np.float64(power)
        reached += np.float64(reach)
        active += 1.0 if power > _ZERO else 0.0
        peak = max(peak, reach)
        arrival = max(arrival, lanes[FADED_POWER + i])
    return weight, reached, active, peak, arrival


@lean_kernel
def _measure(
    law: Any, keys: Any, devices: Any, gains: Any, num_symbols: Any, out: Any, first: Any, last: Any, scratch: Any
) -> None:
    """Tasks `first` to `last`: sums (and peaks) over `_TILES_OF_A_TASK` tiles of taps into `out` `[row, span, sum]`."""
    spans = out.shape[1]
    block = min(law.block_symbols, num_symbols)
    num_taps = (num_symbols + block - 1) // block
    words, lanes = scratch
    for task in range(first, last):
        row, span = task // spans, task % spans
        sums = out[row, span]
        sums[:] = 0.0
        for tile in range(_TILES_OF_A_TASK):
            start = (span * _TILES_OF_A_TASK + tile) * TILE
            count = min(num_taps - start, TILE)
            if count <= 0:
                break
            draw_known(law, keys[row], positions(devices[row], start, 1), words, lanes, count)
            coefficients(law, gains[row], np.float32(1.0), lanes, OF_TAPS, count)
            whole = min(num_symbols // block - start, count)
            for first_tap, num, symbols in ((0, whole, block), (whole, count - whole, num_symbols % block)):
                found = _gains_of(law.noise_std, lanes[OF_TAPS + first_tap :], num)
                sums[_WEIGHT] += symbols * found[0]
                sums[_REACHED] += symbols * found[1]
                sums[_ACTIVE] += symbols * found[2]
                sums[_PEAK] = max(sums[_PEAK], found[3])
                sums[_ARRIVAL] = max(sums[_ARRIVAL], np.sqrt(found[4]))


SumTaps = Callable[..., NDArray[np.float64]]
"""`sum_taps` on one kind of processor."""


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
        lambda first, last: _measure(law, keys, devices, gains, num_symbols, sums, first, last, tap_lanes()),
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
