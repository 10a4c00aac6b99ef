"""A store that somebody made up costs no more than one that a run wrote, and nothing of it is computed."""

from __future__ import annotations

import json
import resource
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_blobs import ARRAY, digest, forged, forged_array
from tampered import change_heads, change_row, replace_batches

from fl.base.results import TrialResult
from scenarios.files.plain_files import RESULTS
from scenarios.files.provenance import collect_provenance
from scenarios.store.blobs import EXPANSION, Blob, Part, pack
from scenarios.store.store import DamagedStoreError, Store, write_anew

MSE = "metrics/mse"


def many_zeros(about: object, *, count: int, each: int) -> bytes:
    """Return a blob of `count` arrays of `each` bytes that share one deflated part."""
    part = zlib.compress(bytes(each), 9)
    entry = ["|i1", "|i1", [each], None, 0, len(part), digest(part)]
    return forged(about, {"metrics": {f"m{number}": {ARRAY: entry} for number in range(count)}}, parts=part)


def keep(folder: Path) -> None:
    with Store.open(folder, scenario_name="demo") as store:
        store.write({"task": TrialResult(trial=0, metrics={"mse": 1.0}, rounds={})}, physics={}, seconds=1.0)


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.update(ids=[7]),
        lambda head: head.update(ids=["a", "b"]),
        lambda head: head.update(ids="t"),
        lambda head: head.update(ids=["\ud800"]),
        lambda head: head.update(numbers=["0"]),
        lambda head: head.update(numbers=[True]),
        lambda head: head.update(failures=[]),
        lambda head: head.update(failures={"0": 3}),
        lambda head: head.update(status="elsewhere"),
        lambda head: head.update(seconds="1"),
        lambda head: head.update(finished_at=None),
        lambda head: head.update(more=3),
        lambda head: head.pop("numbers"),
    ],
)
def test_a_head_that_nobody_wrote_is_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    keep(tmp_path)
    change_heads(tmp_path, change)
    with pytest.raises(DamagedStoreError) as error, Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert "\n" not in str(error.value)


PROVENANCE = asdict(collect_provenance(argv=["phyloop"]))
RUN = {
    "command": "c",
    "provenance": PROVENANCE,
    "started_at": "",
    "finished_at": None,
    "status": "done",
    "planned": None,
}


@pytest.mark.parametrize(
    "about",
    [
        {"identity": []},
        {"identity": ["demo", 1]},
        {"scenario": [3, {}]},
        {"runs": {"1": 3}},
        {"runs": {"first": RUN}},
        {"runs": {"1": {**RUN, "more": 1}}},
        {"runs": {"1": {**RUN, "planned": {"again": 1}}}},
        {"runs": {"1": {**RUN, "planned": 3}}},
        {"runs": {"1": {**RUN, "started_at": 3}}},
        {"runs": {"1": {**RUN, "provenance": {}}}},
        {"runs": {"1": {**RUN, "provenance": "by hand"}}},
        {"runs": {"1": {**RUN, "provenance": {**PROVENANCE, "versions": "all of them"}}}},
        {"report": ["digest", [3]]},
        {"more": 3},
        [],
    ],
)
def test_notes_that_nobody_wrote_are_refused(about: object, tmp_path: Path) -> None:
    keep(tmp_path)
    change_row(tmp_path, about)
    with pytest.raises(DamagedStoreError) as error:
        Store.open_existing(tmp_path)
    assert "\n" not in str(error.value)


def test_a_store_without_an_identity_is_refused(tmp_path: Path) -> None:
    write_anew(tmp_path / RESULTS, pack({}))
    with pytest.raises(DamagedStoreError):
        Store.open_existing(tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        lambda about: [forged_array("<f8", "<f8", [1 << 39], None, 0, 1 << 42, about=about, name=MSE)],
        lambda about: [forged_array("<f8", "|u1", [1 << 30], None, 0, 9, parts=b"\xff" * 9, about=about, name=MSE)],
        lambda about: [many_zeros(about, count=40, each=1 << 28)],
        lambda about: [forged_array("<f8", "<f8", ["x", 1 << 30], None, 0, 8, parts=bytes(8), about=about, name=MSE)],
        lambda about: [forged_array("<f8", "<f8", [-1], None, 0, 8, parts=bytes(8), about=about, name=MSE)],
        lambda about: pack(about, {"metrics": {"mse": np.zeros(2)}}),
        lambda about: pack(about, {"metrics": {"mse": np.zeros((1, 3))}}),
        lambda about: pack(about, {"metrics": {"mse": np.zeros(1, np.uint8)}}),
        lambda about: pack(about, {"metrics": {"mse": 3}}),
        lambda about: pack(about, {"metrics": [1.0]}),
    ],
)
def test_arrays_that_nobody_wrote_are_refused_and_take_no_memory(
    make: Callable[[object], list[Part]], tmp_path: Path
) -> None:
    keep(tmp_path)
    replace_batches(tmp_path, lambda blob: make(json.loads(blob.about)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_rounds_of_unequal_number_in_a_table_are_refused(tmp_path: Path) -> None:
    keep(tmp_path)
    rounds = {"train_loss": np.zeros((1, 3)), "test_accuracy": np.zeros((1, 2))}
    replace_batches(tmp_path, lambda blob: pack(json.loads(blob.about), {"rounds": rounds}))
    with (
        pytest.raises(DamagedStoreError, match="differ in their numbers of rounds"),
        Store.open_existing(tmp_path) as store,
    ):
        store.read_series(["task"], "rounds")


@pytest.mark.parametrize("array", [np.eye(3, 100_000), np.arange(30_000) // 29_000, np.arange(1 << 20) // 1_000_000])
def test_what_deflates_well_is_read_within_the_bound(array: np.ndarray, tmp_path: Path) -> None:
    parts = pack(None, {"a": array})
    (tmp_path / "blob").write_bytes(b"".join(parts))
    size = sum(map(len, parts))
    assert array.nbytes / EXPANSION <= size < array.nbytes / 4
    with (tmp_path / "blob").open("rb") as file:
        np.testing.assert_array_equal(Blob(file, most=size).read("a"), array)


def test_an_account_that_nobody_wrote_is_refused(tmp_path: Path) -> None:
    keep(tmp_path)
    account = json.dumps([{"kind": 3}, []])
    replace_batches(tmp_path, lambda blob: pack(json.loads(blob.about), {"account": account}))
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        store.read_accounts(["task"])


def test_what_a_run_wrote_is_read(tmp_path: Path) -> None:
    keep(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert store.read_metrics(["task"]) == {"task": {"mse": 1.0}}
