"""Learning runs as a study: points of the sweep x trials, computed by an engine."""

from __future__ import annotations

import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Self

from fl.base.words import plural
from scenarios.engine.batch import Engine, Finished, InProcess, Job, batch_size
from scenarios.engine.compiling import compiling_s, told
from scenarios.engine.limits import Room, refuse_disk, refuse_memory
from scenarios.engine.limits import room as make_room
from scenarios.engine.options import RunOptions
from scenarios.engine.study import Outcome, Progress, Study
from scenarios.files.log import event, logger
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.answers.answer import answer
from scenarios.report.claims import broken_budgets, proved_epsilons, strongest_claims
from scenarios.report.figures.drawing import Drawing
from scenarios.report.findings import read_findings, silent_points
from scenarios.report.page import drawings, write_report
from scenarios.report.paths import ReportPaths
from scenarios.report.published import without_others
from scenarios.report.rows import few_of_each, results_table
from scenarios.report.settings import setting_in_words
from scenarios.report.stopping import TrialRule, num_spared, wanted_trials
from scenarios.report.tables.summaries import FEWEST_TRIALS, summarise
from scenarios.report.tables.table import say
from scenarios.schema.errors import printable
from scenarios.schema.loader import LoadedScenario, as_yaml, resolved_root
from scenarios.store.checkpoints import CHECKPOINTS, CheckpointPolicy, discard
from scenarios.store.store import Store
from scenarios.studies.folders import stored_scenario

TASKS_NAMED = 8
"""Tasks of a job that the log names by the start of their id; it lists all of its trials."""

MOST_RESULTS = 30
"""Sweep points of which the terminal shows results, some of every curve."""

_log = logger("run")


class LearningStudy(Study):
    """One learning run; see `scenarios.engine.study.Study`. A batch is a `Job`, its results are `Finished`."""

    store = Store
    units = "trial-rounds"
    done_words = "tasks stored"

    def __init__(
        self, loaded: LoadedScenario, plan: Plan, *, engine: Engine | None = None, room: Room | None = None
    ) -> None:
        self.loaded, self.plan, self.name = loaded, plan, loaded.scenario.name
        self._engine = engine or InProcess()
        self._room = room
        self.ids = list(chain.from_iterable(plan.task_ids))
        self._compiled_before_s = compiling_s()
        self._rule, self._finished = TrialRule.of(loaded.scenario), set[str]()

    @classmethod
    def reload(cls, store: Store) -> Self:
        """Return the study of a run folder. ScenarioError if it holds no scenario."""
        loaded = stored_scenario(store)
        return cls(loaded, expand(loaded))

    @cached_property
    def room(self) -> Room:
        """Memory that the run may take."""
        return self._room or make_room()

    def settled(self, store: Store) -> bool:
        """See `Study`: every task is done or has failed, but for those that `stop` spares."""
        statuses = store.statuses(self.ids)
        self.skipped = num_spared(store, self.plan)
        return len(statuses) + self.skipped == len(self.ids) and "part" not in statuses.values()

    def document(self) -> tuple[str, Mapping[str, Any]]:
        kept = replace(self.loaded, scenario=without_others(self.loaded.scenario, self.plan))
        root = resolved_root(kept, swept_paths=self.plan.swept_paths)
        return as_yaml(root), root

    def refuse_too_large(self, folder: Path, *, done: Collection[str]) -> None:
        pairs = zip(self.plan.points, self.plan.task_ids, strict=True)
        missing = [(point.scenario, count) for point, ids in pairs if (count := len(set(ids).difference(done)))]
        refuse_memory([scenario for scenario, _ in missing], self.room, file=self.loaded.source)
        refuse_disk(missing, folder, file=self.loaded.source)

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[Job | None], int]:
        """See `Study`; drops checkpoints of tasks that are done."""
        discard(store.folder / CHECKPOINTS, tasks=done)
        self._finished = set(done)
        jobs = missing_jobs(self.plan, self._finished, limit_bytes=self.room.process_bytes)
        rounds = sum(len(job.trials) * job.point.scenario.learning.rounds for job in jobs)
        if self._rule is not None and jobs:
            return self._taken(self._until_narrow(store, self._rule, progress), progress), rounds
        return self._taken(jobs, progress) if jobs else (), rounds

    def _until_narrow(self, store: Store, rule: TrialRule, progress: Progress) -> Iterator[Job | None]:
        """Yield the jobs of the trials that each point needs by its results so far; None while these are computed."""
        ids, limit_bytes = self.plan.task_ids, self.room.process_bytes
        wanted = dict.fromkeys(range(len(ids)), 0)  # trials asked for, of points that may need more
        while wanted:
            jobs: list[Job] = []
            for index in [*wanted]:
                first = set(ids[index][: wanted[index]])
                if first - self._finished:
                    continue
                trials, final = wanted_trials(store, self.plan, index, finished=self._finished, rule=rule)
                missing = [one for one in range(wanted[index], trials) if ids[index][one] not in self._finished]
                wanted[index] = trials
                jobs += jobs_of(self.plan.points[index], missing, limit_bytes=limit_bytes)
                if final:
                    del wanted[index]
                    spared = len(set(ids[index][trials:]) - self._finished)
                    self.skipped += spared
                    progress.restored(spared * self.plan.points[index].scenario.learning.rounds)
            yield from jobs
            if wanted and not jobs:
                yield None

    def compute(self, batches: Iterable[Job | None], *, progress: Progress) -> Generator[Finished, None, None]:
        """See `Study`. Without a job no engine is started: TensorFlow takes seconds to load."""
        if batches != ():
            yield from self._engine.run(batches, progress=progress)

    def keep(self, store: Store, results: Finished, *, progress: Progress) -> int:
        """See `Study`; deletes the checkpoints of the job."""
        store.append([results.rows])
        ids = self.plan.task_ids[results.point]
        tasks = {ids[trial] for trial in results.trials}
        self._finished |= tasks
        discard(store.folder / CHECKPOINTS, tasks=tasks)
        self._log_stored(results)
        progress.settled((results.point, results.trials[-1]))
        return len(results.trials)

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        return write_report(folder, self.plan, store=store)

    def drawings(self, store: Store) -> Iterator[Drawing]:
        """Yield the figures of the run."""
        summaries = summarise(store, self.plan)
        return drawings(store, self.plan, summaries)

    def notices(self, store: Store) -> tuple[str, ...]:
        findings = read_findings(store, self.plan, summarise(store, self.plan))
        return (*findings, *broken_budgets(store, self.plan), *silent_points(store, self.plan))

    def shown(self, store: Store) -> Mapping[str, Any]:
        summaries = summarise(store, self.plan)
        proved = proved_epsilons(strongest_claims(store, self.plan)[0])
        some = few_of_each(self.plan, summaries, most=MOST_RESULTS)
        words = {index: str(one) for index, one in proved.items()}
        return {
            "answers": answer(self.plan, summaries, proved=proved).lines(),
            "results": results_table(self.plan, some, proved=words),
            "more": len(self.plan.points) - len(some),
        }

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        for sentence in outcome.answers:
            say(f"{printable(sentence)}\n")
        if outcome.results is not None and any(any(row[2:]) for row in outcome.results.rows):
            outcome.results.print()
            left = f"... and {plural(outcome.more, 'more sweep point')}: see the report. " if outcome.more else ""
            say(f"{left}Brackets are 95 % intervals, of means from {FEWEST_TRIALS} trials on.\n")
        stored = outcome.found - self.skipped * outcome.complete
        found = f", {stored} found done" if stored else ""
        if self._rule is not None and self.skipped:
            narrow = f"{self._rule.metric} is within ±{self._rule.half_width:g}"
            found += f", {self.skipped} not needed because the 95 % interval of {narrow}"
        if outcome.complete:
            planned = outcome.planned - self.skipped
            all_done = "the task is" if planned == 1 else f"all {plural(planned, 'task')} are"
            say(f"{all_done} finished: 0 computed{found}; phyloop report draws figures again")
        else:
            compiling = told(compiling_s() - self._compiled_before_s)
            took = f"{seconds:.0f} s{compiling and f', with {compiling}'}"
            say(f"{plural(outcome.planned, 'task')}: {outcome.computed} computed{found} in {took}")
        if outcome.failed:
            print(
                f"phyloop: {outcome.failed} of {plural(outcome.planned, 'task')} failed; the report names "
                "them and why, and --retry-failed computes them again.",
                file=sys.stderr,
            )

    # --- log --------------------------------------------------------------------------------------

    def _taken(self, jobs: Iterable[Job | None], progress: Progress) -> Iterator[Job | None]:
        for job in jobs:
            if job is None:
                yield None
                continue
            trials = f"trials {ranges(job.trials)}"
            fields = event("job-taken", point=job.point.index, settings=job.point.settings, trials=ranges(job.trials))
            _log.debug("%s taken", trials, extra=fields)
            setting = setting_in_words(self.plan, job.point)
            key = job.point.index, job.trials[-1]
            progress.taken(key, f"{setting}, {trials}" if setting else trials)
            yield job

    def _log_stored(self, finished: Finished) -> None:
        """Log each exception with all that it failed, each other failure, and the job."""
        point, trials = finished.point, finished.trials
        setting = setting_in_words(self.plan, self.plan.points[point])
        where = f"{setting}, " if setting else ""

        def of(subset: Sequence[int]) -> dict[str, Any]:
            tasks = [self.plan.task_ids[point][trial][:12] for trial in subset[:TASKS_NAMED]]
            return {"point": point, "setting": setting, "trials": ranges(subset), "tasks": tasks}

        for one in finished.incidents:
            fields = event("task-failed", **of(one.trials), reason=one.reason, trace=one.trace, many=True)
            trial = "trials" if len(one.trials) > 1 else "trial"
            _log.error("%s%s %s failed: %s", where, trial, ranges(one.trials), one.reason, extra=fields)
        logged = {trial for one in finished.incidents for trial in one.trials}
        for number, reason in finished.failures.items():
            if number not in logged:
                fields = event("task-failed", **of((number,)), reason=reason, many=True)
                _log.error("%strial %d failed: %s", where, number, reason, extra=fields)
        counts = {"stored": len(trials), "failed": len(finished.failures), "seconds": round(finished.seconds, 3)}
        _log.info("%d tasks stored", len(trials), extra=event("tasks-stored", **of(trials), **counts))


def choose_engine(options: RunOptions, *, folder: Path, worker_bytes: int) -> Engine:
    """Return the engine: this process, processes of its own, or workers of a scheduler; only these load dask.

    `worker_bytes`: memory that a process of ours may take where `options.memory_limit` says so.
    """
    checkpoints = CheckpointPolicy(
        folder=folder / CHECKPOINTS, rounds=options.checkpoint_rounds, minutes=options.checkpoint_minutes
    )
    if options.workers is None and options.scheduler is None:
        return InProcess(checkpoints=checkpoints)
    from scenarios.engine.cluster.engine import DaskEngine

    return DaskEngine(
        workers=options.workers,
        scheduler=options.scheduler,
        checkpoints=checkpoints,
        worker_bytes=None if options.memory_limit is None else worker_bytes,
    )


def missing_jobs(plan: Plan, done: set[str], *, limit_bytes: int | None = None) -> list[Job]:
    """Batches of what is not done, the first trials of every point before the next ones.

    So an interrupted run has all of its curves, with wider bands, and points that share their data follow each other.
    """
    per_point = [
        jobs_of(point, [trial for trial, one in enumerate(ids) if one not in done], limit_bytes=limit_bytes)
        for point, ids in zip(plan.points, plan.task_ids, strict=True)
    ]
    return [job for turn in zip_longest(*per_point) for job in turn if job is not None]


def jobs_of(point: Point, trials: Sequence[int], *, limit_bytes: int | None = None) -> list[Job]:
    """Return batches of trials of a point, in their order."""
    if not trials:
        return []
    size = batch_size(point.scenario, limit_bytes=limit_bytes)
    return [Job(point=point, trials=tuple(trials[i : i + size])) for i in range(0, len(trials), size)]


def ranges(trials: Sequence[int]) -> str:
    """`0-5, 8`: numbers in order, runs of them by their ends."""
    parts: list[list[int]] = []
    for trial in trials:
        if parts and trial == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], trial]
        else:
            parts.append([trial])
    return ", ".join("-".join(map(str, part)) for part in parts)
