"""Payloads of any size in compiled code of one shape.

A payload of `rows` x `symbols` is cut into chunks of `rows_per_chunk` x `columns`; the rest is padding. One
TensorFlow call maps the compiled chunk over all of them, two at a time, so that memory stays bounded, the
cost of a call is paid once per round, and no value depends on how much else is on the air.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.lazy_tensorflow import tf

_CHUNKS_AT_ONCE = 2


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Split of a payload into chunks.

    `rows` rows of `symbols` symbols each; chunks of `rows_per_chunk` rows and `columns` symbols.
    """

    rows: int
    symbols: int
    rows_per_chunk: int
    columns: int

    @property
    def row_blocks(self) -> int:
        """Chunks below each other."""
        return -(-self.rows // self.rows_per_chunk)

    @property
    def column_blocks(self) -> int:
        """Chunks beside each other."""
        return -(-self.symbols // self.columns)

    def block(self) -> NDArray[np.int32]:
        """Row block of each chunk, `[num_chunks]`; chunks of one block follow each other."""
        return np.repeat(np.arange(self.row_blocks, dtype=np.int32), self.column_blocks)

    def start(self) -> NDArray[np.uint32]:
        """First symbol of each chunk, `[num_chunks]`."""
        return np.tile(np.arange(self.column_blocks, dtype=np.uint32) * np.uint32(self.columns), self.row_blocks)

    def valid(self) -> NDArray[np.int32]:
        """Symbols of each chunk that are not padding, `[num_chunks]`."""
        return np.minimum(self.symbols - self.start().astype(np.int64), self.columns).astype(np.int32)

    def by_row(self, array: NDArray[Any]) -> NDArray[Any]:
        """`[rows, ...]` to `[row_blocks, rows_per_chunk, ...]`, filled up with copies of the last row."""
        padded = pad_rows(array, self.row_blocks * self.rows_per_chunk)
        return padded.reshape(self.row_blocks, self.rows_per_chunk, *array.shape[1:])

    def chunks(self, payload: NDArray[Any], width: int) -> NDArray[Any]:
        """`[rows, ..., n]` to `[num_chunks, rows_per_chunk, ..., width]`; `width` items hold `columns` symbols."""
        missing = self.column_blocks * width - payload.shape[-1]
        if missing:
            payload = np.pad(payload, [*[(0, 0)] * (payload.ndim - 1), (0, missing)])
        blocks = self.by_row(payload)
        split = blocks.reshape(*blocks.shape[:-1], self.column_blocks, width)
        return np.moveaxis(split, -2, 1).reshape(-1, *blocks.shape[1:-1], width)

    def join(self, chunks: NDArray[Any]) -> NDArray[Any]:
        """`[num_chunks, rows_per_chunk, width]` back to `[rows, column_blocks * width]`."""
        split = chunks.reshape(self.row_blocks, self.column_blocks, *chunks.shape[1:])
        joined = np.moveaxis(split, 1, -2).reshape(self.row_blocks * self.rows_per_chunk, -1)
        return joined[: self.rows]

    def add_up(self, chunks: NDArray[Any]) -> NDArray[np.float64]:
        """Sums per row, `[num_chunks, quantities, rows_per_chunk]` to `[quantities, rows]`."""
        split = chunks.astype(np.float64).reshape(self.row_blocks, self.column_blocks, *chunks.shape[1:]).sum(axis=1)
        return np.asarray(np.moveaxis(split, 1, 0).reshape(chunks.shape[1], -1)[:, : self.rows])


def pad_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with its first axis filled up to `rows` by copies of its last row."""
    missing = rows - len(array)
    return array if missing == 0 else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])


@dataclass(frozen=True, kw_only=True)
class Program:
    """Compiled program of one chunk.

    `run(payload, start, valid, rows, block, numbers)` takes that chunk's payload and row arrays and
    returns a tuple of tensors. `payload` and `rows` are the (shape, dtype) of its inputs, `outputs` the
    dtypes of what it returns.
    """

    run: Callable[..., Any]
    payload: tuple[tuple[int, ...], Any]
    rows: tuple[tuple[tuple[int, ...], Any], ...]
    outputs: tuple[Any, ...]


def stream(program: Program) -> Any:
    """The program mapped over chunks in one call, traced once for any number of chunks.

    Takes `(payload, block_of_chunk, start, valid, rows, block, numbers)`, with a leading chunk axis on the
    first four and a leading row-block axis on each of `rows`.
    """

    def many_of(shape: tuple[int, ...], dtype: Any) -> Any:
        return tf.TensorSpec([None, *shape], dtype)

    @tf.function(
        autograph=False,
        input_signature=[
            many_of(*program.payload),
            many_of((), tf.int32),
            many_of((), tf.uint32),
            many_of((), tf.int32),
            tuple(many_of(*row) for row in program.rows),
            tf.TensorSpec([], tf.uint32),
            tf.TensorSpec([None], tf.float32),
        ],
    )
    def many(payload: Any, block_of: Any, start: Any, valid: Any, rows: Any, block: Any, numbers: Any) -> Any:
        def step(index: Any) -> Any:
            mine = tuple(tf.gather(array, block_of[index]) for array in rows)
            return program.run(payload[index], start[index], valid[index], mine, block, numbers)

        return tf.map_fn(
            step, tf.range(tf.shape(start)[0]), fn_output_signature=program.outputs, parallel_iterations=_CHUNKS_AT_ONCE
        )

    return many
