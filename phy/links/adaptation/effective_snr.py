"""Effective SNR of a packet over several carriers, by mutual information.

    I_m(g_eff) = mean over carriers of I_m(g_c)

I_m(g) is the mutual information between the bits of a symbol of constellation m and its demapper's output at Es/N0 g,
each bit on its own (BICM; Caire, Taricco and Biglieri 1998, (15)). A code of rate R over carriers g_c fails about as
often as over AWGN at g_eff (mean mutual information per bit: Wan, Tsai and Almgren 2006).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.config.base import BITS_PER_SYMBOL

_GRID_DB = np.arange(-30.0, 50.1, 0.25)
_NOISE = np.linspace(-8.0, 8.0, 801)
"""Noise in standard deviations; beyond lies 1e-15 of it."""
_LEFT = 1e-9
"""Bits that a symbol may still lack where the table ends: it could not be inverted beyond."""


def gray_levels(bits: int) -> NDArray[np.float64]:
    """Levels of one axis of TS 38.211 5.1 by the number that its bits form, the first one on top, mean square 1/2."""
    label = np.arange(1 << bits)
    level = np.zeros(len(label))
    for place in range(bits - 1, -1, -1):
        sign = 1.0 - 2.0 * ((label >> (bits - 1 - place)) & 1)
        level = sign * ((1 << (bits - 1 - place)) - level)
    return np.asarray(level / np.sqrt(2.0 * np.mean(level**2)))


def bit_information(modulation: str, snr_db: NDArray[np.float64]) -> NDArray[np.float64]:
    """I_m [bits per symbol] at Es/N0 `snr_db`, for QPSK and square constellations with Gray labels."""
    bits = BITS_PER_SYMBOL[modulation] // 2
    levels, label = gray_levels(bits), np.arange(1 << bits)
    same = [((label[:, None] ^ label) >> place) & 1 == 0 for place in range(bits)]
    density = np.exp(-0.5 * _NOISE**2)
    density /= density.sum()
    found = np.empty(len(snr_db))
    for n, ratio in enumerate(10.0 ** (snr_db / 10.0)):
        std = np.sqrt(0.5 / ratio)
        # -log of the likelihood of level [:, None] less that of the level sent, [sent, level, noise].
        apart = (levels[:, None] - levels)[..., None] / std
        likely = np.exp(-0.5 * apart**2 - apart * _NOISE)
        whole = likely.sum(axis=1)
        lost = sum(np.log2(whole / (likely * mask[..., None]).sum(axis=1)) for mask in same)
        found[n] = 2.0 * (bits - (lost * density).sum(axis=-1).mean())
    return found


@lru_cache
def _table(modulation: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(Es/N0 [dB], I_m), as far as I_m rises."""
    found = bit_information(modulation, _GRID_DB)
    rising = found < BITS_PER_SYMBOL[modulation] - _LEFT
    return _GRID_DB[rising], found[rising]


def mean_information(modulation: str, snr_db: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean I_m over the last axis of `snr_db`."""
    grid_db, table = _table(modulation)
    return np.asarray(np.interp(snr_db, grid_db, table).mean(axis=-1))


def snr_of_information(modulation: str, information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Es/N0 over AWGN with this mutual information [dB]."""
    grid_db, table = _table(modulation)
    return np.asarray(np.interp(information, table, grid_db))
