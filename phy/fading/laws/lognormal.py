"""Log-normal shadowing.

The power gain in decibels is normal, 10 log10 |h|^2 ~ N(m, sigma_db^2), with m such that E|h|^2 = 1: with
s = sigma_db ln(10) / 10 and z ~ N(0, 1), |h|^2 = exp(s z - s^2 / 2). The phase is uniform. A. Goldsmith, Wireless
Communications, Cambridge University Press, 2005, section 2.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from phy.config.fading import FadingLaw, fading_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


@fading_laws.register
class LogNormal(FadingLaw):
    """Shadowing: the power gain in decibels is normal; uniform phase."""

    name: Literal["lognormal"] = "lognormal"
    label: ClassVar[str] = "log-normal shadowing"
    sigma_db: Annotated[float, Field(gt=0, le=20)] = Field(
        default=8.0, description="standard deviation of the power gain [dB]; 8 is usual in cities, 4 to 12 are measured"
    )

    def quantile(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
        """See `FadingLaw.quantile`."""
        import numpy as np
        from scipy import special

        s, z = self.sigma_db * np.log(10.0) / 10.0, special.ndtri(tail)
        return np.asarray(np.exp(0.5 * (s * (-z if upper else z) - 0.5 * s**2)))
