"""Successive cancellation inside kernels, by symbols or by decoded packets; see `phy.receivers.detectors`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.noma.observed import Observed, pair_lane
from phy.engines.fused.packets.lines import ENERGY, LINE, MATCHED, NUM_LANES, ROOM, SYMBOL, decide_line, map_symbols
from phy.engines.fused.packets.lines import VARIANCE as INTERFERENCE
from phy.engines.fused.packets.soft import HARD, demap, kept_symbols, rows_at_once, soften
from phy.engines.fused.symbols import Mapping
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel
from phy.numerics.workers import spans

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@inlined
def _start(lanes: Any, real: Any, imag: Any, count: Any) -> None:
    for i in range(count):
        lanes[MATCHED + i] = real[i]
        lanes[MATCHED + ROOM + i] = imag[i]
        lanes[INTERFERENCE + i] = _ZERO


@inlined
def _subtract(lanes: Any, real: Any, imag: Any, sign: Any, count: Any) -> None:
    """Take G_kj x_j from z_k, with G_kj = real + i sign imag and x_j in the lane of symbols."""
    for i in range(count):
        a, b = real[i], sign * imag[i]
        x, y = lanes[SYMBOL + i], lanes[SYMBOL + ROOM + i]
        lanes[MATCHED + i] -= a * x - b * y
        lanes[MATCHED + ROOM + i] -= a * y + b * x


@inlined
def _interfere(lanes: Any, real: Any, imag: Any, count: Any) -> None:
    for i in range(count):
        lanes[INTERFERENCE + i] += real[i] * real[i] + imag[i] * imag[i]


@inlined
def _weigh(lanes: Any, energy: Any, count: Any) -> None:
    """Matched filter and signal-to-noise ratio of a user: noise has variance G_kk behind it, signal amplitude G_kk."""
    for i in range(count):
        total = energy[i] + lanes[INTERFERENCE + i]
        share = energy[i] / total if total > _ZERO else _ZERO
        lanes[MATCHED + i] *= share
        lanes[MATCHED + ROOM + i] *= share
        lanes[ENERGY + i] = energy[i] * share


@lean_kernel
def _cancel(
    values: Any, turn: Any, points: Any, decided: Any, llrs: Any, kept: Any, first: Any, last: Any, lanes: Any
) -> None:
    """`llrs`, and `kept` of the stages of all rows, of `soften`, or None."""
    users, num_symbols, bits = turn.shape[1], values.shape[2], points.bits_per_symbol
    for n in range(len(values)):
        for at in range(0, num_symbols, LINE):
            count = min(LINE, num_symbols - at)
            for stage in range(first, last):
                k = turn[n, stage]
                _start(lanes, values[n, 2 * k, at:], values[n, 2 * k + 1, at:], count)
                for other in range(users):
                    j = turn[n, other]
                    lane = pair_lane(users, min(j, k), max(j, k))
                    if other < stage:
                        map_symbols(decided[n, j, at:], points, lanes, count, count)
                        sign = _ONE if k < j else -_ONE
                        _subtract(lanes, values[n, lane, at:], values[n, lane + 1, at:], sign, count)
                    elif other > stage:
                        _interfere(lanes, values[n, lane, at:], values[n, lane + 1, at:], count)
                _weigh(lanes, values[n, 2 * users + k, at:], count)
                decide_line(lanes, points, decided[n, k, at:], count)
                if llrs is not None:
                    soften(lanes, points, llrs[n, k, at * bits :], kept[n * (last - first) + stage - first], at, count)


def cancel_in_turn(
    observed: Observed,
    turn: NDArray[np.int64],
    *,
    points: Mapping,
    soft: np.int64,
    stages: range,
    decided: NDArray[np.uint8],
    llrs: NDArray[np.float32],
) -> None:
    """Some `stages` of detection, user `turn[row, stage]` at each, in the caller's thread.

    A stage subtracts the symbols of `decided` `[rows, users, num_symbols]` of users before it, counts users after it as
    noise, decides to the nearest points, and has LLRs `[rows, users, num_symbols * bits]` unless `soft` is HARD.
    """
    lanes, num_symbols = aligned_zeros(NUM_LANES, np.float32), decided.shape[2]
    first, last, users = stages.start, stages.stop, turn.shape[1]
    step = rows_at_once(len(turn), num_symbols * len(stages), points=points, soft=soft)
    for mine in spans(len(turn), step=step):
        values, order = observed.values[mine], turn[mine]
        if soft == HARD:
            _cancel(values, order, points, decided[mine], None, None, first, last, lanes)
        else:
            kept = kept_symbols(len(order) * len(stages), num_symbols, points=points)
            _cancel(values, order, points, decided[mine], llrs[mine], kept, first, last, lanes)
            packets = users * np.arange(len(order))[:, None] + order[:, first:last]
            demap(kept, llrs[mine].reshape(-1, llrs.shape[2]), packets.ravel(), points=points, soft=soft)
