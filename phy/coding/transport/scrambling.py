"""Scrambling of coded bits by the Gold sequence of TS 38.211 5.2.1."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.config.coding import Scrambling

_REGISTER = 31
_SKIPPED = 1600
"""N_C: numbers of both m-sequences that are left out."""
_AT_ONCE = 28
"""Numbers of a step: x(n + 31) needs x(n + 3)."""


@lru_cache(maxsize=32)
def gold_sequence(initial: int, length: int) -> NDArray[np.uint8]:
    """Return c(0) to c(`length` - 1) of TS 38.211 5.2.1 for c_init = `initial`, in {0, 1}, read-only.

    c(n) = x_1(n + 1600) + x_2(n + 1600), x_1(n + 31) = x_1(n + 3) + x_1(n),
    x_2(n + 31) = x_2(n + 3) + x_2(n + 2) + x_2(n + 1) + x_2(n), all modulo 2. x_1 starts with a single one, x_2 with
    the bits of `initial`, lowest first. Raises ValueError for an `initial` that 31 bits do not hold.
    """
    if not 0 <= initial < 1 << _REGISTER:
        raise ValueError(f"c_init {initial} must be from 0 to 2^31 - 1; take it by `uplink_initial`")
    total = _REGISTER + _SKIPPED + length + _AT_ONCE
    first, second = np.zeros(total, np.uint8), np.zeros(total, np.uint8)
    first[0] = 1
    second[:_REGISTER] = initial >> np.arange(_REGISTER) & 1
    for n in range(0, total - _REGISTER - _AT_ONCE + 1, _AT_ONCE):
        new, old = slice(n + _REGISTER, n + _REGISTER + _AT_ONCE), slice(n, n + _AT_ONCE)
        first[new] = first[n + 3 : n + 3 + _AT_ONCE] ^ first[old]
        second[new] = second[n + 3 : n + 3 + _AT_ONCE] ^ second[n + 2 : n + 2 + _AT_ONCE]
        second[new] ^= second[n + 1 : n + 1 + _AT_ONCE] ^ second[old]
    sequence = (first ^ second)[_SKIPPED : _SKIPPED + length]
    sequence.flags.writeable = False
    return sequence


def uplink_initial(*, n_rnti: int, n_id: int) -> int:
    """Return c_init = n_RNTI 2^15 + n_ID of the uplink data channel, TS 38.211 6.3.1.1."""
    return (n_rnti << 15) + n_id


def sequence_of(scrambling: Scrambling, length: int) -> NDArray[np.uint8] | None:
    """Return the sequence that is added to the coded bits of a packet, TS 38.211 6.3.1.1; None without scrambling."""
    if scrambling == "none":
        return None
    return gold_sequence(uplink_initial(n_rnti=scrambling.n_rnti, n_id=scrambling.n_id), length)
