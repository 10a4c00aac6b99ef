"""The `privacy:` part of a scenario, validated and immutable."""

from __future__ import annotations

import importlib
import operator
import pkgutil
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import Discriminator, Tag

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


def _final(cls: type[Mechanism]) -> set[type[Mechanism]]:
    """Return the subclasses that have no subclass: bases of mechanisms cannot be written in a scenario."""
    below = cls.__subclasses__()
    return set().union(*map(_final, below)) if below else {cls}


def _found() -> dict[str, type[Mechanism]]:
    """Return the mechanisms of every module of this folder by their tags, those from a budget last."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found = {}
    for cls in _final(Mechanism):
        (word,) = get_args(cls.model_fields["mechanism"].annotation) if "mechanism" in cls.model_fields else (_UNNAMED,)
        found[word + _CALIBRATED * issubclass(cls, Calibrated)] = cls
    return dict(sorted(found.items(), key=lambda item: (_CALIBRATED in item[0], item[0])))


def _tag(value: Any) -> str:
    """Return the tag of a privacy section, which `mechanism` and a calibrating budget select."""

    def of(one: Any, key: str, default: Any) -> Any:
        return one.get(key, default) if isinstance(one, dict) else getattr(one, key, default)

    named, budget = of(value, "mechanism", None), of(value, "budget", None)
    word = _UNNAMED if named is None else str(named)
    calibrated = budget is not None and of(budget, "calibrate", True) is not False
    return word + _CALIBRATED if calibrated and word + _CALIBRATED in _MECHANISMS else word


_UNNAMED, _CALIBRATED = "amplitude", " from a budget"
_MECHANISMS = _found()

if TYPE_CHECKING:
    AnyPrivacyConfig = Mechanism
else:
    _MEMBERS = (Annotated[cls, Tag(tag)] for tag, cls in _MECHANISMS.items())
    AnyPrivacyConfig = Annotated[reduce(operator.or_, _MEMBERS), Discriminator(_tag)]
"""One of the mechanisms: the classes without subclasses that the modules of this folder define."""

__all__ = [
    "AmplitudeBudget",
    "AmplitudeMechanism",
    "AnalogCap",
    "AnyPrivacyConfig",
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
    "Training",
    "UploadMechanism",
]
