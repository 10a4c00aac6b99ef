"""Channel estimates from the pilots of a slot: least squares with linear interpolation, and linear MMSE.

After removal of the known sequence, the received pilots are z = s a g h + n with the pilot scale s. The receiver
estimates G = a g h at every data symbol, slot by slot and antenna by antenna.

- **LS**: G^ = z / s, interpolated linearly over carriers and then over OFDM symbols, as Sionna's `LSChannelEstimator`
  with `LinearInterpolator`; error variance 2 N0 / s^2 times the sum of squared weights (noise alone, without the
  interpolation error).
- **LMMSE**: G^ = R_dp (R_pp + sigma^2 I)^-1 z / s with sigma^2 = 2 N0 / (a g s)^2. The covariance of the channel model
  is that of time times that of frequency, R = R_t x R_f, so with R_t = U_t L_t U_t^H and R_f = U_f L_f U_f^H

      G^ = B_t [ (U_t^H (z / s) U_f*) . (1 / (l_t l_f^T + sigma^2)) ] B_f^T,    B = R_dp U

  which costs no solve and takes sigma^2 of each row as a number. R_f has no more eigenvalues than the channel has
  paths. Error variance (a g)^2 diag(R_dd - R_dp (R_pp + sigma^2 I)^-1 R_pd) (Kay, "Fundamentals of Statistical Signal
  Processing: Estimation Theory", 1993, (12.20) and (12.21)). Where paths move differently the covariance is no such
  product: see `joint_estimation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phy.numerics.lazy_tensorflow import tf

if TYPE_CHECKING:
    from phy.frontends.resource_grid import Grid
    from phy.stages import Propagation

_NEGLIGIBLE = 1e-9
"""Share of the channel's energy in dropped eigenvalues: far below the resolution of single precision."""

TINY = np.float32(1e-30)
"""Least power that estimators divide by."""


class PilotEstimator(Protocol):
    """Channel estimator: received pilots in, channel at the data symbols of the same slot out."""

    def estimate(self, received: Any, arrival: Any, noise_power: Any) -> tuple[Any, Any]:
        """(G^ `[rows, users, antennas, slots, data symbols, carriers]`, its error variance `[rows, users, 1, ...]`).

        `received` `[rows, antennas, slots, pilot symbols, carriers]`, `arrival` a g `[rows, users]`. Neither is cleared
        for silent users. The variance has axes of length 1 where it does not vary.
        """
        ...


class Lerp(NamedTuple):
    """Linear interpolation between the two nearest known points, beyond the ends along the first and last pair."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weight: NDArray[np.float32]
    """Weight of the point at `high`; the point at `low` has 1 minus it."""

    @classmethod
    def between(cls, known: NDArray[np.int64], wanted: NDArray[np.int64]) -> Lerp:
        """Values at `wanted` from those at ascending `known`; a single known point is repeated."""
        if len(known) == 1:
            nothing = np.zeros(len(wanted), np.int64)
            return cls(nothing, nothing, nothing.astype(np.float32))
        low = np.clip(np.searchsorted(known, wanted, side="right") - 1, 0, len(known) - 2)
        weight = (wanted - known[low]) / (known[low + 1] - known[low])
        return cls(low, low + 1, weight.astype(np.float32))

    @property
    def noise_gain(self) -> NDArray[np.float32]:
        """Variance of each interpolated value over that of the known ones."""
        return np.where(self.low == self.high, 1.0, self.weight**2 + (1.0 - self.weight) ** 2).astype(np.float32)

    def apply(self, values: Any, axis: int) -> Any:
        """Interpolate complex values along an axis counted from the end (TensorFlow)."""
        if values.shape[axis] == 1:
            return tf.repeat(values, len(self.low), axis=axis)
        low, high = (tf.gather(values, index, axis=axis) for index in (self.low, self.high))
        weight = tf.reshape(tf.constant(self.weight.astype(np.complex64)), [-1] + [1] * (-1 - axis))
        return low + (high - low) * weight


class LeastSquares(PilotEstimator):
    """LS with linear interpolation; see the module docstring."""

    def __init__(self, grid: Grid) -> None:
        every = np.arange(grid.num_carriers)
        self._pilots = grid.pilots
        self._users = grid.num_users
        self._frequency = [Lerp.between(every[user :: self._users], every) for user in range(self._users)]
        self._time = Lerp.between(np.array(grid.pilot_rows), np.array(grid.data_rows))

    def estimate(self, received: Any, arrival: Any, noise_power: Any) -> tuple[Any, Any]:
        """See `PilotEstimator.estimate`; `arrival` is unused."""
        del arrival
        estimates, gains = [], []
        for user, frequency in enumerate(self._frequency):
            pilots = self._pilots[user, :, user :: self._users]
            known = received[..., user :: self._users] * tf.constant(np.conj(pilots) / np.abs(pilots) ** 2)
            spread = known if self._users == 1 else frequency.apply(known, -1)
            estimates.append(self._time.apply(spread, -2))
            gains.append(frequency.noise_gain / np.abs(pilots[0, 0]) ** 2)
        noise_gain = np.stack(gains)[:, None, None, None] * self._time.noise_gain[:, None]
        return tf.stack(estimates, axis=1), noise_power * tf.constant(noise_gain.astype(np.float32))[None]


@dataclass(frozen=True)
class Modes:
    """Eigenvectors of the pilot covariance along one axis, and their covariance with the wanted points.

    `vectors` `[pilots, modes]`, `eigenvalues` `[modes]`, `wanted` R_dp U `[wanted, modes]`, `prior` diag R_dd
    `[wanted]`.
    """

    vectors: NDArray[np.complex64]
    eigenvalues: NDArray[np.float64]
    wanted: NDArray[np.complex64]
    prior: NDArray[np.float64]

    @classmethod
    def of(cls, roots: NDArray[np.complex128], pilots: NDArray[np.int64], wanted: NDArray[np.int64]) -> Modes:
        """Modes of R = A A^H for `roots` A `[points, n]`: R_pp = (U S V^H)(U S V^H)^H, so R_dp U = A_d V S."""
        vectors, singular, right = np.linalg.svd(roots[pilots], full_matrices=False)
        rest = np.cumsum((singular**2)[::-1])[::-1]
        kept = rest > _NEGLIGIBLE * rest[0]
        about = roots[wanted] @ np.conj(right[kept].T) * singular[kept]
        return cls(
            vectors=np.asarray(vectors[:, kept], np.complex64),
            eigenvalues=singular[kept] ** 2,
            wanted=np.asarray(about, np.complex64),
            prior=np.sum(np.abs(roots[wanted]) ** 2, axis=1),
        )

    @property
    def explained(self) -> NDArray[np.float64]:
        """Power of every wanted point that each mode explains without noise, `[wanted, modes]`."""
        return np.abs(self.wanted.astype(np.complex128)) ** 2 / self.eigenvalues


class LinearMmse(PilotEstimator):
    """LMMSE over time and frequency from the statistics of the channel model; see the module.

    All paths have the same correlation over time; `joint_estimation.linear_mmse` chooses the estimator.
    `response` `[paths, carriers]` complex: what a unit path does to every carrier. `over_time` and `over_frequency`
    (of every user) are the modes of the two covariances.
    """

    def __init__(self, grid: Grid, *, propagation: Propagation, response: NDArray[np.complex128]) -> None:
        instants = grid.middles_s[: grid.ofdm.num_symbols]
        in_time = propagation.path_correlation(instants[None, :] - instants[:, None])[0]
        level, vectors = np.linalg.eigh((in_time + np.conj(in_time.T)) / 2.0)
        time_roots = vectors * np.sqrt(np.maximum(level, 0.0))
        frequency_roots = (response * np.sqrt(propagation.powers)[:, None]).T
        every = np.arange(grid.num_carriers)
        self._pilots = grid.pilots
        self._users = grid.num_users
        self.over_time = Modes.of(time_roots, np.array(grid.pilot_rows), np.array(grid.data_rows))
        self.over_frequency = [
            Modes.of(frequency_roots, every[user :: self._users], every) for user in range(self._users)
        ]

    def estimate(self, received: Any, arrival: Any, noise_power: Any) -> tuple[Any, Any]:
        over = self.over_time
        estimates, errors = [], []
        for user, along in enumerate(self.over_frequency):
            pilots = self._pilots[user, :, user :: self._users]
            energy = np.float32(np.abs(pilots[0, 0]) ** 2)
            strength = (arrival[:, user] ** 2)[:, None, None]
            level = tf.constant(np.outer(over.eigenvalues, along.eigenvalues).astype(np.float32))
            total = tf.maximum(strength * energy * level + noise_power, TINY)
            # Pilots weigh their conjugate once: z / s = y p* / s^2, and 1 / s^2 goes into the shrinking below.
            known = received[..., user :: self._users] * tf.constant(np.conj(pilots))
            modes = tf.einsum("raspf,fj->raspj", known, tf.constant(np.conj(along.vectors)))
            modes = tf.einsum("ip,raspj->rasij", tf.constant(np.conj(over.vectors.T)), modes)
            shrunk = modes * tf.cast(strength / total, tf.complex64)[:, None, None]
            spread = tf.einsum("ti,rasij->rastj", tf.constant(over.wanted), shrunk)
            estimates.append(tf.einsum("rastj,cj->rastc", spread, tf.constant(along.wanted)))
            unexplained = np.outer(over.prior, along.prior) - np.outer(over.explained.sum(1), along.explained.sum(1))
            left = tf.einsum(
                "ti,rij,cj->rtc",
                tf.constant(over.explained.astype(np.float32)),
                noise_power / total,
                tf.constant(along.explained.astype(np.float32)),
            )
            errors.append(strength * (left + np.maximum(unexplained, 0.0).astype(np.float32)))
        return tf.stack(estimates, axis=1), tf.stack(errors, axis=1)[:, :, None, None]
