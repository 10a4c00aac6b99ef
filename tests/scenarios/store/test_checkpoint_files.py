"""A checkpoint as a file: what goes in comes out, and of anything else nothing is believed."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_blobs import forged, forged_array
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import array_shapes, arrays

from scenarios.store.blobs import BlobError
from scenarios.store.checkpoints import read_checkpoint, write_checkpoint

ABOUT = {"tasks": ["a"], "versions": {"phyloop": None}}
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
    write_checkpoint(path, about=ABOUT, state=state)
    about, found = read_checkpoint(path)
    assert same(state, found)
    assert about == ABOUT


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file of some 70 KB."""
    path = tmp_path_factory.mktemp("whole") / "one.ckpt"
    weights = np.random.default_rng(3).normal(size=9000)
    state = {"weights": weights, "b": 0.5, "part": {"sent": np.arange(7)}}
    write_checkpoint(path, about=ABOUT, state=state)
    return path.read_bytes()


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(BlobError) as error:
        read_checkpoint(path)
    return str(error.value)


def test_a_file_cut_anywhere_is_refused(whole: bytes, tmp_path: Path) -> None:
    assert len(whole) > 16 * 4096
    for length in [*range(0, len(whole), 4096), *range(60), len(whole) - 1, len(whole) - 32]:
        assert refused(tmp_path / "torn.ckpt", whole[:length])
    assert refused(tmp_path / "torn.ckpt", b"")


def test_a_single_wrong_bit_is_noticed_wherever_it_is(whole: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    everywhere = [*range(200), *rng.integers(0, len(whole), 300), *range(len(whole) - 40, len(whole))]
    for place in everywhere:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        assert refused(tmp_path / "flipped.ckpt", bytes(damaged))


HOSTILE: dict[str, bytes] = {
    "more numbers than bytes": forged_array("<f8", "<f8", [1 << 39], None, 0, 1 << 42, about=ABOUT),
    "a state that is a number": forged(ABOUT, 3),
    "no state": forged(ABOUT, b""),
    "no header": forged(b"", {"a": 1}),
    "depth": forged(ABOUT, b'{"a": ' * 99_999),
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
    with pytest.raises(OSError, match="not a plain file"):
        read_checkpoint(tmp_path / "pipe.ckpt")


def test_what_no_checkpoint_holds_is_refused_before_anything_is_left_on_disk(tmp_path: Path) -> None:
    for state in ({"a": {1}}, {"a": np.array(["text"])}, {"a": np.array([None])}, {"a": np.ones(2, complex)}):
        with pytest.raises((TypeError, ValueError)):
            write_checkpoint(tmp_path / "one.ckpt", about=ABOUT, state=state)
    assert not list(tmp_path.iterdir())
