"""Uncoded kernels stay in vectors: one loop that LLVM gives up on makes a link several times slower."""

from __future__ import annotations

import numpy as np
import pytest
from pace import fastest_s

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.engines.fused.flat.link import FusedChain
from phy.fading.block_taps import UplinkContext
from phy.links.orthogonal import OrthogonalLink

SYMBOLS = 1 << 19


@pytest.mark.parametrize(
    ("modulation", "fading", "coherence", "limit"),
    [
        ("qpsk", "constant", "packet", 0.45),
        ("16qam", "rayleigh", "packet", 0.7),
        ("256qam", "rayleigh", "packet", 0.9),
        ("bpsk", "rician", "symbol", 1.2),
        ("qpsk", "nakagami", "symbol", 2.1),
    ],
)
def test_a_symbol_takes_no_longer_than_some_of_its_noise_in_numpy(
    modulation: str, fading: str, coherence: str, limit: float
) -> None:
    """Limits are twice what is measured with AVX2; drawing normals in NumPy is no loop of vectors anywhere."""
    config = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": modulation,
            "channel": {"fading": fading, "coherence": coherence},
            "power": {"policy": "fixed", "snr_max_db": 15.0},
            "engine": "fused",
        }
    )
    num_bits = SYMBOLS * BITS_PER_SYMBOL[modulation]
    link = OrthogonalLink(config, num_devices=1, num_bits=num_bits, chain=FusedChain(config, threads=1))
    payload = np.random.default_rng(1).integers(0, 256, (1, 1, num_bits // 8), dtype=np.uint8)
    context = UplinkContext(seed=1, trials=(0,))
    numbers, normals = np.random.Generator(np.random.SFC64(1)), np.empty(2 * SYMBOLS, np.float32)
    link.send(payload, context=context, caps={})
    taken = fastest_s(lambda: link.send(payload, context=context, caps={}))
    drawn = fastest_s(lambda: numbers.standard_normal(out=normals, dtype=np.float32))
    assert taken < limit * drawn
