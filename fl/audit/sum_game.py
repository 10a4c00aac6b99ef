"""The game against a sum of updates in the receiver's noise: all data of a device are replaced, and y is told apart.

Every game is a round of the uplink of learning itself. The audited device holds the update -g or +g, far beyond the
clip, and the others hold none. The attacker knows what all others send and takes it out of y. With x, x' what the
device sends in either world, and A its amplitude of arrival, the rest r has the log-likelihood ratio

    L = Re<A (x' - x), r - A (x + x') / 2> / N0

over channels that are one known number per device; over others L is a score that grows with what shows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.upload import upload_plan
from fl.attacks.attacks import Attackers
from fl.audit.game import beside_attackers, draw_worlds, weakest_rounds
from fl.base.words import plural
from fl.schemes.coders.coder import Senders
from fl.uplink.air import SuperposedUplink, Transmitted
from fl.uplink.budgets import multipliers
from fl.uplink.protection import Protection
from fl.uplink.senders import SenderIndex
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from privacy.audit.attack import GameBatch, GameFacts
from privacy.audit.promises import accounted, claim, of_the_budget
from privacy.config import ReceiverNoise
from privacy.events.claims import Claim
from privacy.events.events import Spending
from privacy.events.noise_events import GaussianNoise

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

_NUMBERS_AT_ONCE = 1 << 17
"""Of all devices in a game: the noise multiplier at the cap does not depend on how many there are."""
_BEYOND = 16.0
_FAR = 1e3
_GAMES_AT_ONCE = 64


class SumGame:
    """A `privacy.audit.attack.Game` over `link`, which names access and modulation; a game is a trial of the link."""

    def __init__(
        self, config: FedAvgConfig, *, link: LinkConfig, privacy: ReceiverNoise, seed: int, num_games: int, rounds: int
    ) -> None:
        self._config, self._link, self._privacy, self._seed = config, link, privacy, seed
        plan = upload_plan(config)
        self._index = SenderIndex(plan, link=link)
        most = max(_NUMBERS_AT_ONCE // self._index.count, 2)
        size = self._num_values = min(plan.num_values or most, most)
        self._at_once = min(num_games, _GAMES_AT_ONCE)
        self._senders = np.arange(self._index.count)
        self._attackers = Attackers.drawn(config.attack, num_devices=config.num_devices, seed=seed, trial=0)
        self._audited = int(np.argmin(self._attackers.who[self._senders]))
        steady = link.steady and link.csi == "perfect" and not self._attackers.jam
        self.law_known = self.gaussian = steady
        z = multipliers(plan, link=link, privacy=privacy)
        self._played, when = weakest_rounds(1.0 / z, count=rounds)
        beside = beside_attackers(config.attack, num_devices=config.num_devices)
        worlds = (
            f"an update of {plural(size, 'number')} of one device or its negative; what the others "
            f"sent is known{beside}"
        )
        self.facts = GameFacts(scope="round", unit="device", worlds=worlds, rounds=rounds, when=when)
        self._least: dict[int, float] = {}
        self._uplink = SuperposedUplink(
            plan,
            link=link,
            num_values=size,
            index=self._index,
            protection=Protection(),
            attackers=self._attackers,
            privacy=privacy,
        )

    def play(self, number: int) -> GameBatch:
        worlds = draw_worlds(self._seed, number, self._at_once)
        games = [self._game(number * self._at_once + place, world=bool(one)) for place, one in enumerate(worlds)]
        score, observed = np.array([total for total, _ in games]), np.array([seen for _, seen in games], np.float32)
        return GameBatch(alternative=worlds, score=score, observed=observed)

    def _game(self, trial: int, *, world: bool) -> tuple[float, list[float]]:
        """The score of a game, and of each of its rounds."""
        seen = []
        for index in self._played:
            context = UplinkContext(seed=self._seed, trials=(trial,), round_index=index)
            null, alternative = (self._transmit(sign, context) for sign in (-1.0, 1.0))
            found, who = (alternative if world else null).found, self._audited
            arrival, multiplier = found.decision.arrival, self._uplink.multiplier(found)
            assert arrival is not None
            assert multiplier is not None
            before, after = (amplitudes(one.symbols, num_symbols=len(found.received[0])) for one in (null, alternative))
            others = arrival[0].copy()
            others[who] = 0.0
            middle = arrival[0, who] * (before[who] + after[who]) / 2.0
            rest = found.received[0] - others.astype(np.float32) @ after - middle
            score = np.vdot(arrival[0, who] * (after[who] - before[who]), rest).real
            seen.append(float(score) / self._link.channel.noise_power)
            self._least[index] = min(self._least.get(index, np.inf), float(multiplier[who]))
        return sum(seen), seen

    def _transmit(self, sign: float, context: UplinkContext) -> Transmitted:
        numbers = np.zeros((len(self._senders), self._num_values), np.float32)
        clip = self._privacy.clip
        numbers[self._audited] = sign * (_FAR if clip is None else _BEYOND * clip / np.sqrt(self._num_values))
        ones = np.ones(len(self._senders))
        senders = Senders(devices=self._senders, context=context, weights=ones, factor=ones)
        return self._uplink.transmit(numbers, senders)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """See `Game.claims`; at the largest amplitude at which the device arrived."""
        privacy, rounds = self._privacy, self.facts.rounds
        labels: dict[str, Any] = {"unit": "device", "assumptions": (privacy.listener,), "channel_credited": True}
        found = [*of_the_budget(privacy.budget, num_rounds=self._config.rounds, **labels)]
        if privacy.epsilon is not None and rounds == 1:
            asked = {"accountant": "exact", "standing": "proved", "scope": "round", "source": "asked for", **labels}
            found.append(claim(epsilon=privacy.epsilon, delta=privacy.delta, **asked))
        least = Counter(z for z in self._least.values() if np.isfinite(z))
        spent = [Spending(event=GaussianNoise(noise_multiplier=z), count=count) for z, count in least.items()]
        source = f"Gaussian mechanism at the amplitude in force, {plural(rounds, 'round')}"
        return (*found, accounted(spent, delta=delta, scope="round", source=source, **labels))


def amplitudes(symbols: NDArray[Any], *, num_symbols: int) -> NDArray[Any]:
    """Return amplitudes `[K, S]` of symbols `[1, K, S]`, or of packed bits, whose 0 is +1."""
    if symbols.dtype != np.uint8:
        return np.asarray(symbols[0])
    return np.asarray(1.0 - np.float32(2.0) * np.unpackbits(symbols[0], axis=-1, count=num_symbols))
