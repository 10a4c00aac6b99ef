"""Privacy loss of a run: mechanisms, events, accountants and audits, in NumPy and SciPy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privacy.ciphers import Cipher, build_cipher
    from privacy.config import AnalogTail, PrivacyConfig
    from privacy.errors import PrivacyError
    from privacy.mechanisms.amplitude_privacy import AmplitudePrivacy, NoPrivacy, RoundPrivacy
    from privacy.mechanisms.bit_distance import KappaEstimate, measure_kappa
    from privacy.mechanisms.bit_flipping import (
        TargetRate,
        aes_ciphertext_rate,
        aes_plaintext_rate,
        artificial_rate,
        composed_rate,
        credited_channel_rate,
        epsilon_of,
        recovered_factor,
        target_bit_error_rate,
    )
    from privacy.mechanisms.flip_plans import CLAMP_WORDS, FlipPlan, plan_flips
    from privacy.mechanisms.flmc_analog import analog_amplitude_cap, analog_delta, analog_tail_inverse, analog_within
    from privacy.mechanisms.flmc_digital import (
        DeltaEstimate,
        digital_amplitude_cap,
        digital_delta,
        digital_delta_monte_carlo,
        digital_loss,
        digital_loss_bound,
    )
    from privacy.mechanisms.gaussian_mechanism import (
        calibrated_sigma,
        delta_from_renyi,
        printed_sigma,
        sensitivity,
        spent_epsilon,
    )

__all__ = [
    "CLAMP_WORDS",
    "AmplitudePrivacy",
    "AnalogTail",
    "Cipher",
    "DeltaEstimate",
    "FlipPlan",
    "KappaEstimate",
    "NoPrivacy",
    "PrivacyConfig",
    "PrivacyError",
    "RoundPrivacy",
    "TargetRate",
    "aes_ciphertext_rate",
    "aes_plaintext_rate",
    "analog_amplitude_cap",
    "analog_delta",
    "analog_tail_inverse",
    "analog_within",
    "artificial_rate",
    "build_cipher",
    "calibrated_sigma",
    "composed_rate",
    "credited_channel_rate",
    "delta_from_renyi",
    "digital_amplitude_cap",
    "digital_delta",
    "digital_delta_monte_carlo",
    "digital_loss",
    "digital_loss_bound",
    "epsilon_of",
    "measure_kappa",
    "plan_flips",
    "printed_sigma",
    "recovered_factor",
    "sensitivity",
    "spent_epsilon",
    "target_bit_error_rate",
]

_HOMES = {
    "config": {"AnalogTail", "PrivacyConfig"},
    "errors": {"PrivacyError"},
    "mechanisms.amplitude_privacy": {"AmplitudePrivacy", "NoPrivacy", "RoundPrivacy"},
    "mechanisms.bit_distance": {"KappaEstimate", "measure_kappa"},
    "mechanisms.bit_flipping": {
        "TargetRate",
        "aes_ciphertext_rate",
        "aes_plaintext_rate",
        "artificial_rate",
        "composed_rate",
        "credited_channel_rate",
        "epsilon_of",
        "recovered_factor",
        "target_bit_error_rate",
    },
    "mechanisms.flip_plans": {"CLAMP_WORDS", "FlipPlan", "plan_flips"},
    "ciphers": {"Cipher", "build_cipher"},
    "mechanisms.gaussian_mechanism": {
        "calibrated_sigma",
        "delta_from_renyi",
        "printed_sigma",
        "sensitivity",
        "spent_epsilon",
    },
    "mechanisms.flmc_analog": {"analog_amplitude_cap", "analog_delta", "analog_tail_inverse", "analog_within"},
    "mechanisms.flmc_digital": {
        "DeltaEstimate",
        "digital_amplitude_cap",
        "digital_delta",
        "digital_delta_monte_carlo",
        "digital_loss",
        "digital_loss_bound",
    },
}


def __getattr__(name: str) -> object:
    """Load a public name on first use, so that importing the package is fast."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"privacy.{module}"), name)
    raise AttributeError(f"module 'privacy' has no attribute {name!r}")
