"""A fading law of one's own: log-normal shadowing, for scenarios as `fading: {name: lognormal, sigma_db: 8}`.

The power gain in decibels is normal, 10 log10 |h|^2 ~ N(m, sigma_db^2), with m such that E|h|^2 = 1: with
s = sigma_db ln(10) / 10 and z ~ N(0, 1), |h|^2 = exp(s z - s^2 / 2) (Goldsmith, Wireless Communications, 2005, 2.7).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import special

from phy.config.fading import FadingLaw, fading_laws


@fading_laws.register
class LogNormal(FadingLaw):
    """Log-normal shadowing of unit mean power; uniform phase."""

    name: Literal["lognormal"] = "lognormal"
    label: ClassVar[str] = "log-normal shadowing"
    sigma_db: Annotated[float, Field(gt=0, le=20)] = Field(
        default=8.0, description="standard deviation of the power gain [dB]"
    )

    def quantile(self, tail: NDArray[np.float64], *, upper: bool) -> NDArray[np.float64]:
        """Amplitude r with P(|h| <= r) = `tail`, or P(|h| >= r) = `tail` if `upper`."""
        s = self.sigma_db * np.log(10.0) / 10.0
        z = special.ndtri(tail)
        return np.asarray(np.exp(0.5 * (s * (-z if upper else z) - 0.5 * s**2)))
