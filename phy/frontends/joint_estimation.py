"""Linear MMSE where time and frequency do not separate: paths that move differently, as a direct path or clusters do.

With unit gains a_p(t) of the paths and Phi = response x sqrt(powers), the channel at carrier c is (Phi a(t))_c. Paths
are uncorrelated, each with a correlation rho_p over time of its own, so the covariance

    E[h(t, c) conj(h(t', c'))] = sum_p P_p rho_p(t, t') r_p(c) conj(r_p(c'))

is a product of one over time and one over frequency only where all rho_p are equal. On the pilot carriers
Phi = U S V^H: the pilots of a slot are the numbers U^H z = S b(t) + noise, b = V^H a, white noise as before, and
carriers are h(t) = Phi V b(t). The estimate is

    G^ = Phi V W [ Q^H vec(U^H z / s) . 1 / (l + sigma^2) ],   R_yy = Q diag(l) Q^H,   W = R_by Q

with y = S b at the pilot symbols, and its error variance diag(R_dd) - sum_m |(Phi V W)_m|^2 / (l_m + sigma^2) (Kay
1993, (12.20) and (12.21)). It costs a small matrix product more per slot than the separable one of `estimation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phy.frontends.estimation import TINY, LinearMmse, PilotEstimator
from phy.numerics.lazy_tensorflow import tf

if TYPE_CHECKING:
    from phy.frontends.resource_grid import Grid
    from phy.stages import Propagation

_NEGLIGIBLE = 1e-12
"""Share of the channel's energy in dropped modes: estimates are off by less than float32 resolves up to 50 dB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JointModes:
    """Eigenvectors of the covariance of a user's pilots, J numbers per pilot symbol, M modes in all.

    `carriers` U `[pilot carriers, J]`, `of_pilots` Q `[pilot symbols, J, M]`, `eigenvalues` l `[M]`, `wanted` W
    `[data symbols, J, M]`, `basis` Phi V `[carriers, J]`; `explained` `[data symbols, carriers, M]`: power that each
    mode explains without noise, `unexplained` `[data symbols, carriers]`.
    """

    carriers: NDArray[np.complex64]
    of_pilots: NDArray[np.complex64]
    eigenvalues: NDArray[np.float64]
    wanted: NDArray[np.complex64]
    basis: NDArray[np.complex64]
    explained: NDArray[np.float64]
    unexplained: NDArray[np.float64]

    @classmethod
    def of(
        cls, grid: Grid, *, user: int, powers: NDArray[np.float64], over_time: NDArray[Any], response: NDArray[Any]
    ) -> JointModes:
        """Modes of paths with correlations `over_time` `[paths, symbols, symbols]` between the symbols of a slot."""
        paths = (response * np.sqrt(powers)[:, None]).T
        vectors, singular, right = np.linalg.svd(paths[user :: grid.num_users], full_matrices=False)
        kept = _substantial(singular**2)
        vectors, singular, right = vectors[:, kept], singular[kept], right[kept]
        basis = paths @ np.conj(right.T)

        def covariance(rows: list[int], columns: list[int]) -> NDArray[np.complex128]:
            """E[b(t) b(t')^H], `[rows * J, columns * J]`."""
            between = over_time[:, rows][:, :, columns]
            found = np.einsum("jp,ptu,kp->tjuk", right, between, np.conj(right))
            return np.asarray(found.reshape(len(rows) * len(right), -1))

        pilots, data = grid.pilot_rows, grid.data_rows
        weights = np.tile(singular, len(pilots))
        level, modes = np.linalg.eigh(weights[:, None] * covariance(pilots, pilots) * weights)
        order = np.argsort(level)[::-1]
        level, modes = level[order], modes[:, order]
        kept = _substantial(np.maximum(level, 0.0))
        level, modes = level[kept], modes[:, kept]
        wanted = (covariance(data, pilots) * weights @ modes).reshape(len(data), len(right), -1)
        explained = np.abs(np.einsum("cj,tjm->tcm", basis, wanted)) ** 2 / level
        prior = (np.abs(paths) ** 2).sum(axis=1)
        return cls(
            carriers=vectors.astype(np.complex64),
            of_pilots=modes.reshape(len(pilots), len(right), -1).astype(np.complex64),
            eigenvalues=level,
            wanted=wanted.astype(np.complex64),
            basis=basis.astype(np.complex64),
            explained=explained,
            unexplained=np.maximum(prior - explained.sum(axis=2), 0.0),
        )


def _substantial(energies: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the descending energies but those behind which next to nothing is left."""
    rest = np.cumsum(energies[::-1])[::-1]
    return np.asarray(rest > _NEGLIGIBLE * rest[0])


class JointMmse(PilotEstimator):
    """LMMSE from the statistics of a channel whose paths move differently; see the module.

    `modes`: those of every user.
    """

    def __init__(self, grid: Grid, *, propagation: Propagation, response: NDArray[np.complex128]) -> None:
        instants = grid.middles_s[: grid.ofdm.num_symbols]
        over_time = propagation.path_correlation(instants[None, :] - instants[:, None])
        self._pilots = grid.pilots
        self._users = grid.num_users
        self.modes = [
            JointModes.of(grid, user=user, powers=propagation.powers, over_time=over_time, response=response)
            for user in range(self._users)
        ]

    def estimate(self, received: Any, arrival: Any, noise_power: Any) -> tuple[Any, Any]:
        """See `PilotEstimator.estimate`."""
        estimates, errors = [], []
        for user, modes in enumerate(self.modes):
            pilots = self._pilots[user, :, user :: self._users]
            energy = np.float32(np.abs(pilots[0, 0]) ** 2)
            strength = (arrival[:, user] ** 2)[:, None]
            level = tf.constant(modes.eigenvalues.astype(np.float32))
            total = tf.maximum(strength * energy * level + noise_power, TINY)
            known = received[..., user :: self._users] * tf.constant(np.conj(pilots))
            heard = tf.einsum("raspf,fj->raspj", known, tf.constant(np.conj(modes.carriers)))
            heard = tf.einsum("raspj,pjm->rasm", heard, tf.constant(np.conj(modes.of_pilots)))
            shrunk = heard * tf.cast(strength / total, tf.complex64)[:, None, None]
            spread = tf.einsum("tjm,rasm->rastj", tf.constant(modes.wanted), shrunk)
            estimates.append(tf.einsum("rastj,cj->rastc", spread, tf.constant(modes.basis)))
            explained = tf.constant(modes.explained.astype(np.float32))
            left = tf.einsum("tcm,rm->rtc", explained, noise_power / total)
            errors.append(strength[..., None] * (left + modes.unexplained.astype(np.float32)))
        return tf.stack(estimates, axis=1), tf.stack(errors, axis=1)[:, :, None, None]


def linear_mmse(grid: Grid, *, propagation: Propagation, response: NDArray[np.complex128]) -> LinearMmse | JointMmse:
    """Linear MMSE by the true covariance: separable where all paths move alike, joint elsewhere.

    `response` `[paths, carriers]`: of every carrier to a path of unit gain.
    """
    instants = grid.middles_s[: grid.ofdm.num_symbols]
    each = propagation.path_correlation(instants - instants[0])
    alike = bool(np.all(each == each[:1]))
    return (LinearMmse if alike else JointMmse)(grid, propagation=propagation, response=response)
