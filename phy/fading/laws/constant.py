"""A path that does not fade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from phy.config.fading import FadingLaw, fading_laws

if TYPE_CHECKING:
    from numpy.typing import NDArray


@fading_laws.register
class Constant(FadingLaw):
    """h = 1."""

    name: Literal["constant"] = "constant"
    label: ClassVar[str] = "no fading"
    fades: ClassVar[bool] = False

    @property
    def rician_k(self) -> float:
        """Infinity: the fixed path alone."""
        return float("inf")

    def mgf(self, x: NDArray[Any]) -> NDArray[Any]:
        """exp(-x)."""
        import numpy as np

        return np.asarray(np.exp(-x))
