"""Options of an audit, the sweep points that can be audited, and the delta of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fl.base.words import plural
from scenarios.plan.points import Plan, Point
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario
from scenarios.schema.schema import Scenario

FEWEST_GAMES = 200
MOST_GAMES = 100_000_000
WITHOUT_ITS_OWN = 1e-5
"""delta where neither the command line nor the scenario names one and no pure epsilon is claimed."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Options of an audit; `delta` None: each point's own, `attack` None: each point's own.

    Raises ScenarioError for a value that no audit can be made with.
    """

    games: int = 100_000
    delta: float | None = None
    confidence: float = 0.999
    attack: Literal["lr", "classifier"] | None = None
    rounds: int = 1

    def __post_init__(self) -> None:
        limits, delta = f"an audit needs {FEWEST_GAMES:,} to {MOST_GAMES:,} games", self.delta
        for key, fits, problem, remedy in (
            ("games", FEWEST_GAMES <= self.games <= MOST_GAMES, limits, "give for example 100000"),
            ("delta", delta is None or 0.0 <= delta < 1.0, "delta is a probability below 1", "give 0.01, say"),
            ("confidence", 0.5 <= self.confidence < 1.0, "must be from 0.5 to below 1", "give 0.999"),
            ("rounds", self.rounds >= 1, "a game lasts at least one round", "give 1 or more"),
            ("attack", self.attack in (None, "lr", "classifier"), "there is no such attack", "choose lr or classifier"),
        ):
            if not fits:
                raise ScenarioError(key=f"--{key}", value=getattr(self, key), problem=problem, remedy=remedy)


def why_not(scenario: Scenario, options: AuditOptions) -> str | None:
    """Return why a sweep point cannot be audited, None if it can."""
    problem = scenario.learning.why_not_audited(scenario.mechanism, link=scenario.link)
    if problem is not None:
        return problem
    learning = scenario.learning.played
    if learning is not scenario.learning and options.rounds > 1:
        return f"an attack on single uploads has games of one round, and {options.rounds} were asked for"
    if options.rounds > learning.rounds:
        return f"a game of {plural(options.rounds, 'round')} is longer than the run of {learning.rounds}"
    return None


def auditable(loaded: LoadedScenario, plan: Plan, options: AuditOptions) -> tuple[list[Point], list[str]]:
    """Return the sweep points that can be audited, and why others cannot. ScenarioError if none can."""
    why = [why_not(point.scenario, options) for point in plan.points]
    points = [point for point, reason in zip(plan.points, why, strict=True) if reason is None]
    reasons = list(dict.fromkeys(filter(None, why)))
    if not points:
        remedy = "choose a scheme in which honest devices upload, and no more rounds than the run has"
        raise ScenarioError(
            file=loaded.source, problem=f"there is nothing to audit: {'; '.join(reasons)}", remedy=remedy
        )
    return points, reasons


def delta_of(scenario: Scenario, options: AuditOptions) -> float:
    """Return the delta of a sweep point: as asked for, its privacy's own, or 0 where a pure epsilon is claimed.

    Of a mechanism with a delta of its own and a budget for the run the larger one, at which both claims hold.
    """
    if options.delta is not None:
        return options.delta
    learning, privacy = scenario.learning.played, scenario.privacy
    stated: list[float | None] = []
    scheme = learning.upload_scheme
    if scheme is not None and not scheme.uses_codec:
        stated = [None if scheme.own_epsilon is None else 0.0]
    elif privacy != "none":
        stated = [privacy.stated_delta]
    if privacy != "none" and privacy.budget is not None:
        stated.append(privacy.budget.delta)
    return max((delta for delta in stated if delta is not None), default=WITHOUT_ITS_OWN)
