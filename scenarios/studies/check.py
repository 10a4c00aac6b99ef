"""Check a scenario without running it: all of its errors at once, its warnings and its cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from fl.base.words import plural
from phy.config.conflict import Conflict
from scenarios.engine.limits import Cost, Room, estimate, refuse_disk, refuse_memory, room
from scenarios.engine.study import default_folder
from scenarios.plan.plan import LEARNING, check_sweep, expand
from scenarios.plan.points import Plan, Point, value_of
from scenarios.plan.warnings import learning_warnings
from scenarios.report.check import check_figures, check_stop, check_tables, figure_warnings, stop_warnings
from scenarios.schema.consistency.conflicts import find_conflicts
from scenarios.schema.errors import KeyPath, ScenarioError, names_of
from scenarios.schema.loader import LoadedScenario, Source, load_as_meant, load_scenario
from scenarios.schema.schema import Scenario
from scenarios.schema.schema_keys import KINDS, schema_keys

if TYPE_CHECKING:
    from scenarios.studies.link.plan import LinkPlan

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Check:
    """Result of a check.

    - `errors`: everything that must be corrected, with file, line, key, value and remedy; none: the scenario can run;
    - `warnings`: sentences about settings that degrade the result;
    - `plan`, `link`: sweep points of a learning run, curves of a link study; None for a scenario without one;
    - `cost`: peak memory and disk of the learning run [B]; `room`: memory that it may take.
    """

    errors: tuple[ScenarioError, ...] = ()
    warnings: tuple[str, ...] = ()
    loaded: LoadedScenario | None = None
    plan: Plan | None = None
    link: LinkPlan | None = None
    cost: Cost | None = None
    room: Room | None = None

    @property
    def ok(self) -> bool:
        """True if the scenario can run."""
        return not self.errors

    @property
    def verdict(self) -> str:
        """The first lines of `phyloop check`: what will be computed, or every error on a line of its own."""
        if self.errors or self.loaded is None:
            return "\n".join(map(str, self.errors))
        plan, link, parts = self.plan, self.link, {}
        if link is not None:
            curves = plural(len(link.curves), "curve")
            points = (
                f"{curves} x {plural(len(link.measure.levels), 'value')} = "
                f"{plural(link.num_points, 'point')} to measure"
            )
            parts["phyloop link"] = f"{points}, seed {link.seed}"
        if plan is not None:
            num_points, num_tasks = len(plan.points), len(plan.points) * plan.trials
            most = "at most " if self.loaded.scenario.stop is not None else ""
            trials, tasks = plural(plan.trials, "trial"), plural(num_tasks, "task")
            product = f"{plural(num_points, 'point')} x {most}{trials} = {most}{tasks}"
            parts["phyloop run"] = f"{product}, seed {plan.seed}"
        valid = f"{self.loaded.scenario.name} is valid"
        return "\n".join(
            f"{valid}{f' for {command}' if len(parts) > 1 else ''}: {what}" for command, what in parts.items()
        )

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"warning: {sentence}" for sentence in self.warnings)])

    __repr__ = __str__


def check(source: Source, *, memory_limit: str | None = None, **changes: Any) -> Check:
    """Check a scenario; `changes` are those of `load_scenario`. Nothing is raised for bad input."""
    errors: list[ScenarioError] = []

    def attempt(step: Callable[[], Result]) -> Result | None:
        try:
            return step()
        except ScenarioError as error:
            errors.extend(error.errors)
            return None

    loaded = attempt(lambda: load_scenario(source, **changes))
    if loaded is None:
        if (found := load_as_meant(source, **changes)) is not None:
            meant, lost = found
            attempt(lambda: check_sweep(meant))
            if meant.scenario.measure is None and all(_is_setting(path) for path in lost):
                errors += _of_points(meant, lost)
            attempt(lambda: check_figures(meant, lost=lost))
            if "measure" in {path[0] for path in lost}:  # it is written, with a wrong value
                errors = [one for one in errors if "the scenario has no measure" not in one.problem]
        return Check(errors=_once(errors))
    warnings: list[str] = []
    link: LinkPlan | None = None
    measures = loaded.scenario.measure is not None
    if measures:
        from scenarios.studies.link.plan import expand_link, study_warnings

        link = attempt(lambda: expand_link(loaded))
        warnings += [] if link is None else study_warnings(link)
    plan = cost = None
    attempt(lambda: check_figures(loaded))
    space = attempt(lambda: room(memory_limit))
    if "learning" in loaded.document or not measures:
        plan = attempt(lambda: expand(loaded))
    if plan is not None:
        attempt(lambda: check_tables(loaded, plan))
        attempt(lambda: check_stop(loaded, plan))
        warnings += [
            *learning_warnings(plan),
            *stop_warnings(loaded),
            *([] if measures else figure_warnings(loaded, plan)),
        ]
        scenarios = [point.scenario for point in plan.points]
        if space is not None:
            attempt(lambda: refuse_memory(scenarios, space, file=loaded.source))
            cost = estimate(plan, limit_bytes=space.process_bytes)
        counts = [(scenario, plan.trials) for scenario in scenarios]
        attempt(lambda: refuse_disk(counts, default_folder(loaded, "run"), file=loaded.source))
    if loaded.scenario.tune is not None and not errors:
        from scenarios.studies.tune.plan import plan_tuning

        attempt(lambda: plan_tuning(loaded))
    return Check(
        errors=tuple(errors), warnings=tuple(warnings), loaded=loaded, plan=plan, link=link, cost=cost, room=space
    )


def _is_setting(path: KeyPath) -> bool:
    """Return True for a key with a value of its own, which selects no kind: without it, its default stands in."""
    name = names_of(path)
    return (
        name in schema_keys() and path[-1] not in KINDS and not any(one.startswith(f"{name}.") for one in schema_keys())
    )


def _involves(key: str, lost: str) -> bool:
    """Return True if a conflict about a key rests on a lost key: the same, one around or one inside it."""
    return f"{key}.".startswith(f"{lost}.") or ("." in key and lost.startswith(f"{key}."))


def _of_points(meant: LoadedScenario, lost: Collection[KeyPath]) -> Iterator[ScenarioError]:
    """Yield the errors of sweep points that rest on no lost key: neither by its name nor by its default."""
    names = [names_of(path) for path in lost]
    point = Point(index=0, settings={}, scenario=meant.scenario)
    unknown = {str(word) for name in names for word in (name.rpartition(".")[2], value_of(point, name))}

    def conflicts(scenario: Scenario) -> Iterator[Conflict]:
        for conflict in find_conflicts(scenario):
            if not any(_involves(key, name) for key in conflict.keys for name in names):
                yield conflict

    try:
        expand(meant, replace(LEARNING, conflicts=conflicts))
    except ScenarioError as found:
        for one in found.errors:
            # Two sweep points may differ in the lost keys alone.
            if one.key != "sweep" and unknown.isdisjoint(re.findall(r"[\w.]*\w", one.problem)):
                yield one


def _once(errors: Iterable[ScenarioError]) -> tuple[ScenarioError, ...]:
    """The errors without those that an earlier one says of all sweep points."""
    kept: list[ScenarioError] = []
    for error in errors:
        same = [one for one in kept if (one.file, one.line, one.key) == (error.file, error.line, error.key)]
        if not any(
            error.problem.startswith(f"{one.problem} (at") or error.sentence() == one.sentence() for one in same
        ):
            kept.append(error)
    return tuple(kept)
