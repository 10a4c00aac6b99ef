"""Releases of uploads, and what a budget for the run makes of them: before a run, and in each round."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fl.base.arrays import F64
from fl.base.checkpoints import Kept
from fl.base.words import plural
from fl.schemes.scheme import SCHEME_EPSILON, Scheme
from fl.uplink.channel_credit import errors_arrive, law_of_errors
from fl.uplink.participation import Participants
from fl.uplink.plan import UploadPlan
from phy.config import LinkConfig
from privacy.config import ClippedUpdate, Mechanism
from privacy.errors import PrivacyError
from privacy.events.releases import Release
from privacy.evidence import USUAL_DELTA, confidence_for

_LEAST_EPSILON = 1e-6


def release_of(
    plan: UploadPlan,
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
    size = plan.num_values if num_values is None else num_values
    if size is None:
        raise PrivacyError(
            "the budget counts the parameters that are sent, and only the model's own function knows how many",
            {"learning.model": "mlp"},
        )
    mechanism = privacy.for_uploads
    release = plan.scheme.release(size) if mechanism is None else mechanism.release(size, plan.training, target=target)
    if release.problem is not None:
        raise PrivacyError(release.problem, *release.remedies, keys=SCHEME_EPSILON)
    if release.confidence is None or not errors_arrive(link):
        return release
    if law_of_errors(link) != "independent":
        raise PrivacyError(
            "channel native credits errors of the channel, and on this link nothing says before the run that they are "
            "independent",
            {"channel": "agnostic"},
            keys="channel",
        )
    return replace(release, evidence=1.0 - release.confidence)


def upload_parameters(plan: UploadPlan, *, link: LinkConfig, privacy: Mechanism | None) -> F64 | None:
    """Return noise multipliers or flip probabilities of all rounds, `[num_rounds]`; None unless a budget sets them."""
    if privacy is None or privacy.budget is None or privacy.for_uploads is None or not privacy.calibrated:
        return None
    release = release_of(plan, link=link, privacy=privacy)
    return privacy.budget.parameters(release, num_rounds=plan.num_rounds)


def multipliers(plan: UploadPlan, *, link: LinkConfig, privacy: ClippedUpdate) -> F64:
    """Return the least noise multiplier of every round, `[num_rounds]`. Raises PrivacyError as `release_of` does."""
    found = upload_parameters(plan, link=link, privacy=privacy)
    if found is not None:
        return found
    written = privacy.release(0, plan.training).parameter
    assert written is not None
    return np.full(plan.num_rounds, written)


def scheme_within(plan: UploadPlan, *, link: LinkConfig, privacy: Mechanism | None) -> Scheme:
    """Return the scheme with its confidence written out, and with the epsilon that a budget leaves to it, if any."""
    scheme = _confident(plan, privacy=privacy)
    if privacy is None or privacy.budget is None or privacy.protects != "scheme" or not privacy.calibrated:
        return scheme
    budget, release = privacy.budget, release_of(replace(plan, scheme=scheme), link=link, privacy=privacy)
    if budget.schedule != "uniform":
        raise PrivacyError(
            f"aggregation {scheme.name} has one epsilon for all rounds, and the schedule is {budget.schedule}",
            ("privacy.budget.schedule",),
            keys=SCHEME_EPSILON,
        )
    parameter = float(budget.parameters(release, num_rounds=plan.num_rounds)[0])
    epsilon = math.log1p(-parameter) - math.log(parameter) if release.kind == "flipped-bits" else parameter
    epsilon = min(epsilon, scheme.largest_epsilon)
    if epsilon <= _LEAST_EPSILON:
        raise PrivacyError(
            f"the budget of epsilon {budget.epsilon:g} leaves each of {release.coordinates:,} numbers of "
            f"{plural(plan.num_rounds, 'round')} an epsilon of {epsilon:.2g}, below {_LEAST_EPSILON:g}",
            "raise it, or use a smaller model",
        )
    return scheme.with_epsilon(epsilon, num_values=plan.num_values)


def _confident(plan: UploadPlan, *, privacy: Mechanism | None) -> Scheme:
    """Return the scheme with the confidence at which evidence for channel errors costs a tenth of delta."""
    scheme = plan.scheme
    if getattr(scheme, "confidence", None) != "auto" or scheme.response is None or scheme.response.channel != "native":
        return scheme
    delta = USUAL_DELTA if privacy is None or privacy.budget is None else privacy.budget.delta or USUAL_DELTA
    return scheme.model_copy(update={"confidence": confidence_for(0.1 * delta, num_rounds=plan.num_rounds)})


def rounds_within(
    plan: UploadPlan,
    *,
    link: LinkConfig,
    privacy: Mechanism,
    num_values: int | None = None,
    target: float | None = None,
) -> int | None:
    """Return the rounds that a watching budget holds, at most all; None if only the trial tells `target`."""
    assert privacy.budget is not None
    release = release_of(plan, link=link, privacy=privacy, num_values=num_values, target=target)
    return None if release.parameter is None else privacy.budget.rounds_within(release, most=plan.num_rounds)


class UploadAllowance(Kept):
    """Uploads that the budget of `privacy` leaves to every device of federated averaging.

    The largest release of a round is known before the run, so the accountant is asked once how many fit. Arguments
    are those of `release_of`. Raises PrivacyError if the budget does not hold a single round.
    """

    kept = ("_sent", "rounds_sent")

    def __init__(
        self,
        plan: UploadPlan,
        *,
        link: LinkConfig,
        privacy: Mechanism | None,
        num_values: int,
        target: float | None = None,
    ) -> None:
        self._sent, self.rounds_sent = np.zeros(plan.num_devices, np.int64), 0
        self._most: int | None = None
        self.watched = privacy is not None and privacy.budget is not None
        if privacy is not None and privacy.budget is not None and not privacy.calibrated:
            self._most = rounds_within(plan, link=link, privacy=privacy, num_values=num_values, target=target)
            if self._most == 0:
                raise privacy.budget.too_small

    def spent_up(self, who: Participants) -> bool:
        """Return True if one of those who would send has nothing left."""
        return self._most is not None and bool((self._sent[who.devices[who.sends]] >= self._most).any())

    def admit(self, who: Participants) -> Participants:
        """Return `who` without those who have nothing left, and count the uploads of the others."""
        if self._most is not None:
            who = replace(who, sends=who.sends & (self._sent[who.devices] < self._most))
        self._sent[who.devices[who.sends]] += 1
        self.rounds_sent += bool(who.sends.any())
        return who
