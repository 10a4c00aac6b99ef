"""What a budget for the run leaves for every round: flip probability, noise, amplitude, the epsilon of a scheme."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_releases import Release, flmc_release, release_of
from fl.config import FedAvgConfig, FlmcConfig
from fl.config.scheme import AggregatorConfig, JopeqScheme, MvuScheme, ProbitScheme
from phy.config import LinkConfig
from privacy.config import BudgetConfig, SchemeBudget, UploadPrivacy
from privacy.errors import PrivacyError

Floats = NDArray[np.float64]

_LEAST_EPSILON, _MOST_EPSILON, _MOST_MVU = 1e-6, 1e6, 20.0


def round_parameters(config: FedAvgConfig | FlmcConfig, *, budget: BudgetConfig, release: Release) -> Floats:
    """The parameter of every round, as ledgers have it, `[num_rounds]`. Raises PrivacyError as `calibrated` does."""
    from privacy.accounting.calibration import calibrated, schedule_weights

    return calibrated(
        release.form.kind,
        budget=run_budget(budget, evidence=release.evidence),
        coordinates=release.form.coordinates,
        weights=schedule_weights(budget.schedule, num_rounds=config.rounds, ratio=budget.ratio),
        facts=release.form.facts,
    )


def run_budget(budget: BudgetConfig, *, evidence: float = 0.0) -> Any:
    """The budget as accountants know it, a `privacy.accounting.calibration.RunBudget`."""
    from privacy.accounting.calibration import RunBudget

    return RunBudget(epsilon=budget.epsilon, delta=budget.delta, accountant=budget.accountant, evidence=evidence)


def upload_parameters(config: FedAvgConfig, *, link: LinkConfig, privacy: UploadPrivacy) -> Floats:
    """Noise multipliers of GaussianBudget, or flip probabilities of BitFlippingBudget, `[num_rounds]`.

    `link` names its modulation. Raises PrivacyError where the budget holds nothing.
    """
    assert privacy.budget is not None
    return round_parameters(config, budget=privacy.budget, release=release_of(config, link=link, privacy=privacy))


def amplitude_caps(config: FlmcConfig, *, budget: BudgetConfig, noise_power: float) -> Floats:
    """The largest received amplitude A of every round, `[num_rounds]`, math.inf where any keeps the budget.

    Raises PrivacyError where the budget holds nothing.
    """
    release = flmc_release(config, relative_amplitude=None)
    found = round_parameters(config, budget=budget, release=release)
    if release.form.kind == "gaussian":
        # Backwards from `flmc_release`: the multiplier at amplitude 1 over that at A.
        at_one = flmc_release(config, relative_amplitude=1.0).parameter
        assert at_one is not None
        found = at_one / found
    return np.asarray(found * math.sqrt(noise_power))


def settled(learning: Any, *, link: LinkConfig, privacy: Any) -> Any:
    """The learning with the epsilon that a budget leaves to its scheme in place of the one written; else as it is.

    PRoBit: epsilon of an upload, and where its bound is fixed b as that asks (`probit_bound.dp_bound`). `link` names
    its modulation. Raises PrivacyError where no epsilon of the scheme keeps the budget.
    """
    calibrates = isinstance(privacy, SchemeBudget) and privacy.budget.calibrate
    if not (calibrates and isinstance(learning, FedAvgConfig)):
        return learning
    scheme, budget = learning.aggregation, privacy.budget
    release = release_of(learning, link=link, privacy=privacy)
    assert not isinstance(scheme, AggregatorConfig)
    if isinstance(scheme, JopeqScheme):
        raise PrivacyError(
            "the noise of jopeq follows from its quantiser as well as from its epsilon, which no budget is turned "
            "into; write budget.calibrate: false, or another aggregation."
        )
    if budget.schedule != "uniform":
        raise PrivacyError(
            f"aggregation {scheme.name} has one epsilon for all rounds, and the schedule is {budget.schedule}; leave "
            "schedule out."
        )
    parameter = float(round_parameters(learning, budget=budget, release=release)[0])
    epsilon = math.log1p(-parameter) - math.log(parameter) if release.form.kind == "flipped-bits" else parameter
    epsilon = min(epsilon, _MOST_MVU if isinstance(scheme, MvuScheme) else _MOST_EPSILON)
    if epsilon <= _LEAST_EPSILON:
        raise PrivacyError(
            f"the budget of epsilon {budget.epsilon:g} leaves each of {release.form.coordinates:,} numbers of "
            f"{learning.rounds} rounds an epsilon of {epsilon:.2g}, below {_LEAST_EPSILON:g}; raise it, or use a "
            "smaller model."
        )
    changes: Mapping[str, Any] = {"epsilon": epsilon, **_bound(scheme, epsilon, learning)}
    return learning.model_copy(update={"aggregation": scheme.model_copy(update=changes)})


def _bound(scheme: object, epsilon: float, learning: FedAvgConfig) -> Mapping[str, float]:
    if not isinstance(scheme, ProbitScheme) or scheme.bound != "fixed" or scheme.l1_clip is None:
        return {}
    from fl.footprint.fedavg import dimension
    from fl.schemes.probit.probit_bound import dp_bound

    b = dp_bound(
        epsilon=epsilon, l1_clip=scheme.l1_clip, clip=scheme.clip, form=scheme.form, num_values=dimension(learning)
    )
    return {"b": float(b)}
