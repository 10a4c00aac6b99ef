"""Run a study: compute what is missing, store each batch as it finishes, end with figures and a page."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from fl.base.words import plural
from scenarios.engine.failures import short_trace
from scenarios.engine.study import Outcome, Progress, Study
from scenarios.files.heartbeat import Heartbeat
from scenarios.files.kept_plugins import keep_plugins
from scenarios.files.log import USUAL, event, logged, logger
from scenarios.files.plain_files import RESOLVED, RESULTS, refuse_replaced
from scenarios.files.provenance import PACKAGES, collect_provenance, find_version
from scenarios.files.replacement import replace_text
from scenarios.report.paths import ReportPaths
from scenarios.schema.errors import ScenarioError
from scenarios.store.rows import Planned, Report, Row
from scenarios.store.store import STORE_VERSION, DamagedStoreError, Store

_log = logger("run")


def run_study(
    study: Study,
    *,
    folder: Path,
    progress: Progress | None = None,
    retry_failed: bool = False,
    log_level: str = USUAL,
) -> Outcome:
    """Compute the missing tasks of a study into `folder` and write its report.

    What is stored is never computed again, and a batch is stored the moment it is finished: whenever this stops,
    calling it again goes on. A failed task is finished, too, unless `retry_failed`: then it is computed again, and its
    failure stays stored until the new result replaces it.

    Raises ScenarioError for a folder that cannot be used, and for tasks that fit into no memory or on no disk.
    """
    progress = progress or Progress()
    refuse_replaced(folder)
    if not (folder / RESULTS).exists():  # make nothing where nothing can run
        study.refuse_too_large(folder, done=())
    text, root = study.document()
    if complete := _found_complete(study, folder, text=text, retry_failed=retry_failed, progress=progress):
        return complete
    with study.store.open(folder, scenario_name=study.name) as store, logged(folder, level=log_level):
        statuses = store.statuses(study.ids)
        done = {one for one, is_ in statuses.items() if is_ == "done" or (is_ == "failed" and not retry_failed)}
        study.refuse_too_large(folder, done=done)
        store.save_scenario(yaml=text, root=root)
        replace_text(folder / RESOLVED, text)
        if words := root.get("plugins"):
            keep_plugins(words, folder)
        with _recorded(store, study, done=done, retry_failed=retry_failed) as record:
            both = _both(progress, record.heart)
            batches, units = study.batches(store, done=done, progress=both)
            both.start(units)
            progress.stored(len(done))
            # Closed at once whatever happens: an engine may have processes to end.
            with closing(study.compute(batches, progress=both)) as computing:
                for results in computing:
                    finished = study.keep(store, results, progress=both)
                    record.computed += finished
                    progress.stored(finished)
        failed = sum(status == "failed" for status in store.statuses(study.ids).values())
        report = study.write_report(folder, store)
        files = [file.relative_to(folder).as_posix() for file in report.files]
        store.add(Row(report=Report(made_from=_digest(study, store, text), files=files)))
        counts = event("report-written", figures=len(report.figures), tables=len(report.tables))
        _log.info("report written", extra=counts)
        shown = _shown(study, store)
    return Outcome(
        planned=len(study.ids), computed=record.computed, found=len(done), failed=failed, report=report, **shown
    )


def _shown(study: Study, store: Store) -> dict[str, Any]:
    """Answers, results and notices; among these, that a folder holds more than its report shows."""
    others = len(_others(study, store))
    kept = f"{store.folder} also keeps {plural(others, 'task')} of other settings or trials"
    told = f"{kept}; figures, report and {RESOLVED} are those of this scenario alone"
    return {**study.shown(store), "notices": (*study.notices(store), *([told] if others else ()))}


def _others(study: Study, store: Store) -> list[str]:
    """Statuses of finished tasks that are not of the study."""
    ours = set(study.ids)
    return [task.status for one, task in store.tasks.items() if one not in ours and task.status != "part"]


@dataclass(kw_only=True)
class _Record:
    """One run under way: what `phyloop status` sees of it, and tasks computed so far."""

    heart: Heartbeat
    computed: int = 0


@contextmanager
def _recorded(store: Store, study: Study, *, done: Collection[str], retry_failed: bool) -> Iterator[_Record]:
    """Record the block as a run with a number, and how it ended."""
    provenance, missing = collect_provenance(), len(study.ids) - len(done)
    failed = [one for one, status in store.statuses(study.ids).items() if status == "failed"]
    others = _others(study, store)
    planned = Planned(
        tasks=len(study.ids),
        again=len(set(failed).difference(done)),
        others=len(others),
        others_failed=others.count("failed"),
    )
    run = store.record_run(provenance, planned)
    about = {key: getattr(provenance, key) for key in ("command", "versions", "commit", "platform")}
    counts = {"planned": planned.tasks, "missing": missing, "retry_failed": retry_failed}
    begun = event("run-started", run=run, pid=os.getpid(), **about, **counts)
    _log.info("%d of %d tasks to compute", missing, planned.tasks, extra=begun)
    record = _Record(heart=Heartbeat(store.folder, run=run))
    started, why = time.monotonic(), None
    try:
        yield record
    except BaseException as error:
        why = error
        raise
    finally:
        status = "done" if why is None else "interrupted" if isinstance(why, KeyboardInterrupt) else "failed"
        seconds = round(time.monotonic() - started, 3)
        # Quiet: the caller that catches an error shows it to the user.
        ended = event("run-ended", run=run, status=status, computed=record.computed, seconds=seconds, quiet=True)
        failure = None
        if why is not None and status == "failed":
            failure = f"{type(why).__name__}: {why}".encode(errors="replace").decode()
            _log.error("%s", failure, extra=event("run-failed", trace=short_trace(why), quiet=True))
        _log.info("%s after %d tasks", status, record.computed, extra=ended)
        record.heart.end()
        # This write fails on a full disk, too; keep the first error.
        with nullcontext() if why is None else suppress(ScenarioError):
            skipped = replace(planned, skipped=study.skipped)
            store.finish_run(run, status=status, failure=failure, planned=skipped)


def _both(progress: Progress, heart: Heartbeat) -> Progress:
    """Return the same progress, which `heart` keeps as well, for `phyloop status`."""

    def call(first: Callable[..., None], second: Callable[..., None], *given: Any) -> None:
        first(*given)
        second(*given)

    # `heart` does not keep what is stored, nor rows.
    kept = (one.name for one in fields(Progress) if hasattr(heart, one.name))
    return replace(progress, **{name: partial(call, getattr(progress, name), getattr(heart, name)) for name in kept})


def _digest(study: Study, store: Store, text: str) -> str:
    """Digest of all that a report shows: scenario, tasks of the study, what is stored of them; and of its version."""
    failed = sum(task.status == "failed" for task in store.tasks.values())
    stored = len(store.tasks), failed, store.times_stored
    parts = (find_version(PACKAGES["phyloop"]), STORE_VERSION, text, stored, *study.ids)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _found_complete(study: Study, folder: Path, *, text: str, retry_failed: bool, progress: Progress) -> Outcome | None:
    """Outcome of a study whose tasks are all stored and whose report shows them; None if anything is left to do."""
    if not (folder / RESULTS).is_file():
        return None
    try:
        with study.store.open_existing(folder) as store:
            note, failed = store.notes.get("report"), [*store.statuses(study.ids).values()].count("failed")
            if (
                note is None
                or note.made_from != _digest(study, store, text)
                or (failed and retry_failed)
                or not all((folder / name).is_file() for name in note.files)
                or not study.settled(store)
            ):
                return None
            store.verify()
            progress.stored(len(study.ids))
            study.show_stored(store, progress=progress)
            shown = _shown(study, store)
    except DamagedStoreError:
        return None  # the run repairs it

    def files(*kinds: str) -> tuple[Path, ...]:
        return tuple(folder / name for name in note.files if name.endswith(kinds))

    html = next(iter(files(".html")), None)
    report = ReportPaths(html=html, figures=files(".svg"), tables=files(".md", ".csv", ".json"))
    planned = len(study.ids)
    return Outcome(planned=planned, computed=0, found=planned, failed=failed, report=report, complete=True, **shown)
