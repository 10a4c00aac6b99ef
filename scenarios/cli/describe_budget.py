"""Text of `phyloop check` about a budget for the whole run: the release of a round, or the number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.config import AggregatorConfig, FedAvgConfig, FlmcConfig
from fl.uplink.noise_floor import sure_noise_power
from privacy.config import AmplitudeBudget, BitFlippingBudget, GaussianBudget, SchemeBudget
from scenarios.schema.consistency.budget import budget_of, rounds_known
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario

HEADS = ("epsilon", "delta", "accountant", "release per round", "rounds sent")


def learning_within(scenario: Scenario) -> Any:
    """The learning of the run, with the epsilon of its scheme from the budget."""
    from fl.accounting.budget_found import settled

    return settled(scenario.learning, link=resolve_auto(scenario).link, privacy=scenario.privacy)


def budget_cells(scenario: Scenario) -> tuple[str, ...] | None:
    """A cell for each of `HEADS`; None without a budget."""
    budget, learning = budget_of(scenario), scenario.learning
    if budget is None or not isinstance(learning, FlmcConfig | FedAvgConfig):
        return None
    rounds = learning.rounds if budget.calibrate else rounds_known(scenario)
    holds = "known as trials run" if rounds is None else f"{rounds} of {learning.rounds}"
    if rounds is not None and rounds < learning.rounds:
        holds += ", then stop" if budget.action == "stop" else ", then silent"
    left = _left(scenario) if budget.calibrate else "as written"
    return f"{budget.epsilon:g}", f"{budget.delta:g}", budget.accountant, left, holds


def _left(scenario: Scenario) -> str:
    from fl.accounting.budget_found import amplitude_caps, upload_parameters

    privacy, learning, link = scenario.privacy, scenario.learning, resolve_auto(scenario).link
    if isinstance(privacy, AmplitudeBudget) and isinstance(learning, FlmcConfig):
        noise_power = sure_noise_power(link, privacy=privacy)
        caps = amplitude_caps(learning, budget=privacy.budget, noise_power=noise_power)
        return "any amplitude" if np.isinf(caps).all() else f"amplitude up to {_range(caps)}"
    if isinstance(privacy, GaussianBudget | BitFlippingBudget) and isinstance(learning, FedAvgConfig):
        found = upload_parameters(learning, link=link, privacy=privacy)
        name = "noise multiplier" if isinstance(privacy, GaussianBudget) else "bits flipped with probability"
        return f"{name} {_range(found)}"
    scheme = learning_within(scenario).aggregation if isinstance(privacy, SchemeBudget) else AggregatorConfig()
    if isinstance(scheme, AggregatorConfig):
        return ""
    bound = f", b = {scheme.b:.6g}" if scheme.name == "probit" and scheme.bound == "fixed" else ""
    return f"epsilon {scheme.epsilon:.6g} of an upload{bound}" if bound else f"epsilon {scheme.epsilon:.6g} each"


def _range(values: Any) -> str:
    first, last = float(values[0]), float(values[-1])
    return f"{first:.6g}" if first == last else f"{first:.6g} at first, {last:.6g} at last"
