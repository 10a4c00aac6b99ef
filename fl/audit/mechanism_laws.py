"""Laws of numbers through a codec: bit flipping, the Gaussian mechanism, and no privacy at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fl.algorithms.fedavg.federation import Federation
from fl.algorithms.fedavg.upload import training_of, upload_plan
from fl.base.arrays import F32, F64, I64, U8
from fl.base.words import plural
from fl.schemes.codecs.codec import Codec
from fl.schemes.coders.coder import Encoder
from fl.schemes.coders.law import CREDITED, Law, ReceivedGames, Scores
from fl.uplink.budgets import upload_parameters
from fl.uplink.protection import Protection
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose
from privacy.accounting.flipped_bits import epsilon_from_renyi
from privacy.audit.promises import accounted, claim, of_the_budget
from privacy.config import BudgetConfig, Mechanism
from privacy.config.gaussian import one_step
from privacy.events.claims import Claim, Scope
from privacy.events.events import Spending
from privacy.events.kinds import event_of
from privacy.events.published import WEIGHED_BITS

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

_WIDEST = 8.0
"""Standard deviations beyond which a received number is not noise of the mechanism."""

_LEAST_RATE = 1e-9


@dataclass(frozen=True, kw_only=True)
class CodecEncoder(Encoder):
    """Numbers through the codec, with the noise of the protection before it; row k is device k modulo `num_devices`."""

    codec: Codec
    protection: Protection
    num_devices: int

    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        noisy = self.protection.perturb(updates, devices=devices % self.num_devices, context=context)
        return self.codec.encode(noisy[None], keys=context.keys(Purpose.ROUNDING)).payload


@dataclass(frozen=True, kw_only=True)
class CodecLaw(Law):
    """Numbers without privacy: 0, or a number that the codec holds; any difference shows.

    `apart` `[num_devices]` or `[1]`: the alternative's number; `parameters` `[num_rounds]`: noise multiplier or rate of
    wrong bits, as ledgers have them; `privacy`, `facts`: the mechanism, and what it reports of the run.
    """

    config: FedAvgConfig
    protection: Protection
    apart: F64
    parameters: F64
    privacy: Any = None
    facts: dict[str, float]
    lasts: Scope

    @property
    def scope(self) -> Scope:
        return self.lasts

    @property
    def worlds(self) -> str:
        return f"one number of one device, 0 or {self.apart[0]:g}"

    def released(self, num_rounds: int) -> F64:
        return -self.parameters

    def ends(self, round_index: int, *, devices: I64) -> tuple[ArrayLike, ArrayLike]:
        return 0.0, self._apart(devices).astype(np.float32)

    def _apart(self, devices: I64) -> F64:
        return self.apart[devices % self.config.num_devices % len(self.apart)][:, None]

    def score(self, received: ReceivedGames) -> Scores:
        places = received.places
        with np.errstate(invalid="ignore"):
            values = self.config.codec.decode(received.payload[None], num_values=places.num_values)[0]
            read = values[places.audited][:, places.places].astype(np.float64)
        ratio = self._ratio(read, received).ravel() * (received.bits != 0).all(axis=1)
        return ratio, ratio[:, None]

    def _spent(self, kind: Any, played: Sequence[int], *, times: int = 1) -> list[Spending]:
        counts = Counter(float(self.parameters[index]) for index in played)
        return [Spending(event=event_of(kind, one, {}), count=n * times) for one, n in counts.items()]

    def _ratio(self, read: F64, received: ReceivedGames) -> F64:
        middle = float(np.max(self._apart(received.places.audited).astype(np.float32))) / 2.0
        finite = np.nan_to_num(read, nan=0.0, posinf=0.0, neginf=0.0)
        return np.asarray(np.clip((finite - middle) / middle, -1.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class GaussianLaw(CodecLaw):
    """The Gaussian mechanism: the whole sensitivity D in one number, as bad as any other direction.

    L = sum over rounds of (y - D/2) D / sigma^2, kept within what noise alone can make of it: a flipped exponent says
    nothing.
    """

    gaussian: bool = True
    worlds: ClassVar[str] = "models of one device that are the sensitivity apart"

    def _ratio(self, read: F64, received: ReceivedGames) -> F64:
        apart = self._apart(received.places.audited)
        sigma = float(self.parameters[received.context.round_index]) * apart
        finite = np.nan_to_num(read, nan=0.0, posinf=0.0, neginf=0.0)
        inside = np.clip(finite, -_WIDEST * sigma, apart + _WIDEST * sigma)
        return np.asarray(np.where(np.isfinite(read), inside - apart / 2.0, 0.0) * apart / sigma**2)

    def claims(
        self, delta: float, *, played: Sequence[int], num_rounds: int, budget: BudgetConfig | None
    ) -> tuple[Claim, ...]:
        """See `Law.claims`; the assumptions are those of the sensitivity, for games are of models that far apart."""
        labels: dict[str, Any] = {"unit": "sample", "assumptions": one_step(training_of(self.config))}
        found = [*of_the_budget(budget, num_rounds=num_rounds, **labels)]
        if budget is None or not budget.calibrate:
            printed = claim(
                epsilon=self.privacy.epsilon,
                delta=self.facts["delta"],
                accountant="paper",
                standing="as published",
                scope="run",
                source=f"asked for, all {plural(num_rounds, 'round')}, Li et al. 2025 (23)",
                **labels,
            )
            found.insert(0, printed)
        spent = self._spent("gaussian", played)
        source = f"Gaussian mechanism, {plural(len(played), 'round')}"
        return (*found, accounted(spent, delta=delta, scope=self.scope, source=source, **labels))


@dataclass(frozen=True, kw_only=True)
class FlippingLaw(CodecLaw):
    """Bit flipping: 0 and one step below it on the grid of fixed-point numbers, 100..0 and 011..1, differ in every bit.

    Of the f bits that arrive, d unlike those of the null: L = (2 d - f) ln((1-p)/p).
    """

    scope: ClassVar[Scope] = "coordinate"
    worlds: ClassVar[str] = "one weight of one device at two neighbouring values that differ in every bit"

    def score(self, received: ReceivedGames) -> Scores:
        bits, context = received.bits, received.context
        payload = self.config.codec.encode(np.zeros((1, 1, 1), np.float32), keys=context.keys(Purpose.ROUNDING)).payload
        null = np.unpackbits(payload[0, 0], count=bits.shape[1])
        arrived = (bits != 0).all(axis=1)
        unlike = ((bits > 0) != null).astype(np.float64)
        rate = max(float(self.parameters[context.round_index]), _LEAST_RATE)
        score = (2.0 * unlike.sum(axis=1) - bits.shape[1]) * (math.log1p(-rate) - math.log(rate)) * arrived
        return score, unlike * arrived[:, None]

    def claims(
        self, delta: float, *, played: Sequence[int], num_rounds: int, budget: BudgetConfig | None
    ) -> tuple[Claim, ...]:
        """See `Law.claims`, over one weight: Theorem 1, of which these rounds have their share, and bit by bit."""
        privacy = self.privacy
        credited = privacy.channel == "native"
        labels: dict[str, Any] = {"unit": "sample", "channel_credited": credited}
        found, assumptions = [], CREDITED if credited else ()
        if budget is None or not budget.calibrate:
            share = privacy.epsilon * len(played) / num_rounds
            proof = {"accountant": "paper", "standing": "as published", "assumptions": (WEIGHED_BITS, *assumptions)}
            theorem = partial(claim, scope="coordinate", **proof, **labels)
            source = f"Li et al. 2025, Theorem 1, {len(played)} of {plural(num_rounds, 'round')}"
            epsilon = epsilon_from_renyi(order=privacy.order, epsilon=share, delta=delta) if delta > 0.0 else math.inf
            found = [
                theorem(epsilon=epsilon, delta=delta, source=f"{source}, from Renyi DP of order {privacy.order:g}"),
                theorem(epsilon=share, delta=0.0, order=privacy.order, source=source),
            ]
        labels["assumptions"] = assumptions
        found += of_the_budget(budget, num_rounds=num_rounds, **labels)
        # A block cipher garbles the bits of a block together: they are no independent responses any more.
        if privacy.cipher != "aes":
            bits = self.config.codec.bits_per_value
            spent = self._spent("flipped-bits", played, times=bits)
            source = f"randomized response of {plural(bits, 'bit')} of one weight"
            found.append(accounted(spent, delta=delta, scope="coordinate", source=source, **labels))
        return tuple(found)


def codec_law(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None, seed: int, rounds: int) -> CodecLaw:
    """Return the law of numbers through the codec, of trial 0. Raises LearningError, PrivacyError as the run does."""
    codec, facts, protection, kind = config.codec, dict[str, float](), Protection(), CodecLaw
    apart, parameter = np.array([0.25 if codec.value_range is None else codec.value_range / 2.0]), 1.0
    if privacy is not None:
        unbound = config.model_copy(update={"convergence_bound": False})  # no round is run
        federation = Federation(unbound, link=link, privacy=privacy, seed=seed, trial=0)
        protection, facts = federation.protection, federation.budget
        fractions, mechanism = codec.as_fractions(), privacy.for_uploads
        if privacy.protects == "numbers" and mechanism is not None:
            sizes = np.asarray(federation.partition.sizes, float)
            kind, apart = GaussianLaw, np.asarray(mechanism.distance(training_of(config), num_samples=sizes))
            parameter = facts.get("sigma", 0.0) / float(apart.max())
        elif privacy.protects == "bits" and fractions is not None:
            kind, apart = FlippingLaw, np.array([-fractions.step])
            parameter = facts.get("target_bit_error_rate", 0.0)
    found = upload_parameters(upload_plan(config), link=link.resolve_digital(), privacy=privacy)
    coder = CodecEncoder(codec=codec, protection=protection, num_devices=config.num_devices)
    return kind(
        epsilon=None,
        unit="sample",
        bits_per_value=codec.bits_per_value,
        coder=lambda _: coder,
        config=config,
        protection=protection,
        apart=apart,
        parameters=np.full(config.rounds, parameter) if found is None else found,
        privacy=privacy,
        facts=facts,
        lasts="run" if rounds == config.rounds else "round",
    )
