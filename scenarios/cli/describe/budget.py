"""Text of `phyloop check` about a budget for the whole run: the release of a round, or the number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.uplink.channel_credit import sure_noise_power
from scenarios.schema.consistency.budget import budget_of, rounds_known
from scenarios.schema.consistency.conflict import mechanism_of
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario

HEADS = ("epsilon", "delta", "accountant", "release per round", "rounds sent")


def learning_within(scenario: Scenario) -> Any:
    """The learning of the run, with the epsilon of its scheme from the budget."""
    return scenario.learning.settled(link=resolve_auto(scenario).link, privacy=mechanism_of(scenario))


def budget_cells(scenario: Scenario) -> tuple[str, ...] | None:
    """A cell for each of `HEADS`; None without a budget."""
    budget, learning = budget_of(scenario), scenario.learning
    if budget is None or not learning.takes_budget:
        return None
    rounds = learning.rounds if budget.calibrate else rounds_known(scenario)
    holds = "known as trials run" if rounds is None else f"{rounds} of {learning.rounds}"
    if rounds is not None and rounds < learning.rounds:
        holds += ", then stop" if budget.action == "stop" else ", then silent"
    left = _left(scenario) if budget.calibrate else "as written"
    return f"{budget.epsilon:g}", f"{budget.delta:g}", budget.accountant, left, holds


def _left(scenario: Scenario) -> str:
    from fl.accounting.ledger_flmc import amplitude_caps
    from fl.accounting.uploads import upload_parameters

    privacy, link, learning = scenario.privacy, resolve_auto(scenario).link, learning_within(scenario)
    assert privacy != "none"
    if (bound := privacy.for_amplitudes) is not None:
        assert bound.budget is not None
        caps = amplitude_caps(learning, budget=bound.budget, noise_power=sure_noise_power(link, privacy=bound))
        return "any amplitude" if np.isinf(caps).all() else f"amplitude up to {_range(caps)}"
    found, mechanism = upload_parameters(learning, link=link, privacy=privacy), privacy.for_uploads
    if mechanism is not None:
        return f"{mechanism.words} {_range(found)}"
    scheme = learning.aggregation
    return f"epsilon {scheme.own_epsilon:.6g} per {scheme.epsilon_per}"


def _range(values: Any) -> str:
    first, last = float(values[0]), float(values[-1])
    return f"{first:.6g}" if first == last else f"{first:.6g} at first, {last:.6g} at last"
