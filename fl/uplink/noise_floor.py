"""Noise of the receiver that may count as privacy: less than its nominal power, where the scenario says so."""

from __future__ import annotations

from functools import lru_cache

from phy.config import LinkConfig
from privacy.config import AmplitudeBudget, PrivacyConfig
from privacy.evidence import credited_noise_power, listener_sentence


def sure_noise_power(link: LinkConfig, *, privacy: PrivacyConfig | AmplitudeBudget | None) -> float:
    """N0 10^(-(tolerance + advantage) / 10) [W]: a listener with so many dB more of signal has as much less noise."""
    if privacy is None:
        return link.channel.noise_power
    less_db = privacy.noise_tolerance_db + privacy.listener_advantage_db
    return _credited(link.channel.noise_power, less_db)


@lru_cache(maxsize=64)
def _credited(noise_power: float, less_db: float) -> float:
    """Every trial of a point asks for the same."""
    return float(credited_noise_power(noise_power, tolerance_db=less_db))


def listener_of(privacy: PrivacyConfig | AmplitudeBudget | None) -> str:
    """The sentence on whoever listens that a claim with the receiver's noise credited has to name."""
    if privacy is None:
        return listener_sentence()
    return listener_sentence(advantage_db=privacy.listener_advantage_db, tolerance_db=privacy.noise_tolerance_db)
