"""A store that somebody made up costs no more than one that a run wrote, and nothing of it is computed."""

from __future__ import annotations

import json
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_blobs import forged_array
from tampered import change_heads, change_record, execute

from fl.results import TrialResult
from scenarios.files.plain_files import DATABASE
from scenarios.schema.errors import ScenarioError
from scenarios.store.blobs import pack, sha256_of
from scenarios.store.database import MOST_ROW, DamagedStoreError
from scenarios.store.store import Store, read_runs


def keep(folder: Path) -> None:
    with Store.open(folder, scenario_name="demo") as store:
        store.write({"task": TrialResult(trial=0, metrics={"mse": 1.0}, rounds={})}, physics={}, seconds=1.0)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON batches BEGIN DELETE FROM blobs; END",
        "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
        "CREATE TABLE g (a, b GENERATED ALWAYS AS (hex(a)) STORED)",
        "CREATE INDEX i ON batches (length(head))",
    ],
)
def test_a_store_that_computes_is_refused(statement: str, tmp_path: Path) -> None:
    keep(tmp_path)
    execute(tmp_path, statement)
    for opened in (lambda: Store.open_existing(tmp_path), lambda: Store.open(tmp_path, scenario_name="demo")):
        with pytest.raises(ScenarioError, match="that phyloop did not write") as error:
            opened()
        assert not isinstance(error.value, DamagedStoreError)


@pytest.mark.parametrize("column", ["BLOB GENERATED ALWAYS AS ('3')", "BLOB AS ('3')", "BLOB As/**/('3')"])
@pytest.mark.parametrize("ours", [True, False])
def test_a_column_that_is_computed_is_refused_before_it_is_read_and_nothing_of_it_is_kept(
    column: str, ours: bool, tmp_path: Path
) -> None:
    keep(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as database:
        database.executescript(f"DROP TABLE records; CREATE TABLE records (key TEXT PRIMARY KEY, value {column});")
        database.execute("INSERT INTO records (key) VALUES ('store'), ('seal')")
        if not ours:
            database.execute("PRAGMA application_id = 7")
    with pytest.raises(DamagedStoreError):
        Store.open_existing(tmp_path)
    with Store.open(tmp_path, scenario_name="given") as store:
        assert store.count_tasks() == 0
        assert store.scenario_name == "given"


def test_tables_that_are_views_by_our_names_are_refused(tmp_path: Path) -> None:
    keep(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as database:
        database.executescript("ALTER TABLE blobs RENAME TO b; CREATE VIEW blobs AS SELECT * FROM b;")
    with pytest.raises(DamagedStoreError, match="tables are not those"):
        Store.open_existing(tmp_path)


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
        lambda head: head.update(blob=None),
        lambda head: head.update(extras=3),
        lambda head: head.update(more=3),
        lambda head: head.pop("ids"),
    ],
)
def test_a_head_that_nobody_wrote_is_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    keep(tmp_path)
    change_heads(tmp_path, change)
    with pytest.raises(DamagedStoreError) as error, Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert "\n" not in str(error.value)


RUN = {"command": "c", "provenance": {}, "started_at": "", "finished_at": None, "status": "done"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("store", []),
        ("store", {"scenario": 1}),
        ("seal", 3),
        ("run/000001", 3),
        ("run/000001", {**RUN, "more": 1}),
        ("run/000001", {**RUN, "planned": {"tasks": 1}}),
        ("run/000001", {**RUN, "planned": 3}),
        ("run/one", RUN),
    ],
)
def test_a_record_that_nobody_wrote_is_refused(key: str, value: object, tmp_path: Path) -> None:
    keep(tmp_path)
    change_record(tmp_path, key, value)
    if key.startswith("run"):
        change_record(tmp_path, "seal", {"batches": 1, "records": 3})
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        print(store.scenario_name, read_runs(store))


@pytest.mark.parametrize(
    "blob",
    [
        forged_array("metrics/mse", "<f8", [1 << 39], None, []),
        forged_array("metrics/mse", "|u1", [1 << 30], None, [9], parts=b"\xff" * 9),
        pack({"metrics/mse": np.zeros(2)}, about={}),
        pack({"metrics/mse": np.zeros(1, np.uint8)}, about={}),
    ],
)
def test_arrays_that_nobody_wrote_are_refused_and_take_no_memory(blob: bytes, tmp_path: Path) -> None:
    keep(tmp_path)
    execute(tmp_path, "UPDATE blobs SET data = ?", blob)
    change_heads(tmp_path, lambda head: head.update(blob=sha256_of(blob).hex()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_row_larger_than_any_that_is_written_is_not_read(tmp_path: Path) -> None:
    keep(tmp_path)
    execute(tmp_path, f"UPDATE blobs SET data = zeroblob({MOST_ROW + 1})")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedStoreError, match="too big"), Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_an_account_that_nobody_wrote_is_refused(tmp_path: Path) -> None:
    keep(tmp_path)
    arrays = {"account": [0], "accounts": list(json.dumps({"ledger": 3}).encode())}
    blob = pack({name: np.array(one, "u1" if name == "accounts" else int) for name, one in arrays.items()}, about={})
    execute(tmp_path, "UPDATE blobs SET data = ?", blob)
    change_heads(tmp_path, lambda head: head.update(blob=sha256_of(blob).hex()))
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        store.read_accounts(["task"])


def test_what_a_run_wrote_is_read(tmp_path: Path) -> None:
    keep(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert store.read_metrics(["task"]) == {"task": {"mse": 1.0}}
