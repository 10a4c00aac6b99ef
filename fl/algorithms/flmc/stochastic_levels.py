"""Stochastic rounding of gradients to 2^b levels, without a bias, and the symbols that carry them.

With u = (2^b - 1) (1 + g / r) / 2 the index of a level is floor(u) or one more, the latter with probability
p = u - floor(u): E[c] = g / r for the level c = 2 j / (2^b - 1) - 1, of variance 4 p (1 - p) / (2^b - 1)^2. A word of
32 bits decides, so that the mean is off by 2^-32 of a step at most. Values beyond +-r get the outermost level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fl.base.arrays import F64, U8, U32, Reals
from fl.schemes.codecs.codec import Encoded
from fl.schemes.codecs.partwise import refuse_infinite_values
from phy.numerics.compiled import inlined, kernel, read_only
from phy.numerics.threefry import draw_listed
from phy.numerics.workers import run_tasks

_WORDS = 2.0**32
_LANES = 256
"""Pairs of values that are drawn at a time."""
_NO_TABLE = read_only(np.empty((0, 0)))


@dataclass(frozen=True, kw_only=True)
class StochasticLevels:
    """A quantizer of `bits_per_value` b bits over [-r, r], r = `reach`; see the head of this module.

    Bits of an index travel with the most significant one first; the bit 0 is the symbol +1, as in BPSK, so that the
    index that is sent counts from the top: all zeros are the level +1. `plane_amplitudes` `[b]`: amplitudes of the bits
    as symbols of their own, of mean square 1; None: a level is one symbol of pulse amplitude modulation (PAM).
    """

    bits_per_value: int
    reach: float
    plane_amplitudes: tuple[float, ...] | None = None

    @property
    def top(self) -> int:
        """Index of the last level, 2^b - 1."""
        return (1 << self.bits_per_value) - 1

    @property
    def plane_weights(self) -> F64:
        """Share of each bit in a level, 2^p / (2^b - 1), the most significant first, `[b]`; they add up to 1."""
        return np.asarray(2.0 ** np.arange(self.bits_per_value)[::-1] / self.top)

    def indices(self, values: Reals, *, keys: U32) -> U8:
        """Indices of levels of `values` `[num_trials, num_devices, n]`, of the same shape, by words of `keys`."""
        return self._drawn(values, keys, _NO_TABLE)[0]

    def symbols(self, values: Reals, *, keys: U32) -> F64:
        """What is sent over a superposition, `[num_trials, num_devices, n or n b]`, of mean square at most 1."""
        return self._drawn(values, keys, self._table)[1].reshape(*values.shape[:-1], -1)

    def _drawn(self, values: Reals, keys: U32, table: F64) -> tuple[U8, F64]:
        """Indices, and the row of `table` `[2^b, w]` of each, `[num_trials, num_devices n, w]`."""
        doubles = values.astype(np.float64, copy=False)
        if not np.isfinite(doubles).all():
            refuse_infinite_values(values)
        out = np.empty(doubles.shape, np.uint8)
        symbols = np.empty((len(doubles), out[0].size, table.shape[1]))
        numbers, streams, top, half = read_only(doubles), read_only(keys), float(self.top), 0.5 * self.top
        run_tasks(
            lambda start, stop: _draw(numbers, half / self.reach, half, top, streams, table, out, symbols, start, stop),
            num_tasks=len(doubles),
            cost_us=0.0015 * doubles.size + 0.001 * symbols.size,
        )
        return out, symbols

    @cached_property
    def _table(self) -> F64:
        """Symbols of every level `[2^b, 1 or b]`."""
        index = np.arange(self.top + 1)
        if self.plane_amplitudes is None:
            return read_only(2.0 * index[:, None] / self.top - 1.0)
        signs = 2.0 * (index[:, None] >> np.arange(self.bits_per_value)[::-1] & 1) - 1.0
        return read_only(signs * np.array(self.plane_amplitudes))

    def symbols_of(self, payload: U8, *, num_values: int) -> F64:
        """`symbols` of encoded bits."""
        found = self._table[self._indices_of(payload, num_values)]
        return found.reshape(*found.shape[:-2], -1)

    def of_planes(self, sums: F64) -> F64:
        """Levels `[..., n]` of received `symbols` `[..., n or n b]`, linear in them, so of sums over devices too."""
        if self.plane_amplitudes is None:
            return sums
        parts = sums.reshape(*sums.shape[:-1], -1, self.bits_per_value)
        return np.asarray(parts @ (self.plane_weights / np.array(self.plane_amplitudes)))

    def encode(self, values: Reals, *, keys: U32) -> Encoded:
        """See `Codec.encode`."""
        indices = self.top - self.indices(values, keys=keys)
        bits = indices[..., None] >> np.arange(self.bits_per_value, dtype=np.uint8)[::-1] & 1
        payload = np.packbits(bits.reshape(*values.shape[:-1], -1), axis=-1)
        return Encoded(payload=payload, clipped=np.zeros(values.shape[:2], np.int64))

    def decode(self, payload: U8, *, num_values: int) -> F64:
        """See `Codec.decode`; levels c in [-1, 1], float64."""
        return np.asarray(2.0 * self._indices_of(payload, num_values) / self.top - 1.0)

    def _indices_of(self, payload: U8, num_values: int) -> U8:
        bits = np.unpackbits(payload, axis=-1, count=num_values * self.bits_per_value)
        places = (1 << np.arange(self.bits_per_value)[::-1]).astype(np.uint8)
        found = bits.reshape(*payload.shape[:-1], num_values, self.bits_per_value) * places
        return np.asarray(self.top - found.sum(axis=-1, dtype=np.uint8), np.uint8)


@inlined
def _order(order: Any, num_values: Any, pairs: Any, count: Any) -> None:
    """Places of the words of `count` whole devices, value by value: the first ones of the pairs in front."""
    place = 0
    for device in range(count):
        for i in range(num_values):
            order[place] = np.uint32(device * pairs + (i >> 1) + (_LANES if i & 1 else 0))
            place += 1


@inlined
def _round(values: Any, scale: Any, half: Any, top: Any, words: Any, order: Any, out: Any, count: Any) -> None:
    for k in range(count):
        i = np.uint64(k)
        u = min(max(values[i] * scale + half, 0.0), top)
        down = np.floor(u)
        # A level itself leaves nothing to chance: no word is below 0.
        out[i] = np.uint8(down + (np.float64(words[order[i]]) < (u - down) * _WORDS))


@inlined
def _look_up(indices: Any, table: Any, out: Any, count: Any) -> None:
    if table.shape[1] == 1:
        for k in range(count):
            i = np.uint64(k)
            out[i, 0] = table[indices[i], 0]
    else:
        for row in range(count):
            for p in range(table.shape[1]):
                out[row, p] = table[indices[row], p]


@kernel
def _draw(
    values: Any, scale: Any, half: Any, top: Any, keys: Any, table: Any, out: Any, symbols: Any, first: Any, last: Any
) -> None:
    """Indices and symbols of trials `first` to `last`, word by word as `random.uniform_words` numbers them."""
    num_devices, num_values = values.shape[1], values.shape[2]
    pairs = (num_values + 1) // 2
    # Some whole devices at a time, or part of one.
    fit, step = max(_LANES // pairs, 1), min(pairs, _LANES)
    places, rows = np.zeros(_LANES, np.uint32), np.zeros(_LANES, np.uint32)
    words, order = np.empty(2 * _LANES, np.uint32), np.empty(2 * _LANES, np.uint32)
    for device in range(0, num_devices, fit):
        some = min(fit, num_devices - device)
        for start in range(0, pairs, step):
            width = min(step, pairs - start)
            wide = min(2 * width, num_values - 2 * start)
            # Counters are those of every trial: to divide for each of them takes longer than to draw.
            for k in range(some * width):
                places[k], rows[k] = np.uint32(start + k % width), np.uint32(device + k // width)
            _order(order, wide, width, some)
            at, count = device * num_values + 2 * start, some * wide
            for trial in range(first, last):
                own, sent = values[trial].reshape(-1)[at:], out[trial].reshape(-1)[at:]
                draw_listed(keys[trial], places, rows, words, 0, _LANES, some * width)
                _round(own, scale, half, top, words, order, sent, count)
                _look_up(sent, table, symbols[trial, at:], count)
