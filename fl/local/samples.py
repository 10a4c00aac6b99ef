"""Which samples of a device make up each step, and the keys of its dropout: functions of the device alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fl.base.arrays import I64, U32
from phy.numerics.random import threefry

_STEPS_PER_OCTAVE = 8


def padded_size(size: int) -> int:
    """The next size of a grid with at most 8 sizes per octave, so that few shapes are ever traced.

    1 .. 16, then 18, 20, .. 32, 36, 40, .. 64, 72 and so on: at most 1/8 of the rows are padding.
    """
    grain = 1
    while size > 2 * _STEPS_PER_OCTAVE * grain:
        grain *= 2
    return -(-size // grain) * grain


@dataclass(frozen=True, kw_only=True)
class Slices:
    """A step of up to `size` samples as `count` slices of `rows` each: what one compiled call takes."""

    rows: int
    count: int


def slices(size: int, *, rows_at_once: int) -> Slices:
    """Equal slices of at most `rows_at_once` samples (and one more grain of the grid, where it does not divide)."""
    rows = padded_size(-(-size // -(-size // rows_at_once)))
    return Slices(rows=rows, count=-(-size // rows))


def folded_keys(key: U32, first: I64, second: I64) -> U32:
    """Keys `[n, 2]` of the pairs (first, second), each `[n]`, under the round's key `[2]`."""
    return np.stack(threefry((key[0], key[1]), (first.astype(np.uint32), second.astype(np.uint32))), axis=1)


@dataclass(kw_only=True)
class Batches:
    """Mini-batches without replacement: every device goes through its samples in an order of its own, epoch by epoch.

    The order of device k in epoch e of a round is that of Threefry words under the key (seed, trial, round; e, k). The
    last batch of an epoch may be smaller. `batch_size` None: every step takes all samples, in their own order.
    """

    key: U32
    devices: I64
    sizes: I64
    batch_size: int | None
    _epochs: I64 | None = field(default=None, init=False)
    _order: I64 = field(init=False)

    def at(self, step: int, *, width: int) -> tuple[I64, I64]:
        """Positions among the device's own samples `[n, width]`, and how many of them count `[n]`."""
        column = np.arange(width)
        if self.batch_size is None:
            return np.where(column < self.sizes[:, None], column, 0), self.sizes
        per_epoch = -(-self.sizes // self.batch_size)
        self._shuffle(step // per_epoch)
        first = (step % per_epoch) * self.batch_size
        taken = np.minimum(self.batch_size, self.sizes - first)
        place = np.where(column < taken[:, None], first[:, None] + column, 0)
        return np.take_along_axis(self._order, place, axis=1), taken

    def _shuffle(self, epochs: I64) -> None:
        if self._epochs is not None and np.array_equal(epochs, self._epochs):
            return
        keys = folded_keys(self.key, epochs, self.devices)
        column = np.arange(self.sizes.max(), dtype=np.uint32)
        high, low = threefry((keys[:, :1], keys[:, 1:]), (column[None], np.zeros_like(column)[None]))
        rank = (high.astype(np.uint64) << np.uint64(32)) | low
        rank[column >= self.sizes[:, None]] = np.iinfo(np.uint64).max
        self._epochs, self._order = epochs, np.argsort(rank, axis=1, kind="stable")
