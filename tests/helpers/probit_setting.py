"""Devices, a round, updates and the coder that the tests of PRoBit share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.schemes.probit.probit import Probit
from fl.schemes.probit.scheme import ProbitScheme
from phy.fading.block_taps import UplinkContext

CONTEXT = UplinkContext(seed=8, trials=(1,), round_index=4)
DEVICES = np.array([7, 0, 4_000_000, 3, 12])
MANY = 200_000
"""Numbers that stand for as many draws of one."""

Array = NDArray[Any]


def equal(count: int) -> Array:
    return np.full(count, 1.0 / count)


def some_updates(count: int, num_values: int, *, size: float = 0.05, seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-size, size, (count, num_values)).astype(np.float32)


def probit(num_values: int, **settings: Any) -> Probit:
    return Probit(ProbitScheme(name="probit", **settings), num_values=num_values)
