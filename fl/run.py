"""One door to every learning algorithm: trials of one scenario point in, one result per trial out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fl.checkpoints import NO_CHECKPOINTS, Checkpoints
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

Learning = FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig | ReconstructionConfig


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

    `on_round` hears how many rounds are done. `checkpoints` of these trials keep how far they have come; trials that
    run one after the other are handed in one at a time, or without. A budget for the run is turned into what rounds may
    release first. Raises LearningError for a mechanism that the algorithm does not know, and PrivacyError for a budget
    that holds nothing.
    """
    from fl.accounting.budget_found import settled
    from fl.accounting.ledgers import accounts_of
    from fl.uplink.exchange import digital_link

    if isinstance(privacy, SchemeBudget):
        learning = settled(learning, link=digital_link(link), privacy=privacy)
    results = _run(
        learning, link=link, privacy=privacy, seed=seed, trials=trials, on_round=on_round, checkpoints=checkpoints
    )
    accounts = accounts_of(learning, link=link, privacy=privacy, results=results)
    return [replace(one, account=account) for one, account in zip(results, accounts, strict=True)]


def _run(
    learning: Learning,
    *,
    link: LinkConfig,
    privacy: AnyPrivacyConfig | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None],
    checkpoints: Checkpoints,
) -> list[TrialResult]:
    # Imported where needed: an algorithm's libraries take seconds to load.
    if isinstance(learning, FlmcConfig):
        from fl.algorithms.flmc_trials import run_trials as run_flmc

        if privacy is not None and not isinstance(privacy, PrivacyConfig | AmplitudeBudget):
            raise LearningError(f"flmc knows the bound of an amplitude only, not mechanism {privacy.mechanism}")
        return run_flmc(
            learning, link=link, privacy=privacy, seed=seed, trials=trials, on_round=on_round, checkpoints=checkpoints
        )
    if isinstance(learning, FedAvgConfig):
        from fl.algorithms.fedavg_trials import run_fedavg

        if isinstance(privacy, PrivacyConfig | AmplitudeBudget):
            raise LearningError("fedavg needs a mechanism, bit-flipping or gaussian; epsilon alone bounds an amplitude")
        return run_fedavg(
            learning, link=link, privacy=privacy, seed=seed, trials=trials, on_round=on_round, checkpoints=checkpoints
        )
    if isinstance(learning, ReconstructionConfig):
        from fl.attacks.reconstruction import run_reconstruction

        if privacy is not None and not isinstance(privacy, BitFlippingConfig | GaussianConfig):
            raise LearningError(
                "reconstruction attacks one upload, and knows bit-flipping and gaussian with an epsilon of their own; "
                "write one of them without a budget, or privacy: none"
            )
        return run_reconstruction(
            learning, link=link, privacy=privacy, seed=seed, trials=trials, on_round=on_round, checkpoints=checkpoints
        )
    if privacy is not None:
        raise LearningError(f"{learning.algorithm} studies a codec and protects nothing; write privacy: none")
    if isinstance(learning, FlipMomentsConfig):
        from fl.algorithms.codec_studies import run_flip_moments

        return run_flip_moments(learning, link=link, seed=seed, trials=trials, on_round=on_round)
    from fl.algorithms.codec_studies import run_bit_distance

    return run_bit_distance(learning, seed=seed, trials=trials, on_round=on_round)
