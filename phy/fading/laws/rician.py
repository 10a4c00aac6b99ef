"""Rician fading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from phy.config.fading import FadingLaw, RicianK, fading_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


@fading_laws.register
class Rician(FadingLaw):
    """h = sqrt(K / (K + 1)) + sqrt(1 / (K + 1)) CN(0, 1)."""

    name: Literal["rician"] = "rician"
    label: ClassVar[str] = "Rician fading"
    rician_k_db: RicianK = 6.0

    @property
    def rician_k(self) -> float:
        """K (linear)."""
        return float(10.0 ** (self.rician_k_db / 10.0))

    def mgf(self, x: NDArray[Any]) -> NDArray[Any]:
        """See `phy.measure.theory.rician_mgf`."""
        from phy.measure.theory import rician_mgf

        return rician_mgf(x, self.rician_k)
