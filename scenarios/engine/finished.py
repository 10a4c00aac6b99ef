"""A run whose every task is stored and whose report shows them: nothing has to be computed, drawn or loaded again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from scenarios.report.page import ReportPaths
from scenarios.store.database import STORE_VERSION, DamagedStoreError
from scenarios.store.plain_files import DATABASE
from scenarios.store.provenance import PACKAGES, find_version
from scenarios.store.records import ReportNote, below
from scenarios.store.store import Store

TaskIds = Sequence[Sequence[str]]


def made_from(store: Store, *, scenario_yaml: str, task_ids: TaskIds) -> str:
    """Digest of all that a report shows: scenario, tasks of the plan, what is stored of them; and of who draws it."""
    parts = (find_version(PACKAGES["phyloop"]), STORE_VERSION, scenario_yaml, store.state())
    digest = hashlib.sha256(json.dumps(parts).encode())
    for ids in task_ids:
        digest.update("".join((*ids, ";")).encode())
    return digest.hexdigest()


def note_of(folder: Path, report: ReportPaths, *, digest: str) -> ReportNote:
    """What is kept of a report that was just written into `folder`."""
    return ReportNote(made_from=digest, files=below(folder, (report.html, *report.figures, *report.tables)))


def report_of(folder: Path, note: ReportNote) -> ReportPaths | None:
    """The files of a report as `write_report` told them; None if one is gone."""
    files = [folder / name for name in note.files]
    if not all(file.is_file() for file in files):
        return None
    tables = {file for file in files if file.suffix in (".md", ".csv")}
    return ReportPaths(
        html=files[0],
        figures=tuple(file for file in files[1:] if file not in tables),
        tables=tuple(file for file in files[1:] if file in tables),
    )


def found_whole(
    folder: Path, *, scenario_name: str, scenario_yaml: str, task_ids: TaskIds, retry_failed: bool
) -> tuple[ReportPaths, int] | None:
    """The report of a finished run, and how many of its tasks failed; None if anything is left to do."""
    if not (folder / DATABASE).is_file():
        return None
    try:
        with Store.open_existing(folder) as store:
            if store.scenario_name != scenario_name or (note := store.last_report()) is None:
                return None
            statuses = store.statuses([one for ids in task_ids for one in ids])
            failed = sum(status == "failed" for status in statuses.values())
            if len(statuses) < sum(map(len, task_ids)) or (failed and retry_failed):
                return None
            if note.made_from != made_from(store, scenario_yaml=scenario_yaml, task_ids=task_ids):
                return None
            report = report_of(folder, note)
            if report is not None:
                store.verify()  # nothing else looks at the arrays of a finished run
    except DamagedStoreError:
        return None  # the run repairs it
    return None if report is None else (report, failed)
