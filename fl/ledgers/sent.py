"""Who sent when, and whether the noise of the channel on what was sent may count as independent flips."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fl.channel_credit import law_of_errors
from fl.config import FedAvgConfig
from fl.results import TrialResult
from phy.burstiness import Burstiness
from phy.config import LinkConfig
from phy.independence import assess
from privacy.evidence import independence_sentence, listener_sentence, may_credit

SURE = "the lower confidence limit of the probed error rate is there"


@dataclass(frozen=True, kw_only=True)
class ChannelNoise:
    """Whether errors of the channel may count as independent flips, and the sentences that say why."""

    independent: bool
    reasons: tuple[str, ...]


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
    names = {field.name for field in fields(Burstiness)}
    if names <= result.bursts.keys() and link.error_model == "measured":
        outcome = assess(Burstiness(**{name: result.bursts[name] for name in names})).outcome
    sentence = independence_sentence(law=law, outcome=outcome)
    if may_credit(law=law, outcome=outcome) is not None:
        return ChannelNoise(independent=False, reasons=(sentence,))
    return ChannelNoise(independent=True, reasons=(SURE, sentence, listener_sentence(decided_bits=True)))
