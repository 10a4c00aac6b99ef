"""What a run says to the log: how it began and ended, each job that was stored, each task that failed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from scenarios.engine.batch import Finished, Job
from scenarios.engine.failures import told_trace
from scenarios.plan.points import Plan
from scenarios.report.page import ReportPaths
from scenarios.report.settings import setting_in_words
from scenarios.store.log import event, logger
from scenarios.store.provenance import Provenance
from scenarios.store.records import Planned

TASKS_NAMED = 8
"""Tasks of a job that are named by the start of their id; its trials are told whatever their number."""

_log = logger("run")


def tell_start(run: int, provenance: Provenance, planned: Planned, *, missing: int, retry_failed: bool) -> None:
    """A run begins: with which versions, where, and how much of its plan is missing."""
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


def tell_taken(job: Job) -> None:
    """An engine has taken a job."""
    fields = event("job-taken", point=job.point.index, settings=job.point.settings, trials=ranges(job.trials))
    _log.debug("trials %s taken", ranges(job.trials), extra=fields)


def tell_stored(plan: Plan, ids: Sequence[Sequence[str]], finished: Finished) -> None:
    """A job is stored: each exception with all that it failed, each other failure, and the job."""
    point, trials = finished.job.point, finished.job.trials
    setting = setting_in_words(plan, point)
    where = f"{setting}, " if setting else ""

    def of(some: Sequence[int]) -> dict[str, Any]:
        tasks = [ids[point.index][trial][:12] for trial in some[:TASKS_NAMED]]
        return {"point": point.index, "setting": setting, "trials": ranges(some), "tasks": tasks}

    for one in finished.incidents:
        fields = event("task-failed", **of(one.trials), reason=one.reason, trace=one.trace, many=True)
        trial = "trials" if len(one.trials) > 1 else "trial"
        _log.error("%s%s %s failed: %s", where, trial, ranges(one.trials), one.reason, extra=fields)
    told = {trial for one in finished.incidents for trial in one.trials}
    failed = [one for one in finished.results if one.failure is not None]
    for result in failed:
        if result.trial not in told:
            fields = event("task-failed", **of((result.trial,)), reason=result.failure, many=True)
            _log.error("%strial %d failed: %s", where, result.trial, result.failure, extra=fields)
    counts = {"stored": len(trials), "failed": len(failed), "seconds": round(finished.seconds, 3)}
    _log.info("%d tasks stored", len(trials), extra=event("tasks-stored", **of(trials), **counts))


def tell_end(run: int, status: str, *, why: BaseException | None, computed: int, seconds: float) -> None:
    """A run has ended: done, interrupted, or failed; whoever catches `why` says it to the user."""
    fields = event("run-ended", run=run, status=status, computed=computed, seconds=round(seconds, 3), quiet=True)
    if why is None or status == "interrupted":
        _log.info("%s after %d tasks", status, computed, extra=fields)
    else:
        fields["phyloop_fields"] |= {"trace": told_trace(why)}
        _log.error("%s: %s", type(why).__name__, why, extra=fields)


def tell_report(report: ReportPaths) -> None:
    """The report shows what is stored."""
    _log.info("report written", extra=event("report-written", figures=len(report.figures), tables=len(report.tables)))


def ranges(trials: Sequence[int]) -> str:
    """`0-5, 8`: numbers in order, runs of them by their ends."""
    parts: list[list[int]] = []
    for trial in trials:
        if parts and trial == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], trial]
        else:
            parts.append([trial])
    return ", ".join("-".join(map(str, part)) for part in parts)
