"""Privacy loss of an amplitude in one round, and the largest amplitude, for digital and analog FLMC.

`fl/` uses an `AmplitudePrivacy` without knowing the scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive
from privacy.mechanisms.flmc_analog import analog_amplitude_cap, analog_delta
from privacy.mechanisms.flmc_digital import digital_amplitude_cap, digital_delta, digital_loss_bound
from privacy.mechanisms.superposition.gaussian import gaussian_cap, gaussian_delta
from privacy.mechanisms.superposition.levels import (
    LevelPair,
    largest_amplitude,
    one_bit_pair,
    round_delta,
    round_tail,
)

Scheme = Literal["digital", "analog"]

_MOST_EXACT = 8
_WIDEST = (1e-8, 1e4)
_NARROWINGS, _NARROW, _COARSE, _FINE = 3, 1.5, 16, 72
_VANISHING, _ALL_BUT_ONE = 1e-13, 1e-9


class RoundBound(Protocol):
    """The (epsilon, delta) bound of a round, and what delta bounds of bits and of amplitudes; hashable."""

    @property
    def epsilon(self) -> float:
        """Epsilon [nats]."""
        ...

    @property
    def delta(self) -> float:
        """Delta."""
        ...

    def form(self, *, analog: bool) -> Any:
        """Return the form of the cap in force."""
        ...


@runtime_checkable
class AmplitudePrivacy(Protocol):
    """Interface for `fl/`: amplitudes in the unit of sqrt(noise power), losses in nats."""

    def amplitude_cap(self) -> float:
        """The largest received amplitude within the bound of one round; math.inf for no limit."""
        ...

    def delta_spent(self, amplitude: ArrayLike) -> NDArray[np.float64]:
        """delta at the epsilon of the bound, one per amplitude (any shape, >= 0), NaN without a bound."""
        ...

    def loss_bound(self) -> float:
        """The largest loss of one round at any amplitude [nats]; math.inf for no limit."""
        ...


@dataclass(frozen=True)
class NoPrivacy:
    """No privacy bound."""

    def amplitude_cap(self) -> float:
        """math.inf: no bound limits the amplitude."""
        return math.inf

    def delta_spent(self, amplitude: ArrayLike) -> NDArray[np.float64]:
        """NaN for every amplitude: there is no epsilon to evaluate."""
        return np.full(_amplitudes(amplitude).shape, np.nan)

    def loss_bound(self) -> float:
        """math.inf: nothing bounds the loss."""
        return math.inf


@dataclass(frozen=True, kw_only=True)
class RoundPrivacy:
    """One round of FLMC under an (epsilon, delta) bound, per device; Zhang et al. 2022, III.B and III.C.

    dimension m is the number of gradient entries, gradient_bound l their clip, quantizer_slope a that of
    Phi(g) = 1 / (1 + exp(-a g)) (digital alone), num_devices K those who superpose on one resource (for the printed
    form of digital alone; 2 for a device received on its own), noise_power N0 that of the real noise per entry. What
    counts is the whole round: all m entries of one device at +-l. Raises PrivacyError for values out of range.

    `config.digital_cap` and `config.analog_cap` say what delta bounds: the hockey-stick divergence (exact), or
    Pr(|L| > epsilon) by an equation of the paper. The former is at most the latter, so that exact is the largest cap.
    """

    config: RoundBound
    kind: Scheme
    dimension: int
    gradient_bound: float
    quantizer_slope: float
    num_devices: int
    noise_power: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for values out of range."""
        if self.kind not in ("digital", "analog"):
            raise PrivacyError(f"kind is {self.kind!r}, but it must be 'digital' or 'analog'", "choose one")
        require_count(dimension=self.dimension, num_devices=self.num_devices)
        require_positive(
            gradient_bound=self.gradient_bound, quantizer_slope=self.quantizer_slope, noise_power=self.noise_power
        )

    @property
    def entry(self) -> LevelPair:
        """What one entry sends under gradients +l and -l (digital)."""
        return one_bit_pair(entry_bound=self.quantizer_slope * self.gradient_bound)

    def amplitude_cap(self) -> float:
        """The largest A that keeps the bound, by the form in force."""
        epsilon, delta, form = self.config.epsilon, self.config.delta, self._form
        setting = {"dimension": self.dimension, "gradient_bound": self.gradient_bound, "noise_power": self.noise_power}
        if self.kind == "analog":
            if form == "exact":
                return gaussian_cap(epsilon, delta) / float(self._distance(1.0))
            return analog_amplitude_cap(epsilon, delta, tail=form, **setting)
        if form == "printed":
            slope, devices = self.quantizer_slope, self.num_devices
            return digital_amplitude_cap(epsilon, delta, quantizer_slope=slope, num_devices=devices, **setting)
        spent = round_delta if form == "exact" else round_tail
        relative = largest_amplitude(self.entry, epsilon=epsilon, delta=delta, dimension=self.dimension, spent=spent)
        return relative * math.sqrt(self.noise_power)

    @property
    def _form(self) -> Any:
        return self.config.form(analog=self.kind == "analog")

    def _distance(self, amplitude: ArrayLike) -> NDArray[np.float64]:
        """mu = 2 A l sqrt(m / N0) of the Gaussian mechanism of analog FLMC, of the shape of A."""
        scale = 2.0 * self.gradient_bound * math.sqrt(self.dimension / self.noise_power)
        return np.asarray(amplitude, np.float64) * scale

    def delta_spent(self, amplitude: ArrayLike) -> NDArray[np.float64]:
        """delta at config.epsilon of every amplitude, of the same shape, by the form in force.

        The last axis holds the rounds of one trial, and the result of a row does not depend on other rows. Analog has a
        closed form. Digital is computed for rows of up to 8 distinct amplitudes and at the cap, otherwise interpolated
        with a relative error of 1e-3 for delta in [1e-10, 0.5] and of 1e-2 above. Raises PrivacyError for an amplitude
        that is negative or not finite.
        """
        values = _amplitudes(amplitude)
        if values.size == 0 or self.config.epsilon >= self.loss_bound():
            return np.zeros(values.shape)
        rows = values.reshape(-1, values.shape[-1] if values.ndim else 1)
        # Most trials send with equal amplitudes.
        other = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])
        return np.asarray(self._spent(rows[other])[np.cumsum(other) - 1].reshape(values.shape))

    def _spent(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kind == "digital":
            return np.array([self._row(row) for row in rows])
        if self._form == "exact":
            return gaussian_delta(self.config.epsilon, self._distance(rows))
        return analog_delta(
            self.config.epsilon,
            amplitude=rows,
            dimension=self.dimension,
            gradient_bound=self.gradient_bound,
            noise_power=self.noise_power,
            tail=self._form,
        )

    def _row(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        distinct, where = np.unique(row, return_inverse=True)
        if distinct.size > _MOST_EXACT:
            at_cap = distinct == self.amplitude_cap()
            spent = _curve(self)(distinct)
            spent[at_cap] = [_exact(self, float(value)) for value in distinct[at_cap]]
        else:
            spent = np.array([_exact(self, float(value)) for value in distinct])
        return np.asarray(spent[where], dtype=np.float64)

    def loss_bound(self) -> float:
        """m a l nats if digital, whatever the noise; math.inf if analog. Zhang et al. 2022, after (17)."""
        if self.kind == "analog":
            return math.inf
        return digital_loss_bound(
            dimension=self.dimension, gradient_bound=self.gradient_bound, quantizer_slope=self.quantizer_slope
        )


@lru_cache(maxsize=4096)
def _exact(privacy: RoundPrivacy, amplitude: float) -> float:
    if (form := privacy.config.form(analog=False)) != "printed":
        spent = round_delta if form == "exact" else round_tail
        relative = amplitude / math.sqrt(privacy.noise_power)
        return spent(privacy.entry, privacy.config.epsilon, amplitude=relative, dimension=privacy.dimension)
    return digital_delta(
        privacy.config.epsilon,
        amplitude=amplitude,
        dimension=privacy.dimension,
        gradient_bound=privacy.gradient_bound,
        quantizer_slope=privacy.quantizer_slope,
        num_devices=privacy.num_devices,
        noise_power=privacy.noise_power,
    )


def _amplitudes(amplitude: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(amplitude, dtype=np.float64)
    if not np.all(np.isfinite(values) & (values >= 0)):
        raise PrivacyError(
            "an amplitude is negative or not finite, but each must be finite and >= 0",
            "give received amplitudes A, without their signs",
        )
    return values


@lru_cache(maxsize=64)
def _curve(privacy: RoundPrivacy) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Interpolated delta over amplitude: PCHIP of ln delta over ln A, which does not overshoot.

    The grid depends on the bound only, not on the given amplitudes. Coarse grids first find the range where delta is
    neither 0 nor 1; the fine grid covers that range.
    """
    from scipy.interpolate import PchipInterpolator

    def delta_at(amplitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([_exact(privacy, float(value)) for value in amplitudes])

    start, stop = (factor * math.sqrt(privacy.noise_power) for factor in _WIDEST)
    for _ in range(_NARROWINGS):
        coarse = np.geomspace(start, stop, _COARSE)
        rough = delta_at(coarse)
        above = np.flatnonzero(rough > _VANISHING)
        below = np.flatnonzero(rough < 1.0 - _ALL_BUT_ONE)
        first = max(int(above[0]) - 1, 0) if above.size else _COARSE - 2
        last = min(int(below[-1]) + 1, _COARSE - 1) if below.size else 1
        start, stop = float(coarse[first]), float(coarse[last])
        if stop < _NARROW * start:
            break
    grid = np.geomspace(start, stop, _FINE)
    log_delta = PchipInterpolator(np.log(grid), np.log(np.maximum(delta_at(grid), _VANISHING)))

    def curve(amplitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        # Outside the fine grid delta is that of its ends: 0 below, 1 above.
        inside = np.log(np.clip(amplitudes, grid[0], grid[-1]))
        spent = np.minimum(np.exp(np.asarray(log_delta(inside), dtype=np.float64)), 1.0)
        return np.where(spent <= 2 * _VANISHING, 0.0, spent)

    return curve
