"""The game that audits a scenario or a scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl.accounting.uploads import rounds_within
from fl.audit.attack import Audited, audit
from fl.audit.game import Game, Listener, beside_attackers
from fl.audit.law import LearntLaw
from fl.audit.upload_game import UploadGame
from fl.config import LearningConfig
from fl.config.scheme import Scheme
from fl.models.federated import Piece
from fl.schemes.coders.coder import Encoder
from fl.tasks.base import LearningError
from fl.uplink.build import build_response
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
    run: dict[str, Any] = {"seed": seed, "rounds": rounds, "num_games": num_games}
    if played.upload_scheme is None:
        from fl.audit.flmc_game import FlmcGame

        bound = None if privacy is None else privacy.for_amplitudes
        return FlmcGame(played, link=link, privacy=bound, **run)
    protects: Any = None if privacy is None or privacy.for_amplitudes is not None else privacy
    return _upload_game(played, link=link, privacy=protects, listener=listener, **run)


def _upload_game(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    rounds: int,
    listener: Listener,
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
        return scheme_game(config.aggregation, num_values=config.num_values(), link=link, listener=listener, **run)
    # Loaded when a codec is played: it takes a model and its data.
    from fl.audit.mechanism_laws import codec_law

    law = codec_law(config, link=link, privacy=privacy, seed=run["seed"], rounds=rounds)
    assert law.coder is not None
    return UploadGame(
        law, coder=law.coder, upload_bits=config.upload_bits, protection=law.protection, link=on_air, **run
    )


def scheme_game(
    scheme: Scheme, *, num_values: int | None, link: LinkConfig, rounds: int, listener: Listener = "server", **run: Any
) -> UploadGame:
    """Return the game against a scheme with bits of its own, in models of `num_values` numbers (None: any).

    `run`: the other arguments of `UploadGame`. Raises LearningError as the scheme does.
    """
    law = scheme.law(num_values=num_values) or LearntLaw(
        epsilon=scheme.own_epsilon, per_number=scheme.epsilon_per == "number", upload=min(num_values or 16, 16)
    )
    if listener == "outsider":
        outside = law.outsider()
        if outside is None or rounds < 2:
            raise LearningError(
                f"an outsider without the seed was asked of {scheme.name} over {rounds} rounds; only the codebook of "
                "cpa hides behind a seed, and it takes 2 rounds to see one used again"
            )
        law = outside

    def coder(count: int) -> Encoder:
        return scheme.build(pieces=(Piece(name="audited", shape=(count,), offset=0),))

    return UploadGame(
        law,
        coder=law.coder or coder,
        upload_bits=scheme.upload_bits,
        protection=build_response(scheme, link=link),
        link=link.resolve_digital(),
        rounds=rounds,
        listener=listener,
        **run,
    )


def audit_scheme(
    scheme: Scheme, *, num_games: int = 4000, rounds: int = 1, confidence: float = 1.0 - 1e-6, seed: int = 1
) -> Audited:
    """Audit a scheme with bits of its own over an error-free link, at delta 0.

    `Audited.refuted` judges each epsilon that the scheme claims. Raises LearningError as the scheme does.
    """
    game = scheme_game(
        scheme,
        num_values=None,
        link=LinkConfig(error_model="error_free"),
        rounds=rounds,
        num_rounds=rounds,
        num_devices=1,
        num_games=num_games,
        seed=seed,
    )
    return audit(game, num_games=num_games, delta=0.0, confidence=confidence)
