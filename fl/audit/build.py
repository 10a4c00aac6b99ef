"""The game that audits a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl.audit.game import Game, Listener
from fl.config import LearningConfig
from fl.tasks.base import LearningError
from phy.config import LinkConfig
from privacy.config import AnyPrivacyConfig, UploadPrivacy

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig


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
    """Return the game of one sweep point; batches are as large as `num_games` asks for.

    `link` names access and modulation explicitly. A budget for the run is turned into what rounds release first. Raises
    LearningError where there is nothing to play against, PrivacyError for a budget that holds nothing, and as the
    scheme's own parts do.
    """
    problem = learning.why_not_audited(privacy)
    if problem is not None:
        raise LearningError(f"{problem}, so there is nothing to audit; choose a scheme that uploads")
    played: Any = learning.played
    if played.upload_scheme is None:
        from fl.audit.flmc_game import FlmcGame

        bound = None if privacy is None else privacy.for_amplitudes
        return FlmcGame(played, link=link, privacy=bound, seed=seed, rounds=rounds, num_games=num_games)
    protects: Any = None if privacy is None or privacy.for_amplitudes is not None else privacy
    return _upload_game(
        played, link=link, privacy=protects, seed=seed, rounds=rounds, num_games=num_games, listener=listener
    )


def _upload_game(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    rounds: int,
    listener: Listener,
    **run: Any,
) -> Game:
    # Loaded when something is played: the configuration of a scheme needs none of it.
    from fl.audit.attackers import beside_attackers
    from fl.audit.mechanism_laws import LAWS, CodecLaw
    from fl.audit.upload_game import UploadGame, scheme_game

    on_air, codec = link.resolve_digital(), config.codec
    if privacy is not None:
        _check_sent(config, link=on_air, privacy=privacy, rounds=rounds)
    config = config.settled(link=on_air, privacy=privacy)
    run |= {
        "rounds": rounds,
        "num_rounds": config.rounds,
        "num_devices": config.num_devices,
        "budget": None if privacy is None else privacy.budget,
        "beside": beside_attackers(config.attack, num_devices=config.num_devices, superposes=False),
    }
    if not config.aggregation.uses_codec:
        return scheme_game(config.aggregation, num_values=config.num_values(), link=link, listener=listener, **run)
    kind = CodecLaw if privacy is None else LAWS.get(privacy.protects, CodecLaw)
    law = kind.of(config, link=link, privacy=privacy, seed=run["seed"], rounds=rounds)
    assert law.coder is not None
    return UploadGame(
        law,
        coder=law.coder,
        upload_bits=lambda count: count * codec.bits_per_value,
        protection=law.protection,
        link=on_air,
        **run,
    )


def _check_sent(config: FedAvgConfig, *, link: LinkConfig, privacy: UploadPrivacy, rounds: int) -> None:
    """Raise LearningError for a game of more rounds than a budget that only watches lets a device send in."""
    if privacy.budget is None or privacy.calibrated:
        return
    from fl.accounting.uploads import rounds_within

    most = rounds_within(config, link=link, privacy=privacy)
    if most is not None and most < rounds:
        raise LearningError(
            f"the budget of epsilon {privacy.budget.epsilon:g} lets a device send in {most} rounds, and a game of "
            f"{rounds} was asked for; play fewer rounds, or raise the budget"
        )
