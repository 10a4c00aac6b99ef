"""What a trial released is kept with its results, whole, and told again as it was."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tampered import flip_arrays

from fl.base.results import PrivacyAccount, TrialResult
from privacy.errors import PrivacyError
from privacy.events.events import Ledger
from privacy.events.merging import side_by_side
from privacy.events.published import local_claim, theorem_1_claim
from scenarios.store.store import DamagedStoreError, Store

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
    flip_arrays(tmp_path)
    with pytest.raises(DamagedStoreError, match="is damaged"):
        read(tmp_path)


def test_trials_with_and_without_accounts_are_kept_side_by_side(tmp_path: Path) -> None:
    accounts = {"none": None, "one": ACCOUNT, "other": replace(ACCOUNT, published=()), "again": replace(ACCOUNT)}
    results = {
        name: TrialResult(trial=trial, metrics={"mse": 1.0}, rounds={}, account=account)
        for trial, (name, account) in enumerate(accounts.items())
    }
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write(results, physics={"seed": 1}, seconds=1.0)
        found = store.read_accounts(list(results))
    assert {name: one.published for name, one in found.items()} == {
        "one": ACCOUNT.published,
        "other": (),
        "again": ACCOUNT.published,
    }


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
