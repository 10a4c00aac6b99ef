"""Rows of packets under fixed keys, sent by both engines, and how far results of the engines may be apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phy.config import LinkConfig
from phy.engines.fused.noma.chain import FusedNomaChain
from phy.engines.fused.packets.chain import FusedPacketChain
from phy.engines.sionna.packets import compiled_chain
from phy.links.packets.chain import Arrival, ChainSpec, Departure, compiled_part

ROWS, PAYLOAD_BITS, NOISE_POWER = 48, 403, 0.05
STRENGTHS = np.array([1.0, 0.4, 0.2])
"""Mean amplitudes of users; fades decide which one is detected first."""
DECISIONS_APART = 1e-4
"""Noise falls within float32 rounding (some 1e-6 of a step) of a threshold once in 1e5 decisions or less."""
ENERGIES_APART = 1e-4
LLRS_APART = 1e-4
"""Of their root mean square: sums over 20 waves, 23 paths and 24 carriers in float32, taken in another order."""


def spec_of(config: LinkConfig) -> ChainSpec:
    return ChainSpec(
        config=compiled_part(config),
        users=config.noma.group_size if config.access == "noma" else 1,
        num_devices=1,
        payload_bits=PAYLOAD_BITS,
        crc="crc16",
        combine=True,
        rows_per_trial=ROWS,
    )


Fused = FusedPacketChain | FusedNomaChain


def fused(config: LinkConfig, *, threads: int = 2) -> Fused:
    kind = FusedNomaChain if config.access == "noma" else FusedPacketChain
    return kind(spec_of(config), threads=threads)


def departure(rows: int, users: int = 1, *, seed: int = 5) -> Departure:
    rng = np.random.default_rng(seed)

    def keys(*shape: int) -> Any:
        return rng.integers(0, 1 << 32, (*shape, 2), dtype=np.uint32)

    return Departure(
        amplitude=(rng.uniform(0.5, 2.0, (rows, users)) * STRENGTHS[:users]).astype(np.float32),
        gain=rng.uniform(0.8, 1.2, (rows, users)).astype(np.float32),
        channel_key=keys(rows, users),
        csi_key=keys(rows, users),
        impairment_key=keys(rows, users),
        noise_key=keys(rows),
        start_s=rng.uniform(0.0, 0.05, rows).astype(np.float32),
        noise_power=np.float32(NOISE_POWER),
    )


def payload(rows: int, users: int = 1) -> Any:
    return np.random.default_rng(6).integers(0, 256, (rows, users, -(-PAYLOAD_BITS // 8)), dtype=np.uint8)


@dataclass(frozen=True)
class Sent:
    """Sionna's results for some rows, and the inputs of kernels for the same rows."""

    config: LinkConfig
    rows: int
    expected: Arrival
    mean_power: Any

    @property
    def users(self) -> int:
        return spec_of(self.config).users

    def by(self, chain: Fused, **changes: Any) -> Arrival:
        nothing = np.zeros((self.rows, self.users, chain.coded_bits), np.float32)
        there = departure(self.rows, self.users)._replace(**changes)
        return chain.send(payload(self.rows, self.users), there, nothing)


def sent_by_sionna(config: LinkConfig) -> Sent:
    chain = compiled_chain(spec_of(config))
    rows, users = min(ROWS, chain.rows), spec_of(config).users
    nothing = np.zeros((rows, users, chain.coded_bits), np.float32)
    there = departure(rows, users)
    return Sent(
        config=config,
        rows=rows,
        expected=chain.send(payload(rows, users), there, nothing),
        mean_power=chain.mean_power(there.channel_key, there.start_s),
    )


def assert_same(found: Arrival, expected: Arrival) -> None:
    assert found.llrs is not None
    assert expected.llrs is not None
    assert ((found.llrs > 0) != (expected.llrs > 0)).mean() < DECISIONS_APART
    size = np.sqrt(np.mean(expected.llrs**2))
    assert np.sqrt(np.mean((found.llrs - expected.llrs) ** 2)) < LLRS_APART * size
    np.testing.assert_allclose(found.energy, expected.energy, rtol=ENERGIES_APART)
    assert np.abs(found.label_errors - expected.label_errors).sum() < DECISIONS_APART * found.llrs.size
    assert (found.accepted == expected.accepted).all()
    assert np.bitwise_count(found.received ^ expected.received).sum() < DECISIONS_APART * 8 * found.received.size


def assert_same_gain(sent: Sent) -> None:
    there = departure(sent.rows, sent.users)
    found = fused(sent.config).mean_power(there.channel_key, there.start_s)
    np.testing.assert_allclose(found, sent.mean_power, rtol=ENERGIES_APART)


def assert_rows_are_alone(sent: Sent) -> None:
    """Rows sent without the others, in another order, have the same results."""
    chain, there = fused(sent.config), departure(sent.rows, sent.users)
    some = np.array([3, 0, 7])
    alone = chain.send(
        payload(sent.rows, sent.users)[some],
        Departure(*(part[some] for part in there.arrays), there.noise_power),
        np.zeros((3, sent.users, chain.coded_bits), np.float32),
    )
    together = sent.by(chain)
    assert together.llrs is not None
    np.testing.assert_array_equal(alone.received, together.received[some])
    np.testing.assert_array_equal(alone.llrs, together.llrs[some])
