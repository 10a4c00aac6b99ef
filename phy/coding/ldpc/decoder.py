"""Layered decoding of quasi-cyclic LDPC codes on 8-bit values, vectorised over the lifting dimension.

Values are ln P(0) / P(1) in steps of 1 / `STEPS`. One layer after the other, with t_e = L - m_e for its edges e,

    m_e <- prod_{e' != e} sign(t_e') * min(M_e, 31),    L <- t_e + m_e    (Hocevar 2004, layered schedule)

where M_e joins |t_e'| over e' != e for the smallest |t_e|, and over all e' for every other edge (Jones et al. 2003,
approximate min*). Two magnitudes join as x * y = min(x, y) - c(|x - y|) + c(x + y), c(d) = ln(1 + exp(-d)), which is
the exact box-plus; c is max(3 - d / 4, 0) in steps. Posteriors L saturate at +-127; a message beyond 42 could
then pull a settled bit back over zero, hence 31.

A **lane** is one bit of a column in one frame. Codes with short columns decode several frames at once, frame by frame
in neighbouring lanes, so that loops stay as long as vectors. Lanes beyond the last frame, up to a whole number of
vectors, hold numbers without meaning: LLVM would go through a remainder one by one. A column lies in memory twice in a
row, rotated by the shift of the layer that wrote it last: any cyclic shift of it is one contiguous read.

LLVM turns these loops into vectors only as they are written: offsets are unsigned, a loop has at most three arrays,
clamps are in the narrow type and nothing selects between two loads. `benchmarks/ldpc.py` would see it (15 to 40 times).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.coding.ldpc.plan import LdpcPlan
from phy.numerics.compiled import inlined, lean_kernel
from phy.numerics.workers import available_threads, run_tasks

STEPS = 4.0
"""Steps per unit of LLR: c(0) = ln 2 is three of them, and 31 of them are certainty to 1 in 2300."""
_MESSAGE_MAX = 31
_MAGNITUDE_MAX = 63
"""Two of them add up to 7 bits."""
_KNOWN = np.int8(127)
_INPUT_MAX = 31.0
"""Channel values, like messages: two checks outvote a bit that was received wrong with certainty."""
_LANES = 384
"""Most lanes of a group of frames: the longest column of TS 38.212."""
_LANES_AT_ONCE = 128
"""Two vectors of 512 bits, or four of 256."""

# Rows of the scratch array of one layer, all in one array: LLVM checks every pair of arrays of a loop for overlap.
_OTHERS, _SIGNS, _ALL_BOUNDED, _POSTERIOR = (np.uint64(row * _LANES) for row in range(1, 5))
_SCRATCH = 5 * _LANES


class Schedule(NamedTuple):
    """Arrays of the kernel for one code and one number of frames in a group, int32 but for `cell`.

    - `layer_start` `[layers + 1]`, `column` and `shift` `[edges]`: as in `LdpcPlan`;
    - `first_offset`, `offset` `[edges]`: where a column is read relative to how it was left, in the first iteration and
      in later ones; `rotation` `[columns]`: how an iteration leaves it;
    - `cell` `[coded_bits]`: where a bit on the air belongs, for the first frame of a group.
    """

    layer_start: NDArray[np.int32]
    column: NDArray[np.int32]
    shift: NDArray[np.int32]
    first_offset: NDArray[np.int32]
    offset: NDArray[np.int32]
    rotation: NDArray[np.int32]
    cell: NDArray[np.uint32]


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
        """Frames that are decoded side by side: as many as fill the lanes best."""
        size = self.plan.lifting_size
        return max(range(1, _LANES // size + 1), key=lambda frames: (size * frames / _lanes(size * frames), frames))

    def decode(self, llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """LLRs ln P(1)/P(0) `[n, coded_bits]` to (bits `[n, block_bits]` in {0, 1}, iterations of each frame `[n]`)."""
        plan, frames = self.plan, self.frames_per_group
        num_frames = len(llrs)
        llrs = np.ascontiguousarray(llrs, np.float32)
        bits = np.empty((num_frames, plan.block_bits), np.uint8)
        used = np.zeros(num_frames, np.int32)
        lanes = _lanes(plan.lifting_size * frames)

        def run(first: int, last: int) -> None:
            _decode(
                llrs,
                _schedule(plan, frames),
                plan.lifting_size,
                frames,
                plan.information_columns,
                self.iterations,
                self.early_stop,
                first * frames,
                min(last * frames, num_frames),
                bits,
                used,
                (
                    np.zeros(plan.num_columns * 2 * lanes, np.int8),
                    np.empty(len(plan.column) * lanes, np.int8),
                    np.empty(_SCRATCH, np.int8),
                    np.empty(plan.coded_bits, np.int8),
                    np.empty(frames, np.int8),
                ),
            )

        run_tasks(run, num_tasks=-(-num_frames // frames), threads=available_threads())
        return bits, used


def _lanes(width: int) -> int:
    return -(-width // _LANES_AT_ONCE) * _LANES_AT_ONCE


@lru_cache(maxsize=64)
def _schedule(plan: LdpcPlan, frames: int) -> Schedule:
    size = plan.lifting_size
    left = np.zeros(plan.num_columns, np.int32)
    offsets = []
    for _ in range(2):
        offset = np.empty_like(plan.shift)
        for edge, (column, shift) in enumerate(zip(plan.column, plan.shift, strict=True)):
            offset[edge] = (shift - left[column]) % size * frames
            left[column] = shift
        offsets.append(offset)
    column, bit = np.divmod(plan.sent, size)
    return Schedule(
        layer_start=plan.layer_start,
        column=plan.column,
        shift=plan.shift,
        first_offset=offsets[0],
        offset=offsets[1],
        rotation=left,
        cell=(2 * _lanes(size * frames) * column + bit * frames).astype(np.uint32),
    )


@inlined
def _saturated(value: Any) -> Any:
    return np.int8(min(max(np.int64(value), np.int64(-128)), np.int64(127)))


@inlined
def _magnitude(value: Any) -> Any:
    return np.int8(min(abs(np.int64(value)), np.int64(_MAGNITUDE_MAX)))


@inlined
def _correction(distance: Any) -> Any:
    return np.int8(max(np.int8(12 - distance), np.int8(0)) >> np.int64(2))


@inlined
def _join(one: Any, other: Any) -> Any:
    low, high = min(one, other), max(one, other)
    nearer = np.int8(low + _correction(np.int8(high + low)))
    return np.int8(nearer - _correction(np.int8(high - low)))


@inlined
def _clear(scratch: Any, lanes: Any) -> None:
    for lane in range(lanes):
        scratch[lane] = _MAGNITUDE_MAX
        scratch[_OTHERS + np.uint64(lane)] = _MAGNITUDE_MAX
        scratch[_SIGNS + np.uint64(lane)] = 0


@inlined
def _collect(posteriors: Any, start: Any, messages: Any, edge: Any, scratch: Any, lanes: Any) -> None:
    """Leave t in place of the message; keep the smallest magnitude, the others joined, and the product of signs."""
    for lane in range(lanes):
        i = np.uint64(lane)
        t = _saturated(posteriors[start + i] - messages[edge + i])
        messages[edge + i] = t
        magnitude = _magnitude(t)
        nearest = scratch[i]
        scratch[_OTHERS + i] = _join(scratch[_OTHERS + i], max(magnitude, nearest))
        scratch[i] = min(nearest, magnitude)
        scratch[_SIGNS + i] = np.int8(scratch[_SIGNS + i] ^ t)


@inlined
def _bound(scratch: Any, lanes: Any) -> None:
    """Magnitudes of the messages: to the nearest edge from the others, to the others from all."""
    for lane in range(lanes):
        i = np.uint64(lane)
        scratch[_ALL_BOUNDED + i] = min(_join(scratch[i], scratch[_OTHERS + i]), np.int8(_MESSAGE_MAX))
        scratch[_OTHERS + i] = min(scratch[_OTHERS + i], np.int8(_MESSAGE_MAX))


@inlined
def _answer(messages: Any, edge: Any, scratch: Any, lanes: Any) -> None:
    """The new message, and the posterior with it. All joined is never more than the others alone, so max selects."""
    for lane in range(lanes):
        i = np.uint64(lane)
        t = messages[edge + i]
        mine = np.int8(-np.int8(_magnitude(t) == scratch[i]))
        magnitude = max(scratch[_ALL_BOUNDED + i], np.int8(scratch[_OTHERS + i] & mine))
        sign = np.int8(np.int8(scratch[_SIGNS + i] ^ t) >> np.int64(7))
        message = np.int8(np.int8(magnitude ^ sign) - sign)
        messages[edge + i] = message
        scratch[_POSTERIOR + i] = _saturated(t + message)


@inlined
def _write(scratch: Any, posteriors: Any, start: Any, lanes: Any) -> None:
    for lane in range(lanes):
        posteriors[start + np.uint64(lane)] = scratch[_POSTERIOR + np.uint64(lane)]


@inlined
def _iterate(posteriors: Any, messages: Any, scratch: Any, graph: Any, offsets: Any, width: Any, lanes: Any) -> None:
    for layer in range(len(graph.layer_start) - 1):
        first, end = graph.layer_start[layer], graph.layer_start[layer + 1]
        _clear(scratch, lanes)
        for edge in range(first, end):
            start = np.uint64(np.int64(graph.column[edge]) * 2 * np.int64(lanes) + offsets[edge])
            _collect(posteriors, start, messages, np.uint64(np.int64(edge) * np.int64(lanes)), scratch, lanes)
        _bound(scratch, lanes)
        for edge in range(first, end):
            start = np.uint64(np.int64(graph.column[edge]) * 2 * np.int64(lanes))
            _answer(messages, np.uint64(np.int64(edge) * np.int64(lanes)), scratch, lanes)
            # In this order: the second copy covers what the first left in the lanes beyond the width.
            _write(scratch, posteriors, start, lanes)
            _write(scratch, posteriors, start + width, lanes)


@inlined
def _add_signs(posteriors: Any, start: Any, parity: Any, lanes: Any) -> None:
    for lane in range(lanes):
        parity[lane] = np.int8(parity[lane] ^ posteriors[start + np.uint64(lane)])


@inlined
def _check(posteriors: Any, parity: Any, graph: Any, size: Any, frames: Any, lanes: Any, wrong: Any) -> None:
    """Make `wrong[f]` negative where a parity check of frame f fails; left early once all frames are so."""
    for layer in range(len(graph.layer_start) - 1):
        for lane in range(lanes):
            parity[lane] = 0
        for edge in range(graph.layer_start[layer], graph.layer_start[layer + 1]):
            column = np.int64(graph.column[edge])
            turn = np.int64(graph.shift[edge]) - np.int64(graph.rotation[column])
            if turn < 0:
                turn += size
            _add_signs(posteriors, np.uint64(column * 2 * np.int64(lanes) + turn * frames), parity, lanes)
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
def _load(llrs: Any, posteriors: Any, quantised: Any, cell: Any, frame: Any) -> None:
    for i in range(len(llrs)):
        value = np.rint(np.float32(-STEPS) * llrs[i])
        quantised[i] = np.int8(min(max(value, np.float32(-_INPUT_MAX)), np.float32(_INPUT_MAX)))
    for i in range(len(llrs)):
        posteriors[np.uint64(cell[i]) + frame] = quantised[i]


@inlined
def _decide(posteriors: Any, rotation: Any, size: Any, frames: Any, lanes: Any, frame: Any, bits: Any) -> None:
    block_bits, step = np.uint64(len(bits)), np.uint64(frames)
    for column in range((block_bits + size - np.uint64(1)) // size):
        first = np.uint64(column) * size
        start = np.uint64(column) * (lanes + lanes) + (size - np.uint64(rotation[column])) * step + frame
        for bit in range(min(size, block_bits - first)):
            bits[first + np.uint64(bit)] = np.uint8(posteriors[start + np.uint64(bit) * step] < 0)


@lean_kernel
def _decode(
    llrs: Any,
    graph: Any,
    size: Any,
    frames: Any,
    information: Any,
    iterations: Any,
    early_stop: Any,
    first_frame: Any,
    last_frame: Any,
    bits: Any,
    used: Any,
    scratch: Any,
) -> None:
    posteriors, messages, line, quantised, wrong = scratch
    block_bits = bits.shape[1]
    num_columns = len(graph.rotation)
    width = np.uint64(size * frames)
    lanes = np.uint64(-(-size * frames // _LANES_AT_ONCE) * _LANES_AT_ONCE)
    for first in range(first_frame, last_frame, frames):
        present = min(frames, last_frame - first)
        posteriors[:] = 0
        messages[:] = 0
        for place in range(block_bits * frames, information * size * frames):
            posteriors[place // (size * frames) * 2 * np.int64(lanes) + place % (size * frames)] = _KNOWN
        for frame in range(present):
            _load(llrs[first + frame], posteriors, quantised, graph.cell, np.uint64(frame))
        for column in range(num_columns):
            start = np.uint64(np.int64(column) * 2 * np.int64(lanes))
            for lane in range(width):
                posteriors[start + width + np.uint64(lane)] = posteriors[start + np.uint64(lane)]
        open_frames = present
        for iteration in range(1, iterations + 1):
            offsets = graph.first_offset if iteration == 1 else graph.offset
            _iterate(posteriors, messages, line, graph, offsets, width, lanes)
            if not early_stop and iteration < iterations:
                continue
            if iteration < iterations:
                for frame in range(frames):
                    wrong[frame] = 0 if frame < present and used[first + frame] == 0 else -1
                _check(posteriors, line, graph, size, frames, lanes, wrong)
            for frame in range(present):
                if used[first + frame] == 0 and (iteration == iterations or wrong[frame] >= 0):
                    _decide(
                        posteriors,
                        graph.rotation,
                        np.uint64(size),
                        frames,
                        lanes,
                        np.uint64(frame),
                        bits[first + frame],
                    )
                    used[first + frame] = iteration
                    open_frames -= 1
            if open_frames == 0:
                break
