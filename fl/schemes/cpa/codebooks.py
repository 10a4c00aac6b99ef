"""Random codewords that device and server both draw from the shared seed, Lang et al. 2023 Section 3.1.2.

A codeword v of {-1, +1}^n is a function of the round's key of `Purpose.CODEBOOK`, the device's number, the block and
the stage alone: the server draws again what the device drew. Bit l of its mask says whether v_l = +1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U8, U32, Bools
from fl.schemes.coders.quantizers import ScalarQuantizer
from fl.schemes.cpa import codeword_kernels as kernels
from fl.schemes.cpa.codeword_kernels import MASK_BITS
from fl.schemes.cpa.cpa_theory import Codebook
from phy.numerics.compiled import read_only
from phy.numerics.random import threefry
from phy.numerics.workers import run_tasks

UNHEARD = 2
"""Stands for a bit that did not arrive."""

_LARGEST_TABLE = 1 << 16
_DITHER = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Codewords:
    """Codewords of one stage of some devices `[K]`, under the round's `key` `[2]`."""

    codebook: Codebook
    key: U32
    devices: I64
    stage: int = 0

    def bits(self, levels: NDArray[np.unsignedinteger[Any]]) -> U8:
        """Which entries are +1 at `levels` `[K, num_blocks]`: 0 or 1, uint8; Lang et al. 2023 (10)."""
        law, wanted, numbers = self._law(), read_only(levels.astype(np.uint16, copy=False)), self._numbers()
        out = np.empty(levels.shape, np.uint8)
        run_tasks(lambda first, last: kernels.fill_bits(law, wanted, numbers, out, first, last), num_tasks=len(numbers))
        return out

    def payload(self, updates: F32, *, quantizer: ScalarQuantizer, radius: F32) -> tuple[U8, Bools]:
        """Packed `bits` `[K, ceil(M / 8)]` at the levels of updates `[K, M]` over `radius` `[M]`.

        And whether all numbers of a device are finite, `[K]`: bits of others mean nothing.
        """
        law, values, radii, numbers = self._law(), read_only(updates), read_only(radius), self._numbers()
        half, most = np.float32(law.num_points // 2), np.float32(law.num_points - 1)
        grid = (np.float32(quantizer.spacing), half, most, quantizer.form == "coded")
        out = np.empty((len(numbers), -(-updates.shape[1] // 8)), np.uint8)
        beyond = np.empty(len(numbers), np.int64)
        run_tasks(
            lambda first, last: kernels.fill_payload(law, grid, values, radii, numbers, out, beyond, first, last),
            num_tasks=len(numbers),
        )
        return out, beyond == 0

    def add_histogram(self, received: U8, *, heard: Bools | None, worth: F32, out: F64) -> None:
        """Add sum_k a_k b_ki v_ki over devices to `out` `[n, num_blocks]`: the histogram of Lang et al. 2023 (13).

        `received` `[K, num_blocks]` is 1 for b = +1, 0 for b = -1, `UNHEARD` for b = 0, which is not `heard` (None: all
        are). `worth` `[K]` is a. Worths that differ are added in single precision over the devices of one call: hand in
        some hundred at once.
        """
        total, less = (out, worth.sum(dtype=np.float64)) if heard is None else (np.zeros_like(out), np.float64(0.0))
        law, bits, numbers = self._law(), read_only(received), self._numbers()
        rows = (read_only(worth), bool((worth == worth[0]).all()), less)
        run_tasks(
            lambda first, last: kernels.agree(law, bits, rows, numbers, total, first, last),
            num_tasks=-(-out.shape[1] // kernels.SPAN),
        )
        if heard is not None:
            out += total - _weighed(heard, worth)

    def entries(self, num_blocks: int) -> NDArray[np.int8]:
        """The codewords themselves, +-1 `[K, num_blocks, n]`."""
        masks = self._masks(num_blocks)
        out = np.empty((*masks.shape[1:], self.codebook.num_points), np.int8)
        for point in range(self.codebook.num_points):
            word, place = divmod(point, MASK_BITS)
            out[..., point] = 2 * ((masks[word] >> np.uint32(place)) & np.uint32(1)).astype(np.int8) - 1
        return out

    def _masks(self, num_blocks: int) -> U32:
        """Masks `[num_words, K, num_blocks]`, entry l the bit l mod 32 of word l / 32."""
        law, numbers = self._law(), self._numbers()
        out = np.empty((-(-law.num_points // MASK_BITS), len(numbers), num_blocks), np.uint32)
        run_tasks(lambda first, last: kernels.fill_masks(law, numbers, out, first, last), num_tasks=len(numbers))
        return out

    def _numbers(self) -> U32:
        return read_only(self.devices.astype(np.uint32))

    def _law(self) -> kernels.MaskLaw:
        """How the masks of one stage are drawn: by Threefry with counter (pair of blocks, device), 64 blocks apart.

        The key is folded with (stage, draw).

        - Balanced words that can be listed: draw 0 picks one of C by floor(word C / 2^32), uniform to within C 2^-32.
        - Other balanced words: draw j decides entry j, +1 with probability (+1 left) / (entries left).
        - Independent entries: draw i is the mask's word i.
        """
        n, balanced = self.codebook.num_points, self.codebook.balanced
        listed = _listed(self.codebook) if balanced else None
        if not balanced:
            kind, draws = kernels.COINS, -(-n // MASK_BITS)
        elif listed is not None:
            kind, draws = kernels.LISTED, 1
        else:
            kind, draws = kernels.IN_TURN, n
        numbers = np.arange(draws, dtype=np.uint32)
        folded = np.stack(threefry((self.key[0], self.key[1]), (np.full_like(numbers, self.stage), numbers)), axis=1)
        return kernels.MaskLaw(
            kind=kind,
            num_points=n,
            num_plus=self.codebook.num_plus,
            folded=read_only(folded),
            listed=read_only(np.zeros(1, np.uint32) if listed is None else listed),
        )


def shared_uniforms(*, key: U32, devices: I64, num_blocks: int, dimension: int) -> F32:
    """Multiples of 2^-24 uniform on [0, 1), `[K, num_blocks, dimension]`, from the same seed, for the dither."""
    out = np.empty((len(devices), num_blocks, dimension), np.float32)
    coins = Codebook(num_points=MASK_BITS, balanced=False)
    for axis in range(dimension):
        words = Codewords(codebook=coins, key=key, devices=devices, stage=_DITHER + axis)._masks(num_blocks)[0]
        out[..., axis] = (words >> np.uint32(8)) * np.float32(2.0**-24)
    return out


def _weighed(chosen: Bools, worth: F32) -> F64:
    """sum_k a_k of the rows chosen, `chosen` `[K, num_blocks]`."""
    if (worth == worth[0]).all():
        counts = chosen.sum(axis=0, dtype=np.min_scalar_type(len(worth)))
        return np.asarray(counts * np.float64(worth[0]))
    # Row after row, and not by BLAS, the threads of which would decide on the rounding.
    return np.asarray((chosen * worth[:, None]).sum(axis=0, dtype=np.float32), np.float64)


@lru_cache(maxsize=8)
def _listed(codebook: Codebook) -> U32 | None:
    """Masks of all balanced words, or None if they are too many to list."""
    n, plus = codebook.num_points, codebook.num_plus
    if n > MASK_BITS or comb(n, plus) >= _LARGEST_TABLE:
        return None
    return np.array([sum(1 << point for point in word) for word in combinations(range(n), plus)], np.uint32)
