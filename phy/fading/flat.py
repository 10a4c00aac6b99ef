"""Static path: a constant, or one independent draw per key or per instant.

    h = 1, CN(0, 1) or sqrt(K/(K+1)) + sqrt(1/(K+1)) CN(0, 1), or by `phy.fading.quantile_table` with uniform phase.

Antennas fade independently. A fixed path arrives with phase 0 at every antenna: broadside to the
array, as in the link with one antenna.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config.fading import FadingLaw
from phy.fading.quantile_table import quantile_table, table_taps
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import complex_normal, threefry


@dataclass(frozen=True, kw_only=True)
class FlatFading:
    """A flat channel without Doppler; the value is drawn per key, or per (key, instant) where `per_instant`.

    Under `per_instant` the values are numbered by their column in `instants_s`, independent of the times.
    """

    num_antennas: int
    law: FadingLaw
    per_instant: bool

    @property
    def delays_s(self) -> NDArray[np.float64]:
        """`[1]`: 0."""
        return np.zeros(1)

    @property
    def powers(self) -> NDArray[np.float64]:
        """`[1]`: 1."""
        return np.ones(1)

    def taps(self, key: Any, instants_s: Any) -> Any:
        """`[n, antennas, 1, instants]` complex64 for keys `[n, 2]` uint32 and instants `[n, instants]`."""
        shape = tf.concat([[tf.shape(key)[0], self.num_antennas, 1], tf.shape(instants_s)[1:]], axis=0)
        if not self.law.fades:
            return tf.ones(shape, tf.complex64)
        columns = tf.shape(instants_s)[1] if self.per_instant else 1
        drawn = _draw_kernel(self)(key, tf.range(columns))
        return tf.broadcast_to(drawn, shape)

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Ones; where every instant is a new draw, the power of the fixed path at any lag but 0."""
        lag = np.asarray(lag_s, float)[None]
        if not (self.law.fades and self.per_instant):
            return np.ones(lag.shape, np.complex128)
        k = self.law.rician_k or 0.0
        fixed = k / (1.0 + k)
        return np.where(lag == 0.0, 1.0, fixed).astype(np.complex128)


@lru_cache(maxsize=64)
def _draw_kernel(flat: FlatFading) -> Any:
    @tf.function(jit_compile=True, autograph=False)
    def kernel(key: Any, column: Any) -> Any:
        position = tf.cast(column, tf.uint32)[None, None, None, :]
        antenna = tf.cast(tf.range(flat.num_antennas), tf.uint32)[None, :, None, None]
        lane = (key[:, 0, None, None, None], key[:, 1, None, None, None])
        words = threefry(lane, (position, antenna), tf.bitwise)
        k = flat.law.rician_k
        if k is None:
            return table_taps(words, tf.constant(quantile_table(flat.law)))
        scattered = complex_normal(words)
        if k == 0.0:
            return scattered
        fixed, spread = (k / (1.0 + k)) ** 0.5, (1.0 / (1.0 + k)) ** 0.5
        return tf.complex(np.float32(fixed), np.float32(0.0)) + scattered * tf.constant(spread, tf.complex64)

    return kernel
