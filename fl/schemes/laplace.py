"""The Laplace mechanism on whole updates, a baseline of Lang et al. 2023: binary32 numbers with noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.base.arrays import F32, F64, I64
from fl.schemes.coders.value_scheme import ValueScheme
from fl.schemes.scheme import Epsilon, schemes
from phy.numerics.draws import laplace
from phy.numerics.random import Purpose
from privacy.events.releases import Release
from privacy.mechanisms.additive_noise import laplace_scale

if TYPE_CHECKING:
    from fl.schemes.coders.law import Law
    from fl.schemes.coders.value_coder import CodedPart


@schemes.register
class LaplaceScheme(ValueScheme):
    """Laplace mechanism on x = (h - mean) / (3 std) per tensor, clipped to [-1, 1] (not so `as_coded`); binary32."""

    label: ClassVar[str] = "Laplace"
    epsilon_source: ClassVar[str] = "Lang et al. 2023, Section V"
    binary32: ClassVar[bool] = True
    sends_scales: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True  # for numbers within three standard deviations
    bits_per_block: ClassVar[int] = 32

    name: Literal["laplace"]
    epsilon: Epsilon = Field(default=0.5, description="per number and round; 0.5 as in Lang et al. 2023")
    as_coded: bool = Field(
        default=False, description="without clipping to [-1, 1]: no epsilon holds; false: epsilon holds"
    )

    @property
    def _scale(self) -> float:
        return laplace_scale(self.epsilon, width=2.0)

    def to_codes(self, x: F32, *, part: CodedPart) -> NDArray[Any]:
        """See `ValueScheme.to_codes`: x + Laplace(0, 2 / eps)."""
        if not self.as_coded:
            np.clip(x, -1.0, 1.0, out=x)
        noise = laplace(part.words(Purpose.PRIVACY, count=x.shape[1]))
        noise *= np.float32(self._scale)
        x += noise
        return x.view(np.uint32)

    def to_values(self, codes: NDArray[Any], *, part: CodedPart) -> F32:
        """See `ValueScheme.to_values`; infinity and NaN among them where the bits say so."""
        return np.array(codes, np.uint32).view(np.float32)

    def log_ratio(self, codes: I64, read: F64, *, end: float) -> F64:
        """See `ValueScheme.log_ratio`: (|y + x| - |y - x|) / scale."""
        return np.asarray((np.abs(read[:, 0] + end) - np.abs(read[:, 0] - end)) / self._scale)

    def law(self, *, num_values: int | None) -> Law:
        return self.scaled_law(source="Laplace noise 2 / eps", proved=not self.as_coded)

    def release(self, num_values: int) -> Release:
        return self.scaled_release(kind="laplace", coordinates=num_values, parameter=self.epsilon)
