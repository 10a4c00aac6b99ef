"""Step size of Langevin sampling, and the caps that sampling and privacy put on the receive amplitude."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.config import LmcCap
from fl.uplink.channel_credit import sure_noise_power
from privacy.mechanisms.amplitude_privacy import AmplitudePrivacy, NoPrivacy, RoundPrivacy

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig
    from phy.config import LinkConfig
    from privacy.config import PrivacyConfig

_SHARE_OF_STABLE_STEP = 0.15
"""The paper's analog step, 1.28e-4, is 0.155 of 2 / (mu + L) on its data."""


def step_size(
    config: FlmcConfig, *, strong_convexity: NDArray[np.float64], smoothness: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Step eta of (6) per trial, `[num_trials]`: as written, or from the data where it says `auto`.

    Langevin Monte Carlo contracts for eta <= 2 / (mu + L) (Dalalyan and Karagulyan 2019, Theorem 1); `auto`
    takes 0.15 of that. One-bit gradients carry about a/2 of the size, so their step is 2/a times as long.
    """
    if config.step_size != "auto":
        return np.full(len(smoothness), config.step_size)
    stable = 2.0 / (strong_convexity + smoothness)
    one_bit = config.transmission.one_bit
    return np.asarray(_SHARE_OF_STABLE_STEP * stable * (2.0 / config.quantizer_slope if one_bit else 1.0))


def lmc_amplitude_cap(
    kind: LmcCap,
    eta: ArrayLike,
    *,
    noise_power: float,
    one_bit: bool,
    quantizer_slope: float,
    gradient_bound: float,
    num_devices: int,
) -> NDArray[np.float64]:
    """Largest receive amplitude A that leaves enough noise in the update, elementwise over `eta`; inf: none.

    - `printed`, Zhang et al. 2022 (19): eta^2 N0 / A^2 >= 2 eta, so A <= sqrt(eta N0 / 2);
    - `quantization-aware` (ours): one-bit gradients are scaled by about a/2 and bring noise of their own, so
      eta^2 (N0 / A^2 + K V) >= 2 eta_eff = eta a. V = 1 - tanh^2(a l / 2) is the smallest variance of a
      bit with |g| <= l: only noise that is surely there is credited. Same as printed for amplitudes;
    - `none`.
    """
    step = np.asarray(eta, float)
    if kind == "none":
        return np.full(step.shape, np.inf)
    if kind == "printed" or not one_bit:
        return np.sqrt(step * noise_power / 2.0)
    variance = 1.0 - np.tanh(quantizer_slope * gradient_bound / 2.0) ** 2
    missing = quantizer_slope / step - num_devices * variance
    return np.where(missing > 0, np.sqrt(noise_power / np.maximum(missing, 1e-300)), np.inf)


def round_privacy(
    config: FlmcConfig, *, link: LinkConfig, privacy: PrivacyConfig | None, dimension: int
) -> AmplitudePrivacy:
    """What one round of one device leaks to the server, as a function of the receive amplitude."""
    if privacy is None or not config.uses_radio:
        return NoPrivacy()
    return RoundPrivacy(
        config=privacy,
        kind="analog" if config.scheme == "analog" else "digital",
        dimension=dimension,
        gradient_bound=config.gradient_bound,
        quantizer_slope=config.quantizer_slope,
        # On a resource of its own a device hides behind no other sum: the one unknown symbol in (16) is
        # then its own.
        num_devices=config.num_devices if config.superposes else 2,
        noise_power=sure_noise_power(link, privacy=privacy),
    )


def lmc_cap(config: FlmcConfig, *, eta: NDArray[np.float64], noise_power: float) -> NDArray[np.float64]:
    """The LMC cap in force, `[num_trials]`."""
    return lmc_amplitude_cap(
        config.resolved_lmc_cap,
        eta,
        noise_power=noise_power,
        one_bit=config.transmission.one_bit,
        quantizer_slope=config.quantizer_slope,
        gradient_bound=config.gradient_bound,
        num_devices=config.num_devices,
    )
