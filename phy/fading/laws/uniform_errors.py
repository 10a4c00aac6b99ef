"""Fades whose bit error rate is uniform, as papers draw it in place of a channel.

With a = Q^-1(p_max) and s^2 = 1 + a phi(a) / p_max, the mean of x^2 for x ~ N(0, 1) above a, the amplitude is

    |h| = Q^-1(p) / s,    p ~ U(0, p_max),

so that E|h|^2 = 1. QPSK at mean Es/N0 = s^2 (complex noise power N0), BPSK at s^2 / 2, has the bit error rate p. The
phase is uniform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from phy.config.fading import FadingLaw, fading_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


@fading_laws.register
class UniformErrors(FadingLaw):
    """|h| = Q^-1(p) / s with p uniform on 0 .. p_max, uniform phase.

    p is the bit error rate of QPSK at `link.power.snr_max_db` 10.77 dB for p_max 0.02 and 12.28 dB for 0.005:
    10 log10(2 s^2), s^2 = 1 + a phi(a) / p_max with a = Q^-1(p_max).
    """

    name: Literal["uniform-errors"] = "uniform-errors"
    label: ClassVar[str] = "uniform error rates"
    max_error_rate: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        default=0.02, description="p_max, the largest bit error rate; 0.02 as in Li et al. 2025"
    )

    @property
    def mean_esno(self) -> float:
        """s^2, the mean Es/N0 (linear) at which QPSK has the rates p."""
        from scipy import stats

        limit = stats.norm.isf(self.max_error_rate)
        return float(1.0 + limit * stats.norm.pdf(limit) / self.max_error_rate)

    def quantile(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
        """See `FadingLaw.quantile`."""
        import numpy as np
        from scipy import special

        rate = self.max_error_rate * (tail if upper else 1.0 - tail)
        return np.asarray(-special.ndtri(rate) / np.sqrt(self.mean_esno))
