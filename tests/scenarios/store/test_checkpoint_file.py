"""A checkpoint as a file: what goes in comes out, and of anything else nothing is believed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import array_shapes, arrays

from scenarios.store.checkpoint_file import (
    MAGIC,
    VERSION,
    Checkpoint,
    DamagedError,
    read_about,
    read_checkpoint,
    write_checkpoint,
)

KINDS = some.sampled_from(["bool", "u1", "i4", "u4", "i8", "u8", "f4", "f8"])
LEAVES = some.one_of(
    some.none(),
    some.integers(-(1 << 80), 1 << 80),
    some.floats(),
    some.text(),
    KINDS.flatmap(lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))),
)
STATES = some.dictionaries(
    some.text(some.characters(min_codepoint=32)),
    some.recursive(LEAVES, lambda parts: some.dictionaries(some.text(some.characters(min_codepoint=32)), parts)),
    max_size=5,
)


def same(first: Any, second: Any) -> bool:
    """Equal with types and bits; NaN is NaN."""
    if isinstance(first, Mapping):
        return list(first) == list(second) and all(same(first[name], second[name]) for name in first)
    if isinstance(first, np.ndarray):
        return (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())
    if isinstance(first, float) and math.isnan(first):
        return isinstance(second, float) and math.isnan(second)
    return type(first) is type(second) and repr(first) == repr(second)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=STATES)
def test_every_state_comes_back_bit_for_bit(state: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "one.ckpt"
    write_checkpoint(path, Checkpoint(about={"tasks": ["a"]}, state=state))
    found = read_checkpoint(path)
    assert same(state, found.state)
    assert found.about == {"tasks": ["a"]} == read_about(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file of some 70 KB."""
    path = tmp_path_factory.mktemp("whole") / "one.ckpt"
    state = {"weights": np.arange(9000.0), "b": 0.5, "part": {"sent": np.arange(7)}}
    write_checkpoint(path, Checkpoint(about={"tasks": ["a"]}, state=state))
    return path.read_bytes()


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(DamagedError) as error:
        read_checkpoint(path)
    return str(error.value)


def test_a_file_cut_anywhere_is_refused(whole: bytes, tmp_path: Path) -> None:
    assert len(whole) > 16 * 4096
    for length in [*range(0, len(whole), 4096), *range(60), len(whole) - 1, len(whole) - 32]:
        assert refused(tmp_path / "torn.ckpt", whole[:length])
    assert refused(tmp_path / "torn.ckpt", whole + b"\0")


def test_a_single_wrong_bit_is_noticed_wherever_it_is(whole: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    everywhere = [*range(200), *rng.integers(0, len(whole), 300), *range(len(whole) - 40, len(whole))]
    for place in everywhere:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        assert refused(tmp_path / "flipped.ckpt", bytes(damaged))


def forged(header: Any, *, data: bytes = b"", version: int = VERSION, length: int | None = None) -> bytes:
    """A file whose checksum holds, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    front = struct.pack("<8sQQ", MAGIC, version, len(text) if length is None else length) + text + data
    return front + hashlib.sha256(front).digest()


ARRAY = "\0array"
HOSTILE: dict[str, bytes] = {
    "more numbers than bytes": forged({"about": {}, "state": {"a": {ARRAY: ["<f8", [1 << 61]]}}}),
    "a product beyond 64 bits": forged({"about": {}, "state": {"a": {ARRAY: ["<f8", [1 << 40, 1 << 40]]}}}),
    "nothing of something huge": forged({"about": {}, "state": {"a": {ARRAY: ["<f8", [0, 1 << 62, 1 << 62]]}}}),
    "a negative length": forged({"about": {}, "state": {"a": {ARRAY: ["<f8", [-1, -8]]}}}),
    "objects": forged({"about": {}, "state": {"a": {ARRAY: ["|O", [1]]}}}, data=b"\0" * 8),
    "text": forged({"about": {}, "state": {"a": {ARRAY: ["<U4", [1]]}}}, data=b"\0" * 16),
    "a list for a kind": forged({"about": {}, "state": {"a": {ARRAY: [["<f8"], [1]]}}}, data=b"\0" * 8),
    "no place for an array": forged({"about": {}, "state": {"a": {ARRAY: None}}}),
    "bytes of no array": forged({"about": {}, "state": {}}, data=b"\0" * 8),
    "a list": forged({"about": {}, "state": {"a": [1, 2]}}),
    "no names": forged({"about": {}, "state": 3}),
    "no header": forged(b""),
    "half a header": forged({"about": {}}),
    "a header that is a list": forged([]),
    "no JSON": forged(b"\xff\xfe{"),
    "depth": forged(b'{"about": {}, "state": ' + b'{"a": ' * 50 + b"1" + b"}" * 52),
    "depth beyond the parser": forged(b'{"about": {}, "state": ' + b'{"a": ' * 200_000),
    "a number of a million digits": forged(b'{"about": {}, "state": {"a": ' + b"9" * 1_000_000 + b"}}"),
    "a header longer than the file": forged({"about": {}, "state": {}}, length=1 << 62),
    "another version": forged({"about": {}, "state": {}}, version=VERSION + 1),
    "a pickle": b"\x80\x04\x95" + bytes(200),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_forged_file_gets_a_sentence_and_no_memory(what: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(tmp_path / "forged.ckpt", HOSTILE[what])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10, "more than 200 MB were taken"


def test_links_and_pipes_are_not_followed(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(whole)
    (tmp_path / "link.ckpt").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe.ckpt")
    with pytest.raises(OSError, match="symbolic links"):
        read_checkpoint(tmp_path / "link.ckpt")
    with pytest.raises(DamagedError):
        read_checkpoint(tmp_path / "pipe.ckpt")


def test_what_no_checkpoint_holds_is_refused_before_anything_is_left_on_disk(tmp_path: Path) -> None:
    for state in ({"a": [1]}, {"a": np.array(["text"])}, {"a": np.array([None])}, {"a": np.ones(2, complex)}):
        with pytest.raises(TypeError):
            write_checkpoint(tmp_path / "one.ckpt", Checkpoint(about={}, state=state))
    assert not list(tmp_path.iterdir())
