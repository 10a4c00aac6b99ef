"""The `privacy:` part of a scenario, validated and immutable."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any, get_args

from privacy.config.amplitude import (
    AmplitudeBudget,
    AmplitudeMechanism,
    AnalogCap,
    DigitalCap,
    PrivacyConfig,
    ReceiverMechanism,
)
from privacy.config.base import BudgetConfig, Calibrated, Mechanism, SchemeBudget, Training, UploadMechanism
from privacy.config.bit_flipping import BitFlippingBudget, BitFlippingConfig, FlippedBits
from privacy.config.clipped_update import ClippedUpdate, DeviceNoise, ReceiverNoise
from privacy.config.gaussian import GaussianBudget, GaussianConfig, NoisyNumbers
from privacy.config.stated_noise import StatedNoise


def _final(cls: type[Mechanism]) -> set[type[Mechanism]]:
    """Return the subclasses that have no subclass: bases of mechanisms cannot be written in a scenario."""
    below = cls.__subclasses__()
    return set().union(*map(_final, below)) if below else set() if inspect.isabstract(cls) else {cls}


def _found() -> dict[str, type[Mechanism]]:
    """Return the mechanisms of every module of this folder by their keys, see `key_of_mechanism`."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found = {}
    for cls in _final(Mechanism):
        (word,) = get_args(cls.model_fields["mechanism"].annotation) if "mechanism" in cls.model_fields else (_UNNAMED,)
        found[word + _CALIBRATED * issubclass(cls, Calibrated)] = cls
    return found


def key_of_mechanism(value: Any) -> str:
    """Return the key in `MECHANISMS` of a privacy section, which `mechanism` and a calibrating budget select.

    A word of none of them is returned as it is.
    """
    named, budget = value.get("mechanism"), value.get("budget")
    word = _UNNAMED if named is None else str(named)
    calibrated = budget is not None and (not isinstance(budget, dict) or budget.get("calibrate", True) is not False)
    return word + _CALIBRATED if calibrated and word + _CALIBRATED in MECHANISMS else word


_UNNAMED, _CALIBRATED = "amplitude", " from a budget"
MECHANISMS = _found()
"""The mechanisms of this folder, classes without subclasses: by their words, with a suffix where a budget sets them."""

__all__ = [
    "MECHANISMS",
    "AmplitudeBudget",
    "AmplitudeMechanism",
    "AnalogCap",
    "BitFlippingBudget",
    "BitFlippingConfig",
    "BudgetConfig",
    "Calibrated",
    "ClippedUpdate",
    "DeviceNoise",
    "DigitalCap",
    "FlippedBits",
    "GaussianBudget",
    "GaussianConfig",
    "Mechanism",
    "NoisyNumbers",
    "PrivacyConfig",
    "ReceiverMechanism",
    "ReceiverNoise",
    "SchemeBudget",
    "StatedNoise",
    "Training",
    "UploadMechanism",
    "key_of_mechanism",
]
