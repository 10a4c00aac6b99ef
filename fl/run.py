"""One door to every learning algorithm: trials of one scenario point in, one result per trial out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fl.config import BitDistanceConfig, FedAvgConfig, FlipMomentsConfig, FlmcConfig
from fl.results import TrialResult
from fl.tasks.base import LearningError
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig, GaussianConfig, PrivacyConfig


def run_trials(
    learning: FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig,
    *,
    link: LinkConfig,
    privacy: PrivacyConfig | BitFlippingConfig | GaussianConfig | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
) -> list[TrialResult]:
    """Run the trials; each one's numbers are those it has alone. `on_round` hears that one more round is done.

    Raises LearningError for a mechanism that the algorithm does not know.
    """
    # Imported where needed: an algorithm's libraries take seconds to load.
    if isinstance(learning, FlmcConfig):
        from fl.rounds import run_trials as run_flmc

        if privacy is not None and not isinstance(privacy, PrivacyConfig):
            raise LearningError(f"flmc knows the bound of an amplitude only, not mechanism {privacy.mechanism}")
        return run_flmc(learning, link=link, privacy=privacy, seed=seed, trials=trials, on_round=on_round)
    if isinstance(learning, FedAvgConfig):
        from fl.fedavg_rounds import run_fedavg

        if isinstance(privacy, PrivacyConfig):
            raise LearningError("fedavg needs a mechanism, bit-flipping or gaussian; epsilon alone bounds an amplitude")
        return run_fedavg(learning, link=link, privacy=privacy, seed=seed, trials=trials, on_round=on_round)
    if privacy is not None:
        raise LearningError(f"{learning.algorithm} studies a codec and protects nothing; write privacy: none")
    if isinstance(learning, FlipMomentsConfig):
        from fl.studies import run_flip_moments

        return run_flip_moments(learning, link=link, seed=seed, trials=trials, on_round=on_round)
    from fl.studies import run_bit_distance

    return run_bit_distance(learning, seed=seed, trials=trials, on_round=on_round)
