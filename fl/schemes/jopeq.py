"""JoPEQ, joint privacy enhancement and quantisation (Lang, Sofer, Shaked and Shlezinger 2023), as the CPA reference
code has it: noise and subtractively dithered quantisation that together are as large as eps-private noise.

For x in [-1, 1]^L, target variance V per number, radius gamma = 1.5 sqrt(L (1 + V)) and lattice spacing D of gamma:

    noise n of variance V - E||cell||^2 / L,  dither u uniform over the cell, of the shared seed
    code = Q(x + n + u),  decoded: point(code) - u

Scalar: V = 2 (2/eps)^2 and D = 2 gamma / (2^R + 1), the noise Laplace. Hexagonal, L = 2: multivariate t noise, nu = 6,
of the scale that gives a pair of numbers eps by itself, V = s^2 / 4; the paper's nu and scale are not known to us.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.base.arrays import F32, F64, I64, U32
from fl.schemes.coders.quantizers import Quantizer, RateBits, build_quantizer
from fl.schemes.coders.value_scheme import ValueScheme
from fl.schemes.scheme import SCHEME_KEYS, Epsilon, schemes
from phy.config.conflict import Conflict, Remedy, Say, Write, rounded
from phy.numerics.draws import laplace, uniforms
from phy.numerics.random import Purpose
from privacy.errors import PrivacyError
from privacy.events.releases import Release
from privacy.mechanisms.additive_noise import T_FREEDOM, laplace_epsilon, laplace_scale, t_epsilon, t_scale

if TYPE_CHECKING:
    from fl.schemes.coders.law import Law
    from fl.schemes.coders.value_coder import CodedPart

RADIUS_FACTOR = 1.5
"""gamma over the root mean square of what is quantised."""

_WIDTH = 2.0
"""Of the range [-1, 1] of one number."""


@schemes.register
class JopeqScheme(ValueScheme):
    """JoPEQ: noise and subtractively dithered quantisation that together are Laplace (scalar) or t (lattice) noise.

    Of x = (h - mean) / (3 std) per tensor, clipped to [-1, 1] (not so `as_coded`).
    """

    label: ClassVar[str] = "JoPEQ"
    epsilon_source: ClassVar[str] = "Lang et al. 2023, Section V"
    sends_scales: ClassVar[bool] = True

    name: Literal["jopeq"]
    epsilon: Epsilon = Field(
        default=0.5, description="per number (dimension 1) or block of two, and round; 0.5 as in Lang et al. 2023"
    )
    rate_bits: RateBits = 1
    dimension: Literal[1, 2] = Field(
        default=1, description="1: Laplace noise; 2: hexagonal lattice, t noise; 1 as in Lang et al. 2023"
    )
    as_coded: bool = Field(
        default=False, description="without clipping to [-1, 1]: no epsilon holds; false: epsilon holds"
    )

    @property
    def block(self) -> int:
        return self.dimension

    @property
    def bits_per_block(self) -> int:
        """See `ValueScheme`: ceil(log2 n) for the n points of the quantiser's ball."""
        return (len(self.quantizer.points) - 1).bit_length()

    @property
    def target_variance(self) -> float:
        """V of every number: that of eps-private noise alone."""
        if self.dimension == 1:
            return 2.0 * laplace_scale(self.epsilon, width=_WIDTH) ** 2
        scale = t_scale(self.epsilon, dimension=2, diameter=_WIDTH * math.sqrt(2.0))
        return scale**2 / (T_FREEDOM - 2)

    @property
    def quantizer(self) -> Quantizer:
        """Points within gamma, 0 among them."""
        gamma = RADIUS_FACTOR * math.sqrt(self.dimension * (1.0 + self.target_variance))
        return build_quantizer(gamma=gamma, rate_bits=self.rate_bits, form="coded", dimension=self.dimension)

    @property
    def noise_variance(self) -> float:
        """Of the noise that is added to every number; not positive where the quantiser alone errs by more than V."""
        return self.target_variance - self.quantizer.cell_moment / self.dimension

    @property
    def _enough_noise(self) -> tuple[Remedy, ...]:
        """The remedies for a quantiser that errs by more than V: as many bits, or as small an epsilon, as it takes."""
        finer = (self.model_copy(update={"rate_bits": bits}) for bits in range(self.rate_bits + 1, 7))
        if (found := next((one for one in finer if one.noise_variance > 0.0), None)) is not None:
            return Write({"rate_bits": found.rate_bits}), Say("a smaller epsilon")
        epsilon = self.epsilon
        while self.model_copy(update={"epsilon": epsilon}).noise_variance <= 0.0:
            epsilon /= 2.0
        return (Write({"epsilon": rounded(epsilon, 3)}),)

    @property
    def _scale(self) -> float:
        """b of the Laplace noise, or s of the t noise."""
        return math.sqrt(self.noise_variance * (0.5 if self.dimension == 1 else T_FREEDOM - 2))

    @property
    def sure_epsilon(self) -> float:
        """What the added noise alone gives a block of clipped numbers, pure: a little more than `epsilon`.

        The server knows the dither, so that only the noise counts.
        """
        if self.dimension == 1:
            return laplace_epsilon(self._scale, width=_WIDTH)
        return t_epsilon(self._scale, dimension=2, diameter=_WIDTH * math.sqrt(2.0))

    def to_codes(self, x: F32, *, part: CodedPart) -> NDArray[Any]:
        if not self.as_coded:
            np.clip(x, -1.0, 1.0, out=x)
        x += self._noise(part.words(Purpose.PRIVACY, count=x.shape[1]))
        x += self._dither(part, x.shape[1])
        return self.quantizer.indices(x.reshape(len(x), -1, self.dimension))

    def to_values(self, codes: NDArray[Any], *, part: CodedPart) -> F32:
        """See `ValueScheme.to_values`; codes that no point has are read as the last point."""
        points = self.quantizer.points.astype(np.float32)
        read = points[np.minimum(codes, len(points) - 1)].reshape(len(codes), -1)
        read -= self._dither(part, read.shape[1])
        return np.asarray(read)

    def log_ratio(self, codes: I64, read: F64, *, end: float) -> F64:
        """See `ValueScheme.log_ratio`: of the noise within the cell of a code, the dither known; of pairs their sum."""
        if self.dimension == 2:
            return np.asarray(read.sum(axis=1))
        points = self.quantizer.points[:, 0]
        known = np.minimum(codes, len(points) - 1)
        dither = points[known] - read[:, 0]
        edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2.0, [np.inf]])
        low, high = edges[known] - dither, edges[known + 1] - dither
        scale = math.sqrt(self.noise_variance / 2.0)
        other, null = (_laplace_between((low - x) / scale, (high - x) / scale) for x in (end, -end))
        return np.log(np.maximum(other, 1e-300)) - np.log(np.maximum(null, 1e-300))

    def _noise(self, words: U32) -> F32:
        if self.dimension == 1:
            return laplace(words) * np.float32(self._scale)
        # The length of t noise in the plane: Pr(r > t) = (1 + t^2 / s^2)^(-nu / 2).
        share = (words[:, 0::2].astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
        length = np.float32(self._scale) * np.sqrt(np.maximum(share ** np.float32(-2.0 / T_FREEDOM) - 1.0, 0.0))
        angle = uniforms(words[:, 1::2]) * np.float32(2.0 * np.pi)
        return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1).reshape(words.shape)

    def _dither(self, part: CodedPart, count: int) -> F32:
        """Uniform over an interval of length D, or a rectangle: modulo the lattice, uniform over the cell."""
        drawn = uniforms(part.words(Purpose.CODEBOOK, count=count))
        drawn -= np.float32(0.5)
        drawn *= np.float32(self.quantizer.spacing)
        if self.dimension == 2:
            drawn[:, 1::2] *= np.float32(math.sqrt(3.0) / 2.0)
        return drawn

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        if self.noise_variance <= 0.0:
            problem = (
                f"JoPEQ at epsilon {self.epsilon:g} asks for noise of variance {self.target_variance:.3g}, but its "
                f"quantiser of rate_bits {self.rate_bits} errs by {self.quantizer.cell_moment / self.dimension:.3g} "
                "already, without privacy"
            )
            yield Conflict(f"learning.aggregation.epsilon {SCHEME_KEYS}", problem, *self._enough_noise)

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`: of pairs no likelihood ratio is known."""
        return self.scaled_law(
            source="Lang, Sofer, Shaked and Shlezinger 2023",
            proved=False,
            exact_epsilon=None if self.as_coded else self.sure_epsilon,
            known=self.dimension == 1,
        )

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: the noise below the dither of every block, less than what the paper counts."""
        return self.scaled_release(
            kind="laplace" if self.dimension == 1 else "pure",
            coordinates=-(-num_values // self.dimension),
            parameter=self.sure_epsilon,
            assumptions=("the server knows the dither, so that only the noise added before it is counted",),
        )

    def with_epsilon(self, epsilon: float, *, num_values: int | None) -> JopeqScheme:
        raise PrivacyError(
            "the noise of jopeq follows from its quantiser as well as from its epsilon, which no budget is turned into",
            {"budget.calibrate": False},
            "another aggregation",
        )


def _laplace_between(low: F64, high: F64) -> F64:
    """Return Pr(low < n < high) of Laplace noise of scale 1, from the tail that keeps the digits."""
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below = np.where(b <= 0.0, 0.5 * np.exp(np.minimum(b, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(b, 0.0)))
    return np.asarray(below - 0.5 * np.exp(np.minimum(a, 0.0)))
