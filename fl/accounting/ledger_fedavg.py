"""Ledgers of federated averaging, from a configuration and the records of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.accounting.uploads import training_of, upload_parameters, upload_release
from fl.results import PrivacyAccount, TrialResult
from fl.uplink.channel_credit import law_of_errors
from fl.uplink.senders import exchangeable
from phy.config import LinkConfig
from phy.measure.burstiness import Burstiness
from phy.measure.independence import assess
from privacy.config import Mechanism
from privacy.errors import PrivacyError
from privacy.events.releases import Uploads
from privacy.evidence import independence_sentence, listener_sentence, may_credit

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig
    from fl.learning.reconstruction import ReconstructionConfig

TOLD_BY_ATTACKERS = (
    "attackers who make their uploads of honest updates know those already, and what they send of them is not counted"
)
"""Of attacks that hand on what honest devices computed."""
ONE_UPLOAD = "every upload is that of a first round, with images drawn anew: uploads are not added up"
SURE = "the lower confidence limit of the probed error rate is there"


def fedavg_account(
    config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None, result: TrialResult
) -> PrivacyAccount | None:
    """Return the ledger of one trial from its records; None for a trial that ended before anything was sent.

    Raises PrivacyError if the size of an upload is not known.
    """
    sent = _rounds_sent(config, result)
    if sent is None or not sent.any():
        return None
    num_values = config.num_values() or result.on_air.num_values or int(result.metrics.get("num_parameters", 0))
    if num_values == 0:
        raise PrivacyError("an upload of a model of unknown size was sent; keep its size with the result.")
    resolved, scheme = link.resolve_digital(), config.aggregation
    independent, reasons = _channel_noise(resolved, result=result)
    uploads = Uploads(sent=sent, rounds=result.rounds, devices=result.devices, independent=independent, reasons=reasons)
    mechanism = None if privacy is None else privacy.for_uploads
    if mechanism is not None:
        release = upload_release(config, privacy=privacy, num_values=num_values)
        found = upload_parameters(config, link=resolved, privacy=privacy)
        ledger = release.recorded(uploads, by_round=None if found is None else found[: len(sent), None])
        published = mechanism.published(training_of(config))
    else:
        ledger, published = scheme.ledger(uploads, num_values=num_values), scheme.published
    ledger = replace(ledger, sampled=sampled_share(config, link=link, privacy=privacy))
    if config.attack is not None and config.attack.uses_honest_updates:
        ledger = replace(ledger, assumptions=(*ledger.assumptions, TOLD_BY_ATTACKERS))
    return PrivacyAccount(ledger=ledger, published=published)


def reconstruction_account(
    config: ReconstructionConfig, *, link: LinkConfig, privacy: Mechanism | None, result: TrialResult
) -> PrivacyAccount | None:
    """Return the ledger of one round in which every upload of the trial is a device, `[1, num_rounds num_devices]`.

    Every upload is a release of its own, added to none. None if nothing was sent.
    """
    counts = result.link.get("bits")
    if counts is None or not len(counts):
        return None
    uploads = replace(
        result,
        rounds={"train_loss": np.zeros(1)},
        link=_side_by_side(result.link),
        devices=_side_by_side(result.devices),
    )
    found = fedavg_account(config.one_round, link=link, privacy=privacy, result=uploads)
    if found is None:
        return None
    ledger = replace(found.ledger, assumptions=(*found.ledger.assumptions, ONE_UPLOAD))
    return replace(found, ledger=ledger)


def _side_by_side(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return columns `[num_rounds, num_devices]` as one row."""
    return {name: np.asarray(values).reshape(1, -1) for name, values in columns.items()}


def _rounds_sent(config: FedAvgConfig, result: TrialResult) -> NDArray[np.bool_] | None:
    """Return who sent in which round, `[num_rounds, num_devices]`; None if no round was kept."""
    if not len(result.rounds.get("train_loss", ())):
        return None
    # A packet that was lost on the way was sent all the same.
    counts = [result.link[name] for name in ("bits", "packets", "raw_bits") if name in result.link]
    if counts:
        return np.asarray(sum(counts) > 0)
    return np.ones((len(result.rounds["train_loss"]), config.num_devices), bool)


def _channel_noise(link: LinkConfig, *, result: TrialResult) -> tuple[bool, tuple[str, ...]]:
    """Return whether bit errors count as independent flips, and why, by the law of the link or by counted errors."""
    law, outcome = law_of_errors(link), None
    counted = result.bursts or result.on_air.bursts
    names = {field.name for field in fields(Burstiness)}
    if names <= counted.keys() and link.error_model == "measured":
        outcome = assess(Burstiness(**{name: counted[name] for name in names})).outcome
    sentence = independence_sentence(law=law, outcome=outcome)
    if may_credit(law=law, outcome=outcome) is not None:
        return False, (sentence,)
    return True, (SURE, sentence, listener_sentence(decided_bits=True))


def sampled_share(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> float | None:
    """Return the share of devices drawn in each round, without replacement and anew; None if that hides nobody.

    What a device sends must be all that depends on whether it was drawn: so not where the optimizer or the downlink
    leaves it a state that its earlier rounds made, where a budget tells who has none left, where its channel or the
    scale of its numbers is its own, or where attackers, the same in every round, are among those drawn.
    """
    some, local = config.participation.devices_per_round, config.local
    if some is None or some >= config.num_devices or not exchangeable(link):
        return None
    remembers = local.keep_state and (local.momentum > 0.0 or local.optimizer == "adam")
    watched = privacy is not None and privacy.budget is not None and not privacy.calibrated
    known = config.aggregation.sends_scales or config.attack is not None
    if remembers or watched or known or config.downlink != "ideal":
        return None
    return some / config.num_devices
