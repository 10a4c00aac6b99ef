"""What uploads of federated averaging may release: before the run, by a budget for the run, and in each round."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import State, kept_array, kept_number
from fl.uplink.channel_credit import errors_arrive, law_of_errors
from phy.config import LinkConfig
from privacy.config import Mechanism, Training
from privacy.errors import PrivacyError
from privacy.events.releases import Release

if TYPE_CHECKING:
    from fl.config.scheme import Scheme
    from fl.learning.fedavg import FedAvgConfig
    from fl.partition.participation import Participants

_LEAST_EPSILON = 1e-6


def training_of(config: FedAvgConfig) -> Training:
    """Return what a mechanism needs to know of learning."""
    codec, local = config.codec, config.local
    return Training(
        codec=codec.name,
        bits_per_value=codec.bits_per_value,
        bounded=codec.value_range is not None,
        fractions=codec.as_fractions() is not None,
        num_rounds=config.rounds,
        steps=local.steps,
        optimizer=local.optimizer,
        learning_rate=local.learning_rate,
        clip=local.clip,
    )


def upload_release(
    config: FedAvgConfig, *, privacy: Mechanism | None, num_values: int, target: float | None = None
) -> Release:
    """Return the release of an upload of `num_values` numbers: that of the mechanism, else that of the scheme."""
    mechanism = None if privacy is None else privacy.for_uploads
    if mechanism is None:
        return config.aggregation.release(num_values)
    return mechanism.release(num_values, training_of(config), target=target)


def release_of(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: Mechanism,
    num_values: int | None = None,
    target: float | None = None,
) -> Release:
    """Return the release of one device in a round, with the price of evidence for counted channel errors.

    `link` names its modulation. `num_values` M: None for those of the model's layers. `target`: the bit error rate of
    bit flipping if only the trial tells it. Raises PrivacyError, problem and remedy, if no budget holds.
    """
    size = config.num_values() if num_values is None else num_values
    if size is None:
        raise PrivacyError(
            "the budget counts the parameters that are sent, and only the model's own function knows how many; "
            "choose a model of the library."
        )
    release = upload_release(config, privacy=privacy, num_values=size, target=target)
    if release.problem is not None:
        raise PrivacyError(release.problem)
    if release.confidence is None or not errors_arrive(link):
        return release
    if law_of_errors(link) != "independent":
        raise PrivacyError(
            "channel native credits errors of the channel, and on this link nothing says before the run that they are "
            "independent; write channel: agnostic."
        )
    return replace(release, evidence=1.0 - release.confidence)


def upload_parameters(
    config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None
) -> NDArray[np.float64] | None:
    """Return noise multipliers or flip probabilities of all rounds, `[num_rounds]`; None unless a budget sets them.

    `link` names its modulation. Raises PrivacyError for a budget that holds nothing.
    """
    if privacy is None or privacy.budget is None or privacy.for_uploads is None or not privacy.calibrated:
        return None
    release = release_of(config, link=link, privacy=privacy)
    return privacy.budget.parameters(release, num_rounds=config.rounds)


def scheme_within(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Scheme:
    """Return the scheme with the epsilon that a budget leaves to it; unchanged without such a budget.

    `link` names its modulation. Raises PrivacyError if no epsilon of the scheme keeps the budget.
    """
    if privacy is None or privacy.budget is None or privacy.protects != "scheme" or not privacy.calibrated:
        return config.aggregation
    scheme, budget = config.aggregation, privacy.budget
    release = release_of(config, link=link, privacy=privacy)
    if budget.schedule != "uniform":
        raise PrivacyError(
            f"aggregation {scheme.name} has one epsilon for all rounds, and the schedule is {budget.schedule}; leave "
            "schedule out."
        )
    parameter = float(budget.parameters(release, num_rounds=config.rounds)[0])
    epsilon = math.log1p(-parameter) - math.log(parameter) if release.kind == "flipped-bits" else parameter
    epsilon = min(epsilon, scheme.largest_epsilon)
    if epsilon <= _LEAST_EPSILON:
        raise PrivacyError(
            f"the budget of epsilon {budget.epsilon:g} leaves each of {release.coordinates:,} numbers of "
            f"{config.rounds} rounds an epsilon of {epsilon:.2g}, below {_LEAST_EPSILON:g}; raise it, or use a "
            "smaller model."
        )
    return scheme.with_epsilon(epsilon, num_values=config.num_values())


def rounds_within(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: Mechanism,
    num_values: int | None = None,
    target: float | None = None,
) -> int | None:
    """Return the rounds that a watching budget holds, at most all; None if only the trial tells `target`."""
    assert privacy.budget is not None
    release = release_of(config, link=link, privacy=privacy, num_values=num_values, target=target)
    return None if release.parameter is None else privacy.budget.rounds_within(release, most=config.rounds)


@dataclass(kw_only=True)
class UploadAllowance:
    """Uploads of every device of federated averaging: `most` of them each, None: as many as there are rounds.

    The largest release of a round is known before the run, so the accountant was asked once how many fit. The seed
    alone decides who takes part, and not the data.
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
        """Return True if one of those who would send has nothing left."""
        return self.most is not None and bool((self.sent[who.devices[who.sends]] >= self.most).any())

    def admit(self, who: Participants) -> Participants:
        """Return `who` without those who have nothing left, and count the uploads of the others."""
        if self.most is not None:
            who = replace(who, sends=who.sends & (self.sent[who.devices] < self.most))
        self.sent[who.devices[who.sends]] += 1
        self.rounds_sent += bool(who.sends.any())
        return who

    def state(self) -> State:
        """Return what has been sent."""
        return {"sent": self.sent, "rounds_sent": self.rounds_sent}

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError for other devices."""
        self.sent = kept_array(state, "sent", like=self.sent)
        self.rounds_sent = kept_number(state, "rounds_sent", most=1 << 62)


def upload_allowance(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: Mechanism | None,
    num_values: int,
    target: float | None = None,
) -> UploadAllowance:
    """Return what the budget of `privacy` allows; `link` names its modulation, `num_values` and `target` as above.

    Raises PrivacyError if the budget does not hold a single round.
    """
    if privacy is None or privacy.budget is None:
        return UploadAllowance(num_devices=config.num_devices)
    most = None
    if not privacy.calibrated:
        most = rounds_within(config, link=link, privacy=privacy, num_values=num_values, target=target)
        if most == 0:
            raise PrivacyError(privacy.budget.too_small)
    return UploadAllowance(num_devices=config.num_devices, most=most, watched=True)
