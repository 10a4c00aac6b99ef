"""Values of `auto` and of keys that are left out."""

from __future__ import annotations

from typing import Any

from fl.config import FedAvgConfig, FlmcConfig, ModelConfig
from phy.config import Access, LinkConfig, Modulation
from phy.engines.choice import engine_of
from scenarios.schema.schema import Scenario

ACCESS: dict[str, Access] = {"digital": "superposition", "analog": "superposition", "digital-orthogonal": "orthogonal"}
"""Access of each scheme of flmc."""

_MODULATION: dict[str, Modulation] = {"digital": "bpsk", "analog": "analog", "digital-orthogonal": "bpsk"}


def resolve_auto(scenario: Scenario) -> Scenario:
    """Make access, modulation, code rate, engine, `lmc_cap` and the codec of a downlink explicit.

    The link of an algorithm without a radio keeps `auto`, which then has no meaning.
    """
    learning = scenario.learning
    changes: dict[str, Any] = {}
    if isinstance(learning, FlmcConfig) and learning.lmc_cap is None:
        changes["learning"] = learning.model_copy(update={"lmc_cap": learning.resolved_lmc_cap})
    if isinstance(learning, FedAvgConfig) and learning.downlink != "ideal":
        downlink = _resolved(learning.downlink, access="orthogonal", modulation="qpsk")
        codec = learning.downlink_codec or learning.codec
        changes["learning"] = learning.model_copy(update={"downlink": downlink, "downlink_codec": codec})
    if learning.uses_radio:
        access: Access = ACCESS[learning.scheme] if isinstance(learning, FlmcConfig) else "orthogonal"
        modulation: Modulation = _MODULATION[learning.scheme] if isinstance(learning, FlmcConfig) else "qpsk"
        changes["link"] = _resolved(scenario.link, access=access, modulation=modulation)
    return with_code_digest(scenario.model_copy(update=changes) if changes else scenario)


def with_code_digest(scenario: Scenario) -> Scenario:
    """Copy the digest of the file of the user's own model from `code`, if it has one."""
    model = own_model(scenario) if scenario.code else None
    if model is None or model.function is None:
        return scenario
    digest = scenario.code.get(model.function.partition(":")[0], model.digest)
    pinned = scenario.learning.model_copy(update={"model": model.model_copy(update={"digest": digest})})
    return scenario.model_copy(update={"learning": pinned})


def own_model(scenario: Scenario) -> ModelConfig | None:
    """The model if it is a function of the user, else None."""
    model = getattr(scenario.learning, "model", None)
    return model if isinstance(model, ModelConfig) and model.function is not None else None


def _resolved(link: LinkConfig, *, access: Access, modulation: Modulation) -> LinkConfig:
    resolved = link.resolve_mcs()
    update = {
        "access": access if link.access == "auto" else link.access,
        "modulation": modulation if resolved.modulation == "auto" else resolved.modulation,
    }
    resolved = resolved.model_copy(update=update)
    return resolved.model_copy(update={"engine": engine_of(resolved)})
