"""FLMC under attack: the audited device has gradient -l or +l in every entry, and its upload is told apart.

Over superposition the attacker holds the complex sum y of the round and all that the other devices sent, which takes
their part out of y: the worst case of Zhang et al. 2022 (16), where they are at their bound. What is left is A s + z
for the audited device's symbols s, with

    analog:  L = sum_i 2 A l t_i / N0,        digital:  L = sum_i f(t_i), f of `privacy.flmc_digital`,

t its real part; z has power N0 per real dimension. On resources of their own (`digital-orthogonal`) every device is a
game, and what arrives are its detected bits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.algorithms.flmc import clipped_gradients, lmc_cap, round_privacy
from fl.audit.claims import accounted, claim, nothing_promised, smallest_epsilon
from fl.audit.games import Batch
from fl.caps import step_size
from fl.codecs import StochasticOneBit
from fl.config import FlmcConfig
from fl.tasks import build_task
from fl.tasks.base import LearningError, Posterior
from phy.channels import UplinkContext
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.link import AirUplink, DigitalUplink
from phy.random import Purpose, round_keys, uniform_words
from privacy import PrivacyConfig
from privacy._digital_tail import entry_loss
from privacy.flmc_analog import analog_delta
from privacy.flmc_digital import digital_delta, digital_loss_bound
from privacy.ledger.claims import Claim, Scope
from privacy.ledger.events import Event, Unit
from privacy.ledger.noise_events import GaussianNoise
from privacy.ledger.superposed import SuperposedBit

_NUMBERS_AT_ONCE = 1 << 21
_MOST_TRIALS = 1 << 14
_BEYOND = 16.0
"""Gradients that clipping has to cut, in units of its bound."""


class _WorstGradients:
    """A `PosteriorTask` whose local gradients are given, `[num_trials, num_devices, m]`."""

    posterior: Posterior
    strong_convexity: NDArray[np.float64]
    smoothness: NDArray[np.float64]

    def __init__(self, gradients: NDArray[np.float64]) -> None:
        self.dimension = gradients.shape[2]
        self._gradients = gradients

    def gradients(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `PosteriorTask`."""
        del theta
        return self._gradients

    def exact_samples(self, num_samples: int) -> NDArray[np.float64]:
        """There is no posterior."""
        raise LearningError(f"{num_samples} samples were asked of a posterior that an audit does not have")


class FlmcGame:
    """A `fl.audit.games.Game`; the step size, on which the LMC cap depends, is that of trial 0.

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
        privacy: PrivacyConfig | None,
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
        self.rounds = rounds
        self._config, self._privacy, self._seed = config, privacy, seed
        self._dimension, self._noise_power = config.task.dimension, link.channel.noise_power
        self._caps = self._amplitude_caps(link)
        self._codec = None if config.scheme == "analog" else StochasticOneBit(slope=config.quantizer_slope)
        self._air: AirUplink | None = None
        self._digital: DigitalUplink | None = None
        if config.superposes:
            bound = config.gradient_bound if config.scheme == "analog" else 1.0
            self._air = compile_air(
                link, num_devices=config.num_devices, num_symbols=self._dimension, payload_bound=bound
            )
        else:
            self._digital = compile_digital(link, num_devices=config.num_devices, num_bits=self._dimension)
        plain = link.csi == "perfect" and link.impairments.none and link.ofdm == "none" and link.coding == "none"
        self.law_known = plain and link.error_model in ("measured", "error_free")
        self.gaussian = config.scheme == "analog" and self.law_known
        whose = "what the others sent is known" if config.superposes else "every device on resources of its own"
        self.worlds = f"gradient -l or +l in all {self._dimension} entries of one device; {whose}"
        self._peak = 0.0
        fit = max(min(_NUMBERS_AT_ONCE // (config.num_devices * self._dimension), _MOST_TRIALS), 1)
        # Devices that share their resources (NOMA) err together: one of each group is a game.
        self._step = link.noma.group_size if link.access == "noma" else 1
        if self._air is None and num_games is not None:
            fit = min(fit, -(-num_games * self._step // config.num_devices))
        self._trials = trials_at_once or fit

    def _amplitude_caps(self, link: LinkConfig) -> dict[str, ArrayLike]:
        """Those of `fl.algorithms.flmc.build_flmc`, for a run whose data are those of trial 0."""
        config = self._config
        task = build_task(config.task, num_devices=config.num_devices, seed=self._seed, trials=(0,))
        eta = step_size(config, strong_convexity=task.strong_convexity, smoothness=task.smoothness)
        bound = round_privacy(config, link=link, privacy=self._privacy, dimension=self._dimension)
        return {
            "lmc": float(lmc_cap(config, eta=eta, noise_power=link.channel.noise_power)[0]),
            "privacy": bound.amplitude_cap(),
        }

    def play(self, number: int) -> Batch:
        """See `Game.play`."""
        trials = tuple(range(number * self._trials, (number + 1) * self._trials))
        audited = 1 if self._air is not None else self._config.num_devices
        kept = slice(None, None, self._step)
        keys = round_keys(self._seed, trials, Purpose.ATTACK, 0)
        worlds = uniform_words(keys, num_devices=audited, num_words=1)[..., 0] >= np.uint32(1 << 31)
        total: NDArray[np.float64] = np.zeros(worlds.shape)
        seen = []
        for index in range(self.rounds):
            context = UplinkContext(seed=self._seed, trials=trials, round_index=index)
            payload = self._payload(worlds, context)
            if self._air is not None:
                score, observed = self._overheard(self._air, payload, context)
            else:
                score, observed = self._detected(payload, context)
            total += score
            seen.append(observed.reshape(*worlds.shape, -1)[:, kept].reshape(worlds[:, kept].size, -1))
        return Batch(
            alternative=worlds[:, kept].ravel(), score=total[:, kept].ravel(), observed=np.concatenate(seen, axis=1)
        )

    def _payload(self, worlds: NDArray[np.bool_], context: UplinkContext) -> NDArray[np.generic]:
        """What devices send, clipped and encoded; those that are not audited stand at +l."""
        shape = (len(worlds), self._config.num_devices, self._dimension)
        gradients = np.full(shape, _BEYOND * self._config.gradient_bound)
        signs: NDArray[np.float64] = np.where(worlds, 1.0, -1.0)
        gradients[:, : worlds.shape[1]] *= signs[..., None]
        clipped = clipped_gradients(_WorstGradients(gradients), np.zeros(shape[::2]), self._config.gradient_bound)
        if self._codec is None:
            return clipped
        return self._codec.encode(clipped, keys=context.keys(Purpose.LOCAL_TRAINING)).payload

    def _overheard(
        self, air: AirUplink, payload: NDArray[np.generic], context: UplinkContext
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Scores `[trials, 1]` and what arrived less what the others sent, `[trials, 2 m]`."""
        heard = air.superpose(payload, context=context, caps=self._caps)
        self._peak = max(self._peak, float(heard.decision.peak_amplitude.max(initial=0.0)))
        others: NDArray[np.float64] = (
            np.asarray(payload, np.float64)
            if self._codec is None
            else self._codec.decode(np.asarray(payload, np.uint8), num_values=self._dimension)
        )
        on_air = heard.decision.active.astype(float)
        amplitude = heard.decision.amplitude[:, None]
        known = amplitude * np.einsum("tk,tkm->tm", on_air[:, 1:], others[:, 1:])
        left = heard.received - known
        residual = np.asarray(left.real, np.float64)
        if self._codec is None:
            score = 2.0 * amplitude * self._config.gradient_bound * residual / self._noise_power
        else:
            score = self._entry_scores(residual, amplitude)
        observed = np.concatenate([left.real, left.imag], axis=1) / math.sqrt(self._noise_power)
        return score.sum(axis=1, keepdims=True), observed.astype(np.float32)

    def _entry_scores(self, residual: NDArray[np.float64], amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
        """f of `privacy.flmc_digital` entry by entry, at one amplitude after the other: trials share few."""
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
        heard = self._digital.send(np.asarray(payload, np.uint8), context=context, caps=self._caps)
        self._peak = max(self._peak, float(heard.decision.peak_amplitude.max(initial=0.0)))
        signs = self._codec.decode(heard.payload, num_values=self._dimension) * heard.decision.active[..., None]
        if heard.delivered is not None:
            signs = signs * np.asarray(heard.delivered.all(axis=2))[..., None]
        bound = self._config.quantizer_slope * self._config.gradient_bound
        return bound * signs.sum(axis=2), signs.astype(np.float32)

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """See `Game.claims`."""
        config, digital = self._config, self._config.scheme != "analog"
        found = []
        if self._privacy is None:
            found.append(nothing_promised(scope=self.scope, unit=self.unit))
        elif self._privacy.delta <= delta and self.rounds == 1:
            found.append(
                claim(
                    self._privacy.epsilon,
                    delta=self._privacy.delta,
                    accountant="paper",
                    standing="as published",
                    scope=self.scope,
                    unit=self.unit,
                    source="asked for, Zhang et al. 2022 (11)",
                    channel_credited=True,
                )
            )
        if self.rounds == 1 and delta > 0.0 and self._peak > 0.0:
            found.append(
                claim(
                    smallest_epsilon(self._spent, delta=delta),
                    delta=delta,
                    accountant="paper",
                    standing="as published",
                    scope=self.scope,
                    unit=self.unit,
                    source=f"Zhang et al. 2022 ({16 if digital else 21}) at the amplitude in force",
                    channel_credited=True,
                )
            )
        if digital:
            largest = digital_loss_bound(
                dimension=self._dimension,
                gradient_bound=config.gradient_bound,
                quantizer_slope=config.quantizer_slope,
            )
            found.append(
                claim(
                    self.rounds * largest,
                    delta=0.0,
                    accountant="basic",
                    standing="proved",
                    scope=self.scope,
                    unit=self.unit,
                    source="m a l, whatever the noise",
                )
            )
        if self._peak > 0.0:
            found.append(self._proved(delta))
        return tuple(found)

    def _proved(self, delta: float) -> Claim:
        """By the events of the ledger, at the amplitude that the games were sent with."""
        amplitude = self._peak / math.sqrt(self._noise_power)
        bound = self._config.gradient_bound
        event: Event
        if self._codec is None:
            event = GaussianNoise(noise_multiplier=1.0 / (2.0 * amplitude * bound))
            source = "receiver noise as a Gaussian mechanism"
        else:
            event = SuperposedBit(amplitude=amplitude, entry_bound=self._config.quantizer_slope * bound)
            source = "two mixtures of Gaussians in every entry"
        return accounted(
            event,
            self._dimension * self.rounds,
            delta=delta,
            scope=self.scope,
            unit=self.unit,
            source=source,
            assumptions=("the receiver noise is there with the power that it is said to have",),
            channel_credited=True,
        )

    def _spent(self, epsilon: float) -> float:
        """delta of one round at the amplitude that the games were sent with."""
        config = self._config
        if config.scheme == "analog":
            return float(
                analog_delta(
                    epsilon,
                    amplitude=self._peak,
                    dimension=self._dimension,
                    gradient_bound=config.gradient_bound,
                    noise_power=self._noise_power,
                )
            )
        return digital_delta(
            epsilon,
            amplitude=self._peak,
            dimension=self._dimension,
            gradient_bound=config.gradient_bound,
            quantizer_slope=config.quantizer_slope,
            num_devices=config.num_devices if config.superposes else 2,
            noise_power=self._noise_power,
        )
