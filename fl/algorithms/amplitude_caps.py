"""Caps on the receive amplitude of federated Langevin Monte Carlo that are known before a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fl.algorithms.lmc_caps import lmc_cap, round_privacy
from phy.config import LinkConfig
from privacy.config import AnyPrivacyConfig, PrivacyConfig

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig


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


def caps_of(learning: FlmcConfig, *, link: LinkConfig, privacy: AnyPrivacyConfig | None) -> Caps | None:
    """Return the caps at one sweep point; None without a radio."""
    if not learning.uses_radio or link.error_model == "error_free":
        return None
    bound = privacy if isinstance(privacy, PrivacyConfig) else None
    power = _power_cap(learning, link)
    lmc = _lmc_cap(learning, link)
    private, loss_bound = _privacy_cap(learning, link, bound)
    if power is None:
        binding = "varies with the channel"
    elif lmc is None:
        binding = "depends on the data"
    else:
        binding = min([(power, "power"), (lmc, "lmc"), (private, "privacy")])[1]
    return Caps(power=power, lmc=lmc, privacy=private, binding=binding, loss_bound=loss_bound)


def _power_cap(learning: FlmcConfig, link: LinkConfig) -> float | None:
    control = link.power.control
    if control.kernel is None or link.channel.fades or link.channel.cell is not None or link.csi_error_variance > 0:
        return None
    bound = learning.payload_bound
    gains = link.channel.gains(learning.num_devices)
    weakest = float(np.mean(gains)) if control.constant else min(gains)
    return float(weakest * link.max_power**0.5 / bound)


def _lmc_cap(learning: FlmcConfig, link: LinkConfig) -> float | None:
    if learning.step_size == "auto" and learning.resolved_lmc_cap != "none":
        return None
    eta = np.array([learning.step_size if learning.step_size != "auto" else 1.0])
    return float(lmc_cap(learning, eta=eta, noise_power=link.channel.noise_power)[0])


def _privacy_cap(learning: FlmcConfig, link: LinkConfig, privacy: PrivacyConfig | None) -> tuple[float, float | None]:
    if privacy is None:
        return float("inf"), None
    bound = round_privacy(learning, link=link, privacy=privacy, dimension=learning.num_values())
    return bound.amplitude_cap(), bound.loss_bound()
