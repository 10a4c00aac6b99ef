"""What tasks share is stored once, what they do not is theirs, and every byte of both is vouched for."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows_of_before import create_store_of_before, write_as_before
from undigested import forget_digests

from fl.results import PrivacyAccount, TrialResult
from privacy.events.events import Ledger
from scenarios.engine.salvage import salvage
from scenarios.store.accounts import account_text
from scenarios.store.damage import DamagedStoreError
from scenarios.store.database import DATABASE, PAGE
from scenarios.store.integrity import ARRAY_TABLES, bad_tasks, checked_from
from scenarios.store.packs import LARGEST_PACKED, MOST_TEXT, Place, is_pack, is_packed, layout_of, text_at
from scenarios.store.store import Store
from scenarios.store.store_reading import SERIES_TABLES

ROUNDS = 40
CLOCK = np.cumsum(np.random.default_rng(3).uniform(size=ROUNDS))
ACCOUNT = PrivacyAccount(
    ledger=Ledger(kind="gaussian", parameter=np.full((ROUNDS, 1), 0.25), coordinates=5, unit="device"),
)


def a_trial(trial: int, **changes: Any) -> TrialResult:
    """Its own numbers between others that all trials have."""
    draw = np.random.default_rng([17, trial])
    result = TrialResult(
        trial=trial,
        metrics={"mse": trial / 7, "never": float("nan"), "most": float("inf"), "least": float("-inf"), "none": -0.0},
        rounds={
            "first": CLOCK,
            "drawn": draw.normal(size=ROUNDS),
            "second": CLOCK + 1.0,
            "kind": draw.integers(3, size=ROUNDS) * 1.0,
        },
        link={"bits": np.full((ROUNDS, 2), 100), "bit_errors": draw.integers(9, size=(ROUNDS, 2))},
        privacy={"epsilon": np.full(ROUNDS, 5.0)},
        bursts={"empty": np.zeros((0, 3), np.int64)},
        account=ACCOUNT,
    )
    return replace(result, **changes)


def keep(folder: Path, results: dict[str, TrialResult]) -> list[str]:
    with Store.open(folder, scenario_name="demo") as store:
        store.write(results, physics={}, seconds=1.0)
    return list(results)


def told(folder: Path, ids: list[str]) -> list[str]:
    """Everything that is read of these tasks."""
    with Store.open_existing(folder) as store:
        read: list[Any] = [store.read_metrics(ids)]
        read += [(one.task_id, one.status, one.failure, one.trial) for one in store.read_tasks(ids).values()]
        read += [(task, one.ledger.to_dict(), one.published) for task, one in store.read_accounts(ids).items()]
        for table in ARRAY_TABLES:
            for task, arrays in store.read_series(ids, table).items():
                read += [(task, table, name, str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()]
        read += [store.read_totals(ids, table) for table in SERIES_TABLES]
        return [str(one) for one in read]


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        return database.execute(query).fetchall()


def change(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        assert database.execute(statement, values).rowcount > 0
        database.commit()


def test_shared_and_own_arrays_come_back_in_their_order_with_every_metric(tmp_path: Path) -> None:
    ids = keep(tmp_path, {f"task{t}": a_trial(t) for t in range(5)})
    with Store.open_existing(tmp_path) as store:
        metrics = store.read_metrics(ids)
        for trial, task in enumerate(ids):
            expected = a_trial(trial)
            assert list(metrics[task]) == list(expected.metrics)
            assert np.array_equal([*metrics[task].values()], [*expected.metrics.values()], equal_nan=True)
            for table in SERIES_TABLES:
                found, written = store.read_series([task], table)[task], getattr(expected, table)
                assert list(found) == list(written), table
                for name, array in written.items():
                    assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
                    assert found[name].tobytes() == array.tobytes()
            assert np.array_equal(store.read_accounts([task])[task].ledger.parameter, ACCOUNT.ledger.parameter)


def test_a_task_is_three_rows_and_what_it_shares_is_stored_once(tmp_path: Path) -> None:
    some = {f"task{t}": a_trial(t) for t in range(50)}
    keep(tmp_path, some)
    for table in (*ARRAY_TABLES, "metrics", "accounts"):
        assert rows(tmp_path, f"SELECT count(*) FROM {table}") == [(0,)], table
    for table, count in {"tasks": 50, "packed": 50, "checks": 50, "packs": 1}.items():
        assert rows(tmp_path, f"SELECT count(*) FROM {table}") == [(count,)], table
    (((mine,),),) = [rows(tmp_path, "SELECT max(length(data)) FROM packed")]
    # 40 floats that were drawn, as they are; 40 of three kinds and 80 counts below 9, deflated.
    assert 320 < mine < 520
    assert (tmp_path / DATABASE).read_bytes().count(a_trial(7).rounds["drawn"].tobytes()) == 1


def test_trials_that_ended_early_have_a_pack_of_their_own(tmp_path: Path) -> None:
    short = a_trial(1, rounds={"first": CLOCK[:7]}, failure="round 8: diverged")
    ids = keep(tmp_path, {"a": a_trial(0), "b": short, "c": a_trial(2), "d": a_trial(3, account=None)})
    assert rows(tmp_path, "SELECT task, pack FROM packed ORDER BY task") == [(1, 1), (2, 2), (3, 1), (4, 3)]
    with Store.open_existing(tmp_path) as store:
        assert [one["first"].size for one in store.read_series(ids, "rounds").values()] == [40, 7, 40, 40]
        assert set(store.read_accounts(ids)) == {"a", "b", "c"}


def test_tables_of_large_arrays_have_a_row_each_and_the_rest_is_packed(tmp_path: Path) -> None:
    large = np.random.default_rng(1).normal(size=(LARGEST_PACKED // 8 + 1, 1))
    ids = keep(tmp_path, {f"task{t}": a_trial(t, devices={"small": CLOCK, "large": large + t}) for t in range(2)})
    assert rows(tmp_path, "SELECT task, name FROM devices ORDER BY rowid") == [
        (1, "small"),
        (1, "large"),
        (2, "small"),
        (2, "large"),
    ]
    with Store.open_existing(tmp_path) as store:
        assert np.array_equal(store.read_series(ids, "devices")["task1"]["large"], large + 1)
        assert list(store.read_series(ids, "rounds")["task1"]) == ["first", "drawn", "second", "kind"]
    change(tmp_path, "UPDATE devices SET total = 1 WHERE task = 1 AND name = 'small'")
    with Store.open_existing(tmp_path) as store, pytest.raises(DamagedStoreError, match="devices rows of task task0"):
        store.read_series(ids, "devices")


def test_one_flipped_bit_anywhere_in_a_pack_or_a_packed_row_is_noticed(tmp_path: Path) -> None:
    ids = keep(tmp_path, {f"task{t}": a_trial(t) for t in range(2)})
    chance = np.random.default_rng(5)
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as database:
        assert bad_tasks(database) == set()
        for table, key in (("packs", "id"), ("packed", "task")):
            columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")} - {key}
            for column in sorted(columns):
                ((value,),) = database.execute(f"SELECT {column} FROM {table} WHERE {key} = 1")
                for _ in range(20):
                    if isinstance(value, int):
                        spoilt: Any = value ^ int(1 << chance.integers(6))
                    else:
                        raw = bytearray(value if isinstance(value, bytes) else value.encode())
                        raw[chance.integers(len(raw))] ^= 1 << chance.integers(7)
                        spoilt = bytes(raw) if isinstance(value, bytes) else raw.decode()
                    database.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = 1", (spoilt,))
                    assert bad_tasks(database) == ({1, 2} if table == "packs" else {1}), (column, spoilt)
                    with pytest.raises(DamagedStoreError, match="is damaged"):
                        told(tmp_path, ids)
                database.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = 1", (value,))
        assert bad_tasks(database) == set()


def test_a_damaged_pack_costs_its_tasks_and_no_other(tmp_path: Path) -> None:
    keep(tmp_path, {f"task{t}": a_trial(t) for t in range(3)})
    more = keep(tmp_path, {f"more{t}": a_trial(t + 3) for t in range(2)})
    before = told(tmp_path, more)
    change(tmp_path, "UPDATE packs SET data = CAST(data || x'00' AS BLOB) WHERE id = 1")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        assert bad_tasks(database) == {1, 2, 3}
    assert told(tmp_path, more) == before
    with pytest.raises(DamagedStoreError):
        Store.open(tmp_path, scenario_name="demo")
    assert salvage(tmp_path, scenario_name="demo").tasks == 2
    kept = rows(tmp_path, "SELECT task_id, pack FROM tasks JOIN packed ON task = tasks.id")
    assert kept == [("more0", 2), ("more1", 2)]
    assert rows(tmp_path, "SELECT id FROM packs") == [(2,)]
    assert told(tmp_path, more) == before


def test_a_store_of_before_is_read_as_it_was_and_goes_on(tmp_path: Path) -> None:
    old = {f"task{t}": a_trial(t) for t in range(3)} | {"task3": a_trial(3, failure="diverged", account=None)}
    create_store_of_before(tmp_path / "old", scenario_name="demo")
    write_as_before(tmp_path / "old", old, physics="{}")
    ids = keep(tmp_path / "new", old)
    assert told(tmp_path / "old", ids) == told(tmp_path / "new", ids)
    for folder in ("old", "new"):
        more = keep(tmp_path / folder, {f"more{t}": a_trial(t + 4) for t in range(2)})
    assert told(tmp_path / "old", [*more, *ids]) == told(tmp_path / "new", [*more, *ids])
    assert rows(tmp_path / "old", "SELECT task FROM packed") == [(5,), (6,)]
    with Store.open(tmp_path / "old", scenario_name="demo") as store:
        assert checked_from(store._connection) == 1
        with pytest.raises(ValueError, match="already stored"):
            store.write({"task0": a_trial(9)}, physics={}, seconds=1.0)
        store.write({"task3": a_trial(3)}, physics={}, seconds=1.0, replace_failed=True)
        assert [one.task_id for one in store.read_attempts()] == ["task3"]
    assert rows(tmp_path / "old", "SELECT count(*) FROM metrics WHERE task = 4") == [(0,)]


def test_a_store_of_before_that_is_continued_is_refused_by_phyloop_of_before(tmp_path: Path) -> None:
    create_store_of_before(tmp_path, scenario_name="demo")
    write_as_before(tmp_path, {"task0": a_trial(0)}, physics="{}")
    versions = "SELECT user_version, value FROM pragma_user_version, meta WHERE key = 'store_version'"
    with Store.open(tmp_path, scenario_name="demo") as store:
        store._connection.execute(
            "CREATE TEMP TRIGGER t BEFORE INSERT ON packed BEGIN SELECT raise(ABORT, 'amid'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="amid"):
            store.write({"task1": a_trial(1)}, physics={}, seconds=1.0)
    assert rows(tmp_path, versions) == [(2, "2")]
    ids = [*keep(tmp_path, {"task1": a_trial(1)}), "task0"]
    # It looks into the header, and says that a newer one wrote the store.
    assert rows(tmp_path, versions) == [(3, "3")]
    before = told(tmp_path, ids)
    # As after a power cut while the log was folded in, whose pages go in order.
    change(tmp_path, "UPDATE meta SET value = '2' WHERE key = 'store_version'")
    assert told(tmp_path, ids) == before
    keep(tmp_path, {"task2": a_trial(2)})
    assert rows(tmp_path, versions) == [(3, "3")]


def test_a_task_of_before_that_has_a_packed_row_is_damaged(tmp_path: Path) -> None:
    create_store_of_before(tmp_path, scenario_name="demo")
    write_as_before(tmp_path, {"task0": a_trial(0)}, physics="{}")
    keep(tmp_path, {"task1": a_trial(1)})
    change(tmp_path, "INSERT INTO packed SELECT 1, pack, heads, metrics, data FROM packed")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        assert bad_tasks(database) == {1}
    with (
        Store.open_existing(tmp_path) as store,
        pytest.raises(DamagedStoreError, match="of task task0 is damaged"),
    ):
        store.read_metrics(["task0"])


def test_a_failed_task_takes_its_pack_along_unless_others_need_it(tmp_path: Path) -> None:
    failed = {f"task{t}": a_trial(t, failure="diverged") for t in range(2)}
    keep(tmp_path, {**failed, "other": a_trial(5)})
    keep(tmp_path, {"alone": a_trial(6, failure="diverged")})
    with Store.open(tmp_path, scenario_name="demo") as store:
        again = {"task0": a_trial(0), "alone": a_trial(6)}
        store.write(again, physics={}, seconds=1.0, replace_failed=True)
        assert store.read_metrics(["task0"])["task0"]["mse"] == 0.0
        assert store.read_series(["task1", "other"], "rounds").keys() == {"task1", "other"}
        assert len(store.read_attempts()) == 2
    assert rows(tmp_path, "SELECT DISTINCT pack FROM packed ORDER BY pack") == rows(tmp_path, "SELECT id FROM packs")
    assert len(rows(tmp_path, "SELECT id FROM packs")) == 2


def test_a_damaged_index_of_packs_has_no_pack_deleted_that_a_task_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, failure in (("a", None), ("failed", "diverged"), ("c", None)):
        keep(tmp_path, {name: a_trial(0, failure=failure)})
    ((root,),) = rows(tmp_path, "SELECT rootpage FROM sqlite_master WHERE name = 'packed_by_pack'")
    content = bytearray((tmp_path / DATABASE).read_bytes())
    start = (root - 1) * PAGE
    last = int.from_bytes(content[start + 12 : start + 14])  # the entry of pack 3: three bytes, then its number
    assert content[start + last + 4] == 3
    content[start + last + 4] ^= 4
    (tmp_path / DATABASE).write_bytes(content)
    monkeypatch.setattr("scenarios.store.integrity.THOROUGH_BYTES", 0)  # as a store too large to be read whole
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"failed": a_trial(9)}, physics={}, seconds=1.0, replace_failed=True)
    assert rows(tmp_path, "SELECT id FROM packs") == [(1,), (3,), (4,)]
    assert told(tmp_path, ["a", "c", "failed"])


def test_a_status_that_was_changed_leaves_no_task_out_of_the_totals(tmp_path: Path) -> None:
    ids = keep(tmp_path, {f"task{t}": a_trial(t) for t in range(3)})
    change(tmp_path, "UPDATE tasks SET status = 'failed' WHERE task_id = 'task1'")
    with Store.open_existing(tmp_path) as store, pytest.raises(DamagedStoreError, match="of task task1 is damaged"):
        store.read_totals(ids, "link")


HEADS = '{"metrics":["mse"],"arrays":[["rounds","x","<f8",[2],0,null,16],["rounds","y","<f8",[2]]]}'


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: one.replace('"mse"', "7"),
        lambda one: one.replace("[2]", "[-2]"),
        lambda one: one.replace("[2]", "[1e9]"),
        lambda one: one.replace(",16]", ",-16]"),
        lambda one: one.replace(",16]", "]"),
        lambda one: one.replace("null", "true"),
        lambda one: one.replace('"x"', "null"),
        lambda one: one.replace('"mse"', '"mse","mse"'),
        lambda one: one.replace('"y"', '"x"'),
        lambda one: one.replace('"mse"', '"\\ud800"'),
        lambda one: one.replace('"y"', '"\\udfff"'),
        lambda one: one.replace(",0,null,", ",-1,null,"),
        lambda one: one.replace(",0,null,", f",{1 << 32},null,"),
        lambda one: one.replace("null", f"{1 << 63}"),
        lambda one: one.replace("null", f"{-(1 << 63) - 1}"),
        lambda one: one[:-1],
        lambda _: "[" * 100_000,
        lambda _: "[]",
        lambda _: None,
        lambda _: "9" * 5000,
    ],
)
def test_heads_that_nobody_wrote_are_refused(spoil: Callable[[str], object]) -> None:
    assert len(layout_of(HEADS).entries) == 2
    with pytest.raises(ValueError, match="no heads of arrays that were packed"):
        layout_of(spoil(HEADS))


def test_heads_that_claim_more_than_there_is_are_not_believed() -> None:
    for shape in ("[2]", "[1000000000000]", "[3]", "[]"):
        layout = layout_of(HEADS.replace("[2]", shape))
        for data in (bytes(16), bytes(15), b"", "text", None):
            assert not is_pack(layout, data)
            assert not is_packed(layout, "[[0,null,16]]", metrics=bytes(8), data=data)
    for heads in ("[]", "[[0,null]]", "[[0,null,16],[0,null,16]]", "{}", "[7]", "[[0.5,null,16]]", None):
        assert not is_packed(layout_of(HEADS), heads, metrics=bytes(8), data=bytes(16))


def test_arrays_larger_than_any_that_is_packed_are_not_unpacked() -> None:
    for length, is_one in ((LARGEST_PACKED // 8, True), (LARGEST_PACKED // 8 + 1, False)):
        raw = bytes(8 * length)
        for data in (zlib.compress(raw), raw):
            shape, crc32 = f"[{length}]", zlib.crc32(raw)
            heads = f'{{"metrics":[],"arrays":[["rounds","x","<f8",{shape},{crc32},null,{len(data)}]]}}'
            assert is_pack(layout_of(heads), data) == is_one


def test_the_text_of_an_account_that_is_larger_than_any_is_not_unpacked() -> None:
    assert 16 * len(account_text(ACCOUNT)) < MOST_TEXT
    for length, is_one in ((MOST_TEXT, True), (MOST_TEXT + 1, False)):
        raw = b" " * length
        data = zlib.compress(raw)
        assert (text_at(Place(zlib.crc32(raw), None, 0, len(data)), data) is not None) == is_one
    assert MOST_TEXT <= 1 << 18


def test_a_store_that_lost_its_digests_is_read_by_checksums_alone(tmp_path: Path) -> None:
    ids = keep(tmp_path, {f"task{t}": a_trial(t) for t in range(2)})
    before = told(tmp_path, ids)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        forget_digests(database)
    assert told(tmp_path, ids) == before
    for damage in ("packed SET metrics = 'mse'", "packed SET heads = '[[1,2'", "packs SET heads = 7"):
        change(tmp_path, f"UPDATE {damage}")
        with pytest.raises(DamagedStoreError, match="is damaged"):
            told(tmp_path, ids)
