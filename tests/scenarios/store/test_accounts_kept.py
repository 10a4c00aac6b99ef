"""What a trial released is kept with its results, whole, and told again as it was."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows_of_before import create_store_of_before, write_as_before
from undigested import forget_digests

from fl.results import PrivacyAccount, TrialResult
from privacy.errors import PrivacyError
from privacy.events.events import Ledger
from privacy.events.merging import side_by_side
from privacy.events.published import local_claim, theorem_1_claim
from scenarios.schema.errors import ScenarioError
from scenarios.store.database import DATABASE
from scenarios.store.store import Store

LEDGER = Ledger(
    kind="flipped-bits",
    parameter=np.array([[0.1, np.nan], [0.25, 0.5]]),
    uncredited=np.array([[0.0, np.nan], [0.2, 0.5]]),
    coordinates=7850,
    unit="device",
    facts={"entry_bound": 1.5},
    credit_failure=0.01,
    assumptions=("one thing", "another"),
)
ACCOUNT = PrivacyAccount(
    ledger=LEDGER,
    published=(
        theorem_1_claim(epsilon=10.0, order=2.0, credited=True),
        local_claim(epsilon=None, per_upload=True, source="nobody", assumptions=("a, b",)),
    ),
)


def keep(folder: Path, account: PrivacyAccount | None, *, failure: str | None = None) -> None:
    result = TrialResult(trial=0, metrics={"mse": 1.0}, rounds={"x": np.zeros(2)}, account=account, failure=failure)
    with Store.open(folder, scenario_name="demo") as store:
        store.write({"task": result}, physics={"seed": 1}, seconds=1.0)


def read(folder: Path) -> dict[str, PrivacyAccount]:
    with Store.open_existing(folder) as store:
        return store.read_accounts(["task", "nobody"])


@pytest.mark.parametrize("failure", [None, "round 1: it diverged"])
def test_an_account_is_read_back_as_it_was_written_even_that_of_a_failed_trial(
    tmp_path: Path, failure: str | None
) -> None:
    keep(tmp_path, ACCOUNT, failure=failure)
    found = read(tmp_path)["task"]
    assert found.published == ACCOUNT.published
    assert math.isinf(found.published[1].epsilon)
    assert found.ledger.to_dict() == LEDGER.to_dict()
    np.testing.assert_array_equal(found.ledger.parameter, LEDGER.parameter)
    assert found.ledger.uncredited is not None
    assert LEDGER.uncredited is not None
    np.testing.assert_array_equal(found.ledger.uncredited, LEDGER.uncredited)


def test_a_trial_that_sent_nothing_has_no_account(tmp_path: Path) -> None:
    keep(tmp_path, None)
    assert read(tmp_path) == {}


def test_a_damaged_account_is_said_and_not_used(tmp_path: Path) -> None:
    keep(tmp_path, ACCOUNT)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        (data,) = database.execute("SELECT data FROM packs").fetchone()
        spoilt = data[:-1] + bytes([data[-1] ^ 1])  # the text is the last that is packed
        database.execute("UPDATE packs SET data = ?", (spoilt,))
        database.commit()
    with pytest.raises(ScenarioError, match="privacy account of task task is damaged"):
        read(tmp_path)


def test_a_store_from_before_there_were_accounts_is_read_without_them(tmp_path: Path) -> None:
    create_store_of_before(tmp_path, scenario_name="demo")
    write_as_before(tmp_path, {"task": TrialResult(trial=0, metrics={"mse": 1.0}, rounds={})}, physics="{}")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        forget_digests(database)
        database.executescript("DROP TABLE ledger; DROP TABLE accounts;")
    assert read(tmp_path) == {}
    keep_more = replace(ACCOUNT, published=())
    result = TrialResult(trial=1, metrics={}, rounds={}, account=keep_more)
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"later": result}, physics={"seed": 1}, seconds=1.0)
        assert store.read_accounts(["later"])["later"].published == ()


def test_ledgers_of_several_trials_are_devices_side_by_side_and_a_short_one_releases_nothing_more() -> None:
    short = replace(LEDGER, parameter=np.array([[0.3]]), uncredited=None, assumptions=("another", "a third"))
    both = side_by_side([LEDGER, short])
    np.testing.assert_array_equal(both.parameter, [[0.1, np.nan, 0.3], [0.25, 0.5, np.nan]])
    # Where nothing was credited, nothing is taken away.
    assert both.uncredited is not None
    np.testing.assert_array_equal(both.uncredited, [[0.0, np.nan, 0.3], [0.2, 0.5, np.nan]])
    assert both.assumptions == ("one thing", "another", "a third")


@pytest.mark.parametrize("change", [{"unit": "sample"}, {"relation": "add-or-remove-one"}, {"coordinates": 3}])
def test_ledgers_for_other_neighbours_are_not_mixed(change: dict[str, object]) -> None:
    other = replace(LEDGER, **change)
    with pytest.raises(PrivacyError, match=f"differ in {next(iter(change))}"):
        side_by_side([LEDGER, other])
