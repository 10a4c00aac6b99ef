"""Paths as sums of plane waves, at any instants: the engine under Doppler, TDL and CDL channels.

    h[a, p](t) = sum_s w[a, p, s] exp(2 pi i f[p, s] t)

Weights w and Doppler shifts f are drawn once per realisation. Sionna evaluates such sums on a regular grid from
time 0 with one library cosine per term; here time is free, and sine and cosine are polynomials of the fraction of a
turn. A float32 product f t is good to 2^-24 of itself only, which after 10^5 turns is noise: f and t are split in
halves of 12 bits, the largest product is then exact and loses its whole turns before the small ones are added. What is
left is good to 10^-7 turns and 2^-34 of f t: 10^-5 turns after 10^5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import cosine_and_sine


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlaneWaves:
    """A channel of moving scatterers.

    - `draw(key)`: keys `[n, 2]` to weights `[n, antennas, paths, waves]` complex64 and Doppler shifts
      `[n, paths, waves]` float32 [Hz]; a compiled call of its own, so that nothing is drawn twice;
    - `correlation(lag_s)`: see `Propagation.path_correlation`;
    - `moves`: without motion the sum is taken once and holds at every instant.
    """

    num_antennas: int
    delays_s: NDArray[np.float64]
    powers: NDArray[np.float64]
    draw: Callable[[Any], tuple[Any, Any]]
    correlation: Callable[[NDArray[np.float64]], NDArray[np.complex128]]
    moves: bool

    def taps(self, key: Any, instants_s: Any) -> Any:
        """`[n, antennas, paths, instants]` complex64 for keys `[n, 2]` of static length and `[n, instants]` [s]."""
        weights, doppler_hz = self.draw(key)
        if self.moves:
            return sum_of_waves()(weights, doppler_hz, instants_s)
        still = tf.reduce_sum(weights, axis=-1)[..., None]
        return tf.broadcast_to(still, tf.concat([tf.shape(still)[:-1], tf.shape(instants_s)[1:]], axis=0))

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """See `Propagation.path_correlation`."""
        lag = np.asarray(lag_s, float)
        return self.correlation(lag) if self.moves else np.ones((len(self.powers), *lag.shape), np.complex128)


@lru_cache(maxsize=1)
def sum_of_waves() -> Any:
    """Compiled function of weights `[n, antennas, paths, waves]` complex64, Doppler shifts `[n, paths, waves]` float32
    and instants `[n, T]` float32 to the sum `[n, antennas, paths, T]` complex64, with memory of that order."""

    @tf.function(jit_compile=True, autograph=False)
    def kernel(weights: Any, doppler_hz: Any, instants_s: Any) -> Any:
        real = tf.transpose(tf.math.real(weights), [3, 0, 1, 2])[..., None]
        imaginary = tf.transpose(tf.math.imag(weights), [3, 0, 1, 2])[..., None]
        frequency = tf.transpose(doppler_hz, [2, 0, 1])[:, :, None, :, None]
        time = instants_s[:, None, None, :]
        num_waves = weights.shape[3]

        # The next wave travels in the loop's state: fused into the sums it would be computed again per antenna.
        def add(wave: Any, cosine: Any, sine: Any, in_phase: Any, quadrature: Any) -> tuple[Any, ...]:
            a, b = real[wave], imaginary[wave]
            in_phase, quadrature = in_phase + a * cosine - b * sine, quadrature + a * sine + b * cosine
            following = frequency[tf.minimum(wave + 1, num_waves - 1)]
            return (wave + 1, *cosine_and_sine(_turns(following, time)), in_phase, quadrature)

        nothing = tf.zeros_like(real[0] * time)
        state = (tf.constant(0), *cosine_and_sine(_turns(frequency[0], time)), nothing, nothing)
        found = tf.while_loop(lambda wave, *_: wave < num_waves, add, state, maximum_iterations=num_waves)
        return tf.complex(found[3], found[4])

    return kernel


def _turns(frequency: Any, time: Any) -> Any:
    """f t less its whole turns, in [-1/2, 1/2]."""
    f_high, t_high = _leading_bits(frequency), _leading_bits(time)
    f_low, t_low = frequency - f_high, time - t_high
    exact = f_high * t_high
    small = (f_high * t_low + f_low * t_high) + f_low * t_low
    turns = (exact - tf.round(exact)) + (small - tf.round(small))
    return turns - tf.round(turns)


def _leading_bits(value: Any) -> Any:
    """The 12 leading bits of a float32: the product of two such is exact."""
    kept = tf.bitwise.bitwise_and(tf.bitcast(value, tf.int32), np.int32(-4096))
    return tf.bitcast(kept, tf.float32)
