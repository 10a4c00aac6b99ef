"""An audit: games between two neighbouring worlds are played, told apart by an attacker, and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.audit.game import AuditResult, halves, judge
from privacy.events.claims import Claim, Scope
from privacy.events.events import Unit


@dataclass(frozen=True, kw_only=True)
class GameBatch:
    """Games played together.

    - `alternative` bool `[n]`: the world each was played in;
    - `score` float64 `[n]`: log-likelihood ratio of what arrived, or what grows with it;
    - `observed` float32 `[n, features]`: what arrived, for an attacker that has to learn the law.
    """

    alternative: NDArray[np.bool_]
    score: NDArray[np.float64]
    observed: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class GameFacts:
    """Facts of a game: `scope` and `unit` of the difference between its `worlds`, its `rounds`, and which (`when`)."""

    scope: Scope
    unit: Unit
    worlds: str
    rounds: int
    when: str


class Game(Protocol):
    """Neighbouring worlds of one scheme over one link.

    - `law_known`: whether `GameBatch.score` is the likelihood ratio of the whole chain, or of it without what fades,
      estimates or decoders add;
    - `gaussian`: whether the trade-off curve is that of two Gaussians.
    """

    facts: GameFacts
    law_known: bool
    gaussian: bool

    def play(self, number: int) -> GameBatch:
        """Batch `number`: its keys are its own."""
        ...

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """Upper bounds on the epsilon of one game that hold, or are said to hold, at `delta`; asked for after play."""
        ...


Attack = Literal["lr", "classifier"]
"""The likelihood ratio, or a logistic regression that learns the law from the games that the threshold is chosen by."""


@dataclass(frozen=True, kw_only=True)
class Audited:
    """An audit: what it proved, by which attack on which game, and the upper bounds that are claimed beside it.

    `gaussian`: the same games under the assumption of a Gaussian trade-off curve, where that is the law; else None.
    """

    result: AuditResult
    gaussian: AuditResult | None
    claims: tuple[Claim, ...]
    attack: Attack
    num_games: int
    game: GameFacts

    @property
    def orders(self) -> list[float]:
        """Renyi orders at which something is claimed."""
        return sorted({claim.order for claim in self.claims if claim.order is not None})

    def refuted(self, one: Claim) -> bool:
        """Tell if games contradict a claim: its epsilon, at no larger delta than audited, is less than they prove."""
        if one.order is not None:
            return self.result.renyi_lower(one.order) > one.epsilon
        return one.delta <= self.result.delta and self.result.epsilon_lower > one.epsilon


def audit(
    game: Game,
    *,
    num_games: int,
    delta: float,
    confidence: float,
    attack: Attack | None = None,
    on_games: Callable[[int], None] = lambda _: None,
) -> Audited:
    """Play `num_games` and judge them; `attack` None: by likelihood ratio where the law is known, else by a classifier.

    `on_games` hears how many were played more. Raises PrivacyError for too few games or limits out of range.
    """
    chosen: Attack = attack or ("lr" if game.law_known else "classifier")
    batches: list[GameBatch] = []
    played = 0
    while played < num_games:
        batch = game.play(len(batches))
        more = min(len(batch.score), num_games - played)
        batches.append(batch)
        played += more
        on_games(more)
    alternative = np.concatenate([one.alternative for one in batches])[:num_games]
    if chosen == "lr":
        scores = np.concatenate([one.score for one in batches])[:num_games]
    else:
        scores = _learnt(np.concatenate([one.observed for one in batches])[:num_games], alternative)
    bell = None
    if game.gaussian and delta > 0.0:
        bell = judge(scores, alternative, delta=delta, confidence=confidence, form="gaussian")
    result, claims = judge(scores, alternative, delta=delta, confidence=confidence), game.claims(delta)
    return Audited(result=result, gaussian=bell, claims=claims, attack=chosen, num_games=num_games, game=game.facts)


def _learnt(observed: NDArray[np.float32], alternative: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log odds `[n]` of a logistic regression on standardised observations; it learns from the choosing half alone."""
    from sklearn.linear_model import LogisticRegression

    choose, _ = halves(alternative)
    learnt_from = observed[choose].astype(np.float64)
    centre, spread = learnt_from.mean(axis=0), learnt_from.std(axis=0)
    scaled = (observed - centre) / np.where(spread > 0.0, spread, 1.0)
    model = LogisticRegression(max_iter=1000).fit(scaled[choose], alternative[choose])
    return np.asarray(model.decision_function(scaled), np.float64)
