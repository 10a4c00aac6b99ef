"""Conflicts and warnings of a privacy budget for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FedAvgConfig, FlmcConfig
from fl.uplink.noise_floor import sure_noise_power
from privacy.config import (
    AmplitudeBudget,
    BitFlippingBudget,
    BitFlippingConfig,
    BudgetConfig,
    GaussianBudget,
    GaussianConfig,
    PrivacyConfig,
    SchemeBudget,
)
from privacy.errors import PrivacyError
from scenarios.schema.consistency.conflict import Conflict
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
    privacy, learning, budget = scenario.privacy, scenario.learning, budget_of(scenario)
    if budget is None:
        return
    if not isinstance(learning, FlmcConfig | FedAvgConfig):
        yield Conflict(
            f"{_BUDGET} learning.algorithm",
            f"a budget limits what a run of flmc or fedavg sends, the algorithm is {learning.algorithm}",
            "leave budget out",
        )
        return
    if budget.delta == 0.0 and isinstance(privacy, PrivacyConfig | AmplitudeBudget | GaussianConfig | GaussianBudget):
        noise = "Gaussian noise" if isinstance(learning, FedAvgConfig) else "noise of the receiver"
        yield Conflict(
            f"{_BUDGET}.delta {_BUDGET}",
            f"delta is 0, but {noise} gives approximate privacy only, with a delta above 0",
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
        found = list(_flmc(learning, scenario) if isinstance(learning, FlmcConfig) else _fedavg(learning, scenario))
    except PrivacyError as error:
        problem = str(error).partition("; ")[0]
        blamed = next((keys for word, keys in _BLAMED if word in problem), "")
        found = [Conflict.of(f"{blamed}{_BUDGET}.epsilon {_BUDGET}", error, usual="change the budget")]
    yield from found


def _flmc(learning: FlmcConfig, scenario: Scenario) -> Iterator[Conflict]:
    privacy, budget = scenario.privacy, budget_of(scenario)
    if budget is None or not isinstance(privacy, PrivacyConfig | AmplitudeBudget):
        return
    if not learning.uses_radio:
        yield Conflict(
            f"{_BUDGET} learning.scheme",
            f"scheme {learning.scheme} sends nothing, so that a budget has nothing to limit",
            "write privacy: none, or scheme: digital",
        )
        return
    from fl.accounting.ledger_flmc import uncreditable

    link = resolve_auto(scenario).link
    reason = uncreditable(learning, link=link)
    if reason is not None and link.error_model != "error_free":
        yield Conflict(
            f"{_BUDGET} link.error_model link.modulation link.coding",
            f"a budget relies on the receiver's noise, but {reason}",
            "write error_model: measured and an uncoded bpsk or qpsk link, or leave budget out",
        )
        return
    if link.csi != "perfect" or link.error_model == "error_free":
        yield Conflict(
            f"{_BUDGET} link.csi link.error_model",
            "a budget limits the received amplitude, which is unknown with an estimated channel and without a channel",
            "write csi: perfect and error_model: measured, or leave budget out",
        )
        return
    from fl.accounting.budget_found import amplitude_caps

    if isinstance(privacy, AmplitudeBudget):
        amplitude_caps(learning, budget=budget, noise_power=sure_noise_power(link, privacy=privacy))
    elif rounds_known(scenario) == 0:
        yield _no_round(budget)


def _fedavg(learning: FedAvgConfig, scenario: Scenario) -> Iterator[Conflict]:
    from fl.accounting.budget_found import settled, upload_parameters

    privacy, budget, link = scenario.privacy, budget_of(scenario), resolve_auto(scenario).link
    if isinstance(privacy, GaussianBudget | BitFlippingBudget):
        upload_parameters(learning, link=link, privacy=privacy)
    elif isinstance(privacy, SchemeBudget) and privacy.budget.calibrate:
        settled(learning, link=link, privacy=privacy)
    elif budget is not None and rounds_known(scenario) == 0:
        yield _no_round(budget)


def _no_round(budget: BudgetConfig) -> Conflict:
    from fl.accounting.budget_uploads import none_fits

    return Conflict.of(f"{_BUDGET}.epsilon {_BUDGET}", none_fits(budget))


def rounds_known(scenario: Scenario) -> int | None:
    """Rounds within a budget that only watches; None if only the trials can tell, or if calibration fits all rounds.

    Raises PrivacyError if no account can be made.
    """
    privacy, learning, budget = scenario.privacy, scenario.learning, budget_of(scenario)
    if budget is None or budget.calibrate:
        return None
    link = resolve_auto(scenario).link
    if isinstance(learning, FedAvgConfig):
        from fl.accounting.budget_uploads import rounds_within

        if not isinstance(privacy, BitFlippingConfig | GaussianConfig | SchemeBudget):
            return None
        return rounds_within(learning, link=link, privacy=privacy)
    if not isinstance(learning, FlmcConfig) or not learning.uses_radio or not isinstance(privacy, PrivacyConfig):
        return None
    from scenarios.schema.caps import caps_of

    caps = caps_of(scenario)
    gains = scenario.link.channel.gains(learning.num_devices)
    if caps is None or caps.power is None or caps.lmc is None or len(set(gains)) > 1:
        return None
    from fl.accounting.budget_found import run_budget
    from fl.accounting.budget_releases import flmc_release
    from privacy.accounting.calibration import rounds_that_fit

    strongest = min(caps.power, caps.lmc, caps.privacy) / sure_noise_power(link, privacy=privacy) ** 0.5
    release = flmc_release(learning, relative_amplitude=strongest)
    return rounds_that_fit(
        release.event(), coordinates=release.form.coordinates, most=learning.rounds, budget=run_budget(budget)
    )


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Warn of a budget that is spent before the last round."""
    learning, budget = scenario.learning, budget_of(scenario)
    rounds = rounds_known(scenario)
    if budget is None or rounds is None or rounds >= learning.rounds:
        return
    what = "the trials stop after" if budget.action == "stop" else "no device sends after"
    text = f"privacy.budget: epsilon {budget.epsilon:g} is spent after {rounds} of {learning.rounds} rounds"
    if isinstance(learning, FlmcConfig) and budget.action == "stop" and rounds <= learning.burn_in:
        yield f"{text}, and of {learning.burn_in} rounds of burn-in no sample counts; write calibrate: true"
    else:
        yield f"{text}, and {what} that; write calibrate: true to spread it over all"
