"""What a ledger may count of a channel whose fades last whole rounds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fl.learning.fedavg import FedAvgConfig
from fl.results import TrialResult
from fl.run import run_trials
from phy.config import LinkConfig
from phy.measure.burstiness import Burstiness
from phy.measure.independence import assess
from privacy.config import BitFlippingConfig
from privacy.events.events import Ledger


def flipped(**channel: Any) -> tuple[TrialResult, Ledger]:
    """Three rounds of bit flipping over QPSK at 10 dB, and their ledger."""
    config = FedAvgConfig.model_validate(
        {"num_devices": 6, "rounds": 3, "codec": "fixed-point", "upload": "model", "local": {"clip": 1.0}}
    )
    radio = {"modulation": "qpsk", "packet_size_bytes": 64, "channel": channel, "power": {"snr_max_db": 10.0}}
    privacy = BitFlippingConfig(mechanism="bit-flipping", epsilon=1e3, kappa=0.1)
    (result,) = run_trials(config, link=LinkConfig.model_validate(radio), privacy=privacy, seed=3, trials=[0])
    assert result.account is not None
    return result, result.account.ledger


@pytest.mark.parametrize(("coherence", "counts"), [("round", True), ("packet", False)])
def test_fades_leave_bits_independent_where_they_last_a_round_though_all_errors_are_a_mixture(
    coherence: str, counts: bool
) -> None:
    result, ledger = flipped(fading="rayleigh", coherence=coherence)
    counted = result.bursts or result.on_air.bursts
    assert assess(Burstiness(**{one.name: counted[one.name] for one in fields(Burstiness)})).outcome == "unfair"
    assert (ledger.uncredited is not None) == counts
    assert (len(ledger.credit_assumptions) > 0) == counts
    if ledger.uncredited is not None:
        assert np.all(ledger.parameter >= ledger.uncredited)
