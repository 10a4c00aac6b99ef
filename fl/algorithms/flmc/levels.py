"""More than one bit per gradient entry in FLMC: the symbols of an entry, their noise, and what they release.

A level c in [-1, 1] of a quantizer over [-r, r] (`fl.algorithms.flmc.stochastic_levels`) arrives at amplitude A. As one
symbol of pulse amplitude modulation it is received with noise of variance N0 / A^2. As b bit planes, of weight w_p in
the level and amplitude A a_p, it has noise of variance sum_p (w_p / a_p)^2 N0 / A^2. With a_p^2 = b w_p
("significance") that is N0 / (b A^2), the least at the energy b A^2; with a_p = 1 ("equal") up to b / 3 times as much.
Times r^2 it is the noise of a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fl.base.arrays import F64
from privacy.events.levels import SuperposedLevels, rounded_pair
from privacy.events.releases import Release
from privacy.mechanisms.superposition.rounding import RoundingPrivacy

if TYPE_CHECKING:
    from fl.algorithms.flmc.stochastic_levels import StochasticLevels
    from privacy.events.events import Event


@dataclass(frozen=True)
class Levels:
    """2^`bits` levels over [-`reach`, `reach`] for m = `dimension` gradient entries of at most `bound`, b >= 2.

    `planes`: bits are symbols of their own; `by_significance`: of amplitudes that fit their weights.
    """

    bits: int
    reach: float
    bound: float
    dimension: int
    planes: bool
    by_significance: bool

    @cached_property
    def codec(self) -> StochasticLevels:
        """The quantizer."""
        from fl.algorithms.flmc.stochastic_levels import StochasticLevels

        return StochasticLevels(bits_per_value=self.bits, reach=self.reach, plane_amplitudes=self.plane_amplitudes)

    @property
    def plane_weights(self) -> F64:
        """w_p = 2^p / (2^b - 1), the most significant first, `[b]`."""
        return np.asarray(2.0 ** np.arange(self.bits)[::-1] / ((1 << self.bits) - 1))

    @property
    def plane_amplitudes(self) -> tuple[float, ...] | None:
        """a_p, of mean square 1; None where a level is one symbol."""
        if not self.planes:
            return None
        squares = self.bits * self.plane_weights if self.by_significance else np.ones(self.bits)
        return tuple(np.sqrt(squares).tolist())

    @property
    def uses(self) -> int:
        """Symbols of an entry."""
        return self.bits if self.planes else 1

    @property
    def widest(self) -> float:
        """The widest range whose middle levels are within the bound: beyond it nothing is gained by two bits."""
        return ((1 << self.bits) - 1) * self.bound

    @property
    def noise_gain(self) -> float:
        """Variance of the noise of a received gradient entry over N0 / A^2."""
        if not self.planes:
            return self.reach**2
        return self.reach**2 * float(np.sum((self.plane_weights / np.array(self.plane_amplitudes)) ** 2))

    @property
    def _distance(self) -> float | None:
        """Distance of the worst two laws of an entry over A, where they are Gaussian; else None."""
        if self.planes:
            return 2.0 * math.sqrt(self.bits)
        return 2.0 if self.reach <= self.bound else None

    @property
    def _share(self) -> float:
        return min(self.bound / self.reach, 1.0)

    @property
    def _facts(self) -> dict[str, float]:
        return {"levels": float(1 << self.bits), "share": self._share}

    @property
    def gaussian(self) -> bool:
        """Tell if an entry is a Gaussian mechanism, with the levels at +-l as its worst two."""
        return self._distance is not None and self.reach <= self.bound

    @property
    def unprotected(self) -> float:
        """The ledger's parameter where no noise of the receiver counts."""
        return math.inf if self._distance is None else 0.0

    def parameter(self, amplitude: ArrayLike, *, noise_power: float) -> F64:
        """Return the ledger's parameter at received amplitudes A [W^(1/2)], of their shape."""
        relative = np.asarray(amplitude, np.float64) / math.sqrt(noise_power)
        if self._distance is None:
            return relative
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (self._distance * math.sqrt(self.dimension) * relative))

    def relative_amplitude(self, parameter: F64) -> F64:
        """Return A over sqrt(N0) at the ledger's parameter, of its shape."""
        if self._distance is None:
            return parameter
        return np.asarray(1.0 / (self._distance * math.sqrt(self.dimension) * parameter))

    def release(self, parameter: float | None) -> Release:
        """Return the release of a device in a round; no parameter: not known."""
        if self._distance is not None:
            return Release(kind="gaussian", unit="device", parameter=parameter)
        return Release(
            kind="superposed-levels",
            unit="device",
            coordinates=self.dimension,
            facts=self._facts,
            parameter=parameter,
        )

    def event(self, relative_amplitude: float) -> Event:
        """Return the event of one entry at A over sqrt(N0)."""
        from privacy.events.noise_events import GaussianNoise  # SciPy loads with it, which no plan needs

        if self._distance is not None:
            return GaussianNoise(noise_multiplier=1.0 / (self._distance * relative_amplitude))
        return SuperposedLevels(amplitude=relative_amplitude, levels=1 << self.bits, share=self._share)

    def privacy(self, *, epsilon: float, delta: float, noise_power: float) -> RoundingPrivacy:
        """Return the bound of a round."""
        distance = self._distance
        if distance is not None:
            law: dict[str, Any] = {"distance": distance}
        else:
            law = {"pair": rounded_pair(levels=1 << self.bits, share=self._share)}
        return RoundingPrivacy(epsilon=epsilon, delta=delta, dimension=self.dimension, noise_power=noise_power, **law)

    def delta_of(self, *, amplitude: float, noise_power: float) -> Callable[[float], Any]:
        """Return the exact delta of a round as a function of epsilon."""

        def delta(epsilon: float) -> float:
            bound = self.privacy(epsilon=epsilon, delta=0.5, noise_power=noise_power)
            return float(bound.delta_spent(np.array([amplitude]))[0])

        return delta

    def score(self, residual: F64, amplitude: F64, *, noise_power: float) -> F64:
        """The loss of what is received less the other devices' part, symbol by symbol, `[trials, symbols]` [nats].

        Of the worst pair, which is +l against -l as symbols of outermost levels or of mixtures; `amplitude`
        `[trials, 1]`.
        """
        if self._distance is None:
            relative = float(amplitude.max(initial=0.0)) / math.sqrt(noise_power)
            if relative == 0.0:
                return np.zeros_like(residual)
            event = SuperposedLevels(amplitude=relative, levels=1 << self.bits, share=self._share)
            # Trials of one game share their amplitude, or differ by their channel: a score need not be the loss.
            scale = np.where(amplitude > 0.0, amplitude / math.sqrt(noise_power) / relative, 0.0)
            return np.asarray(event.loss(residual / math.sqrt(noise_power)) * scale)
        weights = np.ones(1) if self.plane_amplitudes is None else np.array(self.plane_amplitudes)
        symbols = np.tile(weights, residual.shape[1] // len(weights))
        return np.asarray(2.0 * amplitude * symbols * residual / noise_power)


@lru_cache(maxsize=256)
def levels_of(**fields: Any) -> Levels:
    """Return `Levels` of these fields, one object for all that ask."""
    return Levels(**fields)
