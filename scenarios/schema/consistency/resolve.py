"""What `auto` and what is left out stand for."""

from __future__ import annotations

from typing import Any

from fl.config import FedAvgConfig, FlmcConfig, ModelConfig
from phy.config import Access, LinkConfig, Modulation
from phy.engines.choice import engine_of
from scenarios.schema.schema import Scenario

ACCESS: dict[str, Access] = {
    "digital": "superposition",
    "analog": "superposition",
    "digital-orthogonal": "orthogonal",
}
"""How the bits or amplitudes of a scheme of flmc share the air."""

_MODULATION: dict[str, Modulation] = {"digital": "bpsk", "analog": "analog", "digital-orthogonal": "bpsk"}


def resolve_auto(scenario: Scenario) -> Scenario:
    """The same scenario with `access`, `modulation`, code rate, engine, `lmc_cap` and the codec of a downlink explicit.

    What has no radio keeps `auto` in its link: it stands for nothing there.
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
        access, modulation = sent_as(scenario)
        changes["link"] = _resolved(scenario.link, access=access, modulation=modulation)
    resolved = scenario.model_copy(update=changes) if changes else scenario
    return with_code_digest(resolved) if scenario.code else resolved


def with_code_digest(scenario: Scenario) -> Scenario:
    """The same with the digest that `code` has for the file of the user's own model, if it is one and has one."""
    model = own_model(scenario)
    if model is None or model.function is None:
        return scenario
    digest = scenario.code.get(model.function.partition(":")[0], model.digest)
    pinned = scenario.learning.model_copy(update={"model": model.model_copy(update={"digest": digest})})
    return scenario.model_copy(update={"learning": pinned})


def own_model(scenario: Scenario) -> ModelConfig | None:
    """The model that is the user's own function, if there is one."""
    model = getattr(scenario.learning, "model", None)
    return model if isinstance(model, ModelConfig) and model.function is not None else None


def sent_as(scenario: Scenario) -> tuple[Access, Modulation]:
    """Access and modulation of what is learnt: of whole numbers, bits on QPSK, every device on its own."""
    learning = scenario.learning
    if isinstance(learning, FlmcConfig):
        return ACCESS[learning.scheme], _MODULATION[learning.scheme]
    return "orthogonal", "qpsk"


def _resolved(link: LinkConfig, *, access: Access, modulation: Modulation) -> LinkConfig:
    resolved = link.resolve_mcs()
    resolved = resolved.model_copy(
        update={
            "access": access if link.access == "auto" else link.access,
            "modulation": modulation if resolved.modulation == "auto" else resolved.modulation,
        }
    )
    return resolved.model_copy(update={"engine": engine_of(resolved)})
