"""Transmit power control: one level per trial, under the power constraint and the caps.

A device multiplies its symbols by `level * w`, with w its precoding weight per coherence block:

- fixed: w = conj(h^) / |h^|, so `level` is the transmit amplitude;
- inversion: w = 1 / h^, so `level` is the receive amplitude A of all devices;
- truncated inversion: w = 1 / h^ if |h^|^2 reaches the cutoff, else w = 0.

The constraint is Zhang et al. 2022 (10): the average transmit power of each device over its block of
symbols is at most P0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.fading.gains import BlockGains
from phy.numerics.cache import constant

POWER = "power"
"""Name under which the power constraint itself is reported as the active limit."""


@dataclass(frozen=True, kw_only=True)
class AmplitudeDecision:
    """The outcome, per trial.

    - `level` `[num_trials]`: factor on every device's weight, 0 where all devices are silent;
    - `amplitude` `[num_trials]`: mean receive amplitude A per unit of payload, 0 where all are silent;
    - `peak_amplitude` `[num_trials]`: amplitude at which the strongest device really arrives, channel
      estimation error included: what privacy must answer for;
    - `limit` `[num_trials]`: index into `limit_names` of the constraint that holds the level down, -1
      where all are silent;
    - `active` `[num_trials, num_devices]`: devices that transmit at all.
    """

    level: NDArray[np.float64]
    amplitude: NDArray[np.float64]
    peak_amplitude: NDArray[np.float64]
    limit: NDArray[np.int64]
    limit_names: tuple[str, ...]
    active: NDArray[np.bool_]

    def of(self, devices: slice) -> AmplitudeDecision:
        """Return the decision for a subset of the devices; for all devices, the decision itself."""
        count = self.active.shape[1]
        if devices.indices(count) == (0, count, 1):
            return self
        return replace(self, active=self.active[:, devices])


def decide_amplitude(
    gains: BlockGains, *, max_power: float, payload_power: float, caps: Mapping[str, ArrayLike]
) -> AmplitudeDecision:
    """The largest level that the power constraint of every active device and every cap admit.

    `max_power` is P0 [W], `payload_power` the largest mean power of a payload symbol before weighting
    (1 for unit-energy constellations, l^2 for amplitudes bounded by l). `caps` maps a name to the
    largest receive amplitude A it admits, a number or one per trial; infinity does not bind. Raises
    ValueError for a cap that is negative or not a number.
    """
    active = gains.active_symbols > 0
    any_active = active.any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        own_level = np.where(active, np.sqrt(max_power / (payload_power * gains.weight_power)), np.inf)
        mean_gain = np.where(
            any_active, gains.gain_sum.sum(axis=1) / np.maximum(gains.active_symbols.sum(axis=1), 1), 0.0
        )
        peak = np.where(active, gains.gain_peak, 0.0).max(axis=1)
    limits = [own_level.min(axis=1)]
    for name, cap in caps.items():
        ceiling = np.broadcast_to(np.asarray(cap, float), any_active.shape)
        if np.isnan(ceiling).any() or (ceiling < 0).any():
            raise ValueError(f"cap {name} on the receive amplitude is {ceiling}; use numbers from 0 to infinity")
        limits.append(ceiling / np.where(peak > 0, peak, 1.0))
    stacked = np.stack(limits)
    level = np.where(any_active, stacked.min(axis=0), 0.0)
    return AmplitudeDecision(
        level=level,
        amplitude=level * mean_gain,
        peak_amplitude=level * np.where(active, gains.arrival_peak, 0.0).max(axis=1),
        limit=np.where(any_active, stacked.argmin(axis=0), -1),
        limit_names=(POWER, *caps),
        active=active,
    )


class PowerControl:
    """`decide_amplitude` of one link; keeps its last decision while neither gains (by identity) nor caps change."""

    def __init__(self, *, max_power: float, payload_power: float = 1.0) -> None:
        self._max_power, self._payload_power = max_power, payload_power
        self._last: tuple[BlockGains, Mapping[str, NDArray[np.float64]], AmplitudeDecision] | None = None

    def __call__(self, gains: BlockGains, caps: Mapping[str, ArrayLike]) -> AmplitudeDecision:
        values = {name: constant(cap) for name, cap in caps.items()}
        if self._last is None or self._last[0] is not gains or not _same(self._last[1], values):
            decision = decide_amplitude(
                gains, max_power=self._max_power, payload_power=self._payload_power, caps=values
            )
            self._last = (gains, values, decision)
        return self._last[2]


def _same(first: Mapping[str, NDArray[np.float64]], second: Mapping[str, NDArray[np.float64]]) -> bool:
    """Return True if names, their order and all values agree."""
    return list(first) == list(second) and all(
        first[name] is second[name] or np.array_equal(first[name], second[name]) for name in first
    )
