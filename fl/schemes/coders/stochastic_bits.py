"""Random signs of many numbers at once, and the weighted mean of the signs that arrived.

    c = +1 with probability (1 + t) / 2, else -1, t in [-1, 1]; E[c] = t, Var[c] = 1 - t^2

is the one draw behind PRoBit (t = delta / b) and signSGD (t = sign(delta)). The bit 1 stands for +1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.base.arrays import F32, F64, I64, U8, U32, Bools
from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.coders.coder import Gathering, Senders
from phy.numerics.workers import run_tasks, spans

_CELLS_AT_ONCE = 1 << 20
"""Numbers that one call works on."""

_MOST_COLUMNS = 1 << 16
_WORTH_BITS = 36
"""Binary digits of shares below the largest: sums over 2^16 devices are exact in float64. Of more devices fewer."""
_EXACT_BITS = 53


def stochastic_bits(updates: F32, *, slope: ArrayLike | None, ceiling: ArrayLike = 1.0, key: U32, devices: I64) -> U8:
    """Packed random signs `[K, ceil(M / 8)]` uint8 of `updates` `[K, M]`, t = `slope` * update within +-`ceiling` <= 1.

    `slope` and `ceiling` are numbers or `[K]`; without a slope t is the sign of the update and 0 for 0: a fair coin.
    Entry i of device k is decided by the word of Threefry under `key` `[2]` with counter (i, k), k = `devices` `[K]`,
    compared to 2^-23: t = +-1 is certain, every other probability is right to 2^-24. Bits beyond M are zero.
    """
    from fl.schemes.coders.sign_kernel import fill_signs
    from phy.numerics.compiled import read_only

    count, num_values = updates.shape
    slopes, ceilings = (
        read_only(np.array(np.broadcast_to(np.asarray(value, np.float32), (count,))))
        for value in (1.0 if slope is None else slope, ceiling)
    )
    values, keys, numbers = read_only(updates), read_only(key), read_only(devices.astype(np.uint32))
    out = np.empty((count, -(-num_values // 8)), np.uint8)
    sure = slope is None
    run_tasks(
        lambda first, last: fill_signs(values, slopes, ceilings, sure, keys, numbers, out, first, last), num_tasks=count
    )
    return out


class SignSums(Gathering):
    """sum_k w_k a_k c_ki / sum_k w_k over the devices k whose bit i arrived, while bits come in, block after block.

    Devices come in the order of `weights` w and `worth` a, `[K]` both. Sums are exact, so that blocks do not matter.
    `update_of` makes the update of their mean.
    """

    def __init__(
        self,
        *,
        num_values: int,
        weights: F64,
        worth: F64,
        update_of: Callable[[F64], F32] = lambda mean: mean.astype(np.float32),
    ) -> None:
        self._num_values, self._done, self._update_of = num_values, 0, update_of
        self._amounts, self._shares = _on_a_grid(weights * worth), _on_a_grid(weights)
        self._total, self._heard = np.zeros(num_values), np.zeros(num_values)

    def add(self, payload: U8, *, known: Bools | None) -> None:
        count, num_values = payload.shape[1], self._num_values
        mine = slice(self._done, self._done + count)
        amounts, shares = self._amounts[mine], self._shares[mine]
        total, heard = self._total, self._heard
        width = min(num_values, _MOST_COLUMNS)
        height = max(_CELLS_AT_ONCE // width, 1)
        for rows, columns in product(spans(count, step=height), spans(num_values, step=width)):
            stored = payload[0, rows, columns.start // 8 : -(-columns.stop // 8)]
            plus = np.unpackbits(stored, axis=1, count=columns.stop - columns.start)
            if known is None:
                heard[columns] += shares[rows].sum()
                total[columns] += 2.0 * _summed(amounts[rows], plus) - amounts[rows].sum()
            else:
                here = known[rows, columns]
                heard[columns] += _summed(shares[rows], here)
                total[columns] += 2.0 * _summed(amounts[rows], plus & here) - _summed(amounts[rows], here)
        self._done = mine.stop

    def update(self) -> F32:
        """See `Gathering.update`: of the mean of what was added, `[num_values]`."""
        heard = self._heard
        return self._update_of(np.divide(self._total, heard, out=np.zeros(self._num_values), where=heard > 0.0))


def received_signs(payload: U8, senders: Senders, *, num_bits: int) -> F32:
    """Return bits `[1, K, num_bytes]` as +-1 over what flips leave of their mean, `[K, num_bits]`; 0: not arrived."""
    signs = 2.0 * np.unpackbits(payload[0], axis=1, count=num_bits).astype(np.float32) - 1.0
    if senders.known is not None:
        signs *= senders.known
    signs /= np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR).astype(np.float32)[:, None]
    return signs


def _summed(amounts: F64, chosen: NDArray[Any]) -> F64:
    """sum_k a_k over the rows chosen, `chosen` `[K, n]` of zeros and ones; counted where all amounts are the same."""
    if (amounts == amounts[0]).all():
        return np.asarray(amounts[0] * chosen.sum(axis=0, dtype=np.min_scalar_type(len(amounts))))
    return np.asarray(amounts @ chosen.astype(np.float64))


def _on_a_grid(amounts: F64) -> F64:
    """Amounts rounded to multiples of a power of two below the largest, such that any sum of them is exact."""
    largest = float(np.abs(amounts).max(initial=0.0))
    if largest == 0.0:
        return amounts
    digits = min(_WORTH_BITS, _EXACT_BITS - (len(amounts) - 1).bit_length())
    step = 2.0 ** (int(np.frexp(largest)[1]) - digits)
    return np.asarray(np.rint(amounts / step) * step)
