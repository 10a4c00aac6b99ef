"""The `privacy:` part of a scenario, validated and immutable."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from privacy.config.amplitude import AmplitudeBudget, AmplitudeMechanism, AnalogTail, PrivacyConfig, ReceiverMechanism
from privacy.config.base import BudgetConfig, Calibrated, Mechanism, SchemeBudget, Training, UploadMechanism
from privacy.config.bit_flipping import BitFlippingBudget, BitFlippingConfig, FlippedBits
from privacy.config.clipped_update import ClippedUpdate, DeviceNoise, ReceiverNoise
from privacy.config.gaussian import GaussianBudget, GaussianConfig, NoisyNumbers

_WITH_A_BUDGET = ("amplitude", "bit-flipping", "gaussian")


def _mechanism(value: Any) -> str:
    """The tag of a privacy section; `amplitude`, the bound of FLMC, has no key `mechanism`."""

    def of(one: Any, key: str, default: Any) -> Any:
        return one.get(key, default) if isinstance(one, dict) else getattr(one, key, default)

    named, budget = of(value, "mechanism", None), of(value, "budget", None)
    word = "amplitude" if named is None else str(named)
    found = budget is not None and of(budget, "calibrate", True) is not False
    return f"{word} from a budget" if found and word in _WITH_A_BUDGET else word


AnyPrivacyConfig = Annotated[
    Annotated[PrivacyConfig, Tag("amplitude")]
    | Annotated[BitFlippingConfig, Tag("bit-flipping")]
    | Annotated[GaussianConfig, Tag("gaussian")]
    | Annotated[SchemeBudget, Tag("scheme")]
    | Annotated[ReceiverNoise, Tag("receiver-noise")]
    | Annotated[DeviceNoise, Tag("device-noise")]
    | Annotated[AmplitudeBudget, Tag("amplitude from a budget")]
    | Annotated[BitFlippingBudget, Tag("bit-flipping from a budget")]
    | Annotated[GaussianBudget, Tag("gaussian from a budget")],
    Discriminator(_mechanism),
]
"""One class per mechanism, selected by `mechanism` and by a calibrating budget."""

UploadPrivacy = (
    BitFlippingConfig | GaussianConfig | BitFlippingBudget | GaussianBudget | SchemeBudget | ReceiverNoise | DeviceNoise
)
"""Mechanisms for uploads of federated averaging."""

__all__ = [
    "AmplitudeBudget",
    "AmplitudeMechanism",
    "AnalogTail",
    "AnyPrivacyConfig",
    "BitFlippingBudget",
    "BitFlippingConfig",
    "BudgetConfig",
    "Calibrated",
    "ClippedUpdate",
    "DeviceNoise",
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
    "UploadPrivacy",
]
