"""Run trials of one sweep point: one result per trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fl.algorithms.learning import Learning
from fl.base.checkpoints import Checkpoints, resumed
from fl.base.errors import DivergedError, LearningError
from fl.base.results import TrialResult
from phy.config import LinkConfig
from privacy.config import Mechanism
from privacy.errors import PrivacyError


def run_trials(
    learning: Learning,
    *,
    link: LinkConfig,
    privacy: Mechanism | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
    checkpoints: Checkpoints | None = None,
) -> list[TrialResult]:
    """Run the trials; each one's numbers are those it has alone, with the account of what it released.

    `on_round` receives the number of rounds done; rounds of trials that run one after the other add up. `checkpoints`
    keep the state of trials that are computed together: hand in a single trial of algorithms other than FLMC with them.
    A trial of federated averaging or of an attack that cannot go on fails, and keeps the rounds before.

    Raises LearningError for data or a model that cannot be had, PrivacyError for a budget that holds nothing.
    """
    learning = learning.settled(link=link.resolve_digital(), privacy=privacy)
    results: list[TrialResult] = []
    together = [tuple(trials)] if learning.side_by_side else [(trial,) for trial in trials]
    for turn, which in enumerate(together):
        before, failure = turn * learning.rounds, None
        try:
            running, done = resumed(
                partial(learning.build, link=link, privacy=privacy, seed=seed, trials=which),
                num_rounds=learning.rounds,
                checkpoints=checkpoints,
            )
        except (DivergedError, PrivacyError) as error:  # numbers or a budget that another trial may not have
            if learning.side_by_side:
                raise
            results.append(TrialResult(trial=which[0], metrics={}, rounds={}, failure=f"before round 1: {error}"))
            continue
        for index in range(done, learning.rounds):
            if not running.ended:
                try:
                    running.round(index)
                except LearningError as error:
                    failure = f"round {index + 1}: {error}"
                    break
                more = index + 1 < learning.rounds and not running.ended
                if checkpoints and more and checkpoints.due(index + 1):
                    checkpoints.save(index + 1, running.state())
            on_round(before + index + 1)
        results += running.results(failure)
    return results
