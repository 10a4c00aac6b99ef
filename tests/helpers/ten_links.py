"""Ten links and the bits that arrive over them: `python tests/helpers/ten_links.py [ENGINE] [NAME ...]` prints hashes.

A process of its own, because libraries read how far instructions are limited when they are loaded (`.ci/limit`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

DEVICES = 2
FLAT = {"fading": "rayleigh", "coherence": "packet"}
OFDM = {"num_subcarriers": 72, "subcarrier_spacing_hz": 15e3, "cyclic_prefix_length": 6}
PATHS = {"delay_spread_s": 100e-9, "speed_m_s": 3.0, "carrier_frequency_hz": 3.5e9, "coherence": "packet"}
NOMA = {"access": "noma", "noma": {"ladder_db": [0, -7], "detector": "sic"}}


def _coded(code: str, rate: float, **more: Any) -> dict[str, Any]:
    return {"coding": {"code": code, "rate": rate}, "packet_size_bytes": 64, **more}


LINKS: dict[str, dict[str, Any]] = {
    "bpsk-awgn": {"modulation": "bpsk", "channel": {"model": "awgn"}, "power": 7.0, "num_bits": 1 << 20},
    "qpsk-rayleigh": {"modulation": "qpsk", "channel": FLAT, "power": 13.0, "num_bits": 1 << 20},
    "16qam-ldpc": _coded("ldpc5g", 0.5, modulation="16qam", channel=FLAT, power=14.0),
    "polar": _coded("polar5g", 0.5, modulation="qpsk", channel=FLAT, power=7.0),
    "turbo": _coded("turbo", 1 / 3, modulation="qpsk", channel=FLAT, power=5.0),
    "convolutional": _coded("convolutional", 0.5, modulation="qpsk", channel=FLAT, power=7.0),
    "noma-sic": {**NOMA, "modulation": "qpsk", "channel": FLAT, "power": 17.0, "packet_size_bytes": 64},
    "ofdm-tdl": {"modulation": "16qam", "ofdm": OFDM, "channel": {"model": "tdl-a", **PATHS}, "power": 20.0},
    "ofdm-cdl": {"modulation": "qpsk", "ofdm": OFDM, "channel": {"model": "cdl-c", **PATHS}, "power": 13.0},
    "ofdm-time": {
        "modulation": "qpsk",
        "ofdm": {**OFDM, "domain": "time"},
        "channel": {"model": "tdl-a", **PATHS},
        "power": 13.0,
    },
}
"""Settings of `phyloop.Link`; `power` is P0/N0 in dB at full power, at which some bits are wrong and most are right."""


def received(name: str, *, engine: str = "auto") -> tuple[str, int]:
    """Return the SHA-256 of the bits received over a link, and how many of them are wrong."""
    import phyloop

    settings = {"num_bits": 1 << 16, "engine": engine, **LINKS[name]}
    power = {"policy": "fixed", "snr_max_db": settings.pop("power")}
    link = phyloop.Link(num_devices=DEVICES, power=power, **settings)
    bits = np.random.default_rng(3).integers(0, 2, (DEVICES, link.num_bits), dtype=np.uint8)
    arrived = link.send(bits, seed=5, round=2, trial=7)
    return hashlib.sha256(np.packbits(arrived.bits, axis=1).tobytes()).hexdigest(), int(arrived.bit_errors.sum())


if __name__ == "__main__":
    engine, *names = sys.argv[1:] or ["auto"]
    for name in names or LINKS:
        print(json.dumps([name, *received(name, engine=engine)]), flush=True)
