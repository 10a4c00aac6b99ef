"""Convolutions in front of dense layers as numbers, and the arrays that kernels compute them in.

`LANES` samples go together, one per lane of a vector. Images are `[row, column, channel, lane]`, so that the entries of
a kernel's row are neighbours, in the order of its weights. Stage s has z = x * W + b, pools z, and gives f(z) to the
next one; f grows, so that the largest z has the largest f(z), the first of equals. What comes back goes to that place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fl.base.arrays import F32, I64, U8, U32
from fl.local.dense_passes import CODES
from fl.models.layer_stack import ConvStage, LayerStack
from phy.numerics.compiled import aligned_zeros, read_only
from phy.numerics.lanes import LANES, PLACES, TILE


class Front(NamedTuple):
    """Convolutions as numbers, per stage; places count vectors of `LANES` entries.

    - of the input: `widths`, and with its margins `columns`, `channels`, and `margins` before it;
    - `filters`, `kernels`, `pools`, `biases`, `activations`, dropout as in `Net`;
    - of the pooled output: `high`, `wide`; of what it is written to: `next_columns`, `next_margins`;
    - where its parts lie: weights in the flat vector, values that go in and (behind them) come out, slopes, packed
      weights, sums of gradients, `grids` of what comes back to z, the latter with a margin of `kernels` - 1.
    """

    widths: I64
    columns: I64
    channels: I64
    margins: I64
    filters: I64
    kernels: I64
    pools: I64
    biases: I64
    activations: I64
    high: I64
    wide: I64
    next_columns: I64
    next_margins: I64
    weights_at: I64
    values_at: I64
    marks_at: I64
    packed_at: I64
    flipped_at: I64
    sums_at: I64
    grids_at: I64
    limits: U32
    factors: F32
    random_layers: U32


class FrontScratch(NamedTuple):
    """Arrays of a thread: of each block of samples what went through the stages, of one block what comes back."""

    values: F32
    slopes: F32
    winners: U8
    linear: F32
    best: F32
    backs: F32
    grid: F32
    row: F32
    packed: F32
    sums: F32
    features: F32
    words: U32


def tiled(count: Any, width: int) -> Any:
    """`count` rounded up to a multiple of `width`."""
    return -(-count // width) * width


def _ends(sizes: list[int]) -> I64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _flipped_size(stage: ConvStage) -> int:
    return int(tiled(stage.channels, TILE) * stage.kernel**2 * tiled(stage.filters, TILE))


def _packed_size(stage: ConvStage) -> int:
    return int(tiled(stage.filters, TILE) * (stage.kernel**2 * stage.channels + 1))


def _sums_size(stage: ConvStage) -> int:
    return int(tiled(stage.filters, TILE) * (stage.kernel * tiled(stage.kernel * stage.channels, PLACES) + 1))


def _grid_size(stage: ConvStage, *, first: bool) -> int:
    rows = stage.pool if first else stage.conv_height
    return rows * (stage.conv_width + 2 * (stage.kernel - 1)) * int(tiled(stage.filters, TILE))


def front_of(stack: LayerStack) -> Front | None:
    """Return None for a stack without convolutions."""
    stages = stack.stages
    if not stages:
        return None

    def ints(values: Any) -> I64:
        return np.array(list(values), np.int64)

    inputs = [s.padded_height * s.padded_width * s.channels for s in stages]
    packed = _ends([_packed_size(s) for s in stages])
    following = stages[1:]
    numbers = (
        ints(s.width for s in stages),
        ints(s.padded_width for s in stages),
        ints(s.channels for s in stages),
        ints(s.before for s in stages),
        ints(s.filters for s in stages),
        ints(s.kernel for s in stages),
        ints(s.pool for s in stages),
        ints(s.bias for s in stages),
        ints(CODES[s.activation] for s in stages),
        ints(s.out_height for s in stages),
        ints(s.out_width for s in stages),
        ints([*(s.padded_width for s in following), stages[-1].out_width]),
        ints([*(s.before for s in following), 0]),
        _ends([s.num_parameters for s in stages])[:-1],
        _ends([*inputs, stages[-1].outputs]),
        _ends([s.outputs for s in stages]),
        TILE + packed,  # behind zeros, the bias of what has none
        TILE + packed[-1] + _ends([_flipped_size(s) for s in stages]),
        _ends([_sums_size(s) for s in stages]),
        _ends([_grid_size(s, first=s is stages[0]) for s in stages]),
        np.array([round(s.dropout * 2.0**32) for s in stages], np.uint32),
        np.array([1.0 / (1.0 - s.dropout) for s in stages], np.float32),
        np.array([s.random_layer for s in stages], np.uint32),
    )
    return Front(*(read_only(part) for part in numbers))


def front_scratch(stack: LayerStack, *, blocks: int, kept_sums: int) -> FrontScratch | None:
    """Of `blocks` times `LANES` samples, with sums of gradients of `kept_sums` blocks."""
    front = front_of(stack)
    if front is None:
        return None
    stages = stack.stages

    def vectors(count: int) -> F32:
        # Tiles at the end of an array read and write a little beyond.
        return aligned_zeros(
            (count + 2 * PLACES * max(tiled(s.filters, TILE) + s.channels for s in stages)) * LANES, np.float32
        )

    widest = max(tiled(s.filters, TILE) for s in stages)
    return FrontScratch(
        values=vectors(blocks * int(front.values_at[-1])),
        slopes=vectors(blocks * int(front.marks_at[-1])),
        winners=aligned_zeros(blocks * int(front.marks_at[-1]) * LANES, np.uint8),
        linear=vectors(max(s.pool * tiled(s.conv_width, PLACES) * tiled(s.filters, TILE) for s in stages)),
        best=vectors(widest),
        backs=vectors(2 * max(s.outputs for s in stages)),
        grid=vectors(int(front.grids_at[-1])),
        row=vectors(max(tiled(s.width, PLACES) * tiled(s.channels, TILE) for s in stages)),
        packed=aligned_zeros(int(front.flipped_at[-1]) + TILE, np.float32),
        sums=vectors(kept_sums * int(front.sums_at[-1])),
        features=aligned_zeros(blocks * LANES * stages[-1].outputs, np.float32),
        words=aligned_zeros(max(s.outputs for s in stages) + 1, np.uint32),
    )
