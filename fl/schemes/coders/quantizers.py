"""Reals to points of a finite codebook: mid-tread scalar and hexagonal quantisers, Lang et al. 2023 Section 2.2.

Both come in two forms of a spacing D and a lattice that is kept within the ball of radius gamma:

- `printed`, D = 2 gamma / 2^R: the lattice is shifted by half a generator, 0 lies between points and n is even. For
  L = 1 these are the 2^R levels whose outermost are +-(gamma - D/2), as (5) has them when overloaded; its first line
  would put levels at the multiples of D, which are 2^R + 1 within the support and not those.
- `coded`, D = 2 gamma / (2^R + 1), as the authors' code has it: 0 is a point and n is odd; 2^R + 1 levels for L = 1.

Points are symmetric about 0, so that they sum to 0: what a codeword's correlation adds to their mean drops out. The
printed form has no point 0: without dither, numbers that are exactly 0 go to +D/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.base.arrays import F32, F64, Reals

Form = Literal["coded", "printed"]
RateBits = Annotated[
    int, Field(ge=1, le=6, strict=True, description="R, bits per number of the quantiser; 1 as in Lang et al. 2023")
]

_HEXAGONAL = np.array([[1.0, 0.5], [0.0, math.sqrt(3.0) / 2.0]])
"""Columns generate the hexagonal lattice of least distance 1."""

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class _Lattice:
    """A lattice of vectors of `dimension` numbers, L, kept within the ball of radius `gamma`."""

    gamma: float
    rate_bits: int
    form: Form = "coded"

    @property
    def spacing(self) -> float:
        """D, the least distance of two points of the lattice."""
        return 2.0 * self.gamma / self._num_across

    @property
    def _num_across(self) -> int:
        return int(2**self.rate_bits) + (self.form == "coded")


@dataclass(frozen=True, kw_only=True)
class ScalarQuantizer(_Lattice):
    """L = 1: round, then clip to the outermost level."""

    dimension: ClassVar[int] = 1

    @cached_property
    def points(self) -> F64:
        """`[n, L]`, symmetric about 0, ascending."""
        steps = np.arange(self._num_across) - (self._num_across - 1) / 2
        return np.asarray(self.spacing * steps, np.float64)[:, None]

    @property
    def cell_moment(self) -> float:
        """E||u||^2 of u uniform over the cell, D^2 / 12: the error of dithered quantisation, never overloaded."""
        return self.spacing**2 / 12.0

    def indices(self, vectors: Reals) -> NDArray[np.uint16]:
        """Numbers `[...]` of the points that vectors `[..., L]` go to; those beyond the ball go to its edge."""
        scaled = vectors[..., 0] / vectors.dtype.type(self.spacing)
        half = self._num_across // 2
        (np.rint if self.form == "coded" else np.floor)(scaled, out=scaled)
        scaled += half
        np.clip(scaled, 0, self._num_across - 1, out=scaled)
        return np.asarray(scaled.astype(np.uint16))

    def dither(self, uniforms: F32) -> F32:
        """Reals uniform over the cell, `[..., L]`, from numbers uniform on [0, 1)."""
        return np.asarray((uniforms - np.float32(0.5)) * np.float32(self.spacing))


@dataclass(frozen=True, kw_only=True)
class HexagonalQuantizer(_Lattice):
    """L = 2: the nearest of the points of a hexagonal lattice in the ball, for vectors beyond the ball too."""

    dimension: ClassVar[int] = 2

    @cached_property
    def points(self) -> F64:
        """See `ScalarQuantizer.points`; in the order of their lattice coordinates."""
        most = math.ceil(self.gamma / self.spacing / _HEXAGONAL[1, 1]) + 1
        steps = np.arange(-most, most + 1.0)
        first, second = np.meshgrid(steps, steps, indexing="ij")
        shift = 0.5 if self.form == "printed" else 0.0
        offsets = np.stack([first.ravel() + shift, second.ravel()], axis=-1)
        every = self.spacing * offsets @ _HEXAGONAL.T
        return np.asarray(every[np.hypot(every[:, 0], every[:, 1]) <= self.gamma * (1.0 + _ROUNDING)], np.float64)

    @property
    def cell_moment(self) -> float:
        """See `ScalarQuantizer.cell_moment`: 5/36 D^2 over the hexagon."""
        return 5.0 / 36.0 * self.spacing**2

    def indices(self, vectors: Reals) -> NDArray[np.uint16]:
        """See `ScalarQuantizer.indices`; every point is looked at, so the cost grows with their number."""
        x, y = np.ascontiguousarray(vectors[..., 0]), np.ascontiguousarray(vectors[..., 1])
        best, where = np.full(x.shape, np.inf, x.dtype), np.zeros(x.shape, np.uint16)
        for number, point in enumerate(self.points.astype(x.dtype)):
            # ||x - q||^2 less ||x||^2, which is the same for all.
            distance = point @ point - 2 * (point[0] * x + point[1] * y)
            np.putmask(where, distance < best, number)
            np.minimum(best, distance, out=best)
        return where

    def dither(self, uniforms: F32) -> F32:
        """See `ScalarQuantizer.dither`: uniform over a parallelogram, less the nearest of its four corners."""
        x = uniforms[..., 0] + np.float32(0.5) * uniforms[..., 1]
        y = np.float32(_HEXAGONAL[1, 1]) * uniforms[..., 1]
        best = np.full(x.shape, np.inf, np.float32)
        out = np.empty(uniforms.shape, np.float32)
        for corner in ((0, 0), (1, 0), (0, 1), (1, 1)):
            right, up = (_HEXAGONAL @ corner).astype(np.float32)
            across, along = x - right, y - up
            size = across * across + along * along
            nearer = size < best
            np.copyto(out[..., 0], across, where=nearer)
            np.copyto(out[..., 1], along, where=nearer)
            np.minimum(best, size, out=best)
        out *= np.float32(self.spacing)
        return out


Quantizer = ScalarQuantizer | HexagonalQuantizer


@lru_cache(maxsize=64)
def build_quantizer(*, gamma: float, rate_bits: int, form: Form, dimension: Literal[1, 2]) -> Quantizer:
    """Scalar for dimension 1, hexagonal for 2."""
    kind = ScalarQuantizer if dimension == 1 else HexagonalQuantizer
    return kind(gamma=gamma, rate_bits=rate_bits, form=form)
