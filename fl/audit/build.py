"""The game that audits a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl.accounting.fedavg import rounds_within
from fl.audit.game import Game, beside_attackers
from fl.audit.upload_game import UploadGame, scheme_game
from fl.config.learning import LearningConfig
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
) -> Game:
    """Return the game of one sweep point; batches are as large as `num_games` asks for.

    `link` names access and modulation explicitly. Raises LearningError where there is nothing to play against,
    PrivacyError for a budget that holds nothing.
    """
    problem = learning.why_not_audited(privacy)
    if problem is not None:
        raise LearningError(f"{problem}, so there is nothing to audit; choose a scheme that uploads")
    played: Any = learning.played
    run: dict[str, Any] = {"seed": seed, "rounds": rounds, "num_games": num_games}
    if played.upload_scheme is None:
        from fl.audit.flmc_game import FlmcGame

        bound = None if privacy is None else privacy.for_amplitudes
        return FlmcGame(played, link=link, privacy=bound, **run)
    protects: Any = None if privacy is None or privacy.for_amplitudes is not None else privacy
    return _upload_game(played, link=link, privacy=protects, **run)


def _upload_game(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    rounds: int,
    **run: Any,
) -> Game:
    on_air, budget = link.resolve_digital(), None if privacy is None else privacy.budget
    if privacy is not None and budget is not None and not privacy.calibrated:
        most = rounds_within(config, link=on_air, privacy=privacy)
        if most is not None and most < rounds:
            raise LearningError(
                f"the budget of epsilon {budget.epsilon:g} lets a device send in {most} rounds, and a game of "
                f"{rounds} was asked for; play fewer rounds, or raise the budget"
            )
    config = config.settled(link=on_air, privacy=privacy)
    run |= {
        "rounds": rounds,
        "num_rounds": config.rounds,
        "num_devices": config.num_devices,
        "budget": budget,
        "beside": beside_attackers(config.attack, num_devices=config.num_devices, superposes=False),
    }
    if not config.aggregation.uses_codec:
        return scheme_game(config.aggregation, num_values=config.num_values(), link=link, **run)
    # Loaded when a codec is played: it takes a model and its data.
    from fl.audit.mechanism_laws import codec_law

    law = codec_law(config, link=link, privacy=privacy, seed=run["seed"], rounds=rounds)
    assert law.coder is not None
    return UploadGame(
        law, coder=law.coder, upload_bits=config.upload_bits, protection=law.protection, link=on_air, **run
    )
