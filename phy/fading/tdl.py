"""Tapped delay lines of TR 38.901 7.7.2, and Clarke's flat channel as the line with one tap.

Each tap is Xiao, Zheng and Beaulieu's sum of sinusoids ("Novel sum-of-sinusoids simulation models for Rayleigh and
Rician fading channels", IEEE Trans. Wireless Commun. 2006, (6), (7) and (11)), as in Sionna's `TDL`:

    h_a(t) = sqrt(P / S) sum_s exp(i (2 pi f_D t cos(alpha_s) + phi_{a,s}))
             + sqrt(P_los) exp(i (2 pi 0.7 f_D t + phi_0)),
    alpha_s = (2 pi s + theta_s) / S,  theta, phi, phi_0 uniform on [-pi, pi)

Angles are shared by the antennas, phases are not, so antennas fade independently; the direct path (first tap of D and
E, Rician fading) has one phase for all, and 0.7 of the largest Doppler shift (TR 38.901 7.7.2). Under the same keys the
numbers equal those of Sionna's block with `override_generator` and its direct path at arccos(0.7), up to rounding. With
S waves the density of |h|^2 at 0 is that of Rayleigh fading less 1 / (2 S): 2.5 percent for Sionna's 20 waves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config.delays import delay_tables
from phy.fading.correlation import LOS_DOPPLER, clarke_correlation
from phy.fading.waves import PlaneWaves
from phy.numerics.generator_override import CounterGenerator
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import cosine_and_sine, phasor

TDL_WAVES = 20
"""Sinusoids per tap of a TDL channel, Sionna's default."""

FLAT_WAVES = 64
"""Sinusoids of the flat channel: deep fades are rarer than Rayleigh's by less than one percent."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """Delays in units of the delay spread and scattered powers of each tap `[num_paths]`, direct power in the first."""

    delays: NDArray[np.float64]
    scattered: NDArray[np.float64]
    direct: float

    @property
    def powers(self) -> NDArray[np.float64]:
        """Mean power of each tap, the direct path included, sum 1."""
        powers = self.scattered.copy()
        powers[0] += self.direct
        return powers


def flat_profile(rician_k: float) -> Profile:
    """One tap with the power K / (K + 1) in the direct path."""
    return Profile(delays=np.zeros(1), scattered=np.array([1.0 / (1.0 + rician_k)]), direct=rician_k / (1.0 + rician_k))


@lru_cache(maxsize=8)
def tdl_profile(letter: str) -> Profile:
    """Table 7.7.2-1 to 7.7.2-5, the order of the table kept, normalised in single precision as Sionna's `TDL` does."""
    table = delay_tables()[f"tdl-{letter.lower()}"]
    delays = table.delays.astype(np.float32).astype(float)
    powers = (10.0 ** (table.powers_db / 10.0)).astype(np.float32)
    direct = np.float32(0.0)
    if table.los:
        direct, powers, delays = powers[0], powers[1:], delays[1:]
    # TensorFlow adds four sums side by side, then the rest: in another order the last bit differs.
    fours = powers[: len(powers) // 4 * 4].reshape(-1, 4).sum(axis=0)
    total = fours[0] + fours[2] + (fours[1] + fours[3]) + powers[len(powers) // 4 * 4 :].sum() + direct
    powers, direct = powers / total, direct / total
    powers[0] += direct
    mean = powers.astype(float)
    direct_power = float(direct) / mean.sum()
    scattered = mean / mean.sum()
    scattered[0] -= direct_power
    return Profile(delays=delays, scattered=scattered, direct=direct_power)


def tapped_delay_line(
    profile: Profile, *, delay_spread_s: float, doppler_hz: float, num_waves: int, num_antennas: int
) -> PlaneWaves:
    """The channel of `profile` under the maximal Doppler shift `doppler_hz`."""
    return PlaneWaves(
        num_antennas=num_antennas,
        delays_s=profile.delays * delay_spread_s,
        powers=profile.powers,
        draw=lambda key: _kernel(profile, doppler_hz, num_waves, num_antennas)(key),
        correlation=partial(_correlation, profile, doppler_hz),
        moves=doppler_hz > 0.0,
    )


def _correlation(profile: Profile, doppler_hz: float, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Clarke's of every tap, the first with its direct path."""
    direct = np.zeros(len(profile.delays))
    direct[0] = profile.direct / profile.powers[0]
    return np.stack([clarke_correlation(lag_s, doppler_hz=doppler_hz, los_power=share) for share in direct])


@lru_cache(maxsize=64)
def _kernel(profile: Profile, doppler_hz: float, num_waves: int, num_antennas: int) -> Any:
    num_paths = len(profile.delays)
    amplitude = np.sqrt(profile.scattered / num_waves).astype(np.complex64)[None, None, :, None]

    @tf.function(jit_compile=True, autograph=False)
    def draw(key: Any) -> tuple[Any, Any]:
        rows = key.shape[0]
        numbers = CounterGenerator(key)
        numbers.uniform([rows, 1])  # where Sionna draws the speed, from an interval of length 0 here
        offset = numbers.uniform([rows, num_paths, num_waves], -0.5, 0.5)
        phase = numbers.uniform([rows, num_antennas, num_paths, num_waves], -0.5, 0.5)
        angle = (tf.range(1.0, num_waves + 1.0) + offset) / num_waves
        doppler = np.float32(doppler_hz) * cosine_and_sine(angle - tf.round(angle))[0]
        weights = amplitude * phasor(phase)
        if not profile.direct:
            return weights, doppler
        # The direct path is one more wave, without weight in all taps but the first.
        first = np.zeros((1, num_antennas, num_paths, 1), np.complex64)
        first[:, :, 0] = profile.direct**0.5
        direct = first * phasor(numbers.uniform([rows, 1, 1, 1], -0.5, 0.5))
        along = np.float32(LOS_DOPPLER * doppler_hz)
        return tf.concat([weights, direct], axis=3), tf.pad(doppler, [[0, 0], [0, 0], [0, 1]], constant_values=along)

    return draw
