"""Log of a run: how it began and ended, and its report."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from scenarios.engine.failures import short_trace
from scenarios.files.log import event, logger

if TYPE_CHECKING:
    from scenarios.engine.study import ReportPaths
    from scenarios.files.provenance import Provenance
    from scenarios.store.records import Planned

_log = logger("run")


def log_start(run: int, provenance: Provenance, planned: Planned, *, missing: int, retry_failed: bool) -> None:
    """A run begins: its versions, its machine, and how much of its plan is missing."""
    fields = event(
        "run-started",
        run=run,
        command=provenance.command,
        pid=os.getpid(),
        versions=provenance.versions,
        commit=provenance.commit,
        platform=provenance.platform,
        planned=planned.tasks,
        found=planned.found,
        missing=missing,
        retry_failed=retry_failed,
    )
    _log.info("%d of %d tasks to compute", missing, planned.tasks, extra=fields)


def log_end(run: int, status: str, *, why: BaseException | None, computed: int, seconds: float) -> None:
    """A run has ended: done, interrupted, or failed; the caller that catches `why` shows it to the user."""
    fields = event("run-ended", run=run, status=status, computed=computed, seconds=round(seconds, 3), quiet=True)
    if why is None or status == "interrupted":
        _log.info("%s after %d tasks", status, computed, extra=fields)
    else:
        fields["phyloop_fields"] |= {"trace": short_trace(why)}
        _log.error("%s: %s", type(why).__name__, why, extra=fields)


def log_report(report: ReportPaths) -> None:
    """The report shows what is stored."""
    _log.info("report written", extra=event("report-written", figures=len(report.figures), tables=len(report.tables)))
