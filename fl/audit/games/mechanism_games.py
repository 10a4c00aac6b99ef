"""Numbers through a codec under attack: bit flipping, the Gaussian mechanism, and no privacy at all.

- Bit flipping: two neighbouring weights on the grid of the fixed-point code, 0 and one step below it, differ in every
  bit (100..0 and 011..1). Of the f bits that arrive, d unlike those of the null: L = (2 d - f) ln((1-p)/p).
- Gaussian: the whole sensitivity D in one number, which is as bad as any other direction: L = sum (y - D/2) D / sigma^2
  over rounds, kept within what noise alone can make of it, for a flipped exponent tells nothing.
- Without a mechanism any difference shows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_found import upload_parameters
from fl.accounting.ledger_fedavg import one_step
from fl.algorithms.fedavg import Federation
from fl.audit.attackers import beside_attackers
from fl.audit.claims.claims import nothing_promised
from fl.audit.claims.mechanism_claims import flipping_claims, gaussian_claims
from fl.audit.games.game import Batch, draw_worlds
from fl.audit.rounds import weakest_rounds
from fl.audit.uploads import batch_context, lay_out
from fl.codecs import Codec, build_codec
from fl.config import Binary32Config, FedAvgConfig, FixedPointConfig
from fl.uplink.protection import NoProtection, Protection
from fl.uplink.transport import BitTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig, UploadPrivacy
from privacy.events.claims import Claim, Scope
from privacy.events.events import Unit
from privacy.mechanisms.gaussian_mechanism import sensitivity

_WIDEST = 8.0
"""Standard deviations beyond which a received number is no noise of the mechanism's."""

_LEAST_RATE = 1e-9


class MechanismGame:
    """A `game.Game` of numbers that go through a codec. The protection is that of trial 0, data and all."""

    unit: Unit = "sample"

    def __init__(
        self,
        config: FedAvgConfig,
        *,
        link: LinkConfig,
        privacy: UploadPrivacy | None,
        seed: int,
        rounds: int,
        num_games: int,
    ) -> None:
        self.rounds, self._config, self._privacy, self._seed = rounds, config, privacy, seed
        self._budget: dict[str, float] = {}
        self._protection: Protection = NoProtection()
        self._distance = np.array([_difference(config)])
        # Of every round of the run, as ledgers have it: rate of wrong bits, or noise multiplier.
        self._parameter = np.ones(config.rounds)
        if privacy is not None:
            unbound = config.model_copy(update={"convergence_bound": False})  # no round is run
            federation = Federation(unbound, link=link, privacy=privacy, seed=seed, trial=0)
            self._protection, self._budget = federation.protection, federation.budget
            if isinstance(privacy, GaussianConfig | GaussianBudget):
                self._distance = _sensitivity(config, privacy, sizes=np.asarray(federation.partition.sizes, float))
            self._parameter = self._of_rounds(link)
        self._played = weakest_rounds(-self._parameter, count=rounds)
        self.when = self._played.told()
        on_air = link.resolve_digital()
        self._codec: Codec = build_codec(config.codec)
        bits = self._codec.bits_per_value
        self._places = lay_out(
            on_air,
            num_devices=config.num_devices,
            bits_per_value=bits,
            num_games=num_games,
            block_bits=self._protection.block_bits,
        )
        self._owners = np.arange(self._places.num_rows) % config.num_devices
        self._transport = BitTransport(
            on_air,
            protection=self._protection,
            num_devices=self._places.num_rows,
            num_bits=self._places.num_values * bits,
        )
        self.law_known = True
        self.gaussian = isinstance(privacy, GaussianConfig | GaussianBudget)
        self._flips = isinstance(privacy, BitFlippingConfig | BitFlippingBudget)
        self.scope: Scope = "coordinate" if self._flips else _lasts(rounds, config)
        self.worlds = self._told() + beside_attackers(config.attack, num_devices=config.num_devices, superposes=False)

    def _of_rounds(self, link: LinkConfig) -> NDArray[np.float64]:
        privacy, config = self._privacy, self._config
        if isinstance(privacy, GaussianBudget | BitFlippingBudget) and privacy.budget.calibrate:
            return upload_parameters(config, link=link.resolve_digital(), privacy=privacy)
        if isinstance(privacy, GaussianConfig):
            return np.full(config.rounds, self._budget["sigma"] / float(self._distance.max()))
        return np.full(config.rounds, self._budget["target_bit_error_rate"])

    def _told(self) -> str:
        if self._flips:
            return "one weight of one device at two neighbouring values that differ in every bit"
        if self.gaussian:
            return "models of one device that are the sensitivity apart"
        return f"one number of one device, 0 or {_difference(self._config):g}"

    def play(self, number: int) -> Batch:
        """See `Game.play`."""
        places = self._places
        shape = (len(places.audited), len(places.places))
        worlds = draw_worlds(self._seed, number, places.count).reshape(shape)
        total, seen = np.zeros(shape), []
        for index in self._played.indices:
            context = batch_context(self._seed, number=number, round_index=index)
            score, observed = self._round(worlds, context)
            total += score
            seen.append(observed.reshape(places.count, -1))
        return Batch(
            alternative=worlds.ravel(), score=total.ravel(), observed=np.concatenate(seen, axis=1).astype(np.float32)
        )

    def _round(
        self, worlds: NDArray[np.bool_], context: UplinkContext
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores `[rows, games]` and what to learn from `[rows, games, features]`."""
        places = self._places
        null, other = self._values()
        plan = self._transport.begin(context)
        numbers = places.spread(worlds, null=null, alternative=other)
        noisy = self._protection.perturb(numbers, devices=self._owners, context=context)
        keys = context.keys(Purpose.ROUNDING)
        sent = self._codec.encode(noisy[None], keys=keys).payload
        received, reception = self._transport.send(sent, plan=plan, context=context)
        known = self._transport.known(reception, bits_per_value=self._codec.bits_per_value)
        arrived: Any = 1.0
        if known is not None:
            arrived = places.gather(np.broadcast_to(known, (places.num_rows, places.num_values)))
        if self._flips:
            bits = self._unlike(received, null=null, keys=keys)
            rate = max(float(self._parameter[context.round_index]), _LEAST_RATE)
            unlike = bits.sum(axis=2, dtype=np.float64)
            score = np.asarray((2.0 * unlike - bits.shape[2]) * (math.log1p(-rate) - math.log(rate)) * arrived, float)
            return score, bits * np.broadcast_to(arrived, worlds.shape)[..., None]
        with np.errstate(invalid="ignore"):
            read = places.gather(self._codec.decode(received, num_values=places.num_values)[0]).astype(np.float64)
        multiplier = float(self._parameter[context.round_index])
        score = np.asarray(self._ratio(read, float(np.max(other)), multiplier=multiplier) * arrived)
        return score, score[..., None]

    def _values(self) -> tuple[float, NDArray[np.float32]]:
        """The null's number, and the alternative's by row and game."""
        places = self._places
        if self._flips:
            assert isinstance(self._config.codec, FixedPointConfig)
            step = 2.0 * self._config.codec.value_range * 2.0**-self._config.codec.fraction_bits
            return 0.0, np.full((len(places.audited), 1), -step, np.float32)
        apart = self._distance[self._owners[places.audited] % len(self._distance)]
        return 0.0, apart[:, None].astype(np.float32)

    def _unlike(self, received: NDArray[np.uint8], *, null: float, keys: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Which bits of the games' numbers are not those of the null, `[rows, games, bits]`."""
        places, bits = self._places, self._codec.bits_per_value
        size = places.num_values
        plain = self._codec.encode(np.full((1, places.num_rows, size), null, np.float32), keys=keys).payload
        unlike = np.unpackbits((received ^ plain)[0], axis=1, count=size * bits).reshape(-1, size, bits)
        return np.asarray(places.gather(unlike), np.uint8)

    def _ratio(self, read: NDArray[np.float64], largest: float, *, multiplier: float) -> NDArray[np.float64]:
        """Log-likelihood ratios of received numbers; what is not finite tells nothing."""
        apart = self._distance[self._owners[self._places.audited] % len(self._distance)][:, None]
        plain = np.nan_to_num(read, nan=0.0, posinf=0.0, neginf=0.0)
        if not self.gaussian:
            return np.asarray(np.clip((plain - largest / 2.0) / (largest / 2.0), -1.0, 1.0))
        sigma = multiplier * apart
        inside = np.clip(plain, -_WIDEST * sigma, apart + _WIDEST * sigma)
        told = np.where(np.isfinite(read), inside - apart / 2.0, 0.0)
        return np.asarray(told * apart / sigma**2)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """See `Game.claims`."""
        privacy = self._privacy
        played = [float(self._parameter[index]) for index in self._played.indices]
        if isinstance(privacy, GaussianConfig | GaussianBudget):
            return gaussian_claims(
                privacy,
                multipliers=played,
                asked_delta=self._budget["delta"],
                num_rounds=self._config.rounds,
                scope=self.scope,
                delta=delta,
                assumptions=one_step(self._config),
            )
        if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
            return flipping_claims(
                privacy,
                rates=played,
                bits=self._codec.bits_per_value,
                num_rounds=self._config.rounds,
                delta=delta,
            )
        return (nothing_promised(scope=self.scope, unit=self.unit),)


def _difference(config: FedAvgConfig) -> float:
    """A number that the codec holds, to be told from 0."""
    return 0.25 if isinstance(config.codec, Binary32Config) else config.codec.value_range / 2.0


def _sensitivity(
    config: FedAvgConfig, privacy: GaussianConfig | GaussianBudget, *, sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of every device, as `fl.uplink.mechanisms.build_protection` takes it."""
    assert config.local.clip is not None
    steps = config.local.steps if privacy.sensitivity == "all-steps" else 1
    return sensitivity(learning_rate=config.local.learning_rate, clip=config.local.clip, num_samples=sizes, steps=steps)


def _lasts(rounds: int, config: FedAvgConfig) -> Scope:
    return "run" if rounds == config.rounds else "round"
