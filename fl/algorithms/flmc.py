"""Federated Langevin Monte Carlo, digital against analog, Zhang et al. 2022.

One round: theta <- theta - eta (estimate of sum_k g_k), where the estimate carries whatever noise
quantiser and radio put into it, or, without a radio, Langevin noise of the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.aggregation.estimates import sum_from_superposition, sum_of_devices
from fl.algorithms.lmc_caps import lmc_cap, round_privacy, step_size
from fl.attacks.flmc_attackers import AttackersOfTrials, check_attack
from fl.checkpoints import State
from fl.codecs.bits.one_bit import StochasticOneBit
from fl.results import CAP_NAMES
from fl.tasks import PosteriorTask
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import AirUplink, DigitalUplink, Forgetful, known_bits, round_airtime
from phy.links.power import AmplitudeDecision
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts
from phy.numerics.cache import LastResult, constant
from phy.numerics.random import Purpose, real_normals
from privacy.config import PrivacyConfig
from privacy.mechanisms.amplitude_privacy import AmplitudePrivacy, NoPrivacy

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig


@dataclass(frozen=True, kw_only=True)
class RoundOutcome:
    """After one round of a batch of trials.

    - `theta` `[num_trials, m]`: the new sample;
    - `observed`: numbers per trial `[num_trials]` worth keeping (`amplitude`, `active_cap`, `num_active`, where an
      attack was asked for `num_attackers`, and where a radio was on the air `airtime_s` and `energy_j`);
    - `counts`, `power_db` and `bursts`: per device, where devices were detected on their own, see `Reception`.
    """

    theta: NDArray[np.float64]
    observed: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    counts: LinkCounts | None = None
    power_db: NDArray[np.float64] | None = None
    bursts: Burstiness | None = None


class Algorithm(Protocol):
    """One small verb: the next state from this one, over the radio."""

    privacy: AmplitudePrivacy

    def round(
        self, theta: NDArray[np.float64], *, context: UplinkContext, budget: ArrayLike | None = None
    ) -> RoundOutcome:
        """One round of all trials of the batch; `budget` `[num_trials]`: the largest amplitude it leaves, None: any."""
        ...

    def state(self) -> State:
        """What the parts below learning, links above all, keep from round to round; see `fl.checkpoints`."""
        ...

    def restore(self, state: State) -> None:
        """Go on from there. Raises LinkError for the state of another link."""
        ...


def build_flmc(
    config: FlmcConfig, *, link: LinkConfig, privacy: PrivacyConfig | None, task: PosteriorTask
) -> Algorithm:
    """The scheme that the configuration names, with its link compiled. Raises LearningError as `check_attack` does."""
    check_attack(config, error_model=link.error_model)
    eta = step_size(config, strong_convexity=task.strong_convexity, smoothness=task.smoothness)
    if config.scheme == "exact":
        return ExactSamples(task, num_samples=config.rounds)
    if config.scheme == "noiseless":
        return ServerLangevin(config, task=task, eta=eta)
    bound = round_privacy(config, link=link, privacy=privacy, dimension=task.dimension)
    caps: dict[str, ArrayLike] = {
        "lmc": lmc_cap(config, eta=eta, noise_power=link.channel.noise_power),
        "privacy": bound.amplitude_cap(),
    }
    sizes = {"num_devices": config.num_devices}
    if config.scheme == "digital-orthogonal":
        uplink = compile_digital(link, num_bits=task.dimension, **sizes)
        return DetectedSigns(config, task=task, eta=eta, uplink=uplink, link=link, caps=caps, privacy=bound)
    payload_bound = config.payload_bound
    if _attackers(config).jam:
        # A jammer's symbols need not be signs: those of bpsk travel as the amplitudes that they are.
        link = link.model_copy(update={"modulation": "analog"})
    air = compile_air(link, num_symbols=task.dimension, payload_bound=payload_bound, **sizes)
    return OverTheAir(config, task=task, eta=eta, uplink=air, caps=caps, privacy=bound)


def _attackers(config: FlmcConfig) -> AttackersOfTrials:
    return AttackersOfTrials(config.attack, num_devices=config.num_devices, gradient_bound=config.gradient_bound)


def _within(caps: Mapping[str, ArrayLike], budget: ArrayLike | None) -> Mapping[str, ArrayLike]:
    """The caps, with what a budget for the run leaves of the amplitude in this round."""
    return caps if budget is None else {**caps, "budget": budget}


@dataclass(frozen=True)
class Gradients:
    """Local gradients `[num_trials, num_devices, m]`, and the trials `[num_trials]` of which one holds NaN."""

    values: NDArray[np.float64]
    lost: NDArray[np.bool_]


def clipped_gradients(gradients: NDArray[np.float64], bound: float) -> Gradients:
    """Local gradients clipped per entry to |g| <= l, Zhang et al. 2022 (13)."""
    # Here, because numba takes a while to import.
    from fl.algorithms.flmc_kernels import clipped

    return Gradients(*clipped(gradients, bound))


def encodable(told: NDArray[np.float64], gradients: Gradients) -> NDArray[np.float64]:
    """What devices tell, with a number for NaN, which no codec takes; see `descended`."""
    from fl.algorithms.flmc_kernels import rows_with_nan

    lost = gradients.lost if told is gradients.values else rows_with_nan(told)
    return np.where(np.isnan(told), 0.0, told) if lost.any() else told


def descended(
    theta: NDArray[np.float64], estimate: NDArray[np.float64], *, eta: NDArray[np.float64], gradients: Gradients
) -> NDArray[np.float64]:
    """The next sample of an estimate of the gradient, `[num_trials, m]`, with a step `eta` `[num_trials]` of each.

    NaN for trials with a gradient that is NaN: a bit cannot tell so.
    """
    # Here, because numba takes a while to import.
    from fl.algorithms import flmc_kernels

    return flmc_kernels.descended(theta, estimate, eta=eta, lost=gradients.lost)


def observed(decision: AmplitudeDecision) -> dict[str, NDArray[np.float64]]:
    """What power control decided, `[num_trials]` each; `active_cap` as a code of `CAP_NAMES`."""
    codes = np.array([CAP_NAMES.index(name) for name in decision.limit_names] + [0], float)
    return {
        "amplitude": decision.amplitude,
        "peak_amplitude": decision.peak_amplitude,
        "active_cap": codes[decision.limit],
        "num_active": decision.active.sum(axis=1).astype(float),
    }


def spent(
    round_airtime_s: NDArray[np.float64] | None, energy_j: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """Latency [s] and energy of all devices [J] of one round, `[num_trials]` each; empty without a radio.

    `energy_j` `[num_trials, num_devices]`. Known bits of a probe are not part of it.
    """
    if round_airtime_s is None or energy_j is None:
        return {}
    # Here, because numba takes a while to import.
    from fl.algorithms.flmc_kernels import row_sums

    return {"airtime_s": round_airtime_s, "energy_j": row_sums(energy_j)}


class OverTheAir(Forgetful):
    """`digital` and `analog`: devices add up in the air, and receiver noise is the Langevin noise."""

    def __init__(
        self,
        config: FlmcConfig,
        *,
        task: PosteriorTask,
        eta: NDArray[np.float64],
        uplink: AirUplink,
        caps: Mapping[str, ArrayLike],
        privacy: AmplitudePrivacy,
    ) -> None:
        self.privacy = privacy
        self._config, self._task, self._uplink = config, task, uplink
        self._caps = {name: constant(cap) for name, cap in caps.items()}
        self._eta = eta
        self._codec = StochasticOneBit(slope=config.quantizer_slope) if config.scheme == "digital" else None
        self._attackers = _attackers(config)
        self._observed = LastResult(observed)
        self._round_airtime_s = LastResult(partial(round_airtime, one_after_another=False))

    def round(
        self, theta: NDArray[np.float64], *, context: UplinkContext, budget: ArrayLike | None = None
    ) -> RoundOutcome:
        gradients = clipped_gradients(self._task.gradients(theta), self._config.gradient_bound)
        payload, jammers = self._sent(gradients, context), None
        if self._attackers.jam:
            jammers = self._attackers.who(context)
            amplitudes = self._codec.decode(payload, num_values=self._task.dimension) if self._codec else payload
            payload = self._attackers.symbols(amplitudes, context=context)
        heard = self._uplink.superpose(payload, context=context, caps=_within(self._caps, budget), jammers=jammers)
        estimate = sum_from_superposition(heard, num_devices=self._config.num_devices)
        together = None if heard.airtime_s is None else self._round_airtime_s(heard.airtime_s)
        return RoundOutcome(
            theta=descended(theta, estimate, eta=self._eta, gradients=gradients),
            observed=self._observed(heard.decision)
            | {"num_active": _mean_of_columns(heard.num_active)}
            | spent(together, heard.energy_j)
            | self._attackers.told(context),
        )

    def _sent(self, gradients: Gradients, context: UplinkContext) -> NDArray[Any]:
        """Amplitudes, or packed bits."""
        told = self._attackers.gradients(gradients.values, context=context)
        if self._codec is None:
            return told
        payload = self._codec.encode(encodable(told, gradients), keys=context.keys(Purpose.LOCAL_TRAINING)).payload
        return self._attackers.bits(payload, num_bits=self._task.dimension, context=context)


def _mean_of_columns(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean of `[num_trials, n]` over its columns; of one column, the column."""
    return np.asarray(counts[:, 0].astype(float) if counts.shape[1] == 1 else counts.mean(axis=1))


class DetectedSigns:
    """`digital-orthogonal`: each device's bits are detected on their own, then summed; here the BER acts."""

    def __init__(
        self,
        config: FlmcConfig,
        *,
        task: PosteriorTask,
        eta: NDArray[np.float64],
        uplink: DigitalUplink,
        link: LinkConfig,
        caps: Mapping[str, ArrayLike],
        privacy: AmplitudePrivacy,
    ) -> None:
        self.privacy = privacy
        self._config, self._task, self._uplink, self._caps = config, task, uplink, caps
        self._eta = eta
        self._codec = StochasticOneBit(slope=config.quantizer_slope)
        self._attackers = _attackers(config)
        self._observed = LastResult(observed)
        self._probe_bits = link.probe_bits
        self._packet_bits = 8 * link.packet_size_bytes

    def round(
        self, theta: NDArray[np.float64], *, context: UplinkContext, budget: ArrayLike | None = None
    ) -> RoundOutcome:
        rate = None
        if self._config.debias:
            rate = self._uplink.probe(
                self._probe_bits, context=context, caps=_within(self._caps, budget)
            ).bit_error_rate
        gradients = clipped_gradients(self._task.gradients(theta), self._config.gradient_bound)
        told = self._attackers.gradients(gradients.values, context=context)
        payload = self._codec.encode(encodable(told, gradients), keys=context.keys(Purpose.LOCAL_TRAINING)).payload
        payload = self._attackers.bits(payload, num_bits=self._task.dimension, context=context)
        heard = self._uplink.send(payload, context=context, caps=_within(self._caps, budget))
        signs = self._codec.decode(heard.payload, num_values=self._task.dimension)
        known = None
        if heard.delivered is not None and not heard.delivered.all():
            known = known_bits(heard.delivered, packet_bits=self._packet_bits, num_bits=self._task.dimension)
        estimate = sum_of_devices(signs, active=heard.decision.active, bit_error_rate=rate, known=known)
        return RoundOutcome(
            theta=descended(theta, estimate, eta=self._eta, gradients=gradients),
            observed=self._observed(heard.decision)
            | spent(heard.round_airtime_s, heard.counts.energy_j)
            | self._attackers.told(context),
            counts=heard.counts,
            power_db=heard.power_db,
            bursts=heard.bursts,
        )

    def state(self) -> State:
        return self._uplink.state()

    def restore(self, state: State) -> None:
        self._uplink.restore(state)


class ServerLangevin(Forgetful):
    """`noiseless`: clipped gradients arrive exactly, and the server adds sqrt(2 eta) N(0, I), (6)."""

    def __init__(self, config: FlmcConfig, *, task: PosteriorTask, eta: NDArray[np.float64]) -> None:
        self.privacy: AmplitudePrivacy = NoPrivacy()
        self._config, self._task = config, task
        self._attackers = _attackers(config)
        self._eta = eta[:, None]

    def round(
        self, theta: NDArray[np.float64], *, context: UplinkContext, budget: ArrayLike | None = None
    ) -> RoundOutcome:
        gradients = clipped_gradients(self._task.gradients(theta), self._config.gradient_bound)
        total = self._attackers.gradients(gradients.values, context=context).sum(axis=1)
        noise = real_normals(context.keys(Purpose.LANGEVIN_NOISE), num_values=self._task.dimension)
        return RoundOutcome(
            theta=theta - self._eta * total + np.sqrt(2.0 * self._eta) * noise, observed=self._attackers.told(context)
        )


class ExactSamples(Forgetful):
    """`exact`: every round is an independent sample of the posterior; the floor of every metric."""

    def __init__(self, task: PosteriorTask, *, num_samples: int) -> None:
        self.privacy: AmplitudePrivacy = NoPrivacy()
        self._samples = task.exact_samples(num_samples)

    def round(
        self, theta: NDArray[np.float64], *, context: UplinkContext, budget: ArrayLike | None = None
    ) -> RoundOutcome:
        return RoundOutcome(theta=self._samples[:, context.round_index])
