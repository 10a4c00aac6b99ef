"""Caps on the receive amplitude of federated Langevin Monte Carlo that are known before a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.config import FlmcConfig
from fl.footprint.flmc import dimension
from phy.config import LinkConfig
from privacy.config import PrivacyConfig
from scenarios.schema.schema import Scenario


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


def caps_of(scenario: Scenario) -> Caps | None:
    """Caps at one sweep point; None for schemes without a radio and for algorithms that send no amplitudes."""
    learning, link = scenario.learning, scenario.link
    if not isinstance(learning, FlmcConfig) or not learning.uses_radio or link.error_model == "error_free":
        return None
    privacy = scenario.privacy if isinstance(scenario.privacy, PrivacyConfig) else None
    power = _power_cap(learning, link)
    lmc = _lmc_cap(learning, link)
    private, loss_bound = _privacy_cap(learning, link, privacy)
    if power is None:
        binding = "varies with the channel"
    elif lmc is None:
        binding = "depends on the data"
    else:
        binding = min([(power, "power"), (lmc, "lmc"), (private, "privacy")])[1]
    return Caps(power=power, lmc=lmc, privacy=private, binding=binding, loss_bound=loss_bound)


def _power_cap(learning: FlmcConfig, link: LinkConfig) -> float | None:
    if link.channel.fades or link.channel.cell is not None or link.csi_error_variance > 0:
        return None
    bound = learning.gradient_bound if learning.scheme == "analog" else 1.0
    gains = link.channel.gains(learning.num_devices)
    weakest = float(np.mean(gains)) if link.power.policy == "fixed" else min(gains)
    return float(weakest * link.max_power**0.5 / bound)


def _lmc_cap(learning: FlmcConfig, link: LinkConfig) -> float | None:
    from fl.algorithms.flmc import lmc_cap

    if learning.step_size == "auto" and learning.resolved_lmc_cap != "none":
        return None
    eta = np.array([learning.step_size if learning.step_size != "auto" else 1.0])
    return float(lmc_cap(learning, eta=eta, noise_power=link.channel.noise_power)[0])


def _privacy_cap(learning: FlmcConfig, link: LinkConfig, privacy: PrivacyConfig | None) -> tuple[float, float | None]:
    if privacy is None:
        return float("inf"), None
    from fl.algorithms.flmc import round_privacy

    bound = round_privacy(learning, link=link, privacy=privacy, dimension=dimension(learning))
    return bound.amplitude_cap(), bound.loss_bound()
