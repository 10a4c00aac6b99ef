"""Lanes of a tile of symbols: noise, taps, channel knowledge, and the coefficients of taps and of symbols."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import aligned_zeros

TILE = 1024
"""Most symbols that are worked on at once: all lanes together stay in the first- and second-level cache."""
LANE = TILE + 16  # lanes a power of two apart would crowd the same few lines of a cache
# Lanes lie in one flat array at constant distances: LLVM checks every pair of arrays of a loop for overlap, and gives
# up on vectors where there are more than a few.
NOISE_REAL, NOISE_IMAG, TAP_REAL, TAP_IMAG, KNOWN_REAL, KNOWN_IMAG, OF_TAPS = (i * LANE for i in range(7))
NOISE_SCALE, TURN_REAL, TURN_IMAG, SENT_POWER, FADED_POWER, COEFFICIENTS = (i * LANE for i in range(6))
"""Coefficients of symbols (or, behind `OF_TAPS` or `OF_SYMBOLS`): q, both parts of h / h^, |A w|^2 and |A w h|^2."""
OF_SYMBOLS = OF_TAPS + COEFFICIENTS
NUM_LANES = OF_SYMBOLS + COEFFICIENTS


def tap_lanes() -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Scratch lanes of a thread, seen as random words and as what is made of them."""
    lanes = aligned_zeros(NUM_LANES, np.float32)
    return lanes.view(np.uint32), lanes
