"""Arrays as bytes: what goes in comes out, what cannot shrink costs no time, and of other bytes nothing is believed."""

from __future__ import annotations

import io
import json
import math
import resource
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from forged_blobs import ARRAY, forged, forged_array
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from scenarios.store.blobs import MOST_FRONT, Blob, BlobError
from scenarios.store.blobs import pack as pack_parts

DRAWS = np.random.default_rng(11)
CASES: dict[str, NDArray[Any]] = {
    "draws": DRAWS.standard_normal(300),
    "many draws": DRAWS.standard_normal((4000, 5)),
    "a constant": np.full(300, 0.008),
    "codes": DRAWS.integers(0, 3, 300).astype(float),
    "counts": DRAWS.integers(0, 1000, (300, 4)),
    "none": np.zeros(0),
    "none of many": np.zeros((0, 3), np.int64),
    "one": np.array([0.1]),
    "a scalar": np.array(0.3),
    "not in order of memory": DRAWS.standard_normal((40, 30)).T,
    "of the other byte order": DRAWS.standard_normal(30).astype(">f8"),
    "no numbers": np.full(70, np.nan),
    "truth": DRAWS.integers(0, 2, 50).astype(bool),
    "greys": DRAWS.integers(0, 256, (2, 8, 8, 3)).astype(np.uint8),
    "weights": DRAWS.standard_normal((7, 9)).astype(np.float32),
}
KINDS = some.sampled_from(["bool", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8"])


def pack(content: Mapping[str, Any], *, about: Any = None) -> bytes:
    return b"".join(pack_parts(about, content))


def unpack(data: bytes) -> Blob:
    return Blob(io.BytesIO(data), most=len(data))


def little(array: NDArray[Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def test_what_is_packed_is_unpacked_bit_by_bit_in_its_order() -> None:
    about = {"text": "ä\n", "numbers": [1, 2.5, None, math.inf], "nested": {"a": {}}}
    blob = unpack(pack({"table": CASES, "more": about}, about=about))
    assert json.loads(blob.about) == about
    assert blob.read("more") == about
    assert blob.read("not there") == {}
    assert list(blob.read("table")) == list(CASES)
    for name, array in CASES.items():
        found = blob.read("table", name)
        assert (found.shape, found.dtype) == (array.shape, array.dtype.newbyteorder("<"))
        assert found.tobytes() == little(array), name
        assert not found.flags.writeable


@settings(max_examples=40, deadline=None)
@given(
    array=KINDS.flatmap(lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))),
    rows=some.integers(1, 4),
)
def test_every_array_and_its_rows_come_back(array: NDArray[Any], rows: int) -> None:
    other = np.roll(array, 1)
    blob = unpack(pack({"one": array, "same": np.array([array] * rows), "both": np.array([array, other])}))
    assert blob.read("one").tobytes() == array.tobytes()
    assert blob.read("same").shape == (rows, *array.shape)
    assert blob.read("same").tobytes() == array.tobytes() * rows
    assert blob.read("both").tobytes() == array.tobytes() + other.tobytes()


def test_rows_that_are_all_equal_are_kept_once() -> None:
    clock = np.cumsum(DRAWS.uniform(size=300))
    alone = len(pack({"a": clock[None]}))
    assert len(pack({"a": np.array([clock] * 1000)})) < alone + 150
    # Zeros with another sign are equal numbers of other bits.
    signs = np.array([np.zeros(3), -np.zeros(3)])
    assert np.signbit(unpack(pack({"a": signs})).read("a")).tolist() == [[False] * 3, [True] * 3]


def test_draws_are_kept_as_they_are_and_what_repeats_is_deflated() -> None:
    assert len(pack({"a": CASES["counts"]})) < CASES["counts"].nbytes / 4 + 200  # two bytes have them all
    for name in ("a constant", "codes", "no numbers"):
        assert len(pack({"a": CASES[name]})) < CASES[name].nbytes / 2 + 200, name
    draws = CASES["many draws"]
    size = len(pack({"a": draws}))
    assert size < draws.nbytes + 200
    for name, array in CASES.items():
        assert len(pack({name: array})) < array.nbytes + 200, name


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([None]), np.ones(2, complex), np.zeros(2, np.float16)])
def test_what_is_no_number_is_refused(array: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="only numbers can be stored"):
        pack({"a": array})


def test_plain_values_that_no_reader_would_take_are_not_written() -> None:
    with pytest.raises(ValueError, match="are the most"):
        pack({}, about={"a": "x" * MOST_FRONT})


def test_arrays_larger_than_any_that_is_inflated_are_written_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.store.blobs.MOST_BYTES", 1000)
    array = np.repeat([0.0, 1.0], 63)
    data = pack({"a": array})
    assert len(data) > array.nbytes
    assert unpack(data).read("a").nbytes == array.nbytes


@pytest.fixture(scope="module")
def whole() -> bytes:
    return pack({"draws": CASES["many draws"], "rows": np.array([CASES["counts"]] * 3)}, about={"tasks": ["a"]})


def test_a_blob_cut_anywhere_is_refused(whole: bytes) -> None:
    for length in [*range(200), *range(0, len(whole), 997), len(whole) - 1]:
        with pytest.raises(BlobError):
            unpack(whole[:length])


def test_a_single_wrong_bit_is_noticed_wherever_it_is(whole: bytes) -> None:
    for place in [*range(300), *DRAWS.integers(0, len(whole), 300)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(DRAWS.integers(8))
        with pytest.raises(BlobError):
            unpack(bytes(damaged)).read()


ZEROS = zlib.compress(bytes(1 << 26), 9)
HOSTILE: dict[str, bytes] = {
    "more numbers than bytes": forged_array("<f8", "<f8", [1 << 39], None, 0, 1 << 42),
    "a product beyond 64 bits": forged_array("<f8", "<f8", [1 << 39, 1 << 39], None, 0, 0),
    "nothing of something huge": forged_array("<f8", "<f8", [0, 1 << 39, 1 << 39], None, 0, 0),
    "many equal rows of nothing huge": forged_array("<f8", "<f8", [0, 1 << 39, 1 << 39], 1 << 39, 0, 0),
    "a negative length": forged_array("<f8", "<f8", [-1, -8], None, 0, 64),
    "a negative size": forged_array("|u1", "|u1", [3], None, 0, -3),
    "a place before its parts": forged_array("|u1", "|u1", [3], None, -3, 3),
    "a place behind its parts": forged_array("|u1", "|u1", [3], None, 1 << 39, 3),
    "more bytes than its shape": forged_array("<f8", "<f8", [1], None, 0, 9, parts=bytes(9)),
    "objects": forged_array("<f8", "|O", [1], None, 0, 8, parts=bytes(8)),
    "text": forged_array("<U4", "<U4", [1], None, 0, 16, parts=bytes(16)),
    "a list for a kind": forged_array(["<f8"], "<f8", [1], None, 0, 8, parts=bytes(8)),
    "a fraction of a row": forged_array("<f8", "<f8", [1], 0.5, 0, 8, parts=bytes(8)),
    "a hundred axes": forged_array("<f8", "<f8", [1] * 100, None, 0, 8, parts=bytes(8)),
    "an entry that is no list": forged(None, {ARRAY: 7}),
    "no content": forged(None, b""),
    "no JSON": forged(None, b"\xff\xfe{"),
    "depth beyond the parser": forged(None, b'[{"a": ' * 200_000),
    "depth beyond a reader": forged(None, b'{"a": ' * 900 + b"0" + b"}" * 900),
    "a number of a million digits": forged(None, b'{"a": ' + b"9" * 1_000_000 + b"}"),
    "a front longer than the blob": forged(None, lengths=((1 << 64) - 1, 0)),
    "parts longer than the blob": forged(None, lengths=(7, 1 << 60)),
    "something longer than any that is written": forged(b" " * (1 << 26)),
    "a pickle": b"\x80\x04\x95" + bytes(200),
}
BOMBS: dict[str, bytes] = {
    "more than its shape": forged_array("|u1", "|u1", [10], None, 0, len(ZEROS), parts=ZEROS),
    "fewer than its shape": forged_array("|u1", "|u1", [1 << 26], None, 0, 9, parts=zlib.compress(bytes(9))[:9]),
    "bytes that do not inflate": forged_array("|u1", "|u1", [1000], None, 0, 9, parts=b"\xff" * 9),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_forged_blob_gets_one_error_and_no_memory(what: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BlobError) as error:
        unpack(HOSTILE[what]).read()
    assert "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10, "more than 200 MB were taken"


@pytest.mark.parametrize("what", BOMBS)
def test_an_array_that_inflates_to_another_size_is_not_inflated(what: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BlobError):
        unpack(BOMBS[what]).read()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
