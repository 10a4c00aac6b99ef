"""Arrays as bytes: what comes back, and what is spent on deflating what deflate cannot make smaller."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from scenarios.store.array_bytes import pack_series, unpack_series

DRAWS = np.random.default_rng(11)
CASES = {
    "draws": DRAWS.standard_normal(300),
    "draws of more than one block": DRAWS.standard_normal((4000, 5)),
    "exactly one block and the next value": DRAWS.standard_normal(8192),
    "a constant": np.full(300, 0.008),
    "codes": DRAWS.integers(0, 3, 300).astype(float),
    "counts": DRAWS.integers(0, 1000, (300, 4)),
    "none": np.zeros(0),
    "one": np.array([0.1]),
    "a scalar": np.array(0.3),
    "not in order of memory": DRAWS.standard_normal((40, 30)).T,
    "no numbers": np.full(70, np.nan),
}


def unpacked(row: tuple[object, ...]) -> NDArray[np.float64 | np.int64] | None:
    _, dtype, shape, crc32, data, _ = row
    return unpack_series(dtype, shape, crc32, data)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_what_is_packed_is_unpacked_bit_by_bit_and_hardly_ever_larger(name: str) -> None:
    array = CASES[name]
    (row,) = pack_series({name: array})
    found = unpacked(row)
    assert found is not None
    assert found.shape == array.shape
    assert found.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    # 6 bytes of zlib, and 5 per block of 65,535 (RFC 1951) or, by zlib's own choice, a little smaller.
    data = row[4]
    assert isinstance(data, bytes)
    assert len(data) <= array.nbytes + 6 + 5 * (array.nbytes // 16_000 + 1)


def test_draws_are_kept_as_they_are_and_what_repeats_is_deflated() -> None:
    rows = {row[0]: row for row in pack_series(CASES)}
    kept = rows["draws"][4]
    assert isinstance(kept, bytes)
    assert CASES["draws"].tobytes() in kept
    for name in ("a constant", "codes", "counts", "no numbers"):
        assert len(rows[name][4]) < CASES[name].nbytes / 2, name  # type: ignore[arg-type]


def test_any_reader_of_zlib_reads_what_is_kept_as_it_is() -> None:
    for size in (1, 2, 300, 8191, 8192, 20_000):
        draws = np.random.default_rng(size).standard_normal(size)
        ((*_, data, _),) = pack_series({"draws": draws})
        assert zlib.decompress(data) == draws.tobytes()  # type: ignore[arg-type]


def test_an_array_of_the_trial_before_is_deflated_once_and_keeps_its_type_and_total() -> None:
    clock = np.cumsum(np.full(300, 5e-6))  # looks drawn; deflate halves nothing but saves a quarter
    last: dict[tuple[str, str], tuple[bytes, tuple[int, bytes, int | None]]] = {}
    first, second, third = (pack_series({"elapsed_s": clock}, last=last)[0] for _ in range(3))
    assert len(second[4]) < 0.9 * clock.nbytes  # type: ignore[arg-type]
    assert third[4] is second[4]
    for row in (first, second, third):
        found = unpacked(row)
        assert found is not None
        assert np.array_equal(found, clock)
    # Zeros are the same bytes whether they count or measure.
    for zeros, total in ((np.zeros(5), None), (np.zeros(5, np.int64), 0), (np.zeros(5), None)):
        (row,) = pack_series({"some": zeros}, last=last)
        assert row[5] == total
        assert row[1] == zeros.dtype.str
