"""Check a scenario without running it: all of its errors at once, its warnings and its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from scenarios.engine.limits import Cost, Room, estimate, refuse_disk, refuse_memory, room
from scenarios.engine.study import default_folder
from scenarios.plan.plan import check_sweep, expand, learning_warnings
from scenarios.plan.points import Plan
from scenarios.report.check import check_figures, check_tables, figure_warnings
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, Source, load_as_meant, load_scenario

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
            curves = f"{len(link.curves)} curve{'s' if len(link.curves) != 1 else ''}"
            points = f"{curves} x {len(link.measure.levels)} values = {link.num_points} points to measure"
            parts["phyloop link"] = f"{points}, seed {link.seed}"
        if plan is not None:
            tasks = f"{len(plan.points)} points x {plan.trials} trials = {len(plan.points) * plan.trials} tasks"
            parts["phyloop run"] = f"{tasks}, seed {plan.seed}"
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
            meant, sure = found
            reads = expand if sure and meant.scenario.measure is None else check_sweep
            attempt(lambda: reads(meant))
            attempt(lambda: check_figures(meant))
        return Check(errors=tuple(errors))
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
        warnings += [*learning_warnings(plan), *([] if measures else figure_warnings(loaded, plan))]
        scenarios = [point.scenario for point in plan.points]
        if space is not None:
            attempt(lambda: refuse_memory(scenarios, space, file=loaded.source))
            cost = estimate(plan, limit_bytes=space.process_bytes)
        counts = [(scenario, plan.trials) for scenario in scenarios]
        attempt(lambda: refuse_disk(counts, default_folder(loaded, "run"), file=loaded.source))
    return Check(
        errors=tuple(errors), warnings=tuple(warnings), loaded=loaded, plan=plan, link=link, cost=cost, room=space
    )
