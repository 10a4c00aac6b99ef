"""Layered decoding of quasi-cyclic LDPC codes on 8-bit values, vectorised over the lifting dimension.

Values are ln P(0) / P(1) in steps of 1 / `STEPS`. One layer after the other, with t_e = L - m_e for its edges e,

    m_e <- prod_{e' != e} sign(t_e') * min(M_e, 31),    L <- t_e + m_e    (Hocevar 2004, layered schedule)

where M_e joins |t_e'| over e' != e for the smallest |t_e|, and over all e' for every other edge (Jones et al. 2003,
approximate min*). Two magnitudes join as x * y = min(x, y) - c(|x - y|) + c(x + y), c(d) = ln(1 + exp(-d)), which is
the exact box-plus; c is max(3 - d / 4, 0) in steps. Posteriors L saturate at +-127; a message beyond 42 could
then pull a settled bit back over zero, hence 31.

A **lane** is one bit of a column in one frame. Codes with short columns decode several frames at once, frame by frame
in neighbouring lanes, so that they fill vectors. A column lies in memory twice in a row, rotated by the shift of the
layer that wrote it last: any cyclic shift of it is one contiguous read. Lanes beyond the last frame, up to a whole
number of vectors, repeat the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.coding.byte_vectors import (
    WIDTH,
    add,
    add_saturated,
    exclusive_or,
    filled,
    load,
    magnitude,
    maximum,
    minimum,
    negative_where,
    quarter,
    store,
    subtract,
    subtract_saturated,
    subtract_to_zero,
    where_equal,
)
from phy.coding.ldpc.plan import LdpcPlan
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel
from phy.numerics.workers import available_threads, run_tasks

STEPS = 4.0
"""Steps per unit of LLR: c(0) = ln 2 is three of them, and 31 of them are certainty to 1 in 2300."""
MESSAGE_MAX = np.int8(31)
MAGNITUDE_MAX = np.int8(63)
_REACH = np.int8(12)
"""4 c(0) in steps: the correction is c(d) = max(4 c(0) - d, 0) / 4."""
_KNOWN = np.int8(127)
INPUT_MAX = 31.0
"""Channel values, like messages: two checks outvote a bit that was received wrong with certainty."""
_LANES = 384
"""Most lanes of a group of frames: the longest column of TS 38.212."""
_CHECKED_AT_ONCE = 6
"""Layers whose parity checks are looked at together, frame by frame."""
_FEW = 4
"""A group whose undecided frames are at most one in as many is given up, and they begin again in full groups."""


class Schedule(NamedTuple):
    """Places among the posteriors for one code and one number of frames in a group, int64.

    - `layer_start` `[layers + 1]`: as in `LdpcPlan`;
    - `start` `[edges]`: of the column of an edge; `first_read`, `read`: from where a layer reads it, in the first
      iteration and in later ones; `check`: from where its parity check reads it between iterations;
    - `rotation` `[columns]`: how an iteration leaves a column;
    - `runs`: as in `LdpcPlan`, the column and its bit as one place, of the first frame of a group.
    """

    layer_start: NDArray[np.int64]
    start: NDArray[np.int64]
    first_read: NDArray[np.int64]
    read: NDArray[np.int64]
    check: NDArray[np.int64]
    rotation: NDArray[np.int64]
    runs: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LdpcDecoder:
    """Decoder of one code.

    `iterations` is the most that a frame gets. With `early_stop` a frame is decided as soon as its hard decisions are a
    code word, whatever its neighbours do; without it after all iterations.
    """

    plan: LdpcPlan
    iterations: int
    early_stop: bool = True

    @property
    def frames_per_group(self) -> int:
        """Frames that are decoded side by side: the fewest that fill the lanes best."""
        size = self.plan.lifting_size
        return max(range(1, _LANES // size + 1), key=lambda frames: (size * frames / _lanes(size * frames), -frames))

    def decode(self, llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """LLRs ln P(1)/P(0) `[n, coded_bits]` to (bits `[n, block_bits]` in {0, 1}, iterations of each frame `[n]`)."""
        plan, frames = self.plan, self.frames_per_group
        num_frames = len(llrs)
        llrs = np.ascontiguousarray(llrs, np.float32)
        bits = np.empty((num_frames, plan.block_bits), np.uint8)
        used = np.zeros(num_frames, np.int32)
        self._decode(llrs, np.arange(num_frames), bits, used, gives_up=self.early_stop and num_frames > frames)
        late = np.flatnonzero(used == 0)
        if late.size:
            self._decode(llrs, late, bits, used, gives_up=False)
        return bits, used

    def _decode(
        self,
        llrs: NDArray[np.float32],
        order: NDArray[np.int64],
        bits: NDArray[np.uint8],
        used: NDArray[np.int32],
        *,
        gives_up: bool,
    ) -> None:
        """Decode the frames of `order`, all of them unless `gives_up`; a frame that is not decided has used none."""
        plan, frames = self.plan, self.frames_per_group
        lanes = _lanes(plan.lifting_size * frames)

        def run(first: int, last: int) -> None:
            _decode(
                llrs,
                order,
                _schedule(plan, frames),
                plan.lifting_size,
                frames,
                plan.information_columns,
                plan.bits_per_symbol,
                self.iterations,
                self.early_stop,
                gives_up,
                first * frames,
                min(last * frames, len(order)),
                bits,
                used,
                (
                    aligned_zeros(plan.num_columns * 2 * lanes, np.int8),
                    aligned_zeros(len(plan.column) * lanes, np.int8),
                    aligned_zeros(4 * _LANES, np.int8),
                    aligned_zeros(len(plan.selected), np.int8),
                    np.empty(len(plan.selected), np.float32),
                    np.empty(frames, np.int8),
                ),
            )

        run_tasks(run, num_tasks=-(-len(order) // frames), threads=available_threads())


def _lanes(width: int) -> int:
    return -(-width // WIDTH) * WIDTH


@lru_cache(maxsize=64)
def _schedule(plan: LdpcPlan, frames: int) -> Schedule:
    size = plan.lifting_size
    doubled = 2 * _lanes(size * frames)
    start, shifts = doubled * plan.column.astype(np.int64), plan.shift.astype(np.int64)
    left = np.zeros(plan.num_columns, np.int64)
    reads = []
    for _ in range(2):
        turn = np.empty_like(shifts)
        for edge, (column, shift) in enumerate(zip(plan.column, shifts, strict=True)):
            turn[edge] = (shift - left[column]) % size
            left[column] = shift
        reads.append(start + turn * frames)
    bit, in_column, place, length = plan.runs.T
    return Schedule(
        layer_start=plan.layer_start.astype(np.int64),
        start=start,
        first_read=reads[0],
        read=reads[1],
        check=start + (shifts - left[plan.column]) % size * frames,
        rotation=left,
        runs=np.stack([bit, doubled * in_column + place * frames, length], axis=1),
    )


@inlined
def _join(one: Any, other: Any) -> Any:
    low, high = minimum(one, other), maximum(one, other)
    reach = filled(_REACH)
    nearer = add(low, quarter(subtract_to_zero(reach, add(low, high))))
    return subtract(nearer, quarter(subtract_to_zero(reach, subtract(high, low))))


@inlined
def _collect(
    posteriors: Any, read: Any, messages: Any, first: Any, end: Any, lane: Any, lanes: Any, found: Any
) -> None:
    """Leave t in place of the messages of a layer, and for `_answer` the rows of `found`: the smallest magnitude, the
    magnitude of the message to its edge and of the message to the others, and the product of signs.
    """
    most, bound = filled(MAGNITUDE_MAX), filled(MESSAGE_MAX)
    nearest, others, signs = most, most, filled(np.int8(0))
    for edge in range(first, end):
        t = subtract_saturated(load(posteriors, read[np.uint64(edge)] + lane), load(messages, edge * lanes + lane))
        store(messages, edge * lanes + lane, t)
        size = minimum(magnitude(t), most)
        others = _join(others, maximum(size, nearest))
        nearest = minimum(nearest, size)
        signs = exclusive_or(signs, t)
    store(found, lane, nearest)
    store(found, _LANES + lane, minimum(others, bound))
    store(found, 2 * _LANES + lane, minimum(_join(nearest, others), bound))
    store(found, 3 * _LANES + lane, signs)


@inlined
def _answer(
    posteriors: Any, start: Any, messages: Any, first: Any, end: Any, lane: Any, lanes: Any, width: Any, found: Any
) -> None:
    """Leave new messages in place of t, and the posteriors with them."""
    most, nearest, to_nearest = filled(MAGNITUDE_MAX), load(found, lane), load(found, _LANES + lane)
    to_others, signs = load(found, 2 * _LANES + lane), load(found, 3 * _LANES + lane)
    for edge in range(first, end):
        t = load(messages, edge * lanes + lane)
        size = where_equal(minimum(magnitude(t), most), nearest, to_nearest, to_others)
        message = negative_where(exclusive_or(signs, t), size)
        store(messages, edge * lanes + lane, message)
        posterior = add_saturated(t, message)
        store(posteriors, start[np.uint64(edge)] + lane, posterior)
        store(posteriors, start[np.uint64(edge)] + width + lane, posterior)


@inlined
def _iterate(posteriors: Any, messages: Any, found: Any, graph: Any, read: Any, width: Any, lanes: Any) -> None:
    for layer in range(len(graph.layer_start) - 1):
        first, end = graph.layer_start[layer], graph.layer_start[layer + 1]
        for lane in range(0, lanes, WIDTH):
            _collect(posteriors, read, messages, first, end, lane, lanes, found)
        for lane in range(0, lanes, WIDTH):
            _answer(posteriors, graph.start, messages, first, end, lane, lanes, width, found)


@inlined
def _check(posteriors: Any, parity: Any, graph: Any, size: Any, frames: Any, lanes: Any, wrong: Any) -> None:
    """Make `wrong[f]` negative where a parity check of frame f fails; left early once all frames are so."""
    layers = len(graph.layer_start) - 1
    for first in range(0, layers, _CHECKED_AT_ONCE):
        for lane in range(0, lanes, WIDTH):
            any_sign = filled(np.int8(0))
            for layer in range(first, min(first + _CHECKED_AT_ONCE, layers)):
                signs = filled(np.int8(0))
                for edge in range(graph.layer_start[layer], graph.layer_start[layer + 1]):
                    signs = exclusive_or(signs, load(posteriors, graph.check[np.uint64(edge)] + lane))
                any_sign = maximum(any_sign, signs)  # unsigned: negative where one of the two is
            store(parity, lane, any_sign)
        if frames == 1:
            any_wrong = np.int8(0)
            for lane in range(size):
                any_wrong = np.int8(any_wrong | parity[lane])
            wrong[0] = np.int8(wrong[0] | any_wrong)
        else:
            for bit in range(size):
                for frame in range(frames):
                    wrong[frame] = np.int8(wrong[frame] | parity[bit * frames + frame])
        all_wrong = np.int8(-1)
        for frame in range(frames):
            all_wrong = np.int8(all_wrong & wrong[frame])
        if all_wrong < 0:
            return


@inlined
def _steps(llr: Any) -> Any:
    value = np.rint(np.float32(-STEPS) * llr)
    return np.int8(min(max(value, np.float32(-INPUT_MAX)), np.float32(INPUT_MAX)))


@inlined
def _select(llrs: Any, bits_per_symbol: Any, selected: Any, sums: Any) -> None:
    """Channel values of symbols to rows of selected bits; the inverse of what the encoder does."""
    rows, columns = bits_per_symbol, len(llrs) // bits_per_symbol
    if len(llrs) > len(selected):
        sums[:] = np.float32(0.0)
        for row in range(rows):
            place = columns * row % len(selected)
            done = 0
            while done < columns:
                many = min(columns - done, len(selected) - place)
                for i in range(many):
                    sums[np.uint64(place + i)] += llrs[np.uint64(rows * (done + i) + row)]
                done += many
                place = 0
        for i in range(len(selected)):
            selected[np.uint64(i)] = _steps(sums[np.uint64(i)])
    elif rows == 2:
        for i in range(columns):
            u = np.uint64(i)
            selected[u] = _steps(llrs[u + u])
            selected[np.uint64(columns) + u] = _steps(llrs[u + u + np.uint64(1)])
    else:
        for row in range(rows):
            for i in range(columns):
                selected[np.uint64(columns * row + i)] = _steps(llrs[np.uint64(rows * i + row)])


@inlined
def _spread(selected: Any, runs: Any, frames: Any, frame: Any, posteriors: Any) -> None:
    for run in range(len(runs)):
        first, place, length = np.uint64(runs[run, 0]), np.uint64(runs[run, 1] + frame), runs[run, 2]
        # LLVM makes vectors of neighbours alone.
        if frames == 1:
            for i in range(length):
                posteriors[place + np.uint64(i)] = selected[first + np.uint64(i)]
        else:
            for i in range(length):
                posteriors[place + np.uint64(i) * np.uint64(frames)] = selected[first + np.uint64(i)]


@inlined
def _decide(posteriors: Any, rotation: Any, size: Any, frames: Any, lanes: Any, frame: Any, bits: Any) -> None:
    block_bits, step = np.uint64(len(bits)), np.uint64(frames)
    for column in range((block_bits + size - np.uint64(1)) // size):
        first = np.uint64(column) * size
        start = np.uint64(column) * (lanes + lanes) + (size - np.uint64(rotation[column])) * step + frame
        if frames == 1:
            for bit in range(min(size, block_bits - first)):
                bits[first + np.uint64(bit)] = np.uint8(posteriors[start + np.uint64(bit)] < 0)
        else:
            for bit in range(min(size, block_bits - first)):
                bits[first + np.uint64(bit)] = np.uint8(posteriors[start + np.uint64(bit) * step] < 0)


@lean_kernel
def _decode(
    llrs: Any,
    order: Any,
    graph: Any,
    size: Any,
    frames: Any,
    information: Any,
    bits_per_symbol: Any,
    iterations: Any,
    early_stop: Any,
    gives_up: Any,
    first_frame: Any,
    last_frame: Any,
    bits: Any,
    used: Any,
    scratch: Any,
) -> None:
    posteriors, messages, found, selected, sums, wrong = scratch
    block_bits = bits.shape[1]
    num_columns = len(graph.rotation)
    width = size * frames
    lanes = (width + WIDTH - 1) // WIDTH * WIDTH
    for first in range(first_frame, last_frame, frames):
        present = min(frames, last_frame - first)
        posteriors[:] = 0
        messages[:] = 0
        for place in range(block_bits * frames, information * width):
            posteriors[place // width * 2 * lanes + place % width] = _KNOWN
        for frame in range(present):
            _select(llrs[order[first + frame]], bits_per_symbol, selected, sums)
            _spread(selected, graph.runs, frames, frame, posteriors)
        for column in range(num_columns):
            start = 2 * column * lanes
            for lane in range(0, lanes, WIDTH):
                store(posteriors, start + width + lane, load(posteriors, start + lane))
        open_frames = present
        for iteration in range(1, iterations + 1):
            read = graph.first_read if iteration == 1 else graph.read
            _iterate(posteriors, messages, found, graph, read, width, lanes)
            if not early_stop and iteration < iterations:
                continue
            if iteration < iterations:
                for frame in range(frames):
                    wrong[frame] = 0 if frame < present and used[order[first + frame]] == 0 else -1
                _check(posteriors, found, graph, size, frames, lanes, wrong)
            for frame in range(present):
                if used[order[first + frame]] == 0 and (iteration == iterations or wrong[frame] >= 0):
                    _decide(
                        posteriors,
                        graph.rotation,
                        np.uint64(size),
                        frames,
                        np.uint64(lanes),
                        np.uint64(frame),
                        bits[order[first + frame]],
                    )
                    used[order[first + frame]] = iteration
                    open_frames -= 1
            if open_frames == 0 or (gives_up and _FEW * open_frames <= present):
                break
