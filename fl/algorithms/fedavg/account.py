"""Ledgers of federated averaging from its records."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from fl.algorithms.fedavg.upload import upload_plan
from fl.base.arrays import Bools
from fl.base.results import PrivacyAccount, TrialResult
from fl.uplink.budgets import upload_parameters
from fl.uplink.channel_credit import law_of_errors, rate_moves_by_round
from fl.uplink.senders import exchangeable
from phy.config import LinkConfig
from phy.measure.burstiness import Burstiness
from phy.measure.independence import assess
from privacy.config import Mechanism, ReceiverNoise
from privacy.events.releases import Uploads
from privacy.evidence import independence_sentence, listener_sentence, may_credit

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

TOLD_BY_ATTACKERS = (
    "attackers who make their uploads of honest updates know those already, and what they send of them is not counted"
)
ONE_SUM = "uploads add up in the air, and no error or noise that this brings is credited to any of them"
ATTACKERS_ON_AIR = "attackers ignore all limits on their power, and nothing protects what they send"
CHOSEN = "devices are chosen by {}, not drawn at random, and nothing is credited to those that are left out"
TIMED = (
    "a device is in time or late by the number of its samples and by chance, which all may know, and nothing is "
    "credited to those that are late or left out"
)
STANDARDIZED = (
    "mean and deviation of every feature, by which all devices scale their samples, are known to whoever listens, and "
    "what they tell is not counted"
)
SURE = "the lower confidence limit of the probed error rate is there"


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
        plan = upload_plan(config)
        training, found = plan.training, upload_parameters(plan, link=resolved, privacy=privacy)
        by_round = None if found is None else found[: len(sent), None]
        ledger = mechanism.ledger(uploads, training, num_values=num_values, by_round=by_round)
        published = mechanism.published(training)
    assumptions = [*ledger.assumptions]
    if config.attack is not None:
        assumptions += [ATTACKERS_ON_AIR] * (config.attack.acts_on == "air")
        assumptions += [TOLD_BY_ATTACKERS] * config.attack.uses_honest_updates
    if mechanism is not None and config.data.standardizes:
        assumptions.append(STANDARDIZED)
    part = config.participation
    if config.num_drawn is not None and not part.selection.uniform:
        assumptions.append(CHOSEN.format(part.selection.label or part.selection.name))
    if config.timing is not None:
        assumptions.append(TIMED)
    sampled = sampled_share(config, link=link, privacy=privacy)
    return PrivacyAccount(ledger=replace(ledger, sampled=sampled, assumptions=tuple(assumptions)), published=published)


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

    What a device sends must be all that depends on whether it was drawn: so not where devices are chosen otherwise or
    may be late, where the optimizer or the downlink leaves it a state, where a budget tells who has none left, where
    its channel or the scale of its numbers is its own, or where attackers are among those drawn.
    """
    some, local = config.participation.devices_per_round, config.local
    if some is None or some >= config.num_devices or not exchangeable(link):
        return None
    if config.timing is not None or not config.participation.selection.uniform:
        return None
    remembers = local.keep_state and local.states
    watched = privacy is not None and privacy.budget is not None and not privacy.calibrated
    alike = config.weighting == "equal" or config.partition.each is not None
    # Clipped amplitudes of all depend on the weights of those drawn.
    apart = isinstance(privacy, ReceiverNoise) and privacy.clip is not None and not alike
    known = config.aggregation.sends_scales or config.attack is not None
    if remembers or watched or known or apart or config.downlink != "ideal":
        return None
    return some / config.num_devices
