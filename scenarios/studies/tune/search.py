"""A search under way: the studies of its stages, one after the other in one run folder, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from scenarios.engine.limits import room
from scenarios.engine.options import RunOptions, refuse_impossible
from scenarios.engine.study import RUNS
from scenarios.files.plain_files import RESULTS
from scenarios.plan.plan import expand
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.table import say
from scenarios.schema.errors import ScenarioError, printable
from scenarios.schema.loader import Source, load_scenario
from scenarios.studies.learning import LearningStudy, choose_engine
from scenarios.studies.link.study import LinkStudy
from scenarios.studies.tune.plan import Block, plan_tuning
from scenarios.studies.tune.report import TUNED, Result, write_result
from scenarios.studies.tune.scores import Scored, rank


class Search:
    """A search in `folder`, which is an ordinary run folder of the derived scenario.

    Each stage adds its sweep points to those of the stages before. What is stored is not computed again, so that the
    same search goes on wherever it was stopped.
    """

    def __init__(self, source: Source, *, out: Path | None, options: RunOptions, **changes: Any) -> None:
        """Check the search that a scenario asks for; `changes` are those of `load_scenario`. Raises ScenarioError."""
        refuse_impossible(options)
        self.tuning, self._options = plan_tuning(load_scenario(source, **changes)), options
        self.folder = out or RUNS / self.tuning.name
        self._blocks: list[Block] = []
        self._ranked: list[tuple[Scored, ...]] = []

    def studies(self) -> Iterator[LearningStudy | LinkStudy]:
        """Yield the study of each stage, to be run in the folder before the next one is asked for.

        Stages of which all tasks are stored are left out, but for the last.
        """
        new = self.tuning.first()
        for rounds in self.tuning.stages:
            if self._blocks:
                if all(len(one.candidates) == 1 for one in new):
                    return
                new = [replace(one, rounds=rounds) for one in new]
            self._blocks += new
            study = self._study()
            last = rounds == self.tuning.stages[-1]
            if last or not self._is_stored(study):
                yield study
            with study.store.open_existing(self.folder) as store:
                ranked = rank(new, study.plan, store, metric=self.tuning.metric)
            self._ranked += ranked
            new = [self._best(*pair) for pair in zip(new, ranked, strict=True)]

    @property
    def result(self) -> Result:
        """All candidates, once all studies have run."""
        return Result(tuning=self.tuning, blocks=(*self._blocks,), ranked=(*self._ranked,))

    def write(self, *, command: str) -> ReportPaths:
        """Write the result, see `write_result`."""
        return write_result(self.result, self.folder, command=command)

    def show(self) -> None:
        """Print the winner and the candidates of every choice."""
        result = self.result
        for choice in self.tuning.choices:
            print()
            say(printable(f"{choice.words}: {result.sentence(choice)}."))
            result.table(choice).print()
        print(f"\ntuned   {self.folder / TUNED}")

    def _best(self, block: Block, scored: tuple[Scored, ...]) -> Block:
        """The part of a block that goes on. ScenarioError where no candidate has a result."""
        if not isfinite(scored[0].cell.value):
            problem = f"no candidate of {block.choice.words} has a result ({scored[0].cell.text})"
            remedy = f"see the failures in {self.folder / 'report.html'}, and write other candidates"
            raise ScenarioError(file=self.tuning.loaded.source, key="tune.keys", problem=problem, remedy=remedy)
        halving = self.tuning.config.halving
        kept = [one.candidate for one in scored[: 1 if halving is None else ceil(len(scored) / halving.factor)]]
        return replace(block, candidates=tuple(one for one in block.candidates if one in kept))

    def _study(self) -> LearningStudy | LinkStudy:
        loaded = self.tuning.derived(self._blocks)
        if self.tuning.links:
            return LinkStudy(loaded)
        options = self._options
        space = room(options.memory_limit, workers=options.workers or 1)
        engine = choose_engine(options, folder=self.folder, worker_bytes=space.process_bytes)
        return LearningStudy(loaded, expand(loaded), engine=engine, room=space)

    def _is_stored(self, study: LearningStudy | LinkStudy) -> bool:
        """True if every task of a study is stored, done or failed."""
        if not (self.folder / RESULTS).is_file():
            return False
        with study.store.open_existing(self.folder) as store:
            found = store.statuses(study.ids).values()
            return len(found) == len(study.ids) and "part" not in found
