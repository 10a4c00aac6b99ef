"""Fading laws: one class per law, in a registry by the word that a scenario writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from phy.config.base import Decibels, Frozen
from phy.config.registry import Registry, defines

if TYPE_CHECKING:
    from numpy.typing import NDArray

RicianK = Annotated[
    Decibels,
    Field(
        description="Rician K-factor: power of the fixed path over that of the scattered ones [dB]; 6 is a "
        "convention: the fixed path is 4 times as strong"
    ),
]
NakagamiShape = Annotated[
    float,
    Field(
        ge=0.5,
        le=100,
        allow_inf_nan=False,
        description="shape m of Nakagami fading: 1 is Rayleigh, 1/2 one-sided Gaussian; 2: power has half the "
        "variance of Rayleigh fading",
    ),
]


class FadingLaw(Frozen):
    """Law of the complex tap h of a flat channel, of unit mean power: E|h|^2 = 1.

    A law is a frozen class with its word as `name`, its parameters as fields, and either

    - `rician_k`: h = sqrt(K / (K + 1)) + sqrt(1 / (K + 1)) CN(0, 1), which engines draw and move by Doppler; or
    - `quantile`: |h| by the inverse of its distribution, with a phase uniform on the circle. Engines interpolate a
      table of it (`phy.fading.quantile_table`), and there is no Doppler process.
    """

    label: ClassVar[str]
    """Name of the law in a legend."""
    fades: ClassVar[bool] = True
    """True if two draws can differ."""

    if TYPE_CHECKING:  # a field of every subclass, with the word as its type
        name: str

        def quantile(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
            """Amplitude r with P(|h| <= r) = `tail`, or P(|h| >= r) = `tail` if `upper`; float64, elementwise.

            Both tails must be accurate down to 1e-20: deep fades decide error rates. A law by `rician_k` has none.
            """

    @property
    def rician_k(self) -> float | None:
        """K, power of the fixed path over that of the scattered ones (linear); None for a law given by `quantile`."""
        return None

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what a law must define and this one does not, for its registry."""
        given = any(defines(cls, FadingLaw, name) for name in ("rician_k", "quantile"))
        return () if given else ("quantile",)

    def slope(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
        """Derivative of `quantile` by v = -ln(2 `tail`), elementwise: here by five-point differences of step 0.01."""
        import numpy as np

        step = 0.01
        at = {k: self.quantile(tail * np.exp(-k * step), upper=upper) for k in (-2, -1, 1, 2)}
        return np.asarray((8.0 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12.0 * step))

    def mgf(self, x: NDArray[Any]) -> NDArray[Any]:
        """E[exp(-x |h|^2)], the moment generating function of the power gain at -x, for x >= 0, elementwise.

        Here the integral of exp(-x r(u)^2) over u by the quantile function r, both halves in v = -ln(2 min(u, 1 - u)):
        Gauss-Legendre with 12 nodes on each of 64 intervals up to v = 45.
        """
        import numpy as np

        nodes, weights = np.polynomial.legendre.leggauss(12)
        width = 45.0 / 64
        v = (width * (np.arange(64)[:, None] + (nodes + 1.0) / 2.0)).ravel()
        mass = 0.5 * np.exp(-v) * np.tile(weights * width / 2.0, 64)
        powers = [self.quantile(0.5 * np.exp(-v), upper=upper) ** 2 for upper in (False, True)]
        return np.asarray(sum(np.exp(-np.asarray(x)[..., None] * power) @ mass for power in powers))


fading_laws: Registry[FadingLaw] = Registry("fading law", FadingLaw, package="phy.fading.laws")
