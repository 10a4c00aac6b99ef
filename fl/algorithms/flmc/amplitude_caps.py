"""Step size of Langevin sampling, and the caps that sampling, privacy and power put on the receive amplitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fl.algorithms.flmc.tasks import build_task
from fl.algorithms.flmc.tasks.config import TaskConfig
from fl.base.arrays import F64
from fl.uplink.channel_credit import sure_noise_power
from phy.config import LinkConfig
from phy.config.levels import listed_gains
from privacy.config import Mechanism, PrivacyConfig
from privacy.mechanisms.amplitude_privacy import AmplitudePrivacy, NoPrivacy, RoundPrivacy

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig
    from fl.algorithms.flmc.tasks.regression import PosteriorTask

_SHARE_OF_STABLE_STEP = 0.15
"""The paper's analog step, 1.28e-4, is 0.155 of 2 / (mu + L) on its data."""

_FEW_PRODUCTS = 10_000_000
"""Products of two inputs, N m^2, that the data of a trial take in some 0.1 s."""


def step_size(config: FlmcConfig, *, strong_convexity: F64, smoothness: F64) -> F64:
    """Step eta of (6) per trial, `[num_trials]`: as written, or from the data where it says `auto`.

    Langevin Monte Carlo contracts for eta <= 2 / (mu + L) (Dalalyan and Karagulyan 2019, Theorem 1); `auto`
    takes 0.15 of that. One-bit gradients carry about a/2 of the size, so their step may be 2/a times as long, but
    neither longer than 2 / (mu + L), the rule by which Zhang et al. 2022 tune, nor than a / K, see
    `FlmcConfig.longest_sampling_step`.
    """
    if config.step_size != "auto":
        return np.full(len(smoothness), config.step_size)
    stable = 2.0 / (strong_convexity + smoothness)
    step = _SHARE_OF_STABLE_STEP * stable * (2.0 / config.quantizer_slope if config.sends_signs else 1.0)
    return np.asarray(np.minimum(np.minimum(step, stable), config.longest_sampling_step))


def lmc_amplitude_cap(config: FlmcConfig, eta: ArrayLike, *, noise_power: float) -> F64:
    """Largest receive amplitude A that leaves enough noise in the update, elementwise over `eta`; inf: none.

    - `printed`, Zhang et al. 2022 (19): eta^2 N0 / A^2 >= 2 eta, so A <= sqrt(eta N0 / 2);
    - `quantization-aware` (ours): one-bit gradients are scaled by about a/2 and bring noise of their own, so
      eta^2 (N0 / A^2 + K V) >= 2 eta_eff = eta a. V = 1 - tanh^2(a l / 2) is the smallest variance of a
      bit with |g| <= l: only noise that is surely there is credited. Same as printed for amplitudes;
    - `none`.

    Levels of 2 bits or more arrive in units of their range: N0 is then that of a gradient, `Levels.noise_gain` times
    as much. Their rounding is surely worth nothing, as a level itself is sent without a draw.
    """
    step, kind = np.asarray(eta, float), config.resolved_lmc_cap
    if kind == "none":
        return np.full(step.shape, np.inf)
    if kind == "printed" or not config.sends_signs:
        gain = 1.0 if config.levels is None else config.levels.noise_gain
        return np.sqrt(step * (gain * noise_power) / 2.0)
    variance = 1.0 - np.tanh(config.quantizer_slope * config.gradient_bound / 2.0) ** 2
    missing = config.quantizer_slope / step - config.num_devices * variance
    return np.where(missing > 0, np.sqrt(noise_power / np.maximum(missing, 1e-300)), np.inf)


def round_privacy(config: FlmcConfig, *, link: LinkConfig, privacy: PrivacyConfig | None) -> AmplitudePrivacy:
    """What one round of one device leaks to the server, as a function of the receive amplitude."""
    if privacy is None or not config.uses_radio:
        return NoPrivacy()
    if config.levels is not None:
        noise_power = sure_noise_power(link, privacy=privacy)
        return config.levels.privacy(epsilon=privacy.epsilon, delta=privacy.delta, noise_power=noise_power)
    return RoundPrivacy(
        config=privacy,
        kind=config.sending.claimed_as,
        dimension=config.num_values(),
        gradient_bound=config.gradient_bound,
        quantizer_slope=config.quantizer_slope,
        num_devices=config.hiding_devices,
        noise_power=sure_noise_power(link, privacy=privacy),
    )


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How trials sample: the step `eta` `[num_trials]`, the loss of a round, and what both cap the amplitude to."""

    eta: F64
    lmc: F64
    privacy: AmplitudePrivacy

    @property
    def caps(self) -> dict[str, ArrayLike]:
        """The caps of sampling `[num_trials]` and of privacy."""
        return {"lmc": self.lmc, "privacy": self.privacy.amplitude_cap()}


def sampling_of(
    config: FlmcConfig, *, link: LinkConfig, privacy: PrivacyConfig | None, task: PosteriorTask
) -> Sampling:
    """Return how the trials of `task` sample over `link`."""
    eta = step_size(config, strong_convexity=task.strong_convexity, smoothness=task.smoothness)
    return Sampling(
        eta=eta,
        lmc=lmc_amplitude_cap(config, eta, noise_power=link.channel.noise_power),
        privacy=round_privacy(config, link=link, privacy=privacy),
    )


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Caps on the receive amplitude A at one sweep point; None for a cap that only the run can tell.

    `binding` names the smallest cap, or the reason why it is unknown. `loss_bound` is the largest privacy loss of a
    round at any amplitude, None without a privacy bound.
    """

    power: float | None
    lmc: float | None
    privacy: float
    binding: str
    loss_bound: float | None

    @property
    def smallest(self) -> float | None:
        """The smallest cap; None where the run alone can tell."""
        return None if self.power is None or self.lmc is None else min(self.power, self.lmc, self.privacy)


def _drawn_at_once(task: TaskConfig) -> bool:
    return task.name == "gaussian-linear" and task.num_samples * task.dimension**2 <= _FEW_PRODUCTS


def caps_of(
    learning: FlmcConfig, *, link: LinkConfig, privacy: Mechanism | None, seed: int | None = None
) -> Caps | None:
    """Return the caps at one sweep point; None without a radio.

    With a `seed`, the LMC cap of an automatic step is that of the first trial's data, where these are drawn in 0.1 s.
    """
    if not learning.uses_radio or link.error_model == "error_free":
        return None
    power, control, lmc = None, link.control, None
    varies = link.channel.fades or link.channel.cell is not None or link.csi_error_variance > 0
    if control.kernel is not None and not varies:
        gains = listed_gains(link, learning.num_devices)
        weakest = float(np.mean(gains) if control.constant else gains.min())
        power = float(weakest * link.max_power**0.5 / learning.sending.payload_bound(learning))
    if learning.step_size != "auto" or learning.resolved_lmc_cap == "none":
        eta = 1.0 if learning.step_size == "auto" else learning.step_size
        lmc = float(lmc_amplitude_cap(learning, eta, noise_power=link.channel.noise_power))
    elif seed is not None and _drawn_at_once(learning.task):
        task = build_task(learning.task, num_devices=learning.num_devices, seed=seed, trials=(0,))
        lmc = float(sampling_of(learning, link=link, privacy=None, task=task).lmc[0])
    bound = round_privacy(learning, link=link, privacy=privacy if isinstance(privacy, PrivacyConfig) else None)
    private = bound.amplitude_cap()
    if power is None:
        binding = "varies with the channel"
    elif lmc is None:
        binding = "depends on the data"
    else:
        binding = min([(power, "power"), (lmc, "lmc"), (private, "privacy")])[1]
    loss_bound = None if isinstance(bound, NoPrivacy) else bound.loss_bound()
    return Caps(power=power, lmc=lmc, privacy=private, binding=binding, loss_bound=loss_bound)
