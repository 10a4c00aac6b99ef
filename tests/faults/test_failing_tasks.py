"""A task that diverges fails alone: its reason is kept, the others end as ever, and it can be retried."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import LEARNING, Outcome, Tally, obey, stored, tables_of

DIVERGING = LEARNING.replace(
    "sweep: {link.power.snr_max_db: [4, 6, 8, 10, 12]}\n",
    "sweep:\n  - {link.power.snr_max_db: [4, 6, 8, 10, 12]}\n"
    "  - {link.power.snr_max_db: [10], learning.local.learning_rate: [1.0e+9], "
    "learning.local.proximal: [1.0e+6]}\n",
)
"""The plan of `LEARNING`, and a point whose every step is a hundred million times the one before."""


def shared_rows(table: bytes) -> list[str]:
    """The rows of a table that are of `LEARNING`, without the columns that only the longer plan has."""
    head, *rows = csv.reader(table.decode().splitlines())
    own = [place for place, name in enumerate(head) if name.startswith("learning.local.")]
    kept = [row for row in rows if not own or row[own[0]] != "1000000000.0"]
    return [",".join(cell for place, cell in enumerate(row) if place not in own) for row in (head, *kept)]


@pytest.mark.slow
def test_divergence_fails_its_tasks_alone_and_they_can_be_tried_again(
    learning: Outcome, run: Path, tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("divergence in one point")
    scenario = tmp_path / "diverging.yaml"
    scenario.write_text(DIVERGING)
    ended = obey("run", scenario, "--out", run, logs=tmp_path / "log")
    assert ended.code == 1, ended.said
    assert "2 of 12 tasks failed" in ended.said
    assert "Traceback" not in ended.said
    before = stored(run)
    failed = {task for task, (status, *_) in before.items() if status == "failed"}
    row.injected += len(failed)
    assert len(failed) == 2
    assert before.keys() - failed == learning.tasks
    tables = tables_of(run, tmp_path / "csv")
    for name, table in learning.tables.items():
        assert shared_rows(tables[name]) == shared_rows(table), name
    again = obey("run", scenario, "--out", run, "--retry-failed", logs=tmp_path / "again")
    assert again.code == 1, again.said
    after = stored(run)
    row.compare({task: told for task, told in before.items() if task not in failed}, after)
    assert {task for task, (status, *_) in after.items() if status == "failed"} == failed
    # Tried anew they fail alike, in a row of their own.
    assert all(after[task] != before[task] for task in failed)
    row.conclude(equal=tables_of(run, tmp_path / "csv-again") == tables)
