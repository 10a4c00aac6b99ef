"""Run a plan: compute what is missing, store each batch as it finishes, end with figures and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scenarios.engine import Engine, Finished, Job, batch_size
from scenarios.errors import ScenarioError
from scenarios.export import Replacement
from scenarios.identity import physics, physics_json, task_id
from scenarios.link_study.store import holds_link_study
from scenarios.loader import LoadedScenario, as_yaml, resolved_root
from scenarios.plan import Plan
from scenarios.provenance import collect_provenance
from scenarios.published import without_others
from scenarios.report import ReportPaths, write_report
from scenarios.report.silence import silent_trials
from scenarios.store import Store

RUNS = Path("runs")
RESOLVED = "scenario.yaml"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Called as the run goes on: `start(total trial-rounds to compute)`, `advance(trial-rounds)`, `stored(tasks)`.

    Tasks that were found done are stored from the start.
    """

    start: Callable[[int], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None
    stored: Callable[[int], None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What a run came to: tasks planned, computed now, found done, failed; and the report.

    `notices`: what the reader of a log should know of single trials, sentences without their full stop.
    """

    planned: int
    computed: int
    found: int
    failed: int
    report: ReportPaths
    notices: tuple[str, ...] = ()


def identify(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Task ids of the plan, `[point][trial]`."""
    texts = (physics_json(point.scenario) for point in plan.points)
    return tuple(tuple(task_id(text, trial) for trial in range(plan.trials)) for text in texts)


def missing_jobs(plan: Plan, ids: Sequence[Sequence[str]], done: set[str]) -> list[Job]:
    """Batches of what is not done, the first trials of every point before the next ones.

    So an interrupted run has all of its curves, with wider bands, and points that share their data
    follow each other.
    """
    per_point: list[list[Job]] = []
    for point, point_ids in zip(plan.points, ids, strict=True):
        size = batch_size(point.scenario)
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
) -> RunOutcome:
    """Compute the missing tasks of the plan into `folder` and write the report.

    What is stored is never computed again, and a batch is stored the moment it is finished: whenever
    this stops, calling it again goes on. Raises ScenarioError for a folder that cannot be used.
    """
    if holds_link_study(folder):
        raise ScenarioError(
            file=folder,
            problem="holds a study of phyloop link, which a run would mix with its own results",
            remedy="choose another folder with --out",
        )
    ids = identify(plan)
    every = [one for point_ids in ids for one in point_ids]
    with Store.open(folder, scenario_name=loaded.scenario.name) as store:
        done = store.finished(every)
        jobs = missing_jobs(plan, ids, done)
        kept = replace(loaded, scenario=without_others(loaded.scenario, plan))
        root = resolved_root(kept, swept_paths=plan.swept_paths)
        store.save_scenario(yaml=as_yaml(root), root=root)
        with Replacement(folder / RESOLVED) as file:
            file.write(as_yaml(root).encode())
        run = store.record_run(collect_provenance())
        status = "interrupted"
        try:
            progress.start(sum(len(job.trials) * job.point.scenario.learning.rounds for job in jobs))
            progress.stored(len(done))
            for finished in _compute(engine, jobs, progress):
                _keep(store, ids, finished)
                progress.stored(len(finished.results))
            status = "done"
        finally:
            store.finish_run(run, status=status)
        records = store.read_tasks(every).values()
        report = write_report(folder, plan, task_ids=ids, store=store)
        notices = silent_trials(store, plan, task_ids=ids)
    return RunOutcome(
        planned=len(every),
        computed=sum(len(job.trials) for job in jobs),
        found=len(done),
        failed=sum(record.status == "failed" for record in records),
        report=report,
        notices=notices,
    )


def _compute(engine: Engine, jobs: Sequence[Job], progress: Progress) -> Iterator[Finished]:
    # Without a job the engine is not even started: TensorFlow takes seconds to load.
    if jobs:
        yield from engine.run(jobs, on_progress=progress.advance)


def _keep(store: Store, ids: Sequence[Sequence[str]], finished: Finished) -> None:
    point = finished.job.point
    results = {ids[point.index][result.trial]: result for result in finished.results}
    store.write(results, physics=physics(point.scenario), seconds=finished.seconds)
