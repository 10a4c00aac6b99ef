"""Releases, budgets and ledgers of federated averaging: before a run, in each round, and from its records."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from fl.arrays import F64, Bools
from fl.checkpoints import Kept
from fl.config.scheme import SCHEME_EPSILON
from fl.results import PrivacyAccount, TrialResult
from fl.uplink.channel_credit import errors_arrive, law_of_errors, rate_moves_by_round
from fl.uplink.senders import exchangeable
from fl.words import plural
from phy.config import LinkConfig
from phy.measure.burstiness import Burstiness
from phy.measure.independence import assess
from privacy.config import ClippedUpdate, Mechanism, ReceiverNoise, Training
from privacy.errors import PrivacyError
from privacy.events.releases import Release, Uploads
from privacy.evidence import USUAL_DELTA, confidence_for, independence_sentence, listener_sentence, may_credit

if TYPE_CHECKING:
    from fl.config.scheme import Scheme
    from fl.learning.fedavg import FedAvgConfig
    from fl.learning.reconstruction import ReconstructionConfig
    from fl.partition.split import Participants

_LEAST_EPSILON = 1e-6
TOLD_BY_ATTACKERS = (
    "attackers who make their uploads of honest updates know those already, and what they send of them is not counted"
)
ONE_UPLOAD = "every upload is that of a first round, with images drawn anew: uploads are not added up"
ONE_SUM = "uploads add up in the air, and no error or noise that this brings is credited to any of them"
ATTACKERS_ON_AIR = "attackers ignore all limits on their power, and nothing protects what they send"
SURE = "the lower confidence limit of the probed error rate is there"


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
    bit flipping if only the trial tells it. Raises PrivacyError if no budget holds.
    """
    size = config.num_values() if num_values is None else num_values
    if size is None:
        raise PrivacyError(
            "the budget counts the parameters that are sent, and only the model's own function knows how many",
            {"learning.model": "mlp"},
        )
    mechanism = privacy.for_uploads
    if mechanism is None:
        release = config.aggregation.release(size)
    else:
        release = mechanism.release(size, training_of(config), target=target)
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


def upload_parameters(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> F64 | None:
    """Return noise multipliers or flip probabilities of all rounds, `[num_rounds]`; None unless a budget sets them."""
    if privacy is None or privacy.budget is None or privacy.for_uploads is None or not privacy.calibrated:
        return None
    release = release_of(config, link=link, privacy=privacy)
    return privacy.budget.parameters(release, num_rounds=config.rounds)


def multipliers(config: FedAvgConfig, *, link: LinkConfig, privacy: ClippedUpdate) -> F64:
    """Return the least noise multiplier of every round, `[num_rounds]`. Raises PrivacyError as `release_of` does."""
    found = upload_parameters(config, link=link, privacy=privacy)
    if found is not None:
        return found
    written = privacy.release(0, training_of(config)).parameter
    assert written is not None
    return np.full(config.rounds, written)


def scheme_within(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Scheme:
    """Return the scheme with its confidence written out, and with the epsilon that a budget leaves to it, if any."""
    config = config.model_copy(update={"aggregation": _confident(config, privacy=privacy)})
    if privacy is None or privacy.budget is None or privacy.protects != "scheme" or not privacy.calibrated:
        return config.aggregation
    scheme, budget = config.aggregation, privacy.budget
    release = release_of(config, link=link, privacy=privacy)
    if budget.schedule != "uniform":
        raise PrivacyError(
            f"aggregation {scheme.name} has one epsilon for all rounds, and the schedule is {budget.schedule}",
            ("privacy.budget.schedule",),
            keys=SCHEME_EPSILON,
        )
    parameter = float(budget.parameters(release, num_rounds=config.rounds)[0])
    epsilon = math.log1p(-parameter) - math.log(parameter) if release.kind == "flipped-bits" else parameter
    epsilon = min(epsilon, scheme.largest_epsilon)
    if epsilon <= _LEAST_EPSILON:
        raise PrivacyError(
            f"the budget of epsilon {budget.epsilon:g} leaves each of {release.coordinates:,} numbers of "
            f"{plural(config.rounds, 'round')} an epsilon of {epsilon:.2g}, below {_LEAST_EPSILON:g}",
            "raise it, or use a smaller model",
        )
    return scheme.with_epsilon(epsilon, num_values=config.num_values())


def _confident(config: FedAvgConfig, *, privacy: Mechanism | None) -> Scheme:
    """Return the scheme with the confidence at which evidence for channel errors costs a tenth of delta."""
    scheme = config.aggregation
    if getattr(scheme, "confidence", None) != "auto" or scheme.response is None or scheme.response.channel != "native":
        return scheme
    delta = USUAL_DELTA if privacy is None or privacy.budget is None else privacy.budget.delta or USUAL_DELTA
    return scheme.model_copy(update={"confidence": confidence_for(0.1 * delta, num_rounds=config.rounds)})


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


class UploadAllowance(Kept):
    """Uploads that the budget of `privacy` leaves to every device of federated averaging.

    The largest release of a round is known before the run, so the accountant is asked once how many fit. Arguments
    are those of `release_of`. Raises PrivacyError if the budget does not hold a single round.
    """

    kept = ("_sent", "rounds_sent")

    def __init__(
        self,
        config: FedAvgConfig,
        *,
        link: LinkConfig,
        privacy: Mechanism | None,
        num_values: int,
        target: float | None = None,
    ) -> None:
        self._sent, self.rounds_sent = np.zeros(config.num_devices, np.int64), 0
        self._most: int | None = None
        self.watched = privacy is not None and privacy.budget is not None
        if privacy is not None and privacy.budget is not None and not privacy.calibrated:
            self._most = rounds_within(config, link=link, privacy=privacy, num_values=num_values, target=target)
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


def fedavg_account(
    config: FedAvgConfig, result: TrialResult, *, link: LinkConfig, privacy: Mechanism | None, num_values: int
) -> PrivacyAccount | None:
    """Return the ledger of one trial from its records; None for a trial that ended before anything was sent.

    `num_values`: numbers of an upload.
    """
    sent = _rounds_sent(config, result)
    if sent is None or not sent.any():
        return None
    resolved, scheme = link.resolve_digital(), config.aggregation
    independent, reasons = _channel_noise(resolved, result=result)
    uploads = Uploads(sent=sent, rounds=result.rounds, devices=result.devices, independent=independent, reasons=reasons)
    mechanism = None if privacy is None else privacy.for_uploads
    if mechanism is None:
        ledger, published = scheme.ledger(uploads, num_values=num_values), scheme.published
    else:
        training, found = training_of(config), upload_parameters(config, link=resolved, privacy=privacy)
        by_round = None if found is None else found[: len(sent), None]
        ledger = mechanism.ledger(uploads, training, num_values=num_values, by_round=by_round)
        published = mechanism.published(training)
    assumptions = [*ledger.assumptions]
    if config.attack is not None:
        assumptions += [ATTACKERS_ON_AIR] * (config.attack.acts_on == "air")
        assumptions += [TOLD_BY_ATTACKERS] * config.attack.uses_honest_updates
    sampled = sampled_share(config, link=link, privacy=privacy)
    return PrivacyAccount(ledger=replace(ledger, sampled=sampled, assumptions=tuple(assumptions)), published=published)


def reconstruction_account(
    config: ReconstructionConfig,
    result: TrialResult,
    *,
    link: LinkConfig,
    privacy: Mechanism | None,
    num_values: int,
) -> PrivacyAccount | None:
    """Return the ledger of one round in which every upload of the trial is a device, `[1, num_rounds num_devices]`.

    Every upload is a release of its own, added to none. None if nothing was sent.
    """
    counts = result.link.get("bits")
    if counts is None or not len(counts):
        return None
    link_counts, devices = (
        {name: np.asarray(values).reshape(1, -1) for name, values in columns.items()}
        for columns in (result.link, result.devices)
    )
    uploads = replace(result, rounds={"train_loss": np.zeros(1)}, link=link_counts, devices=devices)
    found = fedavg_account(config.played, uploads, link=link, privacy=privacy, num_values=num_values)
    if found is None:
        return None
    ledger = replace(found.ledger, assumptions=(*found.ledger.assumptions, ONE_UPLOAD))
    return replace(found, ledger=ledger)


def _rounds_sent(config: FedAvgConfig, result: TrialResult) -> Bools | None:
    """Return who sent in which round, `[num_rounds, num_devices]`; None if no round was kept."""
    if not len(result.rounds.get("train_loss", ())):
        return None
    if "sent_symbols" in result.devices:
        return np.asarray(result.devices["sent_symbols"] > 0)
    # A packet that was lost on the way was sent all the same.
    counts = [result.link[name] for name in ("bits", "packets", "raw_bits") if name in result.link]
    if counts:
        return np.asarray(sum(counts) > 0)
    return np.ones((len(result.rounds["train_loss"]), config.num_devices), bool)


def _channel_noise(link: LinkConfig, *, result: TrialResult) -> tuple[bool, tuple[str, ...]]:
    """Return whether bit errors count as independent flips, and why, by the law of the link or by counted errors."""
    if link.access == "superposition":
        return False, (ONE_SUM,)
    law, outcome = law_of_errors(link), None
    names = {field.name for field in fields(Burstiness)}
    if names <= result.bursts.keys() and link.error_model == "measured" and not rate_moves_by_round(link):
        outcome = assess(Burstiness(**{name: result.bursts[name] for name in names})).outcome
    sentence = independence_sentence(law=law, outcome=outcome)
    if may_credit(law=law, outcome=outcome) is not None:
        return False, (sentence,)
    return True, (SURE, sentence, listener_sentence(decided_bits=True))


def sampled_share(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> float | None:
    """Return the share of devices drawn in each round, without replacement and anew; None if that hides nobody.

    What a device sends must be all that depends on whether it was drawn: so not where the optimizer or the downlink
    leaves it a state, where a budget tells who has none left, where its channel or the scale of its numbers is its
    own, or where attackers are among those drawn.
    """
    some, local = config.participation.devices_per_round, config.local
    if some is None or some >= config.num_devices or not exchangeable(link):
        return None
    remembers = local.keep_state and local.states
    watched = privacy is not None and privacy.budget is not None and not privacy.calibrated
    alike = config.weighting == "equal" or config.partition.samples_per_device is not None
    # Clipped amplitudes of all depend on the weights of those drawn.
    apart = isinstance(privacy, ReceiverNoise) and privacy.clip is not None and not alike
    known = config.aggregation.sends_scales or config.attack is not None
    if remembers or watched or known or apart or config.downlink != "ideal":
        return None
    return some / config.num_devices
