"""Run trials of one sweep point: one result per trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import Checkpoints, resumed
from fl.config.learning import Learning
from fl.results import PrivacyAccount, TrialResult
from fl.tasks.base import LearningError
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

    Raises LearningError for a mechanism that the algorithm does not have, and for data or a model that cannot be had;
    PrivacyError for a budget that holds nothing.
    """
    conflict = learning.privacy_conflict(privacy)
    if conflict is not None:
        raise LearningError(f"{conflict.problem}; {conflict.remedy}")
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
        except (LearningError, PrivacyError) as error:
            if not _fails_alone(learning, error):
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
    accounts = accounts_of(learning, link=link, privacy=privacy, results=results)
    return [replace(one, account=account) for one, account in zip(results, accounts, strict=True)]


def _fails_alone(learning: Learning, error: Exception) -> bool:
    """True for an error that another trial may not meet: numbers that diverge, or a budget."""
    from fl.aggregation.update_kernels import DivergedError

    return not learning.side_by_side and isinstance(error, DivergedError | PrivacyError)


def accounts_of(
    learning: Learning, *, link: LinkConfig, privacy: Mechanism | None, results: Sequence[TrialResult]
) -> list[PrivacyAccount | None]:
    """Return what every trial released; trials side by side that released the same share one account."""
    accounts: list[PrivacyAccount | None] = []
    for before, result in zip((None, *results), results, strict=False):
        if before is not None and learning.side_by_side and _same_amplitudes(result, before):
            accounts.append(accounts[-1])
        else:
            accounts.append(learning.account(_with_the_last_round(result), link=link, privacy=privacy))
    return accounts


def _same_amplitudes(one: TrialResult, other: TrialResult) -> bool:
    """True if two trials share all that an account of FLMC is made of."""
    if one.on_air.rounds or other.on_air.rounds:
        return False
    same_peaks = one.rounds.get("peak_amplitude") is other.rounds.get("peak_amplitude")
    return same_peaks and one.privacy.get("delta_spent") is other.privacy.get("delta_spent")


def _with_the_last_round(result: TrialResult) -> TrialResult:
    """Return the result with the round at its end in which the trial failed after everybody had sent; see `OnAir`."""
    on_air = result.on_air
    if not on_air.rounds:
        return result

    def longer(kept: Mapping[str, NDArray[Any]], last: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        return {
            name: np.concatenate([kept.get(name, np.empty((0, *np.shape(value)))), np.asarray(value)[None]])
            for name, value in last.items()
        }

    rounds, link = longer(result.rounds, on_air.rounds), longer(result.link, on_air.link)
    return replace(result, rounds=rounds, link=link, devices=longer(result.devices, on_air.devices))
