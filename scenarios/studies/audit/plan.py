"""What of a scenario can be audited, at which delta, by how many games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fl.config import FedAvgConfig, FlmcConfig
from fl.config.scheme import AggregatorConfig
from privacy.config import GaussianConfig, PrivacyConfig
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
    """What the command line asks for; `delta` None: each point's own, `attack` None: each point's own."""

    games: int = 100_000
    delta: float | None = None
    confidence: float = 0.999
    attack: Literal["lr", "classifier"] | None = None
    rounds: int = 1


def audit_options(
    *, games: int, delta: float | None, confidence: float, attack: str | None, rounds: int
) -> AuditOptions:
    """The options as given on the command line. Raises ScenarioError for what no audit can be made with."""

    def refuse(key: str, value: object, problem: str, remedy: str) -> ScenarioError:
        return ScenarioError(key=key, value=value, problem=problem, remedy=remedy)

    if not FEWEST_GAMES <= games <= MOST_GAMES:
        limits = f"an audit needs {FEWEST_GAMES:,} to {MOST_GAMES:,} games"
        raise refuse("--games", games, limits, "give a number of them, 100000 say")
    if delta is not None and not 0.0 <= delta < 1.0:
        raise refuse("--delta", delta, "delta is a probability below 1", "give one from 0 on, such as 0.01")
    if not 0.5 <= confidence < 1.0:
        raise refuse("--confidence", confidence, "it must lie between 0.5 and 1, without 1 itself", "give 0.999, say")
    if rounds < 1:
        raise refuse("--rounds", rounds, "a game lasts at least one round", "give 1 or more")
    if attack not in (None, "lr", "classifier"):
        raise refuse("--attack", attack, "there is no such attack", "choose lr or classifier, or leave it out")
    chosen: Literal["lr", "classifier"] | None = None if attack is None else "lr" if attack == "lr" else "classifier"
    return AuditOptions(games=games, delta=delta, confidence=confidence, attack=chosen, rounds=rounds)


def why_not(scenario: Scenario, options: AuditOptions) -> str | None:
    """Why a point cannot be audited, None if it can."""
    from fl.audit.build import played_learning
    from fl.audit.build import why_not as no_game

    problem = no_game(scenario.learning, None if scenario.privacy == "none" else scenario.privacy)
    if problem is not None:
        return problem
    learning = played_learning(scenario.learning)
    if learning is not scenario.learning and options.rounds > 1:
        return f"an attack on single uploads has games of one round, and {options.rounds} were asked for"
    if isinstance(learning, FlmcConfig | FedAvgConfig) and options.rounds > learning.rounds:
        return f"a game of {options.rounds} rounds is longer than the run of {learning.rounds}"
    return None


def auditable(loaded: LoadedScenario, plan: Plan, options: AuditOptions) -> tuple[list[Point], list[str]]:
    """The points that can be audited, and a sentence for each kind that cannot. ScenarioError if none can."""
    points, reasons = [], []
    for point in plan.points:
        reason = why_not(point.scenario, options)
        if reason is None:
            points.append(point)
        else:
            reasons.append(reason)
    reasons = list(dict.fromkeys(reasons))
    if not points:
        raise ScenarioError(
            file=loaded.source,
            problem=f"there is nothing to audit: {'; '.join(reasons)}",
            remedy="choose a scheme in which honest devices upload, and no more rounds than the run has",
        )
    return points, reasons


def delta_of(scenario: Scenario, options: AuditOptions) -> float:
    """The delta that a point is audited at: as asked for, its privacy's own, or 0 where a pure epsilon is claimed.

    Of a mechanism with a delta of its own and a budget for the run the larger one, at which both claims hold.
    """
    if options.delta is not None:
        return options.delta
    stated = [one for one in (_own_delta(scenario), _budget_delta(scenario)) if one is not None]
    return max(stated, default=WITHOUT_ITS_OWN)


def _budget_delta(scenario: Scenario) -> float | None:
    budget = None if scenario.privacy == "none" else scenario.privacy.budget
    return None if budget is None else budget.delta


def _own_delta(scenario: Scenario) -> float | None:
    from fl.audit.build import played_learning

    learning, privacy = played_learning(scenario.learning), scenario.privacy
    if isinstance(learning, FedAvgConfig) and not isinstance(learning.aggregation, AggregatorConfig):
        return 0.0 if learning.aggregation.epsilon is not None else None
    if isinstance(privacy, PrivacyConfig):
        return privacy.delta
    if isinstance(privacy, GaussianConfig):
        from privacy.mechanisms.gaussian_mechanism import delta_from_renyi

        if privacy.delta is not None:
            return privacy.delta
        return delta_from_renyi(order=privacy.order, epsilon=privacy.epsilon, epsilon_prime=privacy.epsilon)
    return None
