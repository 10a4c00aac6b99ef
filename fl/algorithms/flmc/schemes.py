"""Schemes of federated Langevin Monte Carlo: what devices send in a round, what it releases, and what sums it up."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from fl.base.arrays import F64
from fl.base.fields import Frozen
from phy.config.base import Access, Modulation
from phy.config.by_word import ByWord
from phy.config.registry import Registry
from privacy.events.releases import Release
from privacy.events.superposed import SuperposedBit, analog_noise_multiplier
from privacy.mechanisms.flmc_analog import analog_delta
from privacy.mechanisms.flmc_digital import digital_delta, digital_loss_bound

if TYPE_CHECKING:
    from fl.algorithms.flmc.amplitude_caps import Sampling
    from fl.algorithms.flmc.config import FlmcConfig
    from fl.algorithms.flmc.one_bit import StochasticOneBit
    from fl.algorithms.flmc.rounds import Algorithm
    from fl.algorithms.flmc.stochastic_levels import StochasticLevels
    from fl.algorithms.flmc.tasks.regression import PosteriorTask
    from phy.config import LinkConfig
    from privacy.events.events import Event


class FlmcScheme(Frozen):
    """One way in which gradients of all devices become the next sample.

    - `access`, `modulation`: what the link is where it says `auto`; no access: no radio;
    - `open_to`: what an attack may act on, `updates`, `bits` or `air`;
    - `instead`: a scheme for another access; empty for none.
    """

    access: ClassVar[Access | None] = None
    modulation: ClassVar[Modulation] = "bpsk"
    one_bit: ClassVar[bool] = False
    debiases: ClassVar[bool] = False
    open_to: ClassVar[tuple[str, ...]] = ()
    instead: ClassVar[str] = ""

    if TYPE_CHECKING:  # a field of every subclass, with the word as its type
        name: str

    @abstractmethod
    def build(self, config: FlmcConfig, *, link: LinkConfig, task: PosteriorTask, sampling: Sampling) -> Algorithm:
        """Return the rounds of a batch of trials, with the link compiled."""

    def carried_by(self, modulation: Modulation) -> bool:
        """Return True if a modulation carries what devices send: amplitudes, bits, or bits that add up in the air."""
        if not self.one_bit:
            return modulation == "analog"
        return modulation == "bpsk" or (modulation != "analog" and self.access != "superposition")


class Sending(FlmcScheme):
    """Base of schemes that send over a radio.

    `claimed_as`: the kind of `privacy.mechanisms.amplitude_privacy`; `equation` of Zhang et al. 2022 for its delta;
    `hidden_by`: what hides a gradient; `unprotected`: the ledger's parameter where no noise of the receiver counts.
    """

    claimed_as: ClassVar[Literal["analog", "digital"]] = "digital"
    equation: ClassVar[int]
    hidden_by: ClassVar[str]
    unprotected: ClassVar[float]

    def without_noise(self, config: FlmcConfig) -> float:
        """Return the ledger's parameter where no noise of the receiver counts."""
        return self.unprotected if config.levels is None else config.levels.unprotected

    def payload_bound(self, config: FlmcConfig) -> float:
        """Return the largest magnitude of a number before it is scaled to the receive amplitude."""
        return 1.0 if self.one_bit else config.gradient_bound

    def codec(self, config: FlmcConfig) -> StochasticOneBit | StochasticLevels | None:
        """Return the quantizer of gradients; None for amplitudes."""
        if config.levels is not None:
            return config.levels.codec
        if not self.one_bit:
            return None
        from fl.algorithms.flmc.one_bit import StochasticOneBit

        return StochasticOneBit(slope=config.quantizer_slope)

    @abstractmethod
    def _release(self, config: FlmcConfig, parameter: float | None) -> Release:
        """Return the release of a device in a round; no parameter: not known."""

    @abstractmethod
    def parameter(self, config: FlmcConfig, amplitude: ArrayLike, *, noise_power: float) -> F64:
        """Return the ledger's parameter at received amplitudes A [W^(1/2)], of their shape."""

    @abstractmethod
    def relative_amplitude(self, config: FlmcConfig, parameter: F64) -> F64:
        """Return A in units of sqrt(N0) at the ledger's parameter, of its shape."""

    @abstractmethod
    def event(self, config: FlmcConfig, relative_amplitude: float) -> Event:
        """Return the event of one entry at an amplitude A in units of sqrt(N0)."""

    @abstractmethod
    def delta_of(self, config: FlmcConfig, *, amplitude: float, noise_power: float) -> Callable[[float], Any]:
        """Return the delta of a round by the paper's `equation`, as a function of epsilon."""

    def largest_loss(self, config: FlmcConfig) -> float | None:
        """Return the largest loss of a round whatever the noise; None: without limit."""
        return None

    def release(self, config: FlmcConfig, *, relative_amplitude: float | None = None) -> Release:
        """Return the release of a device in a round, at an amplitude A in units of sqrt(N0); None: not known."""
        if relative_amplitude is None:
            return self._release(config, None)
        return self._release(config, float(self.parameter(config, relative_amplitude, noise_power=1.0)))

    def build(self, config: FlmcConfig, *, link: LinkConfig, task: PosteriorTask, sampling: Sampling) -> Algorithm:
        from fl.algorithms.flmc.rounds import DetectedSigns, OverTheAir

        rounds = OverTheAir if self.access == "superposition" else DetectedSigns
        return rounds(config, task=task, sampling=sampling, link=link)

    def _setting(self, config: FlmcConfig, *, amplitude: ArrayLike, noise_power: float) -> dict[str, Any]:
        levels = {"amplitude": amplitude, "noise_power": noise_power}
        return levels | {"dimension": config.num_values(), "gradient_bound": config.gradient_bound}


flmc_schemes: Registry[FlmcScheme] = Registry("flmc scheme", FlmcScheme)
SCHEME = ByWord(flmc_schemes)


@flmc_schemes.register
class Analog(Sending):
    """Gradients as amplitudes, superposed: the whole gradient under Gaussian noise, Zhang et al. 2022 (20)."""

    access, modulation = "superposition", "analog"
    open_to = ("updates", "air")
    claimed_as, equation, hidden_by, unprotected = "analog", 21, "receiver noise as a Gaussian mechanism", 0.0

    name: Literal["analog"] = "analog"

    def _release(self, config: FlmcConfig, parameter: float | None) -> Release:
        return Release(kind="gaussian", unit="device", parameter=parameter)

    def parameter(self, config: FlmcConfig, amplitude: ArrayLike, *, noise_power: float) -> F64:
        """See `Sending.parameter`: the noise multiplier 1 / (2 A l sqrt(m)), the l2 distance being 2 l sqrt(m)."""
        return analog_noise_multiplier(**self._setting(config, amplitude=amplitude, noise_power=noise_power))

    def relative_amplitude(self, config: FlmcConfig, parameter: F64) -> F64:
        """See `Sending.relative_amplitude`: the multiplier at amplitude 1 over that at A."""
        return np.asarray(float(self.parameter(config, 1.0, noise_power=1.0)) / parameter)

    def event(self, config: FlmcConfig, relative_amplitude: float) -> Event:
        from privacy.events.noise_events import GaussianNoise

        return GaussianNoise(noise_multiplier=1.0 / (2.0 * relative_amplitude * config.gradient_bound))

    def delta_of(self, config: FlmcConfig, *, amplitude: float, noise_power: float) -> Callable[[float], Any]:
        return partial(analog_delta, **self._setting(config, amplitude=amplitude, noise_power=noise_power))


class OneBit(Sending):
    """Base of schemes that send bits: one per entry, +-1 with log odds of at most a l, or those of levels."""

    one_bit = True
    equation, hidden_by, unprotected = 16, "two mixtures of Gaussians in every entry", math.inf

    def _release(self, config: FlmcConfig, parameter: float | None) -> Release:
        if config.levels is not None:
            return config.levels.release(parameter)
        return Release(
            kind="superposed-bits",
            unit="device",
            coordinates=config.num_values(),
            facts={"entry_bound": config.quantizer_slope * config.gradient_bound},
            parameter=parameter,
        )

    def parameter(self, config: FlmcConfig, amplitude: ArrayLike, *, noise_power: float) -> F64:
        if config.levels is not None:
            return config.levels.parameter(amplitude, noise_power=noise_power)
        return np.asarray(amplitude, np.float64) / math.sqrt(noise_power)

    def relative_amplitude(self, config: FlmcConfig, parameter: F64) -> F64:
        return parameter if config.levels is None else config.levels.relative_amplitude(parameter)

    def event(self, config: FlmcConfig, relative_amplitude: float) -> Event:
        if config.levels is not None:
            return config.levels.event(relative_amplitude)
        return SuperposedBit(amplitude=relative_amplitude, entry_bound=config.quantizer_slope * config.gradient_bound)

    def delta_of(self, config: FlmcConfig, *, amplitude: float, noise_power: float) -> Callable[[float], Any]:
        if config.levels is not None:
            return config.levels.delta_of(amplitude=amplitude, noise_power=noise_power)
        return partial(
            digital_delta,
            quantizer_slope=config.quantizer_slope,
            num_devices=config.hiding_devices,
            **self._setting(config, amplitude=amplitude, noise_power=noise_power),
        )

    def largest_loss(self, config: FlmcConfig) -> float | None:
        """See `Sending.largest_loss`: m a l; levels have none."""
        if config.levels is not None:
            return None
        return digital_loss_bound(
            dimension=config.num_values(), gradient_bound=config.gradient_bound, quantizer_slope=config.quantizer_slope
        )


@flmc_schemes.register
class Digital(OneBit):
    """One-bit gradients as BPSK, superposed, Zhang et al. 2022 (8)."""

    access = "superposition"
    open_to = ("updates", "bits", "air")
    instead = "digital-orthogonal"

    name: Literal["digital"] = "digital"


@flmc_schemes.register
class DigitalOrthogonal(OneBit):
    """The bits of `digital`, each device detected on resources of its own, then summed."""

    access = "orthogonal"
    debiases = True
    open_to = ("updates", "bits")
    instead = "digital"

    name: Literal["digital-orthogonal"] = "digital-orthogonal"


@flmc_schemes.register
class Noiseless(FlmcScheme):
    """No radio: the server receives exact gradients and adds the Langevin noise itself, Zhang et al. 2022 (6)."""

    open_to = ("updates",)

    name: Literal["noiseless"] = "noiseless"

    def build(self, config: FlmcConfig, *, link: LinkConfig, task: PosteriorTask, sampling: Sampling) -> Algorithm:
        from fl.algorithms.flmc.rounds import ServerLangevin

        return ServerLangevin(config, task=task, sampling=sampling)


@flmc_schemes.register
class Exact(FlmcScheme):
    """No devices: independent samples of the exact posterior."""

    name: Literal["exact"] = "exact"

    def build(self, config: FlmcConfig, *, link: LinkConfig, task: PosteriorTask, sampling: Sampling) -> Algorithm:
        from fl.algorithms.flmc.rounds import ExactSamples

        return ExactSamples(config, task=task, sampling=sampling)
