"""The game that a scenario's scheme is audited by."""

from __future__ import annotations

from fl.audit.games import Game, Listener
from fl.config import FedAvgConfig, FixedPointConfig, FlmcConfig, LearningConfig
from fl.config.scheme import AggregatorConfig
from fl.tasks.base import LearningError
from phy.config import LinkConfig
from privacy import PrivacyConfig
from privacy.config import AnyPrivacyConfig, BitFlippingConfig, GaussianConfig


def why_not(learning: LearningConfig, privacy: AnyPrivacyConfig | None) -> str | None:
    """Why there is no game to play against it, None where there is."""
    if privacy is not None and not isinstance(privacy, PrivacyConfig | BitFlippingConfig | GaussianConfig):
        return "what a budget of the whole run came to is known after calibration only"
    if isinstance(learning, FlmcConfig):
        return None if learning.uses_radio else f"scheme {learning.scheme} sends nothing over a radio"
    if not isinstance(learning, FedAvgConfig):
        return f"algorithm {learning.algorithm} uploads nothing of a device's data"
    if isinstance(privacy, BitFlippingConfig) and not isinstance(learning.codec, FixedPointConfig):
        return f"bit flipping is audited on the fixed-point code, and codec is {learning.codec.name}"
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

    `link` names access and modulation explicitly. Raises LearningError where there is nothing to play against, and as
    the scheme's own parts do.
    """
    problem = why_not(learning, privacy)
    if problem is not None:
        raise LearningError(
            f"{problem}, so there is nothing to audit; choose a scheme that uploads, with its privacy written out"
        )
    # Loaded when something is played: why_not answers without TensorFlow.
    from fl.audit.flmc import FlmcGame
    from fl.audit.mechanisms import MechanismGame
    from fl.audit.schemes import SchemeGame

    if isinstance(learning, FlmcConfig):
        amplitude = privacy if isinstance(privacy, PrivacyConfig) else None
        return FlmcGame(learning, link=link, privacy=amplitude, seed=seed, rounds=rounds, num_games=num_games)
    assert isinstance(learning, FedAvgConfig)
    if not isinstance(learning.aggregation, AggregatorConfig):
        return SchemeGame(learning, link=link, seed=seed, rounds=rounds, num_games=num_games, listener=listener)
    mechanism = privacy if isinstance(privacy, BitFlippingConfig | GaussianConfig) else None
    return MechanismGame(learning, link=link, privacy=mechanism, seed=seed, rounds=rounds, num_games=num_games)
