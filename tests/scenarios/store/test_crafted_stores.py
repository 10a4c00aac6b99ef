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
from tampered import change_heads, change_record, change_row, execute, replace_batches

from fl.results import TrialResult
from scenarios.files.plain_files import DATABASE
from scenarios.schema.errors import ScenarioError
from scenarios.store.blobs import Blob, pack
from scenarios.store.database import MOST_ROW, DamagedStoreError
from scenarios.store.store import Store


def keep(folder: Path) -> None:
    with Store.open(folder, scenario_name="demo") as store:
        store.write({"task": TrialResult(trial=0, metrics={"mse": 1.0}, rounds={})}, physics={}, seconds=1.0)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON fronts BEGIN DELETE FROM parts; END",
        "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
        "CREATE TABLE g (a, b GENERATED ALWAYS AS (hex(a)) STORED)",
        "CREATE INDEX i ON fronts (length(data))",
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
        database.executescript(f"DROP TABLE fronts; CREATE TABLE fronts (id INTEGER PRIMARY KEY, data {column});")
        database.execute("INSERT INTO fronts (id) VALUES (0), (1), (2)")
        if not ours:
            database.execute("PRAGMA application_id = 7")
    with pytest.raises(DamagedStoreError):
        Store.open_existing(tmp_path)
    with Store.open(tmp_path, scenario_name="given") as store:
        assert len(store.tasks) == 0
        assert store.scenario_name == "given"


def test_tables_that_are_views_by_our_names_are_refused(tmp_path: Path) -> None:
    keep(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as database:
        database.executescript("ALTER TABLE parts RENAME TO b; CREATE VIEW parts AS SELECT * FROM b;")
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
        lambda head: head.update(extras=3),
        lambda head: head.update(extras=[]),
        lambda head: head.update(records=3),
        lambda head: head.pop("numbers"),
    ],
)
def test_a_head_that_nobody_wrote_is_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    keep(tmp_path)
    change_heads(tmp_path, change)
    with pytest.raises(DamagedStoreError) as error, Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert "\n" not in str(error.value)


RUN = {"command": "c", "provenance": {}, "started_at": "", "finished_at": None, "status": "done", "planned": None}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("store", []),
        ("store", {"scenario": 1}),
        ("scenario", {"yaml": 3}),
        ("run/000001", 3),
        ("run/000001", {**RUN, "more": 1}),
        ("run/000001", {**RUN, "planned": {"tasks": 1}}),
        ("run/000001", {**RUN, "planned": 3}),
        ("run/000001", {**RUN, "started_at": 3}),
    ],
)
def test_a_record_that_nobody_wrote_is_refused(key: str, value: object, tmp_path: Path) -> None:
    keep(tmp_path)
    change_record(tmp_path, key, value)
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        print(store.scenario_name, store.read_runs())


@pytest.mark.parametrize(
    ("row", "about"), [(0, {"rows": "2"}), (0, {}), (1, {}), (1, {"records": 3}), (1, {"ids": []})]
)
def test_a_seal_or_an_identity_that_nobody_wrote_is_refused(row: int, about: object, tmp_path: Path) -> None:
    keep(tmp_path)
    change_row(tmp_path, row, about)
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path):
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda blob: forged_array("metrics/mse", "<f8", "<f8", [1 << 39], None, 1 << 42, **blob.about),
        lambda blob: forged_array("metrics/mse", "<f8", "|u1", [1 << 30], None, 9, parts=b"\xff" * 9, **blob.about),
        lambda blob: pack({"metrics/mse": np.zeros(2)}, about=blob.about),
        lambda blob: pack({"metrics/mse": np.zeros(1, np.uint8)}, about=blob.about),
    ],
)
def test_arrays_that_nobody_wrote_are_refused_and_take_no_memory(make: Callable[[Blob], bytes], tmp_path: Path) -> None:
    keep(tmp_path)
    replace_batches(tmp_path, make)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_row_larger_than_any_that_is_written_is_not_read(tmp_path: Path) -> None:
    keep(tmp_path)
    execute(tmp_path, f"UPDATE parts SET data = zeroblob({MOST_ROW + 1})")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedStoreError, match="too big"), Store.open_existing(tmp_path) as store:
        store.read_metrics(["task"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_an_account_that_nobody_wrote_is_refused(tmp_path: Path) -> None:
    keep(tmp_path)
    lines = [json.dumps({"ledger": 3})]
    replace_batches(tmp_path, lambda blob: pack({"account": np.zeros(1, int)}, about={**blob.about, "accounts": lines}))
    with pytest.raises(DamagedStoreError), Store.open_existing(tmp_path) as store:
        store.read_accounts(["task"])


def test_what_a_run_wrote_is_read(tmp_path: Path) -> None:
    keep(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert store.read_metrics(["task"]) == {"task": {"mse": 1.0}}
