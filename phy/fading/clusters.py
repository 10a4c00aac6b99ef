"""Rays of the clustered delay lines: TR 38.901 Tables 7.7.1-1 to 7.7.1-5 and (7.5-13), without TensorFlow.

Numbers are rounded to single precision where Sionna's `CDL` rounds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.config.delays import angle_tables, delay_tables

NUM_RAYS = 20
_OFFSETS = np.array([0.0447, 0.1413, 0.2492, 0.3715, 0.5129, 0.6797, 0.8844, 1.1481, 1.5195, 2.1551], np.float32)
"""Table 7.5-3: offsets of pairs of rays for a spread of one degree [deg]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Clusters in the order of the table, without the direct path.

    - `delays` in units of the delay spread, `powers` of sum 1, `[num_clusters]` float32;
    - `k`: power of the direct path over that of all clusters, 0 without one;
    - `azimuths`, `zeniths`: of rays at the device and at the server, `[2, num_clusters, NUM_RAYS]` float32 [rad];
    - `direct_azimuths`, `direct_zeniths`: of the direct path at both, `[2]` float32 [rad].
    """

    delays: NDArray[np.float32]
    powers: NDArray[np.float32]
    k: np.float32
    azimuths: NDArray[np.float32]
    zeniths: NDArray[np.float32]
    direct_azimuths: NDArray[np.float32]
    direct_zeniths: NDArray[np.float32]

    def order(self, delay_spread_s: float) -> NDArray[np.intp]:
        """Clusters by ascending delay."""
        return np.argsort(self.delays_s(delay_spread_s), kind="stable")

    def delays_s(self, delay_spread_s: float) -> NDArray[np.float64]:
        """Delays in the order of the table [s]."""
        return (self.delays * np.float32(delay_spread_s)).astype(float)

    @property
    def mean_powers(self) -> NDArray[np.float64]:
        """Mean power of each cluster, the direct path in the first one, sum 1."""
        powers = self.powers.copy()
        if self.k:
            powers[0] += self.k
            powers /= self.k + np.float32(1.0)
        return powers.astype(float)


@lru_cache(maxsize=8)
def clusters_of(letter: str) -> Clusters:
    """Return CDL-`letter`, A to E."""
    model = f"cdl-{letter.lower()}"
    table, angles = delay_tables()[model], angle_tables()[model]
    first = int(table.los)
    powers = (10.0 ** (table.powers_db / 10.0)).astype(np.float32)
    powers /= _sum(powers)
    scattered = _sum(powers[first:])
    azimuths, zeniths = (
        np.stack([_radian(_rays(angles.degrees[i], angles.spreads[i])) for i in ends]) for ends in ((1, 0), (3, 2))
    )
    return Clusters(
        delays=table.delays[first:].astype(np.float32),
        powers=powers[first:] / scattered if first else powers,
        k=powers[0] / scattered if first else np.float32(0.0),
        azimuths=azimuths[:, first:],
        zeniths=zeniths[:, first:],
        direct_azimuths=_radian(angles.degrees[[1, 0], 0].astype(np.float32)),
        direct_zeniths=_radian(angles.degrees[[3, 2], 0].astype(np.float32)),
    )


def _sum(values: NDArray[np.float32]) -> np.float32:
    """Sum in the order of TensorFlow, eight side by side and then the rest: in another order the last bit differs."""
    whole = len(values) // 8 * 8
    eights = values[:whole].reshape(-1, 8).sum(axis=0)
    fours = eights[:4] + eights[4:]
    return np.float32(fours[0] + fours[2] + (fours[1] + fours[3]) + values[whole:].sum())


def _rays(degrees: NDArray[np.float64], spread: float) -> NDArray[np.float32]:
    offsets = np.stack([_OFFSETS, -_OFFSETS], axis=1).reshape(-1)
    return degrees.astype(np.float32)[:, None] + np.float32(spread) * offsets


def _radian(degrees: NDArray[np.float32]) -> NDArray[np.float32]:
    return degrees * np.float32(np.pi / 180.0)
