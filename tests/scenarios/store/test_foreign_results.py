"""Results that another version computed are not drawn over with nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_here, write_scenario
from learning_run import export_run, report_run
from tampered import change_heads

from scenarios.schema.errors import ScenarioError

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
