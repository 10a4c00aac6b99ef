"""FLMC under attack: the audited device has gradient -l or +l in every entry, and its upload is told apart.

Over superposition the attacker holds the complex sum y of the round and all that the other devices sent, which takes
their part out of y: the worst case of Zhang et al. 2022 (16), where they are at their bound. What is left is A s + z
for the audited device's symbols s, with

    analog:  L = sum_i 2 A l t_i / N0,        digital:  L = sum_i f(t_i), f of `privacy.mechanisms.flmc_digital`,

t its real part; z has power N0 per real dimension. On resources of their own (`digital-orthogonal`) every device is a
game, and what arrives are its detected bits.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.algorithms.flmc.account import AmplitudeAllowance
from fl.algorithms.flmc.attackers import AttackersOfTrials, check_attack
from fl.algorithms.flmc.kernels import clipped
from fl.algorithms.flmc.rounds import build_flmc
from fl.algorithms.flmc.tasks import build_task
from fl.audit.game import beside_attackers, weakest_rounds
from fl.base.arrays import F32, F64, I64, Bools
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import AirUplink, DigitalUplink
from phy.numerics.random import Purpose, round_keys, uniform_words
from privacy.audit.attack import GameBatch, GameFacts
from privacy.audit.promises import accounted, claim, nothing_promised, of_the_budget
from privacy.config import AmplitudeMechanism
from privacy.events.claims import Claim
from privacy.events.events import Spending
from privacy.mechanisms._digital_tail import entry_loss

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig

_NUMBERS_AT_ONCE = 1 << 21
_MOST_TRIALS = 1 << 14
NOISE_IS_THERE = "the receiver noise is there with the power that it is said to have"
_BISECTIONS = 60
_LARGEST = 1e6
_BEYOND = 16.0
"""Gradients that clipping has to cut, in units of its bound."""


class FlmcGame:
    """A `privacy.audit.attack.Game`; the step size, on which the LMC cap depends, is that of trial 0.

    A game is a trial (of every device, where they are detected one by one), the same in whatever batch it is played;
    `trials_at_once`: how many a batch has, left out: as many as are worth their memory. A budget that was calibrated
    gives every round its cap; one that only watches lets the first rounds send until it is spent up.
    """

    def __init__(
        self,
        config: FlmcConfig,
        *,
        link: LinkConfig,
        privacy: AmplitudeMechanism | None,
        seed: int,
        rounds: int = 1,
        num_games: int | None = None,
        trials_at_once: int | None = None,
    ) -> None:
        check_attack(config, error_model=link.error_model)
        self._config, self._privacy, self._seed = config, privacy, seed
        self._attackers = AttackersOfTrials(
            config.attack, num_devices=config.num_devices, gradient_bound=config.gradient_bound
        )
        size = self._dimension = config.task.dimension
        self._noise_power = link.channel.noise_power
        # Jammers change nothing of a game, in which what the others send is known.
        honest = config.model_copy(update={"attack": None})
        task = build_task(config.task, num_devices=config.num_devices, seed=seed, trials=(0,))
        bound = None if privacy is None else privacy.of_rounds
        algorithm: Any = build_flmc(honest, link=link, privacy=bound, task=task)
        self._codec, self._sampling = algorithm.codec, algorithm.sampling
        self._air: AirUplink | None = algorithm.uplink if config.superposes else None
        self._digital: DigitalUplink | None = None if config.superposes else algorithm.uplink
        plain = link.csi == "perfect" and link.impairments.none and link.ofdm == "none" and link.coding == "none"
        self.law_known = plain and link.error_model in ("measured", "error_free")
        amplitudes = config.sending.claimed_as == "analog" or (config.levels is not None and config.levels.gaussian)
        self.gaussian = amplitudes and config.superposes and self.law_known
        fit = max(min(_NUMBERS_AT_ONCE // (config.num_devices * size), _MOST_TRIALS), 1)
        # Devices that share their resources (NOMA) err together: one of each group is a game.
        self._step = link.noma.group_size if link.access == "noma" else 1
        if self._air is None and num_games is not None:
            fit = min(fit, -(-num_games * self._step // config.num_devices))
        self._trials = trials_at_once or fit
        # The caps of every round, for a run whose data are those of trial 0, and what a budget allows beside them.
        self._caps = {"lmc": float(self._sampling.lmc[0]), "privacy": self._sampling.privacy.amplitude_cap()}
        self._fresh = None
        if privacy is not None and privacy.budget is not None:
            lowest = np.full(self._trials, min(self._caps.values()))
            self._fresh = AmplitudeAllowance(config, link=link, privacy=privacy, caps=lowest)
        self._left = self._fresh
        found = None if self._fresh is None else self._fresh.found
        self._played, when = weakest_rounds(np.zeros(config.rounds) if found is None else found, count=rounds)
        self._peaks: dict[int, float] = {}
        whose = "what the others sent is known" if config.superposes else "every device on resources of its own"
        beside = beside_attackers(config.attack, num_devices=config.num_devices)
        worlds = f"gradient -l or +l in all {size} entries of one device; {whose}{beside}"
        self.facts = GameFacts(scope="round", unit="device", worlds=worlds, rounds=rounds, when=when)

    def _caps_of(self, round_index: int) -> Mapping[str, ArrayLike]:
        """All caps of a round `[trials]`; 0 where nothing is left to send with."""
        return self._caps if self._left is None else {**self._caps, "budget": self._left.caps(round_index)}

    def _note(self, round_index: int, peak_amplitude: F64) -> None:
        """Keep the largest amplitude `[trials]` that a round was really sent with."""
        if self._left is not None:
            self._left.note(peak_amplitude)
        # Without a budget all rounds are alike: what fades in one may in another.
        kind = self._played[0] if self._left is None else round_index
        self._peaks[kind] = max(self._peaks.get(kind, 0.0), float(peak_amplitude.max(initial=0.0)))

    def play(self, number: int) -> GameBatch:
        trials = tuple(range(number * self._trials, (number + 1) * self._trials))
        audited = self._audited(UplinkContext(seed=self._seed, trials=trials))
        kept = audited.any(axis=1) if self._air is not None else audited
        coins = 1 if self._air is not None else self._config.num_devices
        keys = round_keys(self._seed, trials, Purpose.ATTACK, 0)
        worlds = uniform_words(keys, num_devices=coins, num_words=1)[..., 0] >= np.uint32(1 << 31)
        total: F64 = np.zeros(worlds.shape)
        seen = []
        self._left = copy.deepcopy(self._fresh)
        for index in self._played:
            context = UplinkContext(seed=self._seed, trials=trials, round_index=index)
            payload = self._payload(worlds, audited, context)
            if self._air is not None:
                score, observed = self._overheard(self._air, payload, audited, context)
            else:
                score, observed = self._detected(payload, context)
            total += score
            seen.append(observed.reshape(*worlds.shape, -1)[kept].reshape(kept.sum(), -1))
        return GameBatch(
            alternative=worlds[kept].ravel(), score=total[kept].ravel(), observed=np.concatenate(seen, axis=1)
        )

    def _audited(self, context: UplinkContext) -> Bools:
        """Whose gradients a game is about, `[trials, K]`: the first honest device of those that err together."""
        honest = ~self._attackers.who(context)
        step = self._config.num_devices if self._air is not None else self._step
        places = np.arange(self._config.num_devices) // step
        before: I64 = np.cumsum(honest, axis=1) - honest
        first = np.searchsorted(places, places)
        return np.asarray(honest & (before == before[:, first]))

    def _payload(self, worlds: Bools, audited: Bools, context: UplinkContext) -> NDArray[np.generic]:
        """Return the clipped and encoded updates. Devices that are not audited send +l, or what their attack sends."""
        shape = (len(worlds), self._config.num_devices, self._dimension)
        attacks = self._attackers.who(context)
        signs: F64 = np.where(worlds | (~audited if self._air is not None else attacks), 1.0, -1.0)
        wild = np.full(shape, _BEYOND * self._config.gradient_bound) * signs[..., None]
        gradients, _ = clipped(wild, self._config.gradient_bound)
        if attacks.any():
            # Attackers see the audited device at +l in either world.
            told = self._attackers.gradients(np.abs(gradients), context=context)
            gradients = np.where(attacks[..., None], told, gradients)
        if self._codec is None:
            return gradients
        payload = self._codec.encode(gradients, keys=context.keys(Purpose.LOCAL_TRAINING)).payload
        num_bits = self._dimension * self._codec.bits_per_value
        payload = self._attackers.bits(payload, num_bits=num_bits, context=context)
        levels = self._config.levels
        if levels is None or self._air is None:
            return payload
        return levels.codec.symbols_of(payload, num_values=self._dimension)

    def _overheard(
        self, air: AirUplink, payload: NDArray[np.generic], audited: Bools, context: UplinkContext
    ) -> tuple[F64, F32]:
        """Scores `[trials, 1]` and what arrived less what the others sent, `[trials, 2 m]`."""
        heard = air.superpose(payload, context=context, caps=self._caps_of(context.round_index))
        self._note(context.round_index, heard.decision.peak_amplitude)
        others: F64 = (
            np.asarray(payload, np.float64)
            if payload.dtype.kind == "f"
            else self._codec.decode(np.asarray(payload, np.uint8), num_values=self._dimension)
        )
        known_about = (heard.decision.active & ~audited).astype(float)
        amplitude = heard.decision.amplitude[:, None]
        left = heard.received - amplitude * np.einsum("tk,tkm->tm", known_about, others)
        residual = np.asarray(left.real, np.float64)
        if self._codec is None:
            score = 2.0 * amplitude * self._config.gradient_bound * residual / self._noise_power
        elif (levels := self._config.levels) is not None:
            score = levels.score(residual, amplitude, noise_power=self._noise_power)
        else:
            score = self._entry_scores(residual, amplitude)
        observed = np.concatenate([left.real, left.imag], axis=1) / math.sqrt(self._noise_power)
        return score.sum(axis=1, keepdims=True), observed.astype(np.float32)

    def _entry_scores(self, residual: F64, amplitude: F64) -> F64:
        """f of `privacy.mechanisms.flmc_digital` entry by entry, at one amplitude after the other: trials share few."""
        deviation = math.sqrt(self._noise_power)
        entry_bound = self._config.quantizer_slope * self._config.gradient_bound
        if np.ptp(amplitude) <= 1e-9 * amplitude.max(initial=0.0):
            relative = max(float(amplitude.max(initial=0.0)) / deviation, 1e-150)
            return entry_loss(residual / deviation, relative=relative, entry_bound=entry_bound)
        x = 2.0 * amplitude * residual / self._noise_power
        top, bottom = np.logaddexp(x, -entry_bound), np.logaddexp(x - entry_bound, 0.0)
        return np.asarray(top - bottom)

    def _detected(self, payload: NDArray[np.generic], context: UplinkContext) -> tuple[F64, F32]:
        """Scores `[trials, K]` and detected signs `[trials, K, m]`, zero where nothing arrived."""
        assert self._digital is not None
        assert self._codec is not None
        caps = self._caps_of(context.round_index)
        heard = self._digital.send(np.asarray(payload, np.uint8), context=context, caps=caps)
        self._note(context.round_index, heard.decision.peak_amplitude)
        signs = self._codec.decode(heard.payload, num_values=self._dimension) * heard.decision.active[..., None]
        if heard.delivered is not None:
            signs = signs * np.asarray(heard.delivered.all(axis=2))[..., None]
        bound = self._config.quantizer_slope * self._config.gradient_bound
        return bound * signs.sum(axis=2), signs.astype(np.float32)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """See `Game.claims`; at the amplitudes that the rounds were sent with."""
        config, privacy, rounds = self._config, self._privacy, self.facts.rounds
        first = self._played[0]
        # None where nothing was played yet; 0 where nothing was sent.
        peaks = [self._peaks.get(index, self._peaks[first]) for index in self._played] if self._peaks else []
        sending, sent, found = config.sending, [peak for peak in peaks if peak > 0.0], []
        labels: dict[str, Any] = {"unit": "device", "scope": "round"}
        published = partial(claim, accountant="paper", standing="as published", channel_credited=True, **labels)
        if privacy is None:
            found.append(nothing_promised(**labels))
        elif (asked := privacy.of_rounds) is not None and asked.delta <= delta and rounds == 1:
            source = "asked for, Zhang et al. 2022 (11)"
            promised = published
            if asked.form(analog=sending.claimed_as == "analog") == "exact" and self.law_known:
                # With an estimated channel a device may arrive above its cap.
                promised = partial(promised, accountant="exact", standing="proved", assumptions=(privacy.listener,))
                source = "asked for, and kept by the exact cap"
            found.append(promised(epsilon=asked.epsilon, delta=asked.delta, source=source))
        if privacy is not None:
            credited = {"assumptions": (privacy.listener,), "channel_credited": True}
            found += of_the_budget(privacy.budget, num_rounds=config.rounds, **labels, **credited)
        if rounds == 1 and delta > 0.0 and sent:
            spent = sending.delta_of(config, amplitude=sent[0], noise_power=self._noise_power)
            epsilon = smallest_epsilon(spent, delta=delta)
            source = f"Zhang et al. 2022 ({sending.equation}) at the amplitude in force"
            found.append(published(epsilon=epsilon, delta=delta, source=source))
        if (largest := sending.largest_loss(config)) is not None:
            proved = partial(claim, accountant="basic", standing="proved", **labels)
            found.append(proved(epsilon=rounds * largest, delta=0.0, source="m a l, whatever the noise"))
        if sent:
            noise, entries = math.sqrt(self._noise_power), config.num_values()
            spendings = [
                Spending(event=sending.event(config, peak / noise), count=entries * number)
                for peak, number in Counter(sent).items()
            ]
            credited = {"assumptions": (NOISE_IS_THERE,), "channel_credited": True}
            found.append(accounted(spendings, delta=delta, source=sending.hidden_by, **labels, **credited))
        return tuple(found)


def smallest_epsilon(spent: Callable[[float], Any], *, delta: float) -> float:
    """The epsilon > 0 from which on the falling `spent(epsilon)` <= `delta`, to a relative 1e-9; else math.inf."""
    low, high = 1e-9, 1e-3
    while spent(high) > delta:
        low, high = high, 4.0 * high
        if high > _LARGEST:
            return math.inf
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if spent(middle) <= delta else (middle, high)
    return high
