"""Dispersion of a recorded channel: power over delay of every device, spread over angles, correlation of antennas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phy.traces.trace import Snapshot, Trace

_MOST_SNAPSHOTS = 100
_BINS = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Dispersion:
    """Where the power of links comes from, over at most 100 snapshots.

    - `delays_s` `[bins]`: begin of each bin behind the first path, `profiles` `[device, bins]`: power, of sum 1;
    - `angular_spread_deg` `[snapshots, device]`: sqrt(-2 ln |sum P exp(j azimuth)| / sum P) at the server (3GPP TR
      38.901, A-1), NaN without power; None if the file holds no `azimuth_deg`;
    - `antennas` `[rx_antenna, rx_antenna]`: |E h_m conj(h_n)| of a narrow band over its mean power, mean over devices.
    """

    delays_s: NDArray[np.float64]
    profiles: NDArray[np.float64]
    angular_spread_deg: NDArray[np.float64] | None
    antennas: NDArray[np.float64]

    def over_frequency(self, offsets_hz: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the correlation of two carriers so far apart, `[device, offsets]`: the magnitude of the Fourier
        transform of the power over delay, for scattering that is not correlated between delays (Bello 1963)."""
        middle = self.delays_s + 0.5 * (self.delays_s[1] - self.delays_s[0])
        return np.asarray(np.abs(self.profiles @ np.exp(-2j * np.pi * np.outer(middle, offsets_hz))))


def channel_dispersion(trace: Trace) -> Dispersion:
    """Return the dispersion of a trace, of which one snapshot at a time is in memory."""
    some = np.unique(np.linspace(0, trace.num_snapshots - 1, min(trace.num_snapshots, _MOST_SNAPSHOTS)).astype(int))
    last = max(float(one.tau_s[_heard(one)].max(initial=0.0)) for one in _read(trace, some))
    step = max(last, 1e-12) * (1.0 + 1e-9) / _BINS
    profiles = np.zeros((trace.num_devices, _BINS))
    spreads: list[NDArray[np.float64]] = []
    products = np.zeros((trace.num_devices, trace.num_antennas, trace.num_antennas), np.complex128)
    for index, part in zip(some.tolist(), _read(trace, some), strict=True):
        weight = np.abs(part.a.astype(np.complex128)) ** 2
        at = np.broadcast_to(np.minimum((part.tau_s / step).astype(np.int64), _BINS - 1), weight.shape)
        place = at + _BINS * np.arange(trace.num_devices)[:, None, None]
        profiles += np.bincount(place.ravel(), weight.ravel(), profiles.size).reshape(profiles.shape)
        narrow = part.a.astype(np.complex128).sum(axis=2)
        products += narrow[:, :, None] * narrow[:, None].conj()
        if "azimuth_deg" in trace.arrays.shapes and not trace.has_taps:
            spreads.append(_angular_spread_deg(weight.sum(axis=1), trace.arrays.read("azimuth_deg", index)))
    total = profiles.sum(axis=1, keepdims=True)
    power = np.sqrt(np.einsum("dmm->dm", products).real)
    both = power[:, :, None] * power[:, None]
    there = both.min(axis=(1, 2)) > 0.0
    return Dispersion(
        delays_s=step * np.arange(_BINS, dtype=np.float64),
        profiles=profiles / np.where(total > 0.0, total, 1.0),
        angular_spread_deg=np.stack(spreads) if spreads else None,
        antennas=(np.abs(products[there]) / both[there]).mean(axis=0) if there.any() else np.eye(trace.num_antennas),
    )


def _read(trace: Trace, snapshots: NDArray[np.int64]) -> Iterator[Snapshot]:
    return (trace.read_snapshot(int(one)) for one in snapshots)


def _heard(one: Snapshot) -> NDArray[np.bool_]:
    """Which delays are of a path with power."""
    sent = one.a != 0.0
    return np.asarray(sent if sent.shape == one.tau_s.shape else sent.any(axis=1, keepdims=True))


def _angular_spread_deg(power: NDArray[np.float64], azimuth_deg: NDArray[np.floating]) -> NDArray[np.float64]:
    turned = np.exp(1j * np.deg2rad(np.nan_to_num(azimuth_deg.astype(np.float64))))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.abs((power * turned).sum(axis=1)) / power.sum(axis=1)
        return np.asarray(np.rad2deg(np.sqrt(-2.0 * np.log(np.minimum(share, 1.0)))))


def falls_below(values: NDArray[np.float64], level: float) -> float | None:
    """Return where a curve first falls below a level, in steps of its axis, between two by a straight line; None if it
    never does."""
    below = np.flatnonzero(values < level)
    if not len(below):
        return None
    end = int(below[0])
    if end == 0:
        return 0.0
    return end - 1 + float((values[end - 1] - level) / (values[end - 1] - values[end]))
