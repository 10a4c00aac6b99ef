"""Cutting payloads into chunks of one shape, and putting them together again."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from phy.numerics.streaming import Cut, Program, pad_rows, stream

CUTS = st.builds(
    Cut,
    rows=st.integers(1, 9),
    symbols=st.integers(1, 50),
    rows_per_chunk=st.integers(1, 5),
    columns=st.sampled_from([8, 16, 24]),
)


def payload_of(cut: Cut) -> np.ndarray:
    return np.arange(1, cut.rows * cut.symbols + 1).reshape(cut.rows, cut.symbols)


@settings(deadline=None)
@given(CUTS)
def test_chunks_join_to_the_whole(cut: Cut) -> None:
    chunks = cut.chunks(payload_of(cut), cut.columns)
    assert chunks.shape == (cut.row_blocks * cut.column_blocks, cut.rows_per_chunk, cut.columns)
    joined = cut.join(chunks)
    assert np.array_equal(joined[:, : cut.symbols], payload_of(cut))
    assert not joined[:, cut.symbols :].any()


@settings(deadline=None)
@given(CUTS)
def test_every_symbol_is_counted_once(cut: Cut) -> None:
    assert cut.valid().min() > 0
    assert cut.valid().sum() == cut.symbols * cut.row_blocks
    ends = cut.start().astype(int) + cut.valid()
    assert ends.max() == cut.symbols


@settings(deadline=None)
@given(CUTS)
def test_sums_over_chunks_are_sums_over_rows(cut: Cut) -> None:
    chunks = cut.chunks(payload_of(cut), cut.columns)
    sums = np.stack([chunks.sum(axis=-1), (chunks**2).sum(axis=-1)], axis=1)
    expected = np.stack([payload_of(cut).sum(axis=1), (payload_of(cut) ** 2).sum(axis=1)])
    assert np.array_equal(cut.add_up(sums), expected)


@settings(deadline=None)
@given(CUTS)
def test_a_chunk_meets_the_rows_it_was_cut_from(cut: Cut) -> None:
    by_row = cut.by_row(payload_of(cut)[:, 0])
    chunks = cut.chunks(payload_of(cut), cut.columns)
    first_of_row = chunks[cut.start() == 0][:, :, 0]
    assert np.array_equal(by_row[cut.block()[cut.start() == 0]], first_of_row)


def test_an_axis_between_rows_and_symbols_is_kept() -> None:
    cut = Cut(rows=3, symbols=10, rows_per_chunk=2, columns=8)
    payload = np.arange(3 * 4 * 10).reshape(3, 4, 10)
    chunks = cut.chunks(payload, 8)
    assert chunks.shape == (4, 2, 4, 8)
    assert np.array_equal(chunks[1, 1, :, :2], payload[1, :, 8:])


def test_rows_are_filled_up_with_copies_of_the_last() -> None:
    assert pad_rows(np.array([1, 2]), 4).tolist() == [1, 2, 2, 2]
    assert pad_rows(np.array([1, 2]), 2).tolist() == [1, 2]


@pytest.fixture(scope="module")
def doubling() -> object:
    """A program that doubles its payload, adds its row's number and reports how much of it is valid."""

    def run(payload: tf.Tensor, start: tf.Tensor, valid: tf.Tensor, rows: tuple, *_: object) -> tuple:
        return 2.0 * payload + rows[0][:, None], valid + tf.cast(start, tf.int32)

    return stream(
        Program(
            run=run,
            payload=((2, 8), tf.float32),
            rows=(((2,), tf.float32),),
            outputs=(tf.float32, tf.int32),
        )
    )


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("symbols", [3, 8, 30])
def test_a_program_meets_every_chunk_and_is_traced_once(doubling: object, rows: int, symbols: int) -> None:
    cut = Cut(rows=rows, symbols=symbols, rows_per_chunk=2, columns=8)
    payload = np.arange(rows * symbols, dtype=np.float32).reshape(rows, symbols)
    number = 100.0 * np.arange(rows, dtype=np.float32)
    doubled, ends = doubling(
        cut.chunks(payload, 8),
        cut.block(),
        cut.start(),
        cut.valid(),
        (cut.by_row(number),),
        np.uint32(1),
        np.zeros(4, np.float32),
    )
    assert np.array_equal(cut.join(doubled.numpy())[:, :symbols], 2.0 * payload + number[:, None])
    assert ends.numpy().max() == symbols
    assert doubling.experimental_get_tracing_count() == 1
