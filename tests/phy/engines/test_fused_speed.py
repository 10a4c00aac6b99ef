"""Kernels stay in vectors: one loop that LLVM gives up on makes a link several times slower."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from pace import fastest_s

from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.engines.fused.flat.link import FusedChain
from phy.fading.block_taps import UplinkContext
from phy.links.link import DigitalUplink
from phy.links.orthogonal import OrthogonalLink
from phy.numerics.workers import THREADS_VARIABLE

SYMBOLS = 1 << 19
HALF_AS_WIDE = 2.0 if os.environ.get("NUMBA_CPU_NAME") == "x86-64-v2" else 1.0
"""Kernels have vectors of half the width under `.ci/limit sse4`; NumPy draws its normals as fast as before."""
OFDM = {"ofdm": {}, "channel": {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3.0}, "csi": {"estimator": "ls"}}


def shares_of_noise(link: DigitalUplink, *, num_devices: int, num_bits: int) -> float:
    """Time of a call in times of `SYMBOLS` complex normals in NumPy, whose drawing is no loop of vectors anywhere."""
    payload = np.random.default_rng(1).integers(0, 256, (1, num_devices, num_bits // 8), dtype=np.uint8)
    context = UplinkContext(seed=1, trials=(0,))
    numbers, normals = np.random.Generator(np.random.SFC64(1)), np.empty(2 * SYMBOLS, np.float32)
    link.send(payload, context=context, caps={})
    taken = fastest_s(lambda: link.send(payload, context=context, caps={}))
    return taken / fastest_s(lambda: numbers.standard_normal(out=normals, dtype=np.float32))


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
    """Limits are twice what is measured with AVX2."""
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
    assert shares_of_noise(link, num_devices=1, num_bits=num_bits) < limit * HALF_AS_WIDE


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"impairments": {"phase_error_deg": 10.0, "cfo_hz": 100.0, "clipping_db": 3.0}}, 1.2),
        ({**OFDM, "impairments": {"cfo_hz": 300.0, "clipping_db": 3.0}}, 3.6),
        ({**OFDM, "ofdm": {"domain": "time"}}, 4.6),
        ({"access": "noma", "noma": {"detector": "sic"}}, 2.4),
        ({"access": "noma", "noma": {"detector": "ml"}}, 4.8),
    ],
)
def test_a_symbol_of_a_packet_takes_no_longer_than_some_of_its_noise(
    changes: dict[str, Any], limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits are twice what is measured with AVX2, on one thread; two devices of NOMA share the symbols."""
    for package in ("noma", "packets"):
        monkeypatch.setattr(f"phy.engines.fused.{package}.chain.available_threads", lambda: 1)
    config = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "qpsk",
            "channel": {"fading": "rayleigh", "coherence": "packet"},
            "power": {"policy": "fixed", "snr_max_db": 15.0},
            "packet_size_bytes": 512,
            "engine": "fused",
            **changes,
        }
    )
    num_devices = 2 if config.access == "noma" else 1
    link = compile_digital(config, num_devices=num_devices, num_bits=2 * SYMBOLS)
    assert shares_of_noise(link, num_devices=num_devices, num_bits=2 * SYMBOLS) < limit * HALF_AS_WIDE


@pytest.mark.parametrize(
    ("coding", "limit"),
    [
        ({"code": "convolutional", "rate": 0.5, "constraint_length": 5}, 3.0),
        ({"code": "convolutional", "rate": 0.5, "constraint_length": 7}, 4.1),
        ({"code": "turbo", "rate": 1 / 3, "iterations": 6}, 6.8),
        ({"code": "ldpc5g", "rate": 0.5, "iterations": 20}, 3.9),
        ({"code": "polar5g", "rate": 0.5, "list_size": 1}, 4.0),
        ({"code": "polar5g", "rate": 0.5, "list_size": 4}, 8.6),
    ],
)
def test_two_bits_of_a_code_word_take_no_longer_than_some_noise(
    coding: dict[str, Any], limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits are twice what is measured with AVX2, on one thread, encoder and channel included."""
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    config = LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "qpsk",
            "coding": coding,
            "channel": {"model": "awgn"},
            "power": {"policy": "fixed", "snr_max_db": 8.0},
            "packet_size_bytes": 64 if coding["code"] == "polar5g" else 128,
            "engine": "fused",
        }
    )
    link = compile_digital(config, num_devices=1, num_bits=2 * SYMBOLS)
    assert shares_of_noise(link, num_devices=1, num_bits=2 * SYMBOLS) < limit * HALF_AS_WIDE
