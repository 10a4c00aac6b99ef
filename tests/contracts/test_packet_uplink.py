"""Contract of every packet link: each access, each code and each channel of the schema."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import LinkError, Reception
from phy.measure.counts import LinkCounts

DEVICES, PACKETS, PACKET_BYTES = 2, 2, 5
NUM_BITS = 8 * PACKETS * PACKET_BYTES
NUM_BYTES = PACKETS * PACKET_BYTES

OFDM = {"num_subcarriers": 24, "num_symbols": 7, "pilot_symbols": [1, 5], "cyclic_prefix_length": 4}

ACCESS: dict[str, dict[str, Any]] = {
    "tdma": {"access": "orthogonal"},
    "ofdma": {"access": "orthogonal", "multiplexing": "ofdma", "ofdm": OFDM},
    "noma": {"access": "noma"},
}
CODES: dict[str, Any] = {
    "none": "none",
    "repetition": {"code": "repetition", "rate": "1/3"},
    "convolutional": {"code": "convolutional"},
    "turbo": {"code": "turbo", "rate": "1/3", "iterations": 4},
    "polar5g": {"code": "polar5g", "list_size": 2},
    "ldpc5g": {"code": "ldpc5g", "iterations": 8},
}
FLAT: dict[str, dict[str, Any]] = {
    "awgn": {"model": "awgn"},
    "rayleigh": {"fading": "rayleigh", "coherence": "packet"},
    "rician": {"fading": "rician", "coherence": "round"},
    "nakagami": {"fading": "nakagami", "coherence": "run"},
    "symbol": {"fading": "rayleigh", "coherence": "symbol"},
    "doppler": {"fading": "rayleigh", "coherence": "doppler", "speed_m_s": 5.0},
}
SELECTIVE: dict[str, dict[str, Any]] = {
    f"{kind}-{letter}": {"model": f"{kind}-{letter}", "coherence": "packet", "speed_m_s": 3.0}
    for kind in ("tdl", "cdl")
    for letter in "abcde"
}
CHANNELS = {**FLAT, **SELECTIVE}

# In the order of CODES; the dearest codes to compile meet the cheapest channels.
QUICK_TDMA = ("rayleigh", "tdl-a", "cdl-a", "awgn", "tdl-b", "rician")
QUICK_OFDMA = ("tdl-c", "cdl-b", "nakagami", "symbol", "awgn", "cdl-c")
QUICK_NOMA = ("cdl-d", "tdl-d", "tdl-e", "cdl-e", "doppler", "awgn")

ALL = list(product(ACCESS, CODES, CHANNELS))
# Every access with every code, every channel once, every access with every kind of channel; the rest is slow.
QUICK = [
    *(("tdma", code, channel) for code, channel in zip(CODES, QUICK_TDMA, strict=True)),
    *(("ofdma", code, channel) for code, channel in zip(CODES, QUICK_OFDMA, strict=True)),
    *(("noma", code, channel) for code, channel in zip(CODES, QUICK_NOMA, strict=True)),
    ("noma", "none", "rician"),
]


def kind(channel: str) -> str:
    """AWGN, one tap that fades, or one of the two 3GPP families."""
    return "awgn" if channel == "awgn" else "flat" if channel in FLAT else channel[:3]


def detector(channel: str) -> str:
    """The stronger user may change within a packet; cancellation keeps its order and then errs even without noise."""
    return "ml" if channel in SELECTIVE or channel == "symbol" else "sic"


def link_of(access: str, code: str, channel: str, **changes: Any) -> LinkConfig:
    """BPSK at 60 dB, so that nothing but the chain itself can go wrong."""
    ofdm = {"ofdm": OFDM} if channel in SELECTIVE else {}
    noma = {"noma": {"detector": detector(channel)}} if access == "noma" else {}
    coding = CODES[code]
    if changes.get("engine") == "sionna" and code in ("turbo", "polar5g", "ldpc5g"):
        coding = {**coding, "standard": "sionna"}  # which is all that this engine has of them
    return LinkConfig.model_validate(
        {
            "modulation": "bpsk",
            "coding": coding,
            "channel": CHANNELS[channel],
            "power": {"policy": "fixed", "snr_max_db": 60},
            "packets": {"crc": "crc16"},
            "packet_size_bytes": PACKET_BYTES,
            **ofdm,
            **ACCESS[access],
            **noma,
            **changes,
        }
    )


def on_air(*trials: int) -> UplinkContext:
    return UplinkContext(seed=3, trials=trials, round_index=1)


def payload_of(num_trials: int) -> NDArray[np.uint8]:
    return np.random.default_rng(4).integers(0, 256, (num_trials, DEVICES, NUM_BYTES), dtype=np.uint8)


def same(first: Reception, second: Reception, rows: Any = slice(None)) -> bool:
    return np.array_equal(first.payload, second.payload[rows]) and all(
        np.array_equal(getattr(first.counts, f.name), getattr(second.counts, f.name)[rows]) for f in fields(LinkCounts)
    )


def check_promises(config: LinkConfig) -> None:
    """Bits come back whole where nothing disturbs; counts are those of the bits; a trial is the same in any batch."""
    uplink = compile_digital(config, num_devices=DEVICES, num_bits=NUM_BITS)
    payload = payload_of(3)
    reception = uplink.send(payload, context=on_air(0, 1, 2), caps={})
    assert reception.payload.shape == payload.shape
    wrong = np.unpackbits(payload ^ reception.payload, axis=-1).reshape(3, DEVICES, PACKETS, -1)
    assert np.array_equal(reception.counts.bit_errors, wrong.sum(axis=(-1, -2)))
    assert np.array_equal(reception.counts.packet_errors, wrong.any(axis=-1).sum(axis=-1))
    assert wrong.mean() <= (0.0 if config.channel.model == "awgn" else 0.01)  # a deep fade may eat a packet
    assert (reception.counts.bits == NUM_BITS).all()
    assert (reception.counts.airtime_s > 0).all()
    assert (reception.counts.energy_j > 0).all()
    assert same(uplink.send(payload, context=on_air(0, 1, 2), caps={}), reception)
    assert same(uplink.send(payload[[2]], context=on_air(2), caps={}), reception, [2])


REFERENCE = [
    one for one in QUICK if one[0] == "tdma" or one[1:] == ("none", "rician") or one[:2] == ("ofdma", "ldpc5g")
]
"""What Sionna's engine is compiled for at every run of the tests: each code, access and kind of channel once."""


@pytest.mark.parametrize(
    ("engine", "access", "code", "channel"),
    [
        *(("fused", *one) for one in QUICK),
        *(pytest.param("sionna", *one, marks=[] if one in REFERENCE else pytest.mark.slow) for one in QUICK),
    ],
)
def test_every_access_code_and_channel_passes(engine: str, access: str, code: str, channel: str) -> None:
    config = link_of(access, code, channel, engine=engine)
    if engine == "sionna" or config.fusible:
        check_promises(config)
    else:
        with pytest.raises(LinkError, match="only engine sionna has"):
            compile_digital(config, num_devices=DEVICES, num_bits=NUM_BITS)


def test_no_pair_of_access_and_code_or_kind_of_channel_is_left_to_the_slow_tests() -> None:
    assert {(access, code) for access, code, _ in QUICK} == set(product(ACCESS, CODES))
    assert {(access, kind(channel)) for access, _, channel in QUICK} == set(
        product(ACCESS, ("awgn", "flat", "tdl", "cdl"))
    )
    assert {channel for _, _, channel in QUICK} == set(CHANNELS)
    assert {access for access, _, _ in REFERENCE} == set(ACCESS)
    assert {code for _, code, _ in REFERENCE} == set(CODES)
    assert {kind(channel) for _, _, channel in REFERENCE} == {"awgn", "flat", "tdl", "cdl"}


@pytest.mark.slow
@pytest.mark.parametrize(("access", "code", "channel"), [one for one in ALL if one not in QUICK])
def test_every_other_combination_passes(access: str, code: str, channel: str) -> None:
    check_promises(link_of(access, code, channel))


def test_a_link_that_swaps_bits_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    from phy.links.packets import link as module

    deliver = module.deliver

    def swap(*args: Any, **kwargs: Any) -> Any:
        done = deliver(*args, **kwargs)
        done.payload[..., 0] ^= 0xC0
        return done

    monkeypatch.setattr(module, "deliver", swap)
    with pytest.raises(AssertionError):
        check_promises(link_of("tdma", "none", "awgn"))
