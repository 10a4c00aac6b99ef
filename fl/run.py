"""One door to every learning algorithm: trials of one scenario point in, one result per trial out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from fl.checkpoints import NO_CHECKPOINTS, Checkpoints, Resumable, resumed
from fl.config import BitDistanceConfig, FedAvgConfig, FlipMomentsConfig, FlmcConfig, ReconstructionConfig
from fl.results import TrialResult
from fl.tasks.base import LearningError
from phy.config import LinkConfig
from privacy.config import (
    AmplitudeBudget,
    AnyPrivacyConfig,
    BitFlippingConfig,
    GaussianConfig,
    PrivacyConfig,
    SchemeBudget,
)
from privacy.errors import PrivacyError

Learning = FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig | ReconstructionConfig


class Trials(Resumable, Protocol):
    """Trials that are computed together: all of FLMC side by side, of every other algorithm one alone."""

    @property
    def ended(self) -> bool:
        """True if no round is left to compute, because a budget is spent."""
        ...

    def round(self, index: int) -> None:
        """Compute one round of all of them. Raises LearningError where they cannot go on."""
        ...

    def results(self, failure: str | None) -> list[TrialResult]:
        """Return one result per trial; `failure`: the reason why the last round raised an error, if one did."""
        ...


def run_trials(
    learning: Learning,
    *,
    link: LinkConfig,
    privacy: AnyPrivacyConfig | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> list[TrialResult]:
    """Run the trials; each one's numbers are those it has alone, with the account of what it released.

    `on_round` receives the number of rounds done; rounds of trials that run one after the other add up. `checkpoints`
    keep the state of trials that are computed together: hand in a single trial of algorithms other than FLMC with them.
    A budget for the run is turned into what rounds may release first. A trial of federated averaging or of an attack
    that cannot go on fails, and keeps the rounds before.

    Raises LearningError for a mechanism that the algorithm does not have, and for data or a model that cannot be had;
    PrivacyError for a budget that holds nothing.
    """
    from fl.accounting.budget_found import settled
    from fl.accounting.ledgers import accounts_of

    if isinstance(privacy, SchemeBudget):
        learning = settled(learning, link=link.resolve_digital(), privacy=privacy)
    build, results = _builder(learning, privacy), list[TrialResult]()
    together: list[dict[str, Any]] = [{"trial": trial} for trial in trials]
    if isinstance(learning, FlmcConfig):
        together = [{"trials": tuple(trials)}]
    for turn, which in enumerate(together):
        before, failure = turn * learning.rounds, None
        try:
            running, done = resumed(
                partial(build, learning, link=link, privacy=privacy, seed=seed, **which),
                num_rounds=learning.rounds,
                checkpoints=checkpoints,
            )
        except (LearningError, PrivacyError) as error:
            if not _fails_alone(learning, error):
                raise
            results.append(TrialResult(trial=which["trial"], metrics={}, rounds={}, failure=f"before round 0: {error}"))
            continue
        for index in range(done, learning.rounds):
            if not running.ended:
                try:
                    running.round(index)
                except LearningError as error:
                    failure = f"round {index}: {error}"
                    break
                if index + 1 < learning.rounds and not running.ended and checkpoints.due(index + 1):
                    checkpoints.save(index + 1, running.state())
            on_round(before + index + 1)
        results += running.results(failure)
    accounts = accounts_of(learning, link=link, privacy=privacy, results=results)
    return [replace(one, account=account) for one, account in zip(results, accounts, strict=True)]


def _fails_alone(learning: Learning, error: Exception) -> bool:
    """True for an error that another trial may not meet: numbers that diverge, or a budget, of federated averaging."""
    from fl.local.divergence import DivergedError

    return isinstance(learning, FedAvgConfig) and isinstance(error, DivergedError | PrivacyError)


def _builder(learning: Learning, privacy: AnyPrivacyConfig | None) -> Callable[..., Trials]:
    """Return what builds trials. Raises LearningError for a mechanism that the algorithm does not have."""
    # Imported where needed: an algorithm's libraries take seconds to load.
    if isinstance(learning, FlmcConfig):
        from fl.algorithms.flmc_trials import FlmcTrials

        if privacy is not None and not isinstance(privacy, PrivacyConfig | AmplitudeBudget):
            raise LearningError(f"flmc knows the bound of an amplitude only, not mechanism {privacy.mechanism}")
        return FlmcTrials
    if isinstance(learning, FedAvgConfig):
        from fl.algorithms.fedavg import Federation

        if isinstance(privacy, PrivacyConfig | AmplitudeBudget):
            raise LearningError("fedavg needs a mechanism, bit-flipping or gaussian; epsilon alone bounds an amplitude")
        return Federation
    if isinstance(learning, ReconstructionConfig):
        from fl.attacks.reconstruction import Reconstruction

        if privacy is not None and not isinstance(privacy, BitFlippingConfig | GaussianConfig):
            raise LearningError(
                "reconstruction attacks one upload, and knows bit-flipping and gaussian with an epsilon of their own; "
                "write one of them without a budget, or privacy: none"
            )
        return Reconstruction
    if privacy is not None:
        raise LearningError(f"{learning.algorithm} studies a codec and protects nothing; write privacy: none")
    from fl.algorithms.codec_studies import BitDistance, FlipMoments

    return FlipMoments if isinstance(learning, FlipMomentsConfig) else BitDistance
