"""Statistics of a recorded channel: gains, delay spreads, and how it changes over time and from device to device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phy.traces.trace import Trace, squared

_MOST_LAGS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelStatistics:
    """Numbers of a recorded channel, snapshot by snapshot and device by device.

    - `power` `[snapshot, device]`: sum over paths of |a|^2, mean over antennas;
    - `spread_s` `[snapshot, device]`: root-mean-square delay spread, weighted by power; NaN without power [s];
    - `narrow` `[snapshot, device]` complex: sum of all paths at the first antenna, the channel of a narrow band.
    """

    power: NDArray[np.float64]
    spread_s: NDArray[np.float64]
    narrow: NDArray[np.complex128]

    @property
    def gain_db(self) -> NDArray[np.float64]:
        """Mean power of each link over all snapshots, `[device]` [dB]."""
        with np.errstate(divide="ignore"):
            return np.asarray(10.0 * np.log10(self.power.mean(axis=0)))

    @property
    def median_spread_s(self) -> float:
        """Median delay spread over all snapshots of links [s]."""
        return float(np.nanmedian(self.spread_s))

    @property
    def coherence_bandwidth_hz(self) -> float:
        """Bandwidth over which carriers correlate by about one half, 1 / (5 delay spread) [Hz]; inf for one path."""
        return 1.0 / (5.0 * self.median_spread_s) if self.median_spread_s > 0.0 else float("inf")

    @property
    def rician_k(self) -> NDArray[np.float64]:
        """Rician K of the narrow band by moments, `[device]`: sqrt(1 - g) / (1 - sqrt(1 - g)), g the variance of |h|^2
        over its squared mean (Greenstein et al. 1999); 0 where |h|^2 varies more than under Rayleigh fading."""
        power = np.abs(self.narrow) ** 2
        spread = np.minimum(power.var(axis=0) / np.maximum(power.mean(axis=0) ** 2, 1e-300), 1.0)
        root = np.sqrt(1.0 - spread)
        with np.errstate(divide="ignore"):
            return np.asarray(root / (1.0 - root))

    @property
    def k_factor_db(self) -> NDArray[np.float64]:
        """Rician K, at least -30 dB, `[device]` [dB]."""
        return np.asarray(10.0 * np.log10(np.maximum(self.rician_k, 1e-3)))

    def autocorrelation(self) -> NDArray[np.float64]:
        """|E[h(t) conj(h(t + lag))]| / E|h|^2 of the narrow band, mean over devices, `[lags]`, 0 to half the trace."""
        count = len(self.narrow)
        lags = min(max(count // 2, min(count, 2)), _MOST_LAGS)  # beyond, a mean is over few pairs
        found, power = np.ones(lags), np.abs(self.narrow) ** 2
        for lag in range(1, lags):
            together = (self.narrow[:-lag] * self.narrow[lag:].conj()).mean(axis=0)
            both = np.sqrt(power[:-lag].mean(axis=0) * power[lag:].mean(axis=0))  # of the same pairs: at most 1
            found[lag] = float((np.abs(together[both > 0.0]) / both[both > 0.0]).mean())
        return found

    def between_devices(self) -> NDArray[np.float64]:
        """Correlation of the power [dB] of links over snapshots, `[device, device]`; NaN where one never changes."""
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(self.power > 0.0, 10.0 * np.log10(self.power), np.nan)
            level = np.where(np.isfinite(level), level, np.nanmin(level, axis=0))
            return np.atleast_2d(np.corrcoef(level.T))


def channel_statistics(trace: Trace) -> ChannelStatistics:
    """Return the statistics of a trace, of which a block at a time is in memory."""
    shape = (trace.num_snapshots, trace.num_devices)
    power, spread, narrow = np.zeros(shape), np.full(shape, np.nan), np.zeros(shape, np.complex128)
    for block in trace.blocks():
        part = trace.read_block(*block)
        weight = squared(part.a)
        total = weight.sum(axis=(2, 3))
        power[block] = total / trace.num_antennas
        narrow[block] = part.a[:, :, 0].astype(np.complex128).sum(axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (weight * part.tau_s).sum(axis=(2, 3)) / total
            square = (weight * part.tau_s**2).sum(axis=(2, 3)) / total
        spread[block] = np.sqrt(np.maximum(square - mean**2, 0.0))
    return ChannelStatistics(power=power, spread_s=spread, narrow=narrow)


def neighbours_correlate(trace: Trace) -> float:
    """Return |E[h conj(h')]| / E|h|^2 of the narrow band of neighbouring snapshots, over at most 100 pairs of a link.

    1 for a single snapshot.
    """
    together, power = np.zeros(trace.num_devices, np.complex128), np.zeros(trace.num_devices)
    for index in np.unique(np.linspace(0, max(trace.num_snapshots - 2, 0), 100).astype(int)):
        one, two = (trace.read_snapshot(int(at) % trace.num_snapshots) for at in (index, index + 1))
        first, second = (part.a[:, 0].astype(np.complex128).sum(axis=1) for part in (one, two))
        together += first * second.conj()
        power += (np.abs(first) ** 2 + np.abs(second) ** 2) / 2.0
    there = power > 0.0
    return float((np.abs(together[there]) / power[there]).mean()) if there.any() else 1.0
