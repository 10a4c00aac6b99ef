"""Amplitudes of a law of fading from its table of quantiles, see `phy.fading.quantile_table`."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.fading.quantile_table import PIECES, SPAN
from phy.numerics.compiled import inlined
from phy.numerics.random_kernels import cosine_and_sine, negative_log

_PIECES_PER_NEPER = np.float32(PIECES / SPAN)
_HALF, _TINY = np.float32(0.5), np.float32(2.0**-31)

NO_TABLE = np.zeros((2 * PIECES, 4), np.float32)
"""In place of a table, for laws without one."""
NO_TABLE.setflags(write=False)


@inlined
def find_piece(word: Any) -> Any:
    """Place in its piece of the table, and row of the piece, of a word."""
    upper = np.uint32(word >> np.uint32(31))
    tail = np.uint32(~word) if upper == np.uint32(1) else word
    place = negative_log((np.float32(tail) + _HALF) * _TINY) * _PIECES_PER_NEPER
    piece = min(np.uint32(np.int32(place)), np.uint32(PIECES - 1))
    return place - np.float32(np.int32(piece)), np.uint32(piece + np.uint32(PIECES) * upper)


@inlined
def amplitude_of(table: Any, row: Any, part: Any) -> Any:
    """Amplitude at a place of a piece."""
    amplitude = table[row, np.uint64(3)]
    amplitude = table[row, np.uint64(2)] + part * amplitude
    amplitude = table[row, np.uint64(1)] + part * amplitude
    return table[row, np.uint64(0)] + part * amplitude


@inlined
def tap_of_table(table: Any, word0: Any, word1: Any) -> Any:
    """Both parts of a tap of unit mean power from two words."""
    part, row = find_piece(word0)
    amplitude = amplitude_of(table, np.uint64(row), part)
    cosine, sine = cosine_and_sine(word1)
    return amplitude * cosine, amplitude * sine
