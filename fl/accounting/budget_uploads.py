"""Which device may still upload: what of the budget is left, asked before every round of federated averaging."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_found import run_budget
from fl.accounting.budget_releases import release_of
from fl.checkpoints import State, kept_array, kept_number
from fl.config import FedAvgConfig
from fl.partition.participation import Participants
from phy.config import LinkConfig
from privacy.config import BudgetConfig, UploadPrivacy
from privacy.errors import PrivacyError


@dataclass(kw_only=True)
class UploadAllowance:
    """Uploads of every device of federated averaging: `most` of them each, None: as many as there are rounds.

    What a round releases at most is known before the run, so the accountant was asked once how many fit. Who takes
    part follows from the seed alone, and is no business of the data.
    """

    num_devices: int
    most: int | None = None
    watched: bool = False
    sent: NDArray[np.int64] = field(init=False)
    rounds_sent: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Nobody has sent yet."""
        self.sent = np.zeros(self.num_devices, np.int64)

    def spent_up(self, who: Participants) -> bool:
        """Whether one of those who would send has nothing left."""
        return self.most is not None and bool((self.sent[who.devices[who.sends]] >= self.most).any())

    def admit(self, who: Participants) -> Participants:
        """The same without those who have nothing left, and with the others' uploads counted."""
        if self.most is not None:
            who = replace(who, sends=who.sends & (self.sent[who.devices] < self.most))
        self.sent[who.devices[who.sends]] += 1
        self.rounds_sent += bool(who.sends.any())
        return who

    def state(self) -> State:
        """What has been sent."""
        return {"sent": self.sent, "rounds_sent": self.rounds_sent}

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError for other devices."""
        self.sent = kept_array(state, "sent", like=self.sent)
        self.rounds_sent = kept_number(state, "rounds_sent", most=1 << 62)


def upload_allowance(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    num_values: int,
    target: float | None = None,
) -> UploadAllowance:
    """What the budget of `privacy` allows; `link` names its modulation, `num_values` and `target` as in `release_of`.

    Raises PrivacyError where the budget does not hold a single round.
    """
    if privacy is None or privacy.budget is None:
        return UploadAllowance(num_devices=config.num_devices)
    most = None
    if not privacy.budget.calibrate:
        most = rounds_within(config, link=link, privacy=privacy, num_values=num_values, target=target)
        if most == 0:
            raise PrivacyError(none_fits(privacy.budget))
    return UploadAllowance(num_devices=config.num_devices, most=most, watched=True)


def rounds_within(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy,
    num_values: int | None = None,
    target: float | None = None,
) -> int | None:
    """Rounds that a budget which only watches holds, at most all; None where `target` is known in the trial alone."""
    from privacy.accounting.calibration import rounds_that_fit

    assert privacy.budget is not None
    release = release_of(config, link=link, privacy=privacy, num_values=num_values, target=target)
    if release.parameter is None:
        return None
    budget = run_budget(privacy.budget, evidence=release.evidence)
    if budget.left(1) < 0.0:
        raise PrivacyError(
            f"channel native pays {release.evidence:.2g} of delta {budget.delta:g} for evidence in every round, which "
            "leaves nothing; raise confidence towards 1, or write channel: agnostic."
        )
    return rounds_that_fit(release.event(), coordinates=release.form.coordinates, most=config.rounds, budget=budget)


def none_fits(budget: BudgetConfig) -> str:
    """Why nothing can be sent at all, problem and remedy."""
    return (
        f"one round alone spends more than epsilon {budget.epsilon:g} at delta {budget.delta:g} (accountant "
        f"{budget.accountant}); raise the budget, protect rounds better, or write calibrate: true"
    )
