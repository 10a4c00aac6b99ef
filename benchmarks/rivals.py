"""Rows of the table of chains, and who computes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext


@dataclass(frozen=True)
class Rival:
    """Somebody who can do it: `call()` carries `bits`."""

    bits: int
    call: Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One row: who can do it, built when asked for, by name (`fused`, `sionna`, `plain`).

    `snr_db` is Es/N0 of a symbol on the air at mean gain, `modulation` and `channel` say what peers have to do alike.
    """

    name: str
    modulation: str
    channel: str
    snr_db: float
    rivals: Mapping[str, Callable[[], Rival]]


def digital(link: Mapping[str, Any], *, engine: str, num_bits: int, num_devices: int = 1) -> Rival:
    """Each device sends random packed bits over `link`; another round each time. `num_bits`: of all."""
    config = LinkConfig.model_validate({"access": "orthogonal", **link, "engine": engine})
    each = num_bits // num_devices
    uplink = compile_digital(config, num_devices=num_devices, num_bits=each)
    payload = np.random.default_rng(1).integers(0, 256, (1, num_devices, each // 8), dtype=np.uint8)
    rounds = itertools.count()
    return Rival(
        num_bits,
        lambda: uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=next(rounds)), caps={}),
    )
