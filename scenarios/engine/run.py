"""Run a plan: compute what is missing, store each batch as it finishes, end with figures and a page."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from scenarios.engine.batch import BATCH_BYTES, Engine, Finished, Job, batch_size, computed_together
from scenarios.engine.finished import found_whole, made_from, note_of
from scenarios.engine.limits import Room, refuse_disk, refuse_memory
from scenarios.engine.limits import room as make_room
from scenarios.engine.options import AS_USUAL, RunOptions
from scenarios.engine.run_log import tell_end, tell_report, tell_start, tell_stored, tell_taken
from scenarios.plan.identity import physics, physics_json, task_ids
from scenarios.plan.plan import Plan
from scenarios.report.comparison import without_others
from scenarios.report.page import ReportPaths, write_report
from scenarios.report.silence import silent_trials
from scenarios.report.tables.export import Replacement
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, as_yaml, resolved_root
from scenarios.store.checkpoints import CHECKPOINTS, digest_of, discard, sweep
from scenarios.store.database import DATABASE
from scenarios.store.log import logged
from scenarios.store.plain_files import RESOLVED, refuse_replaced
from scenarios.store.provenance import collect_provenance
from scenarios.store.run_notes import Planned
from scenarios.store.store import Store
from scenarios.studies.link.store import holds_link_study

RUNS = Path("runs")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Called as the run goes on: `start(total trial-rounds to compute)`, `advance(trial-rounds)`, `stored(tasks)`.

    Tasks that were found done are stored from the start. `restored(trial-rounds)` of the total were found in
    checkpoints, and took no time.

    `opened(folder, run)`: the folder is ours and the run has its number in it; `ended(status)` as it is noted there:
    done, interrupted or failed. `taken(job)`, `settled(job)`: an engine has taken a job, and its results are stored.
    """

    start: Callable[[int], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None
    restored: Callable[[int], None] = lambda _: None
    stored: Callable[[int], None] = lambda _: None
    opened: Callable[[Path, int], None] = lambda _, __: None
    taken: Callable[[Job], None] = lambda _: None
    settled: Callable[[Job], None] = lambda _: None
    ended: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What a run came to: tasks planned, computed now, found done, failed; and the report.

    `notices`: what the reader of a log should know of single trials, sentences without their full stop. `whole`: all
    was there already, report included, and nothing was written.
    """

    planned: int
    computed: int
    found: int
    failed: int
    report: ReportPaths
    notices: tuple[str, ...] = ()
    whole: bool = False


def identify(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Task ids of the plan, `[point][trial]`."""
    return tuple(task_ids(physics_json(point.scenario), trials=range(plan.trials)) for point in plan.points)


def missing_jobs(
    plan: Plan, ids: Sequence[Sequence[str]], done: set[str], *, batch_bytes: int = BATCH_BYTES
) -> list[Job]:
    """Batches of what is not done, the first trials of every point before the next ones.

    So an interrupted run has all of its curves, with wider bands, and points that share their data
    follow each other.
    """
    per_point: list[list[Job]] = []
    for point, point_ids in zip(plan.points, ids, strict=True):
        size = batch_size(point.scenario, batch_bytes=batch_bytes)
        open_trials = [trial for trial, one in enumerate(point_ids) if one not in done]
        batches = [tuple(open_trials[i : i + size]) for i in range(0, len(open_trials), size)]
        per_point.append([Job(point=point, trials=batch) for batch in batches])
    longest = max((len(jobs) for jobs in per_point), default=0)
    return [jobs[turn] for turn in range(longest) for jobs in per_point if turn < len(jobs)]


def run_plan(
    loaded: LoadedScenario,
    plan: Plan,
    *,
    folder: Path,
    engine: Engine,
    progress: Progress,
    room: Room | None = None,
    options: RunOptions = AS_USUAL,
) -> RunOutcome:
    """Compute the missing tasks of the plan into `folder` and write the report.

    What is stored is never computed again, and a batch is stored the moment it is finished: whenever
    this stops, calling it again goes on. A task that has failed is finished, too, unless `options.retry_failed`: it is
    computed again, and what is stored of it stays until the new result replaces it.

    Raises ScenarioError for a folder that cannot be used, and for tasks that do not fit into `room` (what is free, if
    None) or on the disk.
    """
    refuse_replaced(folder)
    if holds_link_study(folder):
        raise ScenarioError(
            file=folder,
            problem="holds a study of phyloop link, which a run would mix with its own results",
            remedy="choose another folder with --out",
        )
    room = make_room() if room is None else room
    if not (folder / DATABASE).exists():  # nothing is made where nothing can be run
        refuse_memory((point.scenario for point in plan.points), room, file=loaded.source)
        refuse_disk(((point.scenario, plan.trials) for point in plan.points), folder, file=loaded.source)
    ids = identify(plan)
    every = [one for point_ids in ids for one in point_ids]
    kept = replace(loaded, scenario=without_others(loaded.scenario, plan))
    root = resolved_root(kept, swept_paths=plan.swept_paths)
    name, text = loaded.scenario.name, as_yaml(root)
    whole = found_whole(folder, scenario_name=name, scenario_yaml=text, task_ids=ids, retry_failed=options.retry_failed)
    if whole is not None:
        report, failed = whole
        progress.stored(len(every))
        with Store.open_existing(folder) as store:
            notices = silent_trials(store, plan, task_ids=ids)
        return RunOutcome(
            planned=len(every),
            computed=0,
            found=len(every),
            failed=failed,
            report=report,
            notices=notices,
            whole=True,
        )
    with Store.open(folder, scenario_name=name) as store, logged(folder, level=options.log_level):
        statuses = store.statuses(every)
        done = {one for one, status in statuses.items() if status == "done" or not options.retry_failed}
        sweep(folder / CHECKPOINTS, finished=lambda some: done.intersection(some))
        jobs = missing_jobs(plan, ids, done, batch_bytes=room.batch_bytes)
        _refuse_what_cannot_fit(jobs, room, loaded=loaded, folder=folder)
        store.save_scenario(yaml=text, root=root)
        with Replacement(folder / RESOLVED) as file:
            file.write(text.encode())
        computed = _run(store, plan, ids, jobs, engine=engine, progress=progress, options=options, statuses=statuses)
        failed = sum(status == "failed" for status in store.statuses(every).values())
        report = write_report(folder, plan, task_ids=ids, store=store)
        digest = made_from(store, scenario_yaml=text, task_ids=ids)
        store.note_report(note_of(folder, report, digest=digest))
        tell_report(report)
        notices = silent_trials(store, plan, task_ids=ids)
    return RunOutcome(
        planned=len(every), computed=computed, found=len(done), failed=failed, report=report, notices=notices
    )


def _run(
    store: Store,
    plan: Plan,
    ids: Sequence[Sequence[str]],
    jobs: Sequence[Job],
    *,
    engine: Engine,
    progress: Progress,
    options: RunOptions,
    statuses: Mapping[str, str],
) -> int:
    """Compute the jobs and store what comes, under a number of its own; how many tasks were computed."""
    provenance = collect_provenance()
    run = store.record_run(provenance)
    stored, failed, *_ = store.state()
    failed_here = sum(status == "failed" for status in statuses.values())
    planned = Planned(
        tasks=sum(map(len, ids)),
        found=len(statuses),
        again=failed_here if options.retry_failed else 0,
        others=stored - len(statuses),
        others_failed=failed - failed_here,
    )
    store.note_plan(run, planned)
    missing = sum(len(job.trials) for job in jobs)
    tell_start(run, provenance, planned, missing=missing, retry_failed=options.retry_failed)
    started, computed, why = time.monotonic(), 0, None
    try:
        progress.opened(store.folder, run)
        progress.start(sum(len(job.trials) * job.point.scenario.learning.rounds for job in jobs))
        progress.stored(planned.tasks - missing)
        # Closed at once whatever happens: an engine may have processes to end. Without a job it is not even started:
        # TensorFlow takes seconds to load.
        running = engine.run(_handed_out(jobs, progress), on_progress=progress.advance) if jobs else None
        with nullcontext(()) if running is None else closing(running) as computing:
            for finished in computing:
                _keep(store, ids, finished, replace_failed=options.retry_failed)
                _forget(store.folder / CHECKPOINTS, ids, finished.job)
                computed += len(finished.results)
                tell_stored(plan, ids, finished)
                progress.stored(len(finished.results))
                if finished.left is None:
                    progress.settled(finished.job)
    except BaseException as error:
        why = error
        raise
    finally:
        status = "done" if why is None else "interrupted" if isinstance(why, KeyboardInterrupt) else "failed"
        tell_end(run, status, why=why, computed=computed, seconds=time.monotonic() - started)
        progress.ended(status)
        # A disk that refused the results refuses this too; what is to be told is why the run ended.
        with nullcontext() if why is None else suppress(ScenarioError, sqlite3.Error):
            store.finish_run(run, status=status)
    return computed


def _refuse_what_cannot_fit(jobs: Sequence[Job], room: Room, *, loaded: LoadedScenario, folder: Path) -> None:
    tasks = Counter[int]()
    for job in jobs:
        tasks[job.point.index] += len(job.trials)
    scenarios = {job.point.index: job.point.scenario for job in jobs}
    refuse_memory(scenarios.values(), room, file=loaded.source)
    refuse_disk(((scenarios[index], number) for index, number in tasks.items()), folder, file=loaded.source)


def _handed_out(jobs: Sequence[Job], progress: Progress) -> Iterator[Job]:
    for job in jobs:
        tell_taken(job)
        progress.taken(job)
        yield job


def _keep(store: Store, ids: Sequence[Sequence[str]], finished: Finished, *, replace_failed: bool) -> None:
    point = finished.job.point
    results = {ids[point.index][result.trial]: result for result in finished.results}
    store.write(results, physics=physics(point.scenario), seconds=finished.seconds, replace_failed=replace_failed)


def _forget(checkpoints: Path, ids: Sequence[Sequence[str]], job: Job) -> None:
    """Delete the checkpoints of a job whose results are stored."""
    if checkpoints.is_dir():
        text = physics_json(job.point.scenario)
        digests = {digest_of(text, trials) for trials in computed_together(job)}
        discard(checkpoints, digests=digests, tasks={ids[job.point.index][trial] for trial in job.trials})
