"""What each round leaks: pure NumPy and SciPy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privacy.amplitude_privacy import AmplitudePrivacy, NoPrivacy, RoundPrivacy
    from privacy.config import AnalogTail, PrivacyConfig
    from privacy.errors import PrivacyError
    from privacy.flmc_analog import analog_amplitude_cap, analog_delta, analog_tail_inverse, analog_within
    from privacy.flmc_digital import (
        DeltaEstimate,
        digital_amplitude_cap,
        digital_delta,
        digital_delta_monte_carlo,
        digital_loss,
        digital_loss_bound,
    )

__all__ = [
    "AmplitudePrivacy",
    "AnalogTail",
    "DeltaEstimate",
    "NoPrivacy",
    "PrivacyConfig",
    "PrivacyError",
    "RoundPrivacy",
    "analog_amplitude_cap",
    "analog_delta",
    "analog_tail_inverse",
    "analog_within",
    "digital_amplitude_cap",
    "digital_delta",
    "digital_delta_monte_carlo",
    "digital_loss",
    "digital_loss_bound",
]

_HOMES = {
    "config": {"AnalogTail", "PrivacyConfig"},
    "errors": {"PrivacyError"},
    "amplitude_privacy": {"AmplitudePrivacy", "NoPrivacy", "RoundPrivacy"},
    "flmc_analog": {"analog_amplitude_cap", "analog_delta", "analog_tail_inverse", "analog_within"},
    "flmc_digital": {
        "DeltaEstimate",
        "digital_amplitude_cap",
        "digital_delta",
        "digital_delta_monte_carlo",
        "digital_loss",
        "digital_loss_bound",
    },
}


def __getattr__(name: str) -> object:
    """Load a public name on first use, so that only those who use it wait for its imports."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"privacy.{module}"), name)
    raise AttributeError(f"module 'privacy' has no attribute {name!r}")
