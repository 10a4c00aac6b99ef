"""The game that a scenario's scheme is audited by."""

from __future__ import annotations

from fl.audit.attackers import nobody_honest
from fl.audit.games.game import Game, Listener
from fl.config import FedAvgConfig, FixedPointConfig, FlmcConfig, LearningConfig, ReconstructionConfig
from fl.config.scheme import AggregatorConfig
from fl.tasks.base import LearningError
from phy.config import LinkConfig
from privacy import PrivacyConfig
from privacy.config import (
    AmplitudeBudget,
    AnyPrivacyConfig,
    BitFlippingBudget,
    BitFlippingConfig,
    SchemeBudget,
    UploadPrivacy,
)


def played_learning(learning: LearningConfig) -> LearningConfig:
    """What rounds are played of: an attack on single uploads is about one round of federated averaging."""
    return learning.one_round if isinstance(learning, ReconstructionConfig) else learning


def why_not(learning: LearningConfig, privacy: AnyPrivacyConfig | None) -> str | None:
    """Why there is no game to play against it, None where there is."""
    played = played_learning(learning)
    if isinstance(played, FlmcConfig | FedAvgConfig) and nobody_honest(played.attack, num_devices=played.num_devices):
        return f"all {played.num_devices} devices attack, and an audit plays against an honest one"
    if isinstance(played, FlmcConfig):
        return None if played.uses_radio else f"scheme {played.scheme} sends nothing over a radio"
    if not isinstance(played, FedAvgConfig):
        return f"algorithm {played.algorithm} studies bits, and no device's data are uploaded"
    if isinstance(privacy, BitFlippingConfig | BitFlippingBudget) and not isinstance(played.codec, FixedPointConfig):
        return f"bit flipping is audited on the fixed-point code, and codec is {played.codec.name}"
    return None


def build_game(
    learning: LearningConfig,
    *,
    link: LinkConfig,
    privacy: AnyPrivacyConfig | None,
    seed: int,
    num_games: int,
    rounds: int = 1,
    listener: Listener = "server",
) -> Game:
    """The game of one point; batches are as large as `num_games` asks for.

    `link` names access and modulation explicitly. A budget for the run is turned into what rounds release first. Raises
    LearningError where there is nothing to play against, PrivacyError for a budget that holds nothing, and as the
    scheme's own parts do.
    """
    problem = why_not(learning, privacy)
    if problem is not None:
        raise LearningError(f"{problem}, so there is nothing to audit; choose a scheme that uploads")
    # Loaded when something is played: why_not answers without TensorFlow.
    from fl.accounting.budget_found import settled
    from fl.audit.games.flmc_game import FlmcGame
    from fl.audit.games.mechanism_games import MechanismGame
    from fl.audit.games.scheme_games import SchemeGame

    played = played_learning(learning)
    bound = privacy if isinstance(privacy, PrivacyConfig | AmplitudeBudget) else None
    if isinstance(played, FlmcConfig):
        return FlmcGame(played, link=link, privacy=bound, seed=seed, rounds=rounds, num_games=num_games)
    assert isinstance(played, FedAvgConfig)
    if privacy is None or isinstance(privacy, PrivacyConfig | AmplitudeBudget):
        protects = None
    else:
        protects = privacy
        _check_sent(played, link=link.resolve_digital(), privacy=privacy, rounds=rounds)
    played = settled(played, link=link.resolve_digital(), privacy=protects)
    if not isinstance(played.aggregation, AggregatorConfig):
        budget = protects.budget if isinstance(protects, SchemeBudget) else None
        return SchemeGame(
            played, link=link, budget=budget, seed=seed, rounds=rounds, num_games=num_games, listener=listener
        )
    return MechanismGame(played, link=link, privacy=protects, seed=seed, rounds=rounds, num_games=num_games)


def _check_sent(config: FedAvgConfig, *, link: LinkConfig, privacy: UploadPrivacy, rounds: int) -> None:
    """Raise LearningError for a game of more rounds than a budget that only watches lets a device send in."""
    if privacy.budget is None or privacy.budget.calibrate:
        return
    from fl.accounting.budget_uploads import rounds_within

    most = rounds_within(config, link=link, privacy=privacy)
    if most is not None and most < rounds:
        raise LearningError(
            f"the budget of epsilon {privacy.budget.epsilon:g} lets a device send in {most} rounds, and a game of "
            f"{rounds} was asked for; play fewer rounds, or raise the budget"
        )
