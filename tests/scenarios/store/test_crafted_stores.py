"""A store that somebody made up costs no more than one that a run wrote, and nothing of it is computed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from test_packs import a_trial, keep, rows

from scenarios.engine.salvage import salvage
from scenarios.schema.errors import ScenarioError
from scenarios.store.database import DATABASE
from scenarios.store.store import Store


@pytest.mark.parametrize("column", ["TEXT GENERATED ALWAYS AS ('3')", "TEXT AS ('3')", "TEXT As/**/('3')"])
@pytest.mark.parametrize("ours", [True, False])
def test_a_column_of_meta_that_is_computed_is_refused_before_it_is_read(
    column: str, ours: bool, tmp_path: Path
) -> None:
    keep(tmp_path, {"task": a_trial(0)})
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as database:
        database.executescript(f"DROP TABLE meta; CREATE TABLE meta (key TEXT PRIMARY KEY, value {column});")
        database.execute("INSERT INTO meta (key) VALUES ('store_version'), ('scenario_name')")
        if not ours:
            database.execute("PRAGMA application_id = 7")
    with pytest.raises(ScenarioError, match="holds 'meta', which is no plain table"):
        Store.open_existing(tmp_path)
    assert salvage(tmp_path, scenario_name="given").tasks <= 1
    assert rows(tmp_path, "SELECT value FROM meta WHERE key = 'scenario_name'") != [("3",)]
