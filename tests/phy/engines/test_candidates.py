"""Only symbols that noise can take to another decision are received, where these are few: no bit depends on it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.engines.fused.flat.candidates import set_limits
from phy.engines.fused.flat.carry import carry
from phy.engines.fused.flat.lanes import NOISE_SCALE, OF_TAPS, TAP_REAL, TURN_IMAG, TURN_REAL, tap_lanes
from phy.engines.fused.flat.link import FusedChain
from phy.engines.fused.symbols import mapping
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception
from phy.links.orthogonal import OrthogonalLink
from phy.numerics.random_kernels import complex_normal

NUM_BITS = 400_003
"""Neither whole tiles nor whole bytes."""
NEVER, ALWAYS = 0.0, 2.0
PACKETS: dict[str, Any] = {"fading": "rayleigh", "coherence": "packet"}
CHANNELS: dict[str, dict[str, Any]] = {
    "awgn": {"channel": {"fading": "constant", "gain": [1.0, 0.8]}},
    "rayleigh": {"channel": PACKETS},
    "rician, noisy channel knowledge": {
        "channel": {"fading": "rician", "coherence": "packet"},
        "csi": {"error_variance": 0.002},
    },
    "rayleigh, every symbol": {"channel": {"fading": "rayleigh", "coherence": "symbol", "gain": [1.0, 0.8]}},
    "some silent": {
        "channel": PACKETS,
        "power": {"policy": "truncated-inversion", "snr_max_db": 20.0, "cutoff_db": -3.0},
    },
}
HALF_SPACING = {"bpsk": 1.0, "qpsk": 2**-0.5, "16qam": 10**-0.5, "64qam": 42**-0.5, "256qam": 170**-0.5}


def received(modulation: str, channel: str, es_n0_db: float, few: float) -> Reception:
    config = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": modulation,
            "power": {"policy": "fixed", "snr_max_db": es_n0_db + 10.0 * math.log10(2.0)},
            "packet_size_bytes": 75,  # blocks from 75 symbols
            "engine": "fused",
            **CHANNELS[channel],
        }
    )
    chain = FusedChain(config, threads=1, carry=partial(carry, few=few))
    link = OrthogonalLink(config, num_devices=2, num_bits=NUM_BITS, chain=chain)
    payload = np.random.default_rng(1).integers(0, 256, (1, 2, -(-NUM_BITS // 8)), dtype=np.uint8)
    return link.send(payload, context=UplinkContext(seed=1, trials=(3,)), caps={})


@pytest.mark.parametrize("share", [0.002, 0.05, 0.4], ids=lambda share: f"{share:g} of all")
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("modulation", BITS_PER_SYMBOL)
def test_candidates_alone_are_received_as_all_symbols_are(modulation: str, channel: str, share: float) -> None:
    """Energies are sums of other float32 numbers: four r^2 in one logarithm, against both parts squared.

    They differ by 1e-6 at most with fused multiply-add, and by 3e-6 without it.
    """
    es_n0_db = 10.0 * math.log10(-math.log(share)) - 20.0 * math.log10(HALF_SPACING[modulation])
    every, rare = (received(modulation, channel, es_n0_db, few) for few in (NEVER, ALWAYS))
    assert every.counts.bit_errors.sum() > 20
    assert np.array_equal(rare.payload, every.payload)
    for name in ("transmit_energy", "signal_energy", "noise_energy"):
        np.testing.assert_allclose(getattr(rare.counts, name), getattr(every.counts, name), rtol=1e-5)
    each = channel == "rayleigh, every symbol" and BITS_PER_SYMBOL[modulation] > 2  # these are always received
    assert np.array_equal(rare.counts.noise_energy, every.counts.noise_energy) == each


def limits(modulation: str, noise_scale: float, turn: complex = 1.0) -> int:
    words, lanes = tap_lanes()
    lanes[OF_TAPS + NOISE_SCALE], lanes[OF_TAPS + TURN_REAL] = noise_scale, turn.real
    lanes[OF_TAPS + TURN_IMAG] = turn.imag
    set_limits(mapping(modulation), lanes, 1)
    return int(words[TAP_REAL])


def radius(word: int) -> float:
    """Noise of the first word `word`, along the real axis."""
    return float(complex_normal(np.uint32(word), np.uint32(0))[0])


@pytest.mark.parametrize("modulation", HALF_SPACING)
def test_the_limit_lies_just_inside_the_distance_to_the_boundary(modulation: str) -> None:
    """The next word moves a symbol by less than d; the bound of the exponential function leaves 7 % more candidates.

    Rounding takes at most 1e-5 d, of which a tenth part of the margin would be enough.
    """
    distance = HALF_SPACING[modulation]
    for share in np.geomspace(1e-5, 0.4, 200):
        scale = distance / math.sqrt(-math.log(share))
        limit = limits(modulation, scale)
        assert scale * radius(limit + 1) < distance * (1.0 - 5e-5)
        assert share < limit / 2**32 < 1.08 * share


@pytest.mark.parametrize("turn", [1.02, 0.97 + 0.02j, 1.0 + 0.03j])
def test_wrong_channel_knowledge_brings_the_limit_nearer(turn: complex) -> None:
    points = np.array([x + 1j * y for x in (-3, -1, 1, 3) for y in (-3, -1, 1, 3)]) / 10**0.5
    distance = HALF_SPACING["16qam"]
    scale = distance / math.sqrt(-math.log(0.05))
    moved = float(np.abs((turn - 1.0) * points).max())
    assert scale * radius(limits("16qam", scale, turn) + 1) + moved < distance


def test_all_symbols_are_candidates_where_nothing_is_sent() -> None:
    assert limits("qpsk", 0.1, turn=0.0) == 2**32 - 1
    assert limits("qpsk", 0.1, turn=math.nan) == 2**32 - 1
