"""Federated Langevin Monte Carlo, digital against analog, Zhang et al. 2022.

One round: theta <- theta - eta (estimate of sum_k g_k), where the estimate carries whatever noise
quantiser and radio put into it, or, without a radio, Langevin noise of the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.algorithms.flmc.amplitude_caps import Sampling, sampling_of
from fl.algorithms.flmc.attackers import AttackersOfTrials, check_attack
from fl.algorithms.flmc.kernels import clipped, descended
from fl.algorithms.flmc.tasks.regression import PosteriorTask
from fl.base.arrays import F64, Bools
from fl.base.checkpoints import Kept
from fl.base.recorder import amplitude_columns, link_columns
from fl.schemes.aggregation.estimates import sum_from_superposition, sum_of_devices
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import AirUplink, DigitalUplink, known_values, round_airtime
from phy.measure.burstiness import Burstiness
from phy.numerics.cache import LastResult, constant
from phy.numerics.random import Purpose, real_normals
from privacy.config import PrivacyConfig

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig


@dataclass(frozen=True, kw_only=True)
class RoundOutcome:
    """After one round of a batch of trials.

    - `theta` `[num_trials, m]`: the new sample;
    - `observed`: numbers per trial `[num_trials]` worth keeping (`amplitude`, `active_cap`, `num_active`, where an
      attack was asked for `num_attackers`, and where a radio was on the air `airtime_s` and `energy_j`);
    - `link`, the columns of this table, and `bursts`: per device, where devices were detected on their own.
    """

    theta: F64
    observed: Mapping[str, F64] = field(default_factory=dict)
    link: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    bursts: Burstiness | None = None


def build_flmc(
    config: FlmcConfig, *, link: LinkConfig, privacy: PrivacyConfig | None, task: PosteriorTask
) -> Algorithm:
    """The scheme that the configuration names, with its link compiled. Raises LearningError as `check_attack` does."""
    check_attack(config, error_model=link.error_model)
    sampling = sampling_of(config, link=link, privacy=privacy, task=task)
    return config.sends.build(config, link=link, task=task, sampling=sampling)


def spent(round_airtime_s: F64 | None, energy_j: F64 | None) -> dict[str, F64]:
    """Latency [s] and energy of all devices [J] of one round, `[num_trials]` each; empty without a radio."""
    if round_airtime_s is None or energy_j is None:
        return {}
    return {"airtime_s": round_airtime_s, "energy_j": np.ascontiguousarray(energy_j).sum(axis=1)}


class _Rounds(Kept):
    """Parts of every scheme: the next sample from this one."""

    def __init__(self, config: FlmcConfig, *, task: PosteriorTask, sampling: Sampling) -> None:
        self.sampling = sampling
        self._config, self._task = config, task
        self._attackers = AttackersOfTrials(
            config.attack, num_devices=config.num_devices, gradient_bound=config.gradient_bound
        )

    def _clipped(self, theta: F64) -> tuple[F64, Bools]:
        """Local gradients `[num_trials, num_devices, m]` clipped per entry to |g| <= l, Zhang et al. 2022 (13).

        And the trials `[num_trials]` of which one holds NaN: a bit cannot tell so, hence the next sample is NaN.
        """
        return clipped(self._task.gradients(theta), self._config.gradient_bound)


class _OnAir(_Rounds):
    """Parts of the schemes with a radio: encoding, attackers, and the caps on the amplitude."""

    def __init__(self, config: FlmcConfig, *, task: PosteriorTask, sampling: Sampling) -> None:
        super().__init__(config, task=task, sampling=sampling)
        self._caps = {name: constant(cap) for name, cap in sampling.caps.items()}
        self.codec = config.sending.codec(config)
        self.levels = None if config.levels is None else config.levels.codec
        self._observed = LastResult(amplitude_columns)

    def _within(self, budget: ArrayLike | None) -> Mapping[str, ArrayLike]:
        """The caps, with what a budget for the run leaves of the amplitude in this round."""
        return self._caps if budget is None else {**self._caps, "budget": budget}

    def _sent(self, gradients: F64, lost: Bools, *, context: UplinkContext) -> NDArray[Any]:
        """Amplitudes, or packed bits; no codec takes NaN, for which it gets 0."""
        told = self._attackers.gradients(gradients, context=context)
        if self.codec is None:
            return told
        if lost.any() or told is not gradients:
            told = np.where(np.isnan(told), 0.0, told)
        keys, levels = context.keys(Purpose.LOCAL_TRAINING), self.levels
        if levels is not None and self._config.superposes and not self._attackers.change_bits:
            return levels.symbols(told, keys=keys)
        num_bits = self._task.dimension * self.codec.bits_per_value
        payload = self._attackers.bits(self.codec.encode(told, keys=keys).payload, num_bits=num_bits, context=context)
        if levels is None or not self._config.superposes:
            return payload
        return levels.symbols_of(payload, num_values=self._task.dimension)


class OverTheAir(_OnAir):
    """`digital` and `analog`: devices add up in the air, and receiver noise is the Langevin noise."""

    def __init__(self, config: FlmcConfig, *, task: PosteriorTask, sampling: Sampling, link: LinkConfig) -> None:
        super().__init__(config, task=task, sampling=sampling)
        if self._attackers.jam:
            # A jammer's symbols need not be signs: those of bpsk travel as the amplitudes that they are.
            link = link.model_copy(update={"modulation": "analog"})
        self.uplink: AirUplink = compile_air(
            link,
            num_devices=config.num_devices,
            num_symbols=config.payload_bits(),
            payload_bound=config.sending.payload_bound(config),
        )
        self._round_airtime_s = LastResult(partial(round_airtime, one_after_another=False))

    def round(self, theta: F64, *, context: UplinkContext, budget: ArrayLike | None = None) -> RoundOutcome:
        """One round of all trials of the batch; `budget` `[num_trials]`: the largest amplitude it leaves, None: any."""
        gradients, lost = self._clipped(theta)
        payload, jammers = self._sent(gradients, lost, context=context), None
        if self._attackers.jam:
            jammers = self._attackers.who(context)
            bits = None if self.levels is not None else self.codec
            amplitudes = payload if bits is None else bits.decode(payload, num_values=self._task.dimension)
            payload = self._attackers.symbols(amplitudes, context=context)
        heard = self.uplink.superpose(payload, context=context, caps=self._within(budget), jammers=jammers)
        estimate = sum_from_superposition(heard, num_devices=self._config.num_devices)
        if self.levels is not None:
            estimate = self.levels.reach * self.levels.of_planes(estimate)
        together = None if heard.airtime_s is None else self._round_airtime_s(heard.airtime_s)
        return RoundOutcome(
            theta=descended(theta, estimate, eta=self.sampling.eta, lost=lost),
            observed=self._observed(heard.decision)
            | {"num_active": heard.num_active.sum(axis=1) / heard.num_active.shape[1]}
            | spent(together, heard.energy_j)
            | self._attackers.told(context),
        )


class DetectedSigns(_OnAir):
    """`digital-orthogonal`: each device's bits are detected on their own, then summed; here the BER acts."""

    kept = ("uplink",)

    def __init__(self, config: FlmcConfig, *, task: PosteriorTask, sampling: Sampling, link: LinkConfig) -> None:
        super().__init__(config, task=task, sampling=sampling)
        self._link = link
        self.uplink: DigitalUplink = compile_digital(
            link, num_devices=config.num_devices, num_bits=config.payload_bits()
        )

    def round(self, theta: F64, *, context: UplinkContext, budget: ArrayLike | None = None) -> RoundOutcome:
        link, size, caps = self._link, self._task.dimension, self._within(budget)
        rate, known = None, None
        if self._config.debias:
            rate = self.uplink.probe(link.probe_bits, context=context, caps=caps).bit_error_rate
        gradients, lost = self._clipped(theta)
        heard = self.uplink.send(self._sent(gradients, lost, context=context), context=context, caps=caps)
        assert self.codec is not None
        signs = self.codec.decode(heard.payload, num_values=size)
        if heard.delivered is not None and not heard.delivered.all():
            whole = {"packet_bits": 8 * link.packet_size_bytes, "bits_per_value": self.codec.bits_per_value}
            known = known_values(heard.delivered, **whole, num_values=size)
        estimate = sum_of_devices(signs, active=heard.decision.active, bit_error_rate=rate, known=known)
        if self.levels is not None:
            estimate = self.levels.reach * estimate
        return RoundOutcome(
            theta=descended(theta, estimate, eta=self.sampling.eta, lost=lost),
            observed=self._observed(heard.decision)
            | spent(heard.round_airtime_s, heard.counts.energy_j)
            | self._attackers.told(context),
            link=link_columns(heard.counts, power_db=heard.power_db),
            bursts=heard.bursts,
        )


class ServerLangevin(_Rounds):
    """`noiseless`: clipped gradients arrive exactly, and the server adds sqrt(2 eta) N(0, I), (6)."""

    def round(self, theta: F64, *, context: UplinkContext, budget: ArrayLike | None = None) -> RoundOutcome:
        """See `OverTheAir.round`; nothing is sent."""
        eta = self.sampling.eta[:, None]
        total = self._attackers.gradients(self._clipped(theta)[0], context=context).sum(axis=1)
        noise = real_normals(context.keys(Purpose.LANGEVIN_NOISE), num_values=self._task.dimension)
        return RoundOutcome(
            theta=theta - eta * total + np.sqrt(2.0 * eta) * noise, observed=self._attackers.told(context)
        )


class ExactSamples(_Rounds):
    """`exact`: every round is an independent sample of the posterior; the floor of every metric."""

    def __init__(self, config: FlmcConfig, *, task: PosteriorTask, sampling: Sampling) -> None:
        super().__init__(config, task=task, sampling=sampling)
        self._samples = task.exact_samples(config.rounds)

    def round(self, theta: F64, *, context: UplinkContext, budget: ArrayLike | None = None) -> RoundOutcome:
        """See `OverTheAir.round`; nothing is sent."""
        return RoundOutcome(theta=self._samples[:, context.round_index])


Algorithm = OverTheAir | DetectedSigns | ServerLangevin | ExactSamples
