"""Nakagami-m fading.

|h|^2 ~ Gamma(m, 1/m) (shape, scale), so E|h|^2 = 1, and the phase is uniform (Nakagami, "The m-distribution", in
Statistical methods in radio wave propagation, 1960).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from phy.config.fading import FadingLaw, NakagamiShape, fading_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


@fading_laws.register
class Nakagami(FadingLaw):
    """|h|^2 ~ Gamma(m, 1/m), uniform phase."""

    name: Literal["nakagami"] = "nakagami"
    label: ClassVar[str] = "Nakagami fading"
    nakagami_m: NakagamiShape = 2.0

    def quantile(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
        """See `FadingLaw.quantile`."""
        import numpy as np

        return np.asarray(np.sqrt(self._scaled(tail, upper) / self.nakagami_m))

    def slope(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
        """dr/dv = -+ tail / (2 r f(r^2)) with the density f of |h|^2."""
        import numpy as np
        from scipy import special

        m, scaled = self.nakagami_m, self._scaled(tail, upper)
        log_density = np.log(m) + (m - 1.0) * np.log(scaled) - scaled - special.gammaln(m)
        sign = 1.0 if upper else -1.0
        return np.asarray(sign * tail / np.exp(log_density) / (2.0 * np.sqrt(scaled / m)))

    def mgf(self, x: NDArray[Any]) -> NDArray[Any]:
        """(1 + x / m)^(-m)."""
        return (1.0 + x / self.nakagami_m) ** -self.nakagami_m

    def _scaled(self, tail: NDArray[Any], upper: bool) -> NDArray[Any]:
        """m |h|^2."""
        from scipy import special

        found: NDArray[Any] = (special.gammainccinv if upper else special.gammaincinv)(self.nakagami_m, tail)
        return found
