"""What a ledger may count of a channel whose fades last whole rounds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.base.results import TrialResult
from fl.uplink.channel_credit import law_of_errors
from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
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
    trial = config.build(link=LinkConfig.model_validate(radio), privacy=privacy, seed=3, trials=(0,))
    for index in range(3):
        trial.round(index)
    sent: list[TrialResult] = []
    trial.record.results((0,), metrics=({},), failures=(None,), account=sent.append)
    (result,) = trial.results(None)
    assert result.account is not None
    return sent[0], result.account.ledger


@pytest.mark.parametrize(("coherence", "counts"), [("round", True), ("packet", False)])
def test_fades_leave_bits_independent_where_they_last_a_round_though_all_errors_are_a_mixture(
    coherence: str, counts: bool
) -> None:
    result, ledger = flipped(fading="rayleigh", coherence=coherence)
    assert assess(Burstiness(**{one.name: result.bursts[one.name] for one in fields(Burstiness)})).outcome == "unfair"
    assert (ledger.uncredited is not None) == counts
    assert (len(ledger.credit_assumptions) > 0) == counts
    if ledger.uncredited is not None:
        assert np.all(ledger.parameter >= ledger.uncredited)


def link_with(**changes: Any) -> LinkConfig:
    """QPSK at 10 dB over Rayleigh fades of whole rounds."""
    radio = {"channel": {"fading": "rayleigh", "coherence": "round"}, "power": {"snr_max_db": 10.0}} | changes
    return LinkConfig.model_validate(radio).resolve_digital()


@pytest.mark.parametrize(("changes", "law"), [({}, "independent"), ({"csi": {"error_variance": 0.05}}, "unknown")])
def test_both_bits_of_a_symbol_err_together_where_the_law_is_unknown(changes: dict[str, Any], law: str) -> None:
    num_bits, link = 80_000, link_with(**changes)
    uplink = compile_digital(link, num_devices=4, num_bits=num_bits)
    payload = np.random.default_rng(1).integers(0, 256, (1, 4, num_bits // 8), dtype=np.uint8)
    rounds = [UplinkContext(seed=2, trials=(0,), round_index=index) for index in range(3)]
    wrong = [payload ^ uplink.send(payload, context=context, caps={}).payload for context in rounds]
    errors = np.unpackbits(np.stack(wrong), axis=-1).reshape(12, -1, 2)
    expected = errors.mean(axis=1).prod(axis=1)
    both = errors.all(axis=2).mean(axis=1)
    standard_errors = np.abs(both - expected) / np.sqrt(np.maximum(expected, 1e-6) / (num_bits / 2))
    assert law_of_errors(link) == law
    assert (standard_errors.max() < 4.0) == (law == "independent")


@pytest.mark.parametrize(
    ("changes", "law"),
    [
        ({"receiver": {"num_antennas": 2}}, "independent"),
        ({"ofdm": {}}, "independent"),
        ({"power": {"policy": "inversion"}}, "independent"),
        ({"power": {"policy": "closed-loop"}}, "independent"),
        ({"access": "noma"}, "unknown"),
        ({"ofdm": {}, "impairments": {"phase_error_deg": 10}}, "unknown"),
        ({"ofdm": {}, "channel": {"model": "tdl-a", "coherence": "round"}}, "unknown"),
        ({"coding": {"code": "ldpc5g"}}, "unknown"),
    ],
)
def test_errors_are_independent_by_law_where_a_device_has_one_known_fade(changes: dict[str, Any], law: str) -> None:
    assert law_of_errors(link_with(**changes)) == law
