"""Lines of a slot from a few instants: waves against themselves, and packets against one instant per line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phy.config import LinkConfig
from phy.engines.fused.fading.nodes import MOST_NODES, nodes_between
from phy.engines.fused.packets import plan as packet_plan
from phy.engines.fused.packets.chain import FusedPacketChain
from phy.links.packets.chain import ChainSpec, Departure

LINES_S = 20e-6 + np.arange(14) * 71e-6
WALKING_HZ, DRIVING_HZ = 35.0, 350.0
ROUNDING = 2.0**-22
"""Five weights, rounded to 2^-25 of values that are not above 2, and the bound of the error, 2^-26, with some room."""


def error_of(doppler_hz: float, *, designed_hz: float) -> float:
    """Largest error of unit waves no faster than `doppler_hz`."""
    nodes_s, weights = nodes_between(LINES_S, doppler_hz=designed_hz)
    shifts_hz = np.linspace(-doppler_hz, doppler_hz, 41)
    lines, nodes = (np.exp(2j * np.pi * np.outer(at, shifts_hz)) for at in (LINES_S, nodes_s))
    return float(np.abs(weights[:, : len(nodes_s)] @ nodes - lines).max())


@pytest.mark.parametrize("doppler_hz", [0.0, 0.1, 5.0, WALKING_HZ, 60.0])
def test_waves_pass_through_the_nodes_to_within_rounding(doppler_hz: float) -> None:
    assert error_of(doppler_hz, designed_hz=doppler_hz) < ROUNDING


def test_waves_that_are_faster_than_planned_is_detected() -> None:
    assert error_of(3.0 * WALKING_HZ, designed_hz=WALKING_HZ) > 10 * ROUNDING


@pytest.mark.parametrize(
    ("lines", "doppler_hz", "nodes"), [(14, 0.0, 1), (14, WALKING_HZ, 5), (14, DRIVING_HZ, 0), (7, WALKING_HZ, 0)]
)
def test_nodes_are_few_or_none(lines: int, doppler_hz: float, nodes: int) -> None:
    nodes_s, weights = nodes_between(LINES_S[:lines], doppler_hz=doppler_hz)
    assert len(nodes_s) == nodes
    assert weights.shape == (lines if nodes else 0, MOST_NODES)
    assert not weights[:, nodes:].any()


ROWS, PAYLOAD_BITS = 8, 7000


def link(*, num_subcarriers: int, **changes: Any) -> LinkConfig:
    """Two antennas, two slots and some of a third (of 72 carriers), or lines of more than one tile."""
    return LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "engine": "fused",
            "modulation": "qpsk",
            "channel": {"model": "tdl-d", "coherence": "packet", "speed_m_s": 3.0},
            "ofdm": {"num_subcarriers": num_subcarriers, "cyclic_prefix_length": 6},
            "csi": {"estimator": "ls"},
            "receiver": {"num_antennas": 2},
            **changes,
        }
    )


def soft_bits(config: LinkConfig) -> Any:
    spec = ChainSpec(
        config=config, users=1, num_devices=1, payload_bits=PAYLOAD_BITS, crc=None, combine=True, rows_per_trial=1
    )
    chain = FusedPacketChain(spec)
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 1 << 32, (ROWS, 1, 2), dtype=np.uint32) for _ in range(4)]
    ones = np.ones((ROWS, 1), np.float32)
    start_s = rng.uniform(0.0, 0.05, ROWS).astype(np.float32)
    there = Departure(ones, ones, *keys[:3], keys[3][:, 0], start_s, np.float32(0.1))
    payload = rng.integers(0, 256, (ROWS, 1, -(-PAYLOAD_BITS // 8)), dtype=np.uint8)
    return chain.send(payload, there, None).llrs, chain.mean_power(keys[0], start_s)


@pytest.mark.parametrize("num_subcarriers", [72, 1300])
def test_packets_are_those_of_one_instant_per_line(num_subcarriers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    config = link(num_subcarriers=num_subcarriers)
    found, power = soft_bits(config)
    none = (np.zeros(0), np.zeros((0, MOST_NODES), np.float32))
    monkeypatch.setattr(packet_plan, "nodes_between", lambda *_, **__: none)
    expected, expected_power = soft_bits(config)
    assert (found != expected).any()
    assert np.abs(found - expected).max() < 1e-4 * np.sqrt(np.mean(expected**2))
    np.testing.assert_allclose(power, expected_power, rtol=1e-5)
