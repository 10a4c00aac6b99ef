"""Rayleigh fading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from phy.config.fading import FadingLaw, fading_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


@fading_laws.register
class Rayleigh(FadingLaw):
    """h = CN(0, 1): scattered paths alone."""

    name: Literal["rayleigh"] = "rayleigh"
    label: ClassVar[str] = "Rayleigh fading"

    @property
    def rician_k(self) -> float:
        """0: no fixed path."""
        return 0.0

    def mgf(self, x: NDArray[Any]) -> NDArray[Any]:
        """1 / (1 + x)."""
        return 1.0 / (1.0 + x)
