"""A fading law of one's own: kappa-mu fading, for scenarios as `fading: {name: kappa-mu, kappa: 1.5, mu: 2}`.

M. D. Yacoub, "The kappa-mu distribution and the eta-mu distribution", IEEE Antennas and Propagation Magazine 49(1),
2007: mu clusters of scattered paths, each around a dominant one; kappa is the power of the dominant paths over that of
the scattered ones. The power gain is noncentral chi-square,

    2 mu (1 + kappa) |h|^2 ~ chi'^2 with 2 mu degrees of freedom and noncentrality 2 kappa mu,   E|h|^2 = 1.

mu = 1 is Rician fading with K = kappa, kappa = 0 is Nakagami fading with m = mu.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import stats

from phy.config.fading import FadingLaw, fading_laws


@fading_laws.register
class KappaMu(FadingLaw):
    """Clusters of scattered paths, each around a dominant one; uniform phase."""

    name: Literal["kappa-mu"] = "kappa-mu"
    label: ClassVar[str] = "κ-μ fading"
    kappa: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.5, description="power of the dominant paths over that of the scattered ones"
    )
    mu: Annotated[float, Field(ge=0.5, le=20)] = Field(default=2.0, description="number of clusters")

    def quantile(self, tail: NDArray[np.float64], *, upper: bool) -> NDArray[np.float64]:
        """Amplitude r with P(|h| <= r) = `tail`, or P(|h| >= r) = `tail` if `upper`."""
        law: Any = stats.ncx2(2.0 * self.mu, 2.0 * self.kappa * self.mu)
        scaled = law.isf(tail) if upper else law.ppf(tail)
        return np.asarray(np.sqrt(scaled / (2.0 * self.mu * (1.0 + self.kappa))))
