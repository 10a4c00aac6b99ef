"""Files that are no store are refused, and results that another version computed are not drawn over with nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_here, write_scenario
from learning_run import export_run, report_run
from tampered import change_heads

from scenarios.files.plain_files import RESULTS
from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store

TINY = """\
name: tiny
trials: 2
learning:
  {scheme: exact, task: {name: gaussian-linear, num_samples: 20, dimension: 2}, num_devices: 2, rounds: 4, burn_in: 1}
report: {figures: [{x: link.power.snr_max_db, y: mse}]}
"""


def test_report_and_export_refuse_tasks_that_are_of_no_plan_and_leave_the_page_as_it_is(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_here(write_scenario(tmp_path, TINY), run)
    report_run(run)
    page = (run / "report.html").read_bytes()
    change_heads(run, lambda head: head.update(ids=[f"another {one}" for one in head["ids"]]))
    with pytest.raises(ScenarioError, match="none of the 2 tasks"):
        report_run(run)
    with pytest.raises(ScenarioError, match="none of the 2 tasks"):
        export_run(run, tmp_path / "csv")
    assert (run / "report.html").read_bytes() == page


@pytest.mark.parametrize("content", [b"", b"just some text, longer than a header" * 9])
def test_a_file_that_is_no_store_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RESULTS).write_bytes(content)
    path = tmp_path / RESULTS
    before = path.stat().st_mtime_ns
    for attempt in (
        lambda: Store.open(tmp_path, scenario_name="demo"),
        lambda: Store.open_existing(tmp_path),
    ):
        with pytest.raises(ScenarioError, match="not a phyloop result store"):
            attempt()
    assert list(tmp_path.iterdir()) == [path]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, before)
