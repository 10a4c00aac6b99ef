"""Privacy of a round of FLMC with more than one bit per entry, exactly; the law is that of `privacy.events.levels`.

Where an entry is a Gaussian mechanism (bit planes, and levels over just the range of the gradients), m entries are one
of sqrt(m) times its distance. Else m mixtures are composed by `privacy.mechanisms.superposition.levels`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive
from privacy.mechanisms.superposition.gaussian import gaussian_cap, gaussian_delta
from privacy.mechanisms.superposition.levels import LevelPair, largest_amplitude, round_delta

_STEPS_PER_E = 100.0
"""Amplitudes that fade are brought up to a grid of 1 %."""


@dataclass(frozen=True, kw_only=True)
class RoundingPrivacy:
    """An `AmplitudePrivacy` of one round: `epsilon`, `delta` of the bound, m `dimension`, `noise_power` N0.

    `pair`: the worst two laws of an entry; None: a Gaussian mechanism whose entries lie `distance` amplitudes apart.
    Raises PrivacyError for values out of range.
    """

    epsilon: float
    delta: float
    dimension: int
    noise_power: float
    pair: LevelPair | None = None
    distance: float = 2.0

    def __post_init__(self) -> None:
        """Raise PrivacyError for values out of range."""
        require_count(dimension=self.dimension)
        require_positive(noise_power=self.noise_power, distance=self.distance, epsilon=self.epsilon)

    def amplitude_cap(self) -> float:
        """The largest A at which the hockey-stick divergence at epsilon is at most delta, both ways."""
        if self.pair is None:
            found = gaussian_cap(self.epsilon, self.delta) / (self.distance * math.sqrt(self.dimension))
        else:
            found = largest_amplitude(self.pair, epsilon=self.epsilon, delta=self.delta, dimension=self.dimension)
        return found * math.sqrt(self.noise_power)

    def delta_spent(self, amplitude: ArrayLike) -> NDArray[np.float64]:
        """The exact delta at epsilon of every amplitude, of the same shape; of mixtures up to 1 % more amplitude."""
        values = np.asarray(amplitude, np.float64)
        if not np.all(np.isfinite(values) & (values >= 0)):
            raise PrivacyError(
                "an amplitude is negative or not finite, but each must be finite and >= 0",
                "give received amplitudes A, without their signs",
            )
        relative = values / math.sqrt(self.noise_power)
        if self.pair is None:
            return gaussian_delta(self.epsilon, relative * self.distance * math.sqrt(self.dimension))
        distinct, where = np.unique(relative, return_inverse=True)
        with np.errstate(divide="ignore"):
            grid = np.exp(np.ceil(np.log(distinct) * _STEPS_PER_E) / _STEPS_PER_E)
        found = [self._mixture(float(one), float(above)) for one, above in zip(distinct, grid, strict=True)]
        return np.asarray(np.array(found)[where].reshape(values.shape))

    def _mixture(self, amplitude: float, above: float) -> float:
        assert self.pair is not None
        cap = self.amplitude_cap() / math.sqrt(self.noise_power)
        at = amplitude if abs(amplitude - cap) <= 1e-12 * cap else above
        return round_delta(self.pair, self.epsilon, amplitude=at, dimension=self.dimension)

    def loss_bound(self) -> float:
        """The largest loss of one round at any amplitude [nats]; math.inf for a Gaussian mechanism."""
        return math.inf if self.pair is None else self.dimension * self.pair.loss_bound
