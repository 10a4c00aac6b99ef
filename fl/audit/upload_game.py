"""The game of a scenario, and the one against uploads, with encoder, protection and transport of learning."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.upload import upload_plan
from fl.algorithms.learning import LearningConfig
from fl.audit.game import beside_attackers, draw_worlds, weakest_rounds
from fl.base.arrays import F32, Bools
from fl.base.errors import LearningError
from fl.base.words import plural
from fl.models.federated import Piece
from fl.schemes.coders.coder import Encoder
from fl.schemes.coders.law import Law, LearntLaw, Places, ReceivedGames
from fl.schemes.scheme import Scheme
from fl.uplink.budgets import rounds_within
from fl.uplink.build import build_response
from fl.uplink.channel_credit import errors_together
from fl.uplink.protection import Protection
from fl.uplink.senders import exchangeable
from fl.uplink.transport import BitTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from privacy.audit.attack import Game, GameBatch, GameFacts
from privacy.config import BudgetConfig, Mechanism, ReceiverNoise
from privacy.events.claims import Claim

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

_ROWS = 1024
_BITS_AT_ONCE = 1 << 22
_LEAST_BITS = 64


class UploadGame:
    """Games over `link`, which names its access and modulation."""

    def __init__(
        self,
        law: Law,
        *,
        coder: Callable[[int], Encoder],
        upload_bits: Callable[[int], int],
        protection: Protection,
        link: LinkConfig,
        num_devices: int,
        num_games: int,
        seed: int,
        rounds: int,
        num_rounds: int,
        budget: BudgetConfig | None = None,
        beside: str = "",
    ) -> None:
        places = self.places = lay_out(
            law, link=link, num_devices=num_devices, num_games=num_games, block_bits=protection.block_bits
        )
        self.law_known, self.gaussian = law.known, law.gaussian
        self._law, self._seed = law, seed
        self._budget, self._num_rounds = budget, num_rounds
        self._played, when = weakest_rounds(law.released(num_rounds), count=rounds)
        worlds, when = law.worlds + beside, when + law.note
        self.facts = GameFacts(scope=law.scope, unit=law.unit, worlds=worlds, rounds=rounds, when=when)
        self._coder = coder(places.num_values)
        self._begin_with = copy.deepcopy(self._coder.state())
        self._transport = BitTransport(
            link, protection=protection, num_devices=places.num_rows, num_bits=upload_bits(places.num_values)
        )

    def play(self, number: int) -> GameBatch:
        places = self.places
        worlds = draw_worlds(self._seed, number, places.count).reshape(len(places.audited), len(places.places))
        self._coder.restore(copy.deepcopy(self._begin_with))
        total, seen = np.zeros(places.count), []
        for index in self._played:
            context = UplinkContext(seed=self._seed, trials=(number,), round_index=index)
            score, observed = self._law.score(self._send(worlds, context))
            total += score
            seen.append(observed)
        return GameBatch(
            alternative=worlds.ravel(), score=total, observed=np.concatenate(seen, axis=1).astype(np.float32)
        )

    def _send(self, worlds: Bools, context: UplinkContext) -> ReceivedGames:
        devices = np.arange(self.places.num_rows)
        plan = self._transport.begin(context)
        flip_rate = np.asarray(plan.observed.get("probed_low", np.zeros(len(devices))))
        self._coder.begin(context, devices=devices, flip_rate=flip_rate)
        payload = self._coder.encode(self._numbers(worlds, context), devices=devices, context=context)
        received, reception = self._transport.send(payload, plan=plan, context=context)
        bits = np.unpackbits(received[0], axis=1, count=self._transport.num_bits)
        signs = 2 * bits.astype(np.int8) - 1
        known = self._transport.known(reception, bits_per_value=1)
        if known is not None:
            signs *= known
        own = self._of_games(signs)
        return ReceivedGames(bits=own, payload=received[0], places=self.places, coder=self._coder, context=context)

    def _numbers(self, worlds: Bools, context: UplinkContext) -> F32:
        """Numbers `[K, num_values]` of `worlds` `[rows, games]`; zeros elsewhere."""
        places, law = self.places, self._law
        null, alternative = law.ends(context.round_index, devices=places.audited)
        out = np.zeros((places.num_rows, places.num_values), np.float32)
        numbers = np.where(worlds, alternative, null)
        if law.upload is not None:
            out[places.audited] = numbers
            return out
        for offset in range(law.block):
            out[np.ix_(places.audited, places.places + offset)] = numbers
        return out

    def _of_games(self, signs: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the bits `[games, bits]` that belong to each game, of bits `[K, num_bits]`."""
        places, law = self.places, self._law
        rows = signs[places.audited]
        if law.upload is not None:
            return rows
        num_blocks = -(-places.num_values // law.block)
        per_block = self._transport.num_bits // (num_blocks * law.responses)
        cells = rows.reshape(len(rows), law.responses, num_blocks, per_block)[:, :, places.places // law.block]
        return np.ascontiguousarray(cells.transpose(0, 2, 1, 3)).reshape(places.count, law.responses * per_block)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        return self._law.claims(delta, played=self._played, num_rounds=self._num_rounds, budget=self._budget)


def scheme_game(scheme: Scheme, *, num_values: int | None, link: LinkConfig, **run: Any) -> UploadGame:
    """Return the game against a scheme with bits of its own; `run` holds the other arguments of `UploadGame`."""
    law = scheme.law(num_values=num_values) or LearntLaw(
        epsilon=scheme.own_epsilon, per_number=scheme.epsilon_per == "number", upload=min(num_values or 16, 16)
    )

    def coder(count: int) -> Encoder:
        return scheme.build(pieces=(Piece(name="audited", shape=(count,), offset=0),))

    return UploadGame(
        law,
        coder=law.coder or coder,
        upload_bits=scheme.upload_bits,
        protection=build_response(scheme, link=link),
        link=link.resolve_digital(),
        **run,
    )


def lay_out(law: Law, *, link: LinkConfig, num_devices: int, num_games: int, block_bits: int) -> Places:
    """Return the places of as many games as fit a batch, up to `num_games`.

    Where all devices' channels have one law, there are as many rows as are worth their time, else the K devices of the
    link. `block_bits`: bits of a cipher's block.
    """
    together, spacing = max(errors_together(link), block_bits), law.spacing
    rows = min(_ROWS, num_games) if exchangeable(link) else num_devices
    users = link.noma.group_size if link.access == "noma" else 1
    audited, one = np.arange(0, rows, users), np.arange(1)
    if law.upload is not None:
        return Places(num_rows=rows, num_values=law.upload, places=one, audited=audited)
    if together > 1:
        num_values = max(spacing, -(-_LEAST_BITS // law.bits_per_value))
        return Places(num_rows=rows, num_values=num_values, places=one, audited=audited)
    fit = max(_BITS_AT_ONCE // (rows * law.bits_per_value * spacing), 1)
    num_values = min(-(-num_games // len(audited)), fit) * spacing
    return Places(num_rows=rows, num_values=num_values, places=np.arange(0, num_values, spacing), audited=audited)


def build_game(
    learning: LearningConfig,
    *,
    link: LinkConfig,
    privacy: Mechanism | None,
    seed: int,
    num_games: int,
    rounds: int = 1,
) -> Game:
    """Return the game of one sweep point; batches are as large as `num_games` asks for.

    `link` names access and modulation explicitly. Raises LearningError where there is nothing to play against,
    PrivacyError for a budget that holds nothing.
    """
    problem = learning.why_not_audited(privacy, link=link)
    if problem is not None:
        raise LearningError(f"{problem}, so there is nothing to audit", "choose a scheme that uploads")
    played: Any = learning.played
    run: dict[str, Any] = {"seed": seed, "rounds": rounds, "num_games": num_games}
    if played.upload_scheme is None:
        from fl.audit.flmc_game import FlmcGame

        bound = None if privacy is None else privacy.for_amplitudes
        return FlmcGame(played.settled(link=link, privacy=privacy), link=link, privacy=bound, **run)
    if isinstance(privacy, ReceiverNoise):
        from fl.audit.sum_game import SumGame

        return SumGame(played.settled(link=link, privacy=privacy), link=link, privacy=privacy, **run)
    protects: Any = None if privacy is None or privacy.for_amplitudes is not None else privacy
    return _upload_game(played, link=link, privacy=protects, **run)


def _upload_game(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None, rounds: int, **run: Any) -> Game:
    on_air, budget = link.resolve_digital(), None if privacy is None else privacy.budget
    if privacy is not None and budget is not None and not privacy.calibrated:
        most = rounds_within(upload_plan(config), link=on_air, privacy=privacy)
        if most is not None and most < rounds:
            raise LearningError(
                f"the budget of epsilon {budget.epsilon:g} lets a device send in {plural(most, 'round')}, and a "
                f"game of {rounds} was asked for",
                "play fewer rounds, or raise the budget",
            )
    config = config.settled(link=on_air, privacy=privacy)
    beside = beside_attackers(config.attack, num_devices=config.num_devices)
    run |= {"rounds": rounds, "num_rounds": config.rounds, "num_devices": config.num_devices}
    run |= {"budget": budget, "beside": beside}
    if not config.aggregation.uses_codec:
        return scheme_game(config.aggregation, num_values=config.num_values(), link=link, **run)
    # Loaded when a codec is played: it takes a model and its data.
    from fl.audit.mechanism_laws import codec_law

    law = codec_law(config, link=link, privacy=privacy, seed=run["seed"], rounds=rounds)
    assert law.coder is not None
    return UploadGame(
        law, coder=law.coder, upload_bits=config.upload_bits, protection=law.protection, link=on_air, **run
    )
