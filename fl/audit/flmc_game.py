"""FLMC under attack: the audited device has gradient -l or +l in every entry, and its upload is told apart.

Over superposition the attacker holds the complex sum y of the round and all that the other devices sent, which takes
their part out of y: the worst case of Zhang et al. 2022 (16), where they are at their bound. What is left is A s + z
for the audited device's symbols s, with

    analog:  L = sum_i 2 A l t_i / N0,        digital:  L = sum_i f(t_i), f of `privacy.mechanisms.flmc_digital`,

t its real part; z has power N0 per real dimension. On resources of their own (`digital-orthogonal`) every device is a
game, and what arrives are its detected bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.flmc import clipped_gradients
from fl.algorithms.lmc_caps import lmc_cap, round_privacy, step_size
from fl.attacks.flmc_attackers import AttackersOfTrials, check_attack
from fl.audit.amplitudes import RoundAmplitudes
from fl.audit.attackers import beside_attackers
from fl.audit.flmc_claims import flmc_claims
from fl.audit.game import Batch
from fl.codecs.bits.one_bit import StochasticOneBit
from fl.tasks import build_task
from fl.tasks.base import LearningError
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import AirUplink, DigitalUplink
from phy.numerics.random import Purpose, round_keys, uniform_words
from privacy.config import AmplitudeMechanism
from privacy.events.claims import Claim, Scope
from privacy.events.events import Unit
from privacy.mechanisms._digital_tail import entry_loss

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig

_NUMBERS_AT_ONCE = 1 << 21
_MOST_TRIALS = 1 << 14
_BEYOND = 16.0
"""Gradients that clipping has to cut, in units of its bound."""


class FlmcGame:
    """A `fl.audit.game.Game`; the step size, on which the LMC cap depends, is that of trial 0.

    A game is a trial (of every device, where they are detected one by one), the same in whatever batch it is played;
    `trials_at_once`: how many a batch has, left out: as many as are worth their memory.
    """

    scope: Scope = "round"
    unit: Unit = "device"

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
        if not config.uses_radio:
            raise LearningError(
                f"scheme {config.scheme} sends nothing over a radio, so there is nothing to audit; "
                "use analog, digital or digital-orthogonal"
            )
        check_attack(config, error_model=link.error_model)
        self.rounds = rounds
        self._config, self._privacy, self._seed = config, privacy, seed
        self._attackers = AttackersOfTrials(
            config.attack, num_devices=config.num_devices, gradient_bound=config.gradient_bound
        )
        self._dimension, self._noise_power = config.task.dimension, link.channel.noise_power
        self._caps = self._amplitude_caps(link)
        self._codec = None if config.scheme == "analog" else StochasticOneBit(slope=config.quantizer_slope)
        self._air: AirUplink | None = None
        self._digital: DigitalUplink | None = None
        if config.superposes:
            bound = config.payload_bound
            self._air = compile_air(
                link, num_devices=config.num_devices, num_symbols=self._dimension, payload_bound=bound
            )
        else:
            self._digital = compile_digital(link, num_devices=config.num_devices, num_bits=self._dimension)
        plain = link.csi == "perfect" and link.impairments.none and link.ofdm == "none" and link.coding == "none"
        self.law_known = plain and link.error_model in ("measured", "error_free")
        self.gaussian = config.scheme == "analog" and self.law_known
        whose = "what the others sent is known" if config.superposes else "every device on resources of its own"
        beside = beside_attackers(config.attack, num_devices=config.num_devices, superposes=config.superposes)
        self.worlds = f"gradient -l or +l in all {self._dimension} entries of one device; {whose}{beside}"
        fit = max(min(_NUMBERS_AT_ONCE // (config.num_devices * self._dimension), _MOST_TRIALS), 1)
        # Devices that share their resources (NOMA) err together: one of each group is a game.
        self._step = link.noma.group_size if link.access == "noma" else 1
        if self._air is None and num_games is not None:
            fit = min(fit, -(-num_games * self._step // config.num_devices))
        self._trials = trials_at_once or fit
        self._ceilings = RoundAmplitudes(
            config, link=link, privacy=privacy, caps=self._caps, rounds=rounds, num_trials=self._trials
        )
        self.when = self._ceilings.played.describe()

    def _amplitude_caps(self, link: LinkConfig) -> dict[str, float]:
        """Those of `fl.algorithms.flmc.build_flmc`, for a run whose data are those of trial 0."""
        config = self._config
        task = build_task(config.task, num_devices=config.num_devices, seed=self._seed, trials=(0,))
        eta = step_size(config, strong_convexity=task.strong_convexity, smoothness=task.smoothness)
        asked = None if self._privacy is None else self._privacy.of_rounds
        bound = round_privacy(config, link=link, privacy=asked, dimension=self._dimension)
        return {
            "lmc": float(lmc_cap(config, eta=eta, noise_power=link.channel.noise_power)[0]),
            "privacy": bound.amplitude_cap(),
        }

    def play(self, number: int) -> Batch:
        trials = tuple(range(number * self._trials, (number + 1) * self._trials))
        audited = self._audited(UplinkContext(seed=self._seed, trials=trials))
        kept = audited.any(axis=1) if self._air is not None else audited
        coins = 1 if self._air is not None else self._config.num_devices
        keys = round_keys(self._seed, trials, Purpose.ATTACK, 0)
        worlds = uniform_words(keys, num_devices=coins, num_words=1)[..., 0] >= np.uint32(1 << 31)
        total: NDArray[np.float64] = np.zeros(worlds.shape)
        seen = []
        self._ceilings.begin()
        for index in self._ceilings.played.indices:
            context = UplinkContext(seed=self._seed, trials=trials, round_index=index)
            payload = self._payload(worlds, audited, context)
            if self._air is not None:
                score, observed = self._overheard(self._air, payload, audited, context)
            else:
                score, observed = self._detected(payload, context)
            total += score
            seen.append(observed.reshape(*worlds.shape, -1)[kept].reshape(kept.sum(), -1))
        return Batch(alternative=worlds[kept].ravel(), score=total[kept].ravel(), observed=np.concatenate(seen, axis=1))

    def _audited(self, context: UplinkContext) -> NDArray[np.bool_]:
        """Whose gradients a game is about, `[trials, K]`: the first honest device of a trial, or of those err together.

        Detected one by one without sharing resources, every honest device.
        """
        honest = ~self._attackers.who(context)
        step = self._config.num_devices if self._air is not None else self._step
        places = np.arange(self._config.num_devices) // step
        before: NDArray[np.int64] = np.cumsum(honest, axis=1) - honest
        first = np.searchsorted(places, places)
        return np.asarray(honest & (before == before[:, first]))

    def _payload(
        self, worlds: NDArray[np.bool_], audited: NDArray[np.bool_], context: UplinkContext
    ) -> NDArray[np.generic]:
        """What devices send, clipped and encoded; those that are not audited stand at +l, or attack."""
        shape = (len(worlds), self._config.num_devices, self._dimension)
        attacks = self._attackers.who(context)
        signs: NDArray[np.float64] = np.where(worlds | (~audited if self._air is not None else attacks), 1.0, -1.0)
        gradients = np.full(shape, _BEYOND * self._config.gradient_bound) * signs[..., None]
        clipped = clipped_gradients(gradients, self._config.gradient_bound).values
        if attacks.any():
            # Attackers see the audited device at +l in either world.
            told = self._attackers.gradients(np.abs(clipped), context=context)
            clipped = np.where(attacks[..., None], told, clipped)
        if self._codec is None:
            return clipped
        payload = self._codec.encode(clipped, keys=context.keys(Purpose.LOCAL_TRAINING)).payload
        return self._attackers.bits(payload, num_bits=self._dimension, context=context)

    def _overheard(
        self, air: AirUplink, payload: NDArray[np.generic], audited: NDArray[np.bool_], context: UplinkContext
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Scores `[trials, 1]` and what arrived less what the others sent, `[trials, 2 m]`."""
        heard = air.superpose(payload, context=context, caps=self._ceilings.caps(context.round_index))
        self._ceilings.note(context.round_index, heard.decision.peak_amplitude)
        others: NDArray[np.float64] = (
            np.asarray(payload, np.float64)
            if self._codec is None
            else self._codec.decode(np.asarray(payload, np.uint8), num_values=self._dimension)
        )
        known_about = (heard.decision.active & ~audited).astype(float)
        amplitude = heard.decision.amplitude[:, None]
        left = heard.received - amplitude * np.einsum("tk,tkm->tm", known_about, others)
        residual = np.asarray(left.real, np.float64)
        if self._codec is None:
            score = 2.0 * amplitude * self._config.gradient_bound * residual / self._noise_power
        else:
            score = self._entry_scores(residual, amplitude)
        observed = np.concatenate([left.real, left.imag], axis=1) / math.sqrt(self._noise_power)
        return score.sum(axis=1, keepdims=True), observed.astype(np.float32)

    def _entry_scores(self, residual: NDArray[np.float64], amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
        """f of `privacy.mechanisms.flmc_digital` entry by entry, at one amplitude after the other: trials share few."""
        deviation = math.sqrt(self._noise_power)
        entry_bound = self._config.quantizer_slope * self._config.gradient_bound
        if np.ptp(amplitude) <= 1e-9 * amplitude.max(initial=0.0):
            relative = max(float(amplitude.max(initial=0.0)) / deviation, 1e-150)
            return entry_loss(residual / deviation, relative=relative, entry_bound=entry_bound)
        x = 2.0 * amplitude * residual / self._noise_power
        top, bottom = np.logaddexp(x, -entry_bound), np.logaddexp(x - entry_bound, 0.0)
        return np.asarray(top - bottom)

    def _detected(
        self, payload: NDArray[np.generic], context: UplinkContext
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Scores `[trials, K]` and detected signs `[trials, K, m]`, zero where nothing arrived."""
        assert self._digital is not None
        assert self._codec is not None
        caps = self._ceilings.caps(context.round_index)
        heard = self._digital.send(np.asarray(payload, np.uint8), context=context, caps=caps)
        self._ceilings.note(context.round_index, heard.decision.peak_amplitude)
        signs = self._codec.decode(heard.payload, num_values=self._dimension) * heard.decision.active[..., None]
        if heard.delivered is not None:
            signs = signs * np.asarray(heard.delivered.all(axis=2))[..., None]
        bound = self._config.quantizer_slope * self._config.gradient_bound
        return bound * signs.sum(axis=2), signs.astype(np.float32)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        return flmc_claims(
            self._config,
            privacy=self._privacy,
            noise_power=self._noise_power,
            rounds=self.rounds,
            peaks=self._ceilings.met(),
            delta=delta,
        )
