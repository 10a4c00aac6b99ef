"""Who sent when, and whether the noise of the channel on what was sent may count as independent flips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config import FedAvgConfig
from fl.config.scheme import JopeqScheme, LaplaceScheme
from fl.results import TrialResult
from fl.uplink.channel_credit import law_of_errors
from fl.uplink.senders import exchangeable
from phy.config import LinkConfig
from phy.measure.burstiness import Burstiness
from phy.measure.independence import assess
from privacy.config import UploadPrivacy
from privacy.evidence import independence_sentence, listener_sentence, may_credit

SURE = "the lower confidence limit of the probed error rate is there"


@dataclass(frozen=True, kw_only=True)
class ChannelNoise:
    """Whether errors of the channel may count as independent flips, and the sentences that say why."""

    independent: bool
    reasons: tuple[str, ...]


def with_the_last_round(result: TrialResult) -> TrialResult:
    """The result with the round at its end in which the trial failed after everybody had sent; see `OnAir`."""
    on_air = result.on_air
    if not on_air.rounds:
        return result
    return replace(
        result,
        rounds=_longer(result.rounds, on_air.rounds),
        link=_longer(result.link, on_air.link),
        devices=_longer(result.devices, on_air.devices),
    )


def _longer(kept: Mapping[str, NDArray[Any]], last: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Series `[num_rounds, ...]` with one more entry each; what the last round alone knows starts with it."""
    return {
        name: np.concatenate([kept.get(name, np.empty((0, *np.shape(value)))), np.asarray(value)[None]])
        for name, value in last.items()
    }


def rounds_sent(config: FedAvgConfig, result: TrialResult) -> NDArray[np.bool_] | None:
    """Who sent in which round, `[num_rounds, num_devices]`; None where no round was kept."""
    if not len(result.rounds.get("train_loss", ())):
        return None
    # A packet that was lost on the way was sent all the same.
    counts = [result.link[name] for name in ("bits", "packets", "raw_bits") if name in result.link]
    if counts:
        return np.asarray(sum(counts) > 0)
    return np.ones((len(result.rounds["train_loss"]), config.num_devices), bool)


def channel_noise(link: LinkConfig, *, result: TrialResult) -> ChannelNoise:
    """What of the channel may be credited, by the law of the link or else by the errors counted in this trial.

    `link` names its modulation. One fade for the whole round is met by probe and payload alike; given it, the noise on
    the real and on the imaginary axis is independent, so that bits of BPSK and QPSK err independently. Bits of larger
    constellations share an axis.
    """
    law = law_of_errors(link)
    outcome = None
    counted = result.bursts or result.on_air.bursts
    names = {field.name for field in fields(Burstiness)}
    if names <= counted.keys() and link.error_model == "measured":
        outcome = assess(Burstiness(**{name: counted[name] for name in names})).outcome
    sentence = independence_sentence(law=law, outcome=outcome)
    if may_credit(law=law, outcome=outcome) is not None:
        return ChannelNoise(independent=False, reasons=(sentence,))
    return ChannelNoise(independent=True, reasons=(SURE, sentence, listener_sentence(decided_bits=True)))


def sampled_share(config: FedAvgConfig, *, link: LinkConfig, privacy: UploadPrivacy | None) -> float | None:
    """The share of devices drawn in each round, without replacement and anew; None where that hides nobody.

    What a device sends must be all that depends on whether it was drawn: so not where the optimizer or the downlink
    leaves it a state that its earlier rounds made, where a budget tells who has none left, where its channel or the
    scale of its numbers is its own, or where attackers, the same in every round, are among those drawn.
    """
    some, local, scheme = config.participation.devices_per_round, config.local, config.aggregation
    if some is None or some >= config.num_devices or not exchangeable(link):
        return None
    remembers = local.keep_state and (local.momentum > 0.0 or local.optimizer == "adam")
    watched = privacy is not None and privacy.budget is not None and not privacy.budget.calibrate
    told = isinstance(scheme, LaplaceScheme | JopeqScheme) or config.attack is not None
    if remembers or watched or told or config.downlink != "ideal":
        return None
    return some / config.num_devices
