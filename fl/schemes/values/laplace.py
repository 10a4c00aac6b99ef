"""The Laplace mechanism on whole updates, a baseline of Lang et al. 2023: binary32 numbers with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.draws import laplace
from phy.numerics.random import Purpose
from privacy.mechanisms.additive_noise import laplace_scale

if TYPE_CHECKING:
    from fl.schemes.values.value_coder import Part


@dataclass(frozen=True, kw_only=True)
class LaplaceCode:
    """x + Laplace(0, 2 / eps) as binary32, for x in [-1, 1]: eps-private per number and round.

    Numbers beyond [-1, 1] are clipped, but not `as_coded` in the reference: then eps holds for none of them.
    """

    epsilon: float
    as_coded: bool = False
    block: int = 1
    bits_per_block: int = 32

    def __post_init__(self) -> None:
        laplace_scale(self.epsilon, width=2.0)

    def to_codes(self, x: NDArray[np.float32], *, part: Part) -> NDArray[Any]:
        """See `ValueCode.to_codes`."""
        if not self.as_coded:
            np.clip(x, -1.0, 1.0, out=x)
        noise = laplace(part.words(Purpose.PRIVACY, count=x.shape[1]))
        noise *= np.float32(laplace_scale(self.epsilon, width=2.0))
        x += noise
        return x.view(np.uint32)

    def to_values(self, codes: NDArray[Any], *, part: Part) -> NDArray[np.float32]:
        """See `ValueCode.to_values`; infinity and NaN among them where the bits say so."""
        return np.array(codes, np.uint32).view(np.float32)

    def log_ratio(self, codes: NDArray[np.int64], read: NDArray[np.float64], *, end: float) -> NDArray[np.float64]:
        """See `ValueCode.log_ratio`: (|y + x| - |y - x|) / scale."""
        del codes
        scale = laplace_scale(self.epsilon, width=2.0)
        return np.asarray((np.abs(read[:, 0] + end) - np.abs(read[:, 0] - end)) / scale)
