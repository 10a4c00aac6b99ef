"""Samples on their way through convolutions in front of dense layers and back, as parts of kernels.

`front` and `scratch` are those of `fl.local.conv_front`, where the layout of images and the mathematics are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.local.dense_passes import activate, draw
from phy.numerics.compiled import inlined, spliced
from phy.numerics.lanes import LANES, PLACES, TILE, convolved, correlated
from phy.numerics.vectors import add, clear, copy, multiply


@inlined
def _load_lane(image: Any, scale: Any, shift: Any, lane: Any, out: Any) -> None:
    for p in range(len(image)):
        out[p * LANES + lane] = np.float32(image[p]) * scale + shift


@inlined
def _clear_lane(lane: Any, out: Any) -> None:
    for p in range(len(out) // LANES):
        out[p * LANES + lane] = np.float32(0.0)


@inlined
def _take_lane(values: Any, lane: Any, out: Any) -> None:
    for p in range(len(out)):
        out[p] = values[p * LANES + lane]


@inlined
def _put_lane(values: Any, lane: Any, out: Any) -> None:
    for p in range(len(values)):
        out[p * LANES + lane] = values[p]


@inlined
def _drop_lane(words: Any, limit: Any, factor: Any, lane: Any, values: Any) -> None:
    for p in range(len(words)):
        place = p * LANES + lane
        values[place] = values[place] * factor if words[p] >= limit else np.float32(0.0)


@inlined
def _first_wins(values: Any, best: Any, winners: Any) -> None:
    for p in range(len(values)):
        best[p] = values[p]
        winners[p] = np.uint8(0)


@inlined
def _larger_wins(values: Any, place: Any, best: Any, winners: Any) -> None:
    for p in range(len(values)):
        larger = values[p] > best[p]
        winners[p] = place if larger else winners[p]
        best[p] = values[p] if larger else best[p]


@inlined
def _give_winner(backs: Any, winners: Any, place: Any, out: Any) -> None:
    for p in range(len(backs)):
        out[p] = backs[p] if winners[p] == place else np.float32(0.0)


@inlined
def _sum_of_lanes(values: Any) -> Any:
    total = np.float32(0.0)
    for p in range(LANES):
        total += values[p]
    return total


@inlined
def _weighted_sum(values: Any, factors: Any) -> Any:
    total = np.float32(0.0)
    for p in range(LANES):
        total += factors[p] * values[p]
    return total


@inlined
def _add_squares(values: Any, out: Any) -> None:
    for p in range(LANES):
        out[p] += np.float64(values[p]) * np.float64(values[p])


@inlined
def _add_products(factor: Any, values: Any, out: Any) -> None:
    for p in range(LANES):
        out[p] += np.float64(factor) * np.float64(values[p])


@spliced
def load_block(front: Any, image: Any, scale: Any, shift: Any, row: Any, there: Any, scratch: Any) -> None:
    """Pixels of sample `row` of all blocks into its lane; zeros where it is not `there`."""
    margin, columns, channels = front.margins[0], front.columns[0], front.channels[0]
    values_at, lane = row // LANES * front.values_at[-1], row % LANES
    run = front.widths[0] * channels  # without its margins, which stay zero
    for y in range(len(image) // run):
        start = (values_at + ((y + margin) * columns + margin) * channels) * LANES
        out = scratch.values[start : start + run * LANES]
        if there:
            _load_lane(image[y * run : (y + 1) * run], scale, shift, lane, out)
        else:
            _clear_lane(lane, out)


@inlined
def _pack(weights: Any, filters: Any, first: Any, out: Any) -> None:
    """Columns `first` on of `weights` `[n, filters]` as `[n, TILE]`, zeros beyond."""
    for n in range(len(out) // TILE):
        for f in range(TILE):
            out[n * TILE + f] = weights[n * filters + first + f] if first + f < filters else np.float32(0.0)


@inlined
def _pack_flipped(weights: Any, kernel: Any, channels: Any, filters: Any, wide: Any, first: Any, out: Any) -> None:
    """Input channels `first` on of `weights` `[k, k, channels, filters]`, turned round, as `[k, k, wide, TILE]`."""
    for place in range(kernel * kernel):
        for f in range(filters):
            for c in range(TILE):
                at = ((kernel * kernel - 1 - place) * channels + first + c) * filters + f
                out[(place * wide + f) * TILE + c] = weights[at] if first + c < channels else np.float32(0.0)


@spliced
def pack_weights(front: Any, weights: Any, backward: Any, scratch: Any) -> None:
    """Weights as the tiles read them, and, to go `backward`, those of the transposed convolutions."""
    for stage in range(len(front.kernels)):
        kernel, channels, filters = front.kernels[stage], front.channels[stage], front.filters[stage]
        entries, start = kernel * kernel * channels, front.weights_at[stage]
        own, tiles = weights[start : start + entries * filters], (filters + TILE - 1) // TILE
        for tile in range(tiles):
            at = front.packed_at[stage] + tile * entries * TILE
            _pack(own, filters, tile * TILE, scratch.packed[at : at + entries * TILE])
        if front.biases[stage]:
            at = front.packed_at[stage] + tiles * entries * TILE
            copy(
                weights[start + entries * filters : start + (entries + 1) * filters], scratch.packed[at : at + filters]
            )
        if backward and stage > 0:
            size = kernel * kernel * tiles * TILE * TILE
            for tile in range((channels + TILE - 1) // TILE):
                at = front.flipped_at[stage] + tile * size
                _pack_flipped(own, kernel, channels, filters, tiles * TILE, tile * TILE, scratch.packed[at : at + size])


@spliced
def front_forward(
    front: Any, block: Any, rows: Any, key0: Any, key1: Any, first: Any, drops: Any, scratch: Any
) -> None:
    """A block of samples through all stages; `rows` of them are there, `first` is the number of the first one."""
    for stage in range(len(front.kernels)):
        kernel, channels, filters, pool = (
            front.kernels[stage], front.channels[stage], front.filters[stage], front.pools[stage],
        )  # fmt: skip
        columns, high, wide = front.columns[stage], front.high[stage], front.wide[stage]
        tiles, entries = (filters + TILE - 1) // TILE, kernel * channels
        padded, across = tiles * TILE, (wide * pool + PLACES - 1) // PLACES * PLACES
        values_at = block * front.values_at[-1] + front.values_at[stage]
        out_at = block * front.values_at[-1] + front.values_at[stage + 1]
        marks_at = block * front.marks_at[-1] + front.marks_at[stage]
        weights_at = front.packed_at[stage]
        bias_at, run = weights_at + tiles * kernel * entries * TILE, filters * LANES
        sizes = kernel, entries, columns * channels * LANES, channels * LANES, padded * LANES
        for y in range(high):
            for down in range(pool):
                for tile in range(tiles):
                    for x in range(0, across, PLACES):
                        convolved(
                            scratch.values, (values_at + ((y * pool + down) * columns + x) * channels) * LANES,
                            scratch.packed, weights_at + tile * kernel * entries * TILE,
                            scratch.packed, bias_at + tile * TILE,
                            scratch.linear, ((down * across + x) * padded + tile * TILE) * LANES,
                            sizes,
                        )  # fmt: skip
            for x in range(wide):
                mark = (marks_at + (y * wide + x) * filters) * LANES
                out = (
                    out_at
                    + ((y + front.next_margins[stage]) * front.next_columns[stage] + x + front.next_margins[stage])
                    * filters
                ) * LANES
                linear_at = x * pool * padded * LANES
                linear = scratch.linear[linear_at : linear_at + run]
                if pool > 1:
                    best, winners = scratch.best[:run], scratch.winners[mark : mark + run]
                    _first_wins(linear, best, winners)
                    for place in range(1, pool * pool):
                        at = ((place // pool * across) + x * pool + place % pool) * padded * LANES
                        _larger_wins(scratch.linear[at : at + run], np.uint8(place), best, winners)
                    linear = best
                activate(
                    front.activations[stage], linear, scratch.values[out : out + run], scratch.slopes[mark : mark + run]
                )
        if drops and front.limits[stage] > np.uint32(0):
            limit, factor, width = front.limits[stage], front.factors[stage], wide * filters
            for lane in range(rows):
                draw(key0, key1, first + lane, front.random_layers[stage], scratch.words, high * width)
                for y in range(high):
                    own = scratch.words[y * width : (y + 1) * width]
                    mark = (marks_at + y * width) * LANES
                    _drop_lane(own, limit, factor, lane, scratch.slopes[mark : mark + width * LANES])
                    out = (
                        out_at
                        + ((y + front.next_margins[stage]) * front.next_columns[stage] + front.next_margins[stage])
                        * filters
                    ) * LANES
                    _drop_lane(own, limit, factor, lane, scratch.values[out : out + width * LANES])


@spliced
def take_features(front: Any, block: Any, rows: Any, width: Any, scratch: Any, pixels: Any) -> None:
    """What comes out of the last stage, as rows of `width` entries: what the first dense layer gets."""
    start = (block * front.values_at[-1] + front.values_at[len(front.kernels)]) * LANES
    for lane in range(rows):
        row = block * LANES + lane
        _take_lane(scratch.values[start : start + width * LANES], lane, pixels[row * width : (row + 1) * width])


@spliced
def put_backs(block: Any, rows: Any, width: Any, scratch: Any) -> None:
    """Inverse of `take_features`, of what comes back to `features`; zeros where no sample is."""
    for lane in range(LANES):
        row = block * LANES + lane
        if lane < rows:
            _put_lane(scratch.features[row * width : (row + 1) * width], lane, scratch.backs[: width * LANES])
        else:
            _clear_lane(lane, scratch.backs[: width * LANES])


@spliced
def front_backward(front: Any, block: Any, sums_at: Any, scratch: Any) -> None:
    """Add gradients of all weights to the sums from `sums_at` on, lane by lane, from `backs` to the last stage."""
    half = len(scratch.backs) // 2
    for back in range(len(front.kernels)):
        stage = len(front.kernels) - 1 - back
        kernel, channels, filters, pool = (
            front.kernels[stage], front.channels[stage], front.filters[stage], front.pools[stage],
        )  # fmt: skip
        columns, high, wide, margin = front.columns[stage], front.high[stage], front.wide[stage], front.margins[stage]
        tiles, entries = (filters + TILE - 1) // TILE, kernel * channels
        padded, taken = tiles * TILE, (entries + PLACES - 1) // PLACES * PLACES
        across = columns - kernel + 1 + 2 * (kernel - 1)
        values_at = block * front.values_at[-1] + front.values_at[stage]
        marks_at = (block * front.marks_at[-1] + front.marks_at[stage]) * LANES
        own_at, next_at = half * (back % 2), half * ((back + 1) % 2)
        total, run = high * wide * filters * LANES, filters * LANES
        backs = scratch.backs[own_at : own_at + total]
        multiply(scratch.slopes[marks_at : marks_at + total], backs)
        sums_from = sums_at + front.sums_at[stage]
        if front.biases[stage]:
            at = (sums_from + kernel * taken * padded) * LANES
            for place in range(high * wide):
                add(backs[place * run : (place + 1) * run], scratch.sums[at : at + run])
        for y in range(high):
            top = 0 if stage == 0 else y * pool
            for x in range(wide):
                place = (y * wide + x) * run
                for window in range(pool * pool):
                    line, column = top + window // pool, x * pool + window % pool + kernel - 1
                    at = (front.grids_at[stage] + (line * across + column) * padded) * LANES
                    out = scratch.grid[at : at + run]
                    if pool > 1:
                        winners = scratch.winners[marks_at + place : marks_at + place + run]
                        _give_winner(backs[place : place + run], winners, np.uint8(window), out)
                    else:
                        copy(backs[place : place + run], out)
            for down in range(pool):
                grid_at = (front.grids_at[stage] + ((top + down) * across + kernel - 1) * padded) * LANES
                for line in range(kernel):
                    line_at = values_at + (y * pool + down + line) * columns * channels
                    for entry in range(0, entries, PLACES):
                        for tile in range(tiles):
                            correlated(
                                scratch.values, (line_at + entry) * LANES, scratch.grid, grid_at + tile * TILE * LANES,
                                scratch.sums, (sums_from + (line * taken + entry) * padded + tile * TILE) * LANES,
                                (wide * pool, channels * LANES, padded * LANES, padded * LANES),
                            )  # fmt: skip
        if stage > 0:
            size, inner = kernel * kernel * padded * TILE, (channels + TILE - 1) // TILE
            used, before_wide = high * pool, front.wide[stage - 1]
            for y in range(front.high[stage - 1]):
                at = y + margin
                lowest, highest = max(0, at - kernel + 1), min(used - 1, at)
                sizes = (
                    max(highest - lowest + 1, 0), kernel * padded, across * padded * LANES, padded * LANES,
                    inner * TILE * LANES,
                )  # fmt: skip
                skipped = lowest - (at - kernel + 1)
                for tile in range(inner):
                    weights_at = front.flipped_at[stage] + tile * size + skipped * kernel * padded * TILE
                    for x in range(0, before_wide, PLACES):
                        grid_at = front.grids_at[stage] + (lowest * across + x + margin) * padded
                        convolved(
                            scratch.grid, grid_at * LANES, scratch.packed, weights_at, scratch.packed, 0, scratch.row,
                            (x * inner + tile) * TILE * LANES, sizes,
                        )  # fmt: skip
                for x in range(before_wide):
                    start, end = x * inner * TILE * LANES, next_at + (y * before_wide + x) * channels * LANES
                    copy(scratch.row[start : start + channels * LANES], scratch.backs[end : end + channels * LANES])


@spliced
def clear_sums(scratch: Any) -> None:
    """Before the first block."""
    clear(scratch.sums)


@spliced
def norms_of_block(front: Any, block: Any, weights: Any, l2: Any, squares: Any, inners: Any, scratch: Any) -> None:
    """Squares of the norms of gradients of each sample, and their products with the weights, of all stages."""
    own = slice(block * LANES, (block + 1) * LANES)
    for lane in range(LANES):
        squares[block * LANES + lane], inners[block * LANES + lane] = 0.0, 0.0
    for stage in range(len(front.kernels)):
        kernel, filters = front.kernels[stage], front.filters[stage]
        entries = kernel * front.channels[stage]
        padded = (filters + TILE - 1) // TILE * TILE
        taken = (entries + PLACES - 1) // PLACES * PLACES
        start = block * front.sums_at[-1] + front.sums_at[stage]
        for weight in range(kernel * entries + front.biases[stage]):
            at = start + (weight // entries * taken + weight % entries) * padded
            for f in range(filters):
                lanes = scratch.sums[(at + f) * LANES : (at + f + 1) * LANES]
                _add_squares(lanes, squares[own])
                if l2 > np.float32(0.0):
                    _add_products(weights[front.weights_at[stage] + weight * filters + f], lanes, inners[own])


@spliced
def add_sums(front: Any, block: Any, clips: Any, factors: Any, begins: Any, gradient: Any, scratch: Any) -> None:
    """Gradients of the stages, summed over lanes; where a block is clipped, each lane by its factor."""
    for stage in range(len(front.kernels)):
        kernel, filters = front.kernels[stage], front.filters[stage]
        entries = kernel * front.channels[stage]
        padded = (filters + TILE - 1) // TILE * TILE
        taken = (entries + PLACES - 1) // PLACES * PLACES
        start = block * front.sums_at[-1] + front.sums_at[stage]
        for weight in range(kernel * entries + front.biases[stage]):
            at = start + (weight // entries * taken + weight % entries) * padded
            for f in range(filters):
                lanes, place = (
                    scratch.sums[(at + f) * LANES : (at + f + 1) * LANES],
                    (front.weights_at[stage] + weight * filters + f),
                )
                found = np.float32(0.0)
                if clips:
                    found = _weighted_sum(lanes, factors[block * LANES : (block + 1) * LANES])
                else:
                    found = _sum_of_lanes(lanes)
                gradient[place] = found if begins else gradient[place] + found
