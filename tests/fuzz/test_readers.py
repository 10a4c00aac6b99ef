"""Files from others - data sets, run folders, checkpoints - are read or refused in a sentence, whatever their bytes."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import resource
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_blobs import ARRAY, digest, forged, resealed
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from law import outcome, read_plan
from mutations import key_names, spoilt_documents, values
from pace import OwnTime

from fl.base.errors import LearningError
from fl.data.formats import read_cifar, read_idx, read_npz
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario, resolved_data
from scenarios.store.blobs import Blob, BlobError, pack
from scenarios.store.checkpoints import read_checkpoint, write_checkpoint
from scenarios.store.store import Store
from scenarios.studies.folders import stored_scenario

SOME = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))

GREY = {
    "x_train": np.zeros((4, 28, 28), np.uint8),
    "y_train": np.arange(4, dtype=np.uint8),
    "x_test": np.zeros((2, 28, 28), np.uint8),
    "y_test": np.arange(2, dtype=np.uint8),
}
IDX = b"\0\0\x08\x03" + struct.pack(">III", 2, 28, 28) + bytes(2 * 784)
BATCH = pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}, protocol=2)
FINE = {"x": np.arange(6.0).reshape(2, 3), "n": {"rounds": 3, "rng": "abc", "empty": np.zeros((0, 2), np.int64)}}


@contextmanager
def frugal(seconds: float = 1.0, bytes_: int = 500 << 20) -> Iterator[None]:
    """Fails if the block computes for longer, or takes more memory than this process ever had."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with OwnTime() as own:
        yield
    assert own.seconds < seconds
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < bytes_


@st.composite
def spoilt(draw: st.DrawFn, fine: bytes) -> bytes:
    """Bytes that were fine, cut, flipped, doubled or replaced at a few places, most often near the front or the end."""
    content = bytearray(fine)
    for _ in range(draw(st.integers(1, 5))):
        end = len(content)
        start = draw(st.integers(0, min(80, end)) | st.integers(max(end - 80, 0), end) | st.integers(0, end))
        stop = min(start + draw(st.integers(0, 12)), end)
        piece = draw(st.binary(max_size=8) | st.just(bytes(content[start:stop]) * 2) | st.just(b"\xff" * 4))
        content[start : draw(st.sampled_from((start, stop, min(start + len(piece), end))))] = piece
    return bytes(content)


def npz_bytes() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **GREY)
    return buffer.getvalue()


def archive_bytes() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in (*(f"data_batch_{one}" for one in range(1, 6)), "test_batch"):
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(BATCH)
            archive.addfile(entry, io.BytesIO(BATCH))
    return buffer.getvalue()


def checkpoint_bytes(folder: Path) -> bytes:
    write_checkpoint(folder / "fine", about={"tasks": ["a"]}, state=FINE)
    return (folder / "fine").read_bytes()


READERS: dict[str, tuple[Callable[[Path], object], bytes, tuple[type[Exception], ...]]] = {
    "idx": (read_idx, IDX, (LearningError,)),
    "idx.gz": (read_idx, gzip.compress(IDX), (LearningError,)),
    "npz": (lambda path: read_npz(path, *GREY), npz_bytes(), (LearningError,)),
    "tar.gz": (lambda path: read_cifar(path, name="cifar10"), archive_bytes(), (LearningError,)),
}


def read_or_refuse(name: str, content: bytes, tmp_path: Path) -> None:
    read, _, told = READERS[name]
    path = tmp_path / f"given.{name}"
    path.write_bytes(content)
    in_one_line_if_at_all(read, path, told)


def in_one_line_if_at_all(read: Callable[[Path], object], path: Path, told: tuple[type[Exception], ...]) -> None:
    """A file is read, or refused by one of the errors `told`, within little time and memory."""
    with frugal():
        try:
            read(path)
        except told as error:
            said = str(error)
        else:
            said = ""
    assert "\n" not in said


@pytest.mark.parametrize("name", READERS)
def test_what_is_spoilt_here_was_fine(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"given.{name}"
    path.write_bytes(READERS[name][1])
    assert READERS[name][0](path) is not None


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@SOME
def test_a_spoilt_file_of_data_is_read_or_refused(name: str, data: st.DataObject, tmp_path: Path) -> None:
    read_or_refuse(name, data.draw(spoilt(READERS[name][1])), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@MANY
def test_of_many_spoilt_files_of_data_each_is_read_or_refused(name: str, data: st.DataObject, tmp_path: Path) -> None:
    read_or_refuse(name, data.draw(spoilt(READERS[name][1]) | st.binary(max_size=200)), tmp_path)


@given(data=st.data(), sealed=st.booleans())
@SOME
def test_a_spoilt_checkpoint_is_read_or_refused(data: st.DataObject, sealed: bool, tmp_path: Path) -> None:
    content = data.draw(spoilt(checkpoint_bytes(tmp_path)))
    path = tmp_path / "given"
    path.write_bytes(resealed(content) if sealed else content)
    in_one_line_if_at_all(read_checkpoint, path, (BlobError,))


BLOB = b"".join(pack({"text": "a"}, {"x": np.arange(6.0).reshape(2, 3), "rows": np.array([np.arange(4)] * 3)}))
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 1 << 70)
    | st.floats()
    | st.sampled_from(("<i8", "<f8", "|u1", "O", "a")),
    lambda some: st.lists(some, max_size=7),
    max_leaves=20,
)
entries = st.tuples(
    *[st.sampled_from(("<i8", "<f8", "|u1", ">f8", "V8", "<U9999999"))] * 2,
    st.lists(st.integers(-1, 1 << 40), max_size=9),
    st.none() | st.integers(-1, 1 << 40),
    st.integers(-1, 1 << 40),
    st.integers(-1, 40),
    st.just(digest(b"")) | st.text(max_size=16),
)


def read_whole(data: bytes) -> None:
    """A blob is read whole or refused, within little time and memory."""
    with frugal():
        try:
            Blob(io.BytesIO(data), most=len(data)).read()
        except BlobError as error:
            said = str(error)
        else:
            said = ""
    assert "\n" not in said


@given(data=st.data(), sealed=st.booleans())
@SOME
def test_a_spoilt_blob_is_read_or_refused(data: st.DataObject, sealed: bool) -> None:
    content = data.draw(spoilt(BLOB))
    read_whole(resealed(content) if sealed else content)


@given(
    content=st.dictionaries(st.sampled_from("abcd"), (entries | plain).map(lambda one: {ARRAY: one}) | plain) | plain,
    parts=st.binary(max_size=60) | st.binary(max_size=20).map(lambda raw: zlib.compress(raw + bytes(1 << 20))),
)
@SOME
def test_a_forged_blob_is_read_or_refused(content: object, parts: bytes) -> None:
    read_whole(resealed(forged(None, content, parts=parts)))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    with Store.open(folder, scenario_name="flmc-snr") as store:
        root = resolved_data(load_scenario("flmc-snr").scenario)
        store.save_scenario(yaml="name: flmc-snr", root=root)
    return folder


class _Kept:
    """A store whose scenario is `text`, any JSON."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        try:
            self.root = json.loads(text)
        except (ValueError, RecursionError):  # in a store a damaged row
            reject()

    def read_scenario(self) -> _Kept:
        return self


@given(
    text=st.text(max_size=30)
    | values.map(json.dumps)
    | st.dictionaries(st.sampled_from(("name", "learning", "sweep", "link", "report", "privacy")), values).map(
        json.dumps
    )
    | st.sampled_from(
        ("[" * 100_000, '{"name": ' * 30_000, '{"name": "\\u001b[2J"}', '{"name": "\\ud800"}', "9" * 5000)
    )
)
@SOME
def test_the_scenario_of_a_store_is_checked_as_a_file_is(text: str, tmp_path: Path) -> None:
    outcome(lambda: read_plan(stored_scenario(_Kept(tmp_path, text))))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["\x1b[2J", "\u202e", "\ud800", None, 10**70, {"k" * 201: 1}])
def test_a_stored_scenario_has_nothing_that_a_file_could_not_have(value: object, tmp_path: Path) -> None:
    kept = _Kept(tmp_path, json.dumps({"name": "a", "card": {"x": value}}))
    with pytest.raises(ScenarioError, match=r"card\.x|not valid YAML|cannot be shown"):
        stored_scenario(kept)  # type: ignore[arg-type]


@given(document=spoilt_documents())
@SOME
def test_a_spoilt_scenario_in_a_store_is_told_or_taken(document: dict[str, Any], tmp_path: Path) -> None:
    outcome(lambda: read_plan(stored_scenario(_Kept(tmp_path, json.dumps(document)))))  # type: ignore[arg-type]


def test_the_scenario_of_a_real_store_is_read(run_folder: Path) -> None:
    with Store.open_existing(run_folder) as store:
        assert stored_scenario(store).scenario.name == "flmc-snr"


def test_the_words_of_scenarios_are_many() -> None:
    assert len(key_names()) > 300
