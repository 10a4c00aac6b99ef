"""One-bit schemes and their rivals under attack: the numbers of one device that are farthest apart, told by their bits.

What a number may be sent as has two ends; a game sends one of them, through the scheme's own `encode`, its randomized
response and the link, and `fl.audit.laws` scores what arrived, round by round. Laplace and JoPEQ scale every tensor by
its own mean and spread: only every 16th number is a game, so that it lies beyond three standard deviations and is
clipped to the end of its range.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.audit.attackers import beside_attackers
from fl.audit.claims.claims import accounted, claim, nothing_promised, of_the_budget
from fl.audit.claims.mechanism_claims import CREDITED
from fl.audit.games.game import Batch, Listener, draw_worlds
from fl.audit.games.probit_game import smallest_bound, steady_probit, told_bound
from fl.audit.laws import CpaLaw, Heard, Law, OutsiderLaw, SignLaw, ValueLaw
from fl.audit.rounds import weakest_rounds
from fl.audit.uploads import batch_context, empty_model, lay_out
from fl.config import FedAvgConfig
from fl.config.scheme import (
    AggregatorConfig,
    CpaScheme,
    JopeqScheme,
    LaplaceScheme,
    MvuScheme,
    ProbitScheme,
    SignScheme,
)
from fl.footprint.fedavg import dimension
from fl.models.federated import FederatedModel
from fl.schemes.build import build_response, build_rounds
from fl.schemes.probit.probit_bound import privacy_loss
from fl.schemes.rounds import SchemeRounds
from fl.schemes.values.build_values import build_baseline
from fl.schemes.values.jopeq import JopeqCode
from fl.schemes.values.laplace import LaplaceCode
from fl.schemes.values.mvu import MvuCode
from fl.tasks.base import LearningError
from fl.uplink.protection import RoundPlan, flipped
from fl.uplink.transport import BitTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from privacy.config import BudgetConfig
from privacy.events.claims import Claim, Scope
from privacy.events.events import Spending, Unit
from privacy.events.noise_events import PureEpsilon

_FAR = 1e3
_BEYOND_THREE_SIGMA = 16
_UNCLIPPED_SPACING = 64
_MOST_ENTRIES = 4096

OwnBits = CpaScheme | ProbitScheme | SignScheme | LaplaceScheme | JopeqScheme | MvuScheme


class SchemeGame:
    """A `fl.audit.games.game.Game` of every scheme with bits of its own."""

    unit: Unit = "device"
    gaussian = False

    def __init__(
        self,
        config: FedAvgConfig,
        *,
        link: LinkConfig,
        budget: BudgetConfig | None = None,
        seed: int,
        rounds: int,
        num_games: int,
        listener: Listener,
    ) -> None:
        scheme = config.aggregation
        if isinstance(scheme, AggregatorConfig):
            raise LearningError(f"{scheme.name} goes through a codec and has no bits of its own to audit")
        if listener == "outsider" and not (isinstance(scheme, CpaScheme) and rounds >= 2):
            raise LearningError(
                f"an outsider without the seed was asked of {scheme.name} over {rounds} rounds; only the codebook of "
                "cpa hides behind a seed, and it takes 2 rounds to see one used again"
            )
        self.rounds, self._seed, self._listener = rounds, seed, listener
        self._budget, self._num_rounds = budget, config.rounds
        self._played = weakest_rounds(np.zeros(config.rounds), count=rounds)
        self.when = self._played.told()
        self._scheme_config: OwnBits = scheme
        on_air = link.resolve_digital()
        self._size = dimension(config)
        bits, spacing, upload = _shape(scheme, size=self._size)
        self._places = lay_out(
            on_air,
            num_devices=config.num_devices,
            bits_per_value=bits,
            num_games=num_games,
            spacing=spacing,
            whole_upload=upload,
        )
        self._upload = upload
        # A lattice's block is one game, whatever its length; so is the upload of a scheme that protects it whole.
        self._block = 2 if getattr(scheme, "dimension", 1) == 2 else 1
        model = empty_model(self._places.num_values)
        if isinstance(scheme, ProbitScheme):
            self._scheme: SchemeRounds = steady_probit(scheme, num_values=model.num_parameters, size=self._size)
            self.when = f"{self.when}, {told_bound(scheme, size=self._size)}"
        else:
            self._scheme = build_rounds(config, model=model)
        self._transport = BitTransport(
            on_air,
            protection=build_response(config, scheme=self._scheme, link=link),
            num_devices=self._places.num_rows,
            num_bits=self._scheme.num_bits,
        )
        self._ends = _ends(scheme)
        self._law = self._law_of(model)
        self.law_known = not (getattr(scheme, "dimension", 1) == 2 and not isinstance(scheme, CpaScheme))
        self.scope: Scope = "coordinate" if upload is None else "round"
        what = "the whole upload" if upload is not None else "one number" if self._block == 1 else "one block of 2"
        self.worlds = f"{what} of one device at either end of its range"
        if listener == "outsider":
            self.worlds = f"{what} of one device the same in every round, or at the other end in every other round"
        self.worlds += beside_attackers(config.attack, num_devices=config.num_devices, superposes=False)

    def _law_of(self, model: FederatedModel) -> Law:
        scheme = self._scheme_config
        if self._listener == "outsider":
            return OutsiderLaw()
        if isinstance(scheme, CpaScheme):
            return CpaLaw(scheme, num_values=model.num_parameters, ends=self._ends)
        if isinstance(scheme, ProbitScheme | SignScheme):
            return SignLaw()
        code = build_baseline(scheme, pieces=model.pieces).code
        assert isinstance(code, MvuCode | LaplaceCode | JopeqCode)
        unclipped = getattr(scheme, "as_coded", False)
        return ValueLaw(
            code, num_values=model.num_parameters, far=_scaled_end(_UNCLIPPED_SPACING) if unclipped else 1.0
        )

    def play(self, number: int) -> Batch:
        """See `Game.play`."""
        places = self._places
        worlds = draw_worlds(self._seed, number, places.count).reshape(len(places.audited), len(places.places))
        total, seen = np.zeros(places.count), []
        for index in self._played.indices:
            context = batch_context(self._seed, number=number, round_index=index)
            heard, payload = self._carry(worlds, context)
            score, observed = self._law.score(heard, places=places, context=context, payload=payload)
            total += score
            seen.append(observed)
        return Batch(alternative=worlds.ravel(), score=total, observed=np.concatenate(seen, axis=1).astype(np.float32))

    def _carry(self, worlds: NDArray[np.bool_], context: UplinkContext) -> tuple[Heard, NDArray[np.uint8]]:
        """What of the games' bits arrived, and the whole payload as received."""
        devices = np.arange(self._places.num_rows)
        null, other = self._ends
        if self._listener == "outsider":
            other = null if context.round_index % 2 == 0 else other
        plan = self._transport.begin(context)
        self._scheme.begin(context, credited=np.asarray(plan.observed.get("probed_low", np.zeros(len(devices)))))
        payload = self._scheme.encode(self._numbers(worlds, null, other), devices=devices, context=context)
        received, reception = self._transport.send(payload, plan=plan, context=context)
        if self._listener == "seed-leaked":
            received = _unflipped(received, plan=plan, context=context)
        bits = np.unpackbits(received[0], axis=1, count=self._scheme.num_bits)
        signs = 2 * bits.astype(np.int8) - 1
        known = self._transport.known(reception, bits_per_value=1)
        if known is not None:
            signs *= known
        return self._of_games(signs), received

    def _numbers(self, worlds: NDArray[np.bool_], null: float, other: float) -> NDArray[np.float32]:
        places = self._places
        if self._upload is not None:
            wide = np.repeat(np.where(worlds, other, null), places.num_values, axis=1)
            out = np.zeros((places.num_rows, places.num_values), np.float32)
            out[places.audited] = wide
            return out
        numbers = places.spread(worlds, null=null, alternative=other)
        if self._block == 2:
            numbers[:, places.places + 1] = numbers[:, places.places]
        return numbers

    def _of_games(self, signs: NDArray[np.int8]) -> Heard:
        """Bits that speak of each game, `[games, bits]`."""
        places = self._places
        rows = signs[places.audited]
        if self._upload is not None:
            return rows
        scheme = self._scheme_config
        stages = scheme.stages if isinstance(scheme, CpaScheme) else 1
        num_blocks = -(-places.num_values // self._block)
        per_block = self._scheme.num_bits // (num_blocks * stages)
        cells = rows.reshape(len(rows), stages, num_blocks, per_block)[:, :, places.places // self._block]
        return np.ascontiguousarray(cells.transpose(0, 2, 1, 3)).reshape(places.count, stages * per_block)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """See `Game.claims`."""
        scheme = self._scheme_config
        if self._listener == "outsider":
            return (
                claim(
                    0.0,
                    delta=0.0,
                    accountant="exact",
                    standing="proved",
                    scope="coordinate",
                    unit=self.unit,
                    source="a fresh codeword is a one-time pad",
                    assumptions=("the shared seed is secret and every round draws codewords anew",),
                ),
            )
        if scheme.epsilon is None:
            return (nothing_promised(scope=self.scope, unit=self.unit),)
        unclipped = getattr(scheme, "as_coded", False)
        stages = scheme.stages if isinstance(scheme, CpaScheme) else 1
        credited = isinstance(scheme, CpaScheme | SignScheme | ProbitScheme) and scheme.channel == "native"
        assumptions = CREDITED if credited else _BESIDE if isinstance(scheme, LaplaceScheme | JopeqScheme) else ()
        told: dict[str, Any] = {"unit": self.unit, "assumptions": assumptions, "channel_credited": credited}
        common: dict[str, Any] = {"scope": self.scope, **told}
        published = unclipped or not isinstance(scheme, _PROVED)
        found = [
            claim(
                self.rounds * stages * scheme.epsilon,
                delta=0.0,
                accountant="basic" if self.rounds * stages > 1 else "paper",
                standing="as published" if published else "proved",
                source=_SOURCES[scheme.name],
                **common,
            )
        ]
        if self._budget is not None:
            found.append(of_the_budget(self._budget, num_rounds=self._num_rounds, **told))
        exact = scheme.epsilon if not published else _exact(scheme, size=self._size)
        if exact is not None and (published or delta > 0.0):
            source = "worst case in closed form" if published else "the worst of such responses"
            spent = (Spending(event=PureEpsilon(epsilon=exact), count=self.rounds * stages),)
            found.append(accounted(spent, delta=delta, source=source, **common))
        return tuple(found)


_PROVED = (CpaScheme, SignScheme, MvuScheme, LaplaceScheme)

_BESIDE = ("mean and spread of every tensor, sent beside, tell nothing",)

_SOURCES = {
    "cpa": "Lang et al. 2023, randomized response",
    "sign": "Warner 1965, randomized response",
    "mvu": "the private table's own bound",
    "probit": "Lan et al., Theorem 2",
    "laplace": "Laplace noise 2 / eps",
    "jopeq": "Lang, Sofer, Shaked and Shlezinger 2023",
}


def _unflipped(received: NDArray[np.uint8], *, plan: RoundPlan, context: UplinkContext) -> NDArray[np.uint8]:
    """The payload with the devices' own flips taken back, by whoever has their seed."""
    if plan.flip_probability is None:
        return received
    return received ^ flipped(np.zeros_like(received), plan=plan, context=context)


def _shape(scheme: object, *, size: int | None) -> tuple[int, int, int | None]:
    """Bits per number (at most), numbers from game to game, and numbers of an upload that is one game as a whole.

    `size`: of the model, where its layers tell.
    """
    if isinstance(scheme, ProbitScheme):
        if scheme.l1_clip is None:
            return 1, 1, None
        largest = min(scheme.clip or scheme.l1_clip, scheme.l1_clip)
        return 1, 1, min(int(scheme.l1_clip / largest * (1.0 + 1e-12)), _MOST_ENTRIES, size or _MOST_ENTRIES)
    block = 2 if getattr(scheme, "dimension", 1) == 2 else 1
    if isinstance(scheme, CpaScheme):
        return scheme.stages, block, None
    if isinstance(scheme, SignScheme):
        return 1, 1, None
    if isinstance(scheme, MvuScheme):
        return scheme.output_bits, 1, None
    return 32, _UNCLIPPED_SPACING if getattr(scheme, "as_coded", False) else _BEYOND_THREE_SIGMA * block, None


def _ends(scheme: object) -> tuple[float, float]:
    """Numbers of the null and the alternative, beyond whatever clips them."""
    far = scheme.l1_clip if isinstance(scheme, ProbitScheme) and scheme.l1_clip is not None else _FAR
    return -far, far


def _scaled_end(spacing: int) -> float:
    """|x| of a number among `spacing` - 1 zeros, with signs that balance: sqrt(spacing) / 3."""
    return math.sqrt(spacing) / 3.0


def _exact(scheme: object, *, size: int | None) -> float | None:
    """The epsilon that is proved where it is another than the published one; of PRoBit for uploads of `size`."""
    if isinstance(scheme, ProbitScheme) and scheme.l1_clip is not None:
        least = smallest_bound(scheme, size=size)
        return privacy_loss(least, l1_clip=scheme.l1_clip, clip=scheme.clip, num_values=size)
    if getattr(scheme, "as_coded", False):
        return None
    if isinstance(scheme, JopeqScheme):
        code = JopeqCode(epsilon=scheme.epsilon, rate_bits=scheme.rate_bits, dimension=scheme.dimension)
        return code.sure_epsilon
    return None
