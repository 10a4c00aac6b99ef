"""Conflicts and warnings of a privacy budget for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

from phy.config.conflict import Conflict
from privacy.config import BudgetConfig
from privacy.errors import PrivacyError
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario

_BUDGET = "privacy.budget"
_BLAMED = (
    ("evidence", "privacy.confidence learning.aggregation.confidence privacy.budget.delta "),
    ("channel native", "privacy.channel learning.aggregation.channel "),
    ("accountant", "privacy.budget.accountant "),
    ("aggregation", "learning.aggregation.epsilon learning.aggregation.name learning.aggregation "),
)
"""Words of a PrivacyError, and the keys that the error then blames before the budget."""


def budget_of(scenario: Scenario) -> BudgetConfig | None:
    """The budget for the whole run, None without one."""
    return None if scenario.privacy == "none" else scenario.privacy.budget


def budget_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """A delta of 0 under approximate privacy, a run without an account, a budget below the cost of one round."""
    privacy, learning = scenario.privacy, scenario.learning
    if privacy == "none" or privacy.budget is None:
        return
    budget = privacy.budget
    if not learning.takes_budget:
        yield Conflict(
            f"{_BUDGET} learning.algorithm",
            f"a budget limits what a run of flmc or fedavg sends, the algorithm is {learning.algorithm}",
            "leave budget out",
        )
        return
    if budget.delta == 0.0 and privacy.gaussian_noise is not None:
        yield Conflict(
            f"{_BUDGET}.delta {_BUDGET}",
            f"delta is 0, but {privacy.gaussian_noise} gives approximate privacy only, with a delta above 0",
            "write a delta such as 1e-5",
        )
        return
    if budget.delta == 0.0 and budget.accountant not in ("basic", "exact"):
        yield Conflict(
            f"{_BUDGET}.delta {_BUDGET}.accountant {_BUDGET}",
            f"delta is 0, but accountant {budget.accountant} needs one above 0",
            "write a delta such as 1e-5, or accountant: basic",
        )
        return
    try:
        found = list(learning.budget_conflicts(link=resolve_auto(scenario).link, privacy=privacy))
        if not found and rounds_known(scenario) == 0:
            found = [Conflict.of(f"{_BUDGET}.epsilon {_BUDGET}", budget.too_small)]
    except PrivacyError as error:
        problem = str(error).partition("; ")[0]
        blamed = next((keys for word, keys in _BLAMED if word in problem), "")
        found = [Conflict.of(f"{blamed}{_BUDGET}.epsilon {_BUDGET}", error, usual="change the budget")]
    yield from found


def rounds_known(scenario: Scenario) -> int | None:
    """Rounds within a budget that only watches; None if only the trials can tell, or if calibration fits all rounds.

    Raises PrivacyError if no account can be made.
    """
    privacy = scenario.privacy
    if privacy == "none" or privacy.budget is None or privacy.calibrated:
        return None
    return scenario.learning.rounds_within(link=resolve_auto(scenario).link, privacy=privacy)


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Warn of a budget that is spent before the last round."""
    learning, budget = scenario.learning, budget_of(scenario)
    burn_in = getattr(learning, "burn_in", -1)
    rounds = rounds_known(scenario)
    if budget is None or rounds is None or rounds >= learning.rounds:
        return
    what = "the trials stop after" if budget.action == "stop" else "no device sends after"
    text = f"privacy.budget: epsilon {budget.epsilon:g} is spent after {rounds} of {learning.rounds} rounds"
    if budget.action == "stop" and rounds <= burn_in:
        yield f"{text}, and of {burn_in} rounds of burn-in no sample counts; write calibrate: true"
    else:
        yield f"{text}, and {what} that; write calibrate: true to spread it over all"
