"""Transmit power control: one level per trial, under the power constraint and the caps.

A device multiplies its symbols by `level * w`, with w its precoding weight per coherence block:

- fixed: w = conj(h^) / |h^|, so `level` is the transmit amplitude;
- inversion: w = 1 / h^, so `level` is the receive amplitude A of all devices;
- truncated inversion: w = 1 / h^ if |h^|^2 reaches the cutoff, else w = 0;
- mse-optimal: as inversion, but devices that do not reach the level send at full power.

P0 is that of the strongest device; unequal powers are part of the gains, see `phy.config.levels`.

The constraint is Zhang et al. 2022 (10): the average transmit power of each device over its block of
symbols is at most P0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import LinkConfig
from phy.config.levels import sent_watts
from phy.config.power import PowerPolicy, Sums
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
    - `active` `[num_trials, num_devices]`: devices that transmit at all;
    - `clipped` `[num_trials, num_devices]`: transmit amplitude of devices that do not reach the level, 0 for others;
      None: all reach it;
    - `arrival` `[num_trials, num_devices]`: mean receive amplitude of each active device, as the device knows it; None
      without a radio;
    - `mmse_scale` `[num_trials]`: the divisor of a sum with the smallest mean square error; None: it is A.
    """

    level: NDArray[np.float64]
    amplitude: NDArray[np.float64]
    peak_amplitude: NDArray[np.float64]
    limit: NDArray[np.int64]
    limit_names: tuple[str, ...]
    active: NDArray[np.bool_]
    clipped: NDArray[np.float64] | None = None
    arrival: NDArray[np.float64] | None = None
    mmse_scale: NDArray[np.float64] | None = None

    @property
    def scale(self) -> NDArray[np.float64]:
        """What the receiver of a sum divides it by, `[num_trials]`."""
        return self.amplitude if self.mmse_scale is None else self.mmse_scale

    def of(self, devices: slice) -> AmplitudeDecision:
        """Return the decision for a subset of the devices; for all devices, the decision itself."""
        count = self.active.shape[1]
        if devices.indices(count) == (0, count, 1):
            return self
        return replace(self, active=self.active[:, devices])


def decide_amplitude(
    gains: BlockGains,
    *,
    max_power: float | NDArray[np.float64],
    payload_power: float,
    caps: Mapping[str, ArrayLike],
    policy: PowerPolicy | None = None,
    sums: Sums | None = None,
) -> AmplitudeDecision:
    """The largest level that the power constraint of every active device and every cap admit.

    `max_power` is P0 [W], for all or `[num_trials, num_devices]`, `payload_power` the largest mean power of a payload
    symbol before weighting (1 for unit-energy constellations, l^2 for amplitudes bounded by l). `caps` maps a name to
    the largest receive amplitude A it admits, a number or one per trial; infinity does not bind. A `policy` chooses the
    level in place of the power constraint, see `PowerPolicy.level`. Raises ValueError for a cap that is negative or not
    a number.
    """
    active = gains.active_symbols > 0
    any_active = active.any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        own_level = np.where(active, np.sqrt(max_power / (payload_power * gains.weight_power)), np.inf)
        mean_gain = np.where(
            any_active, gains.gain_sum.sum(axis=1) / np.maximum(gains.active_symbols.sum(axis=1), 1), 0.0
        )
        peak = np.where(active, gains.gain_peak, 0.0).max(axis=1)
    limits = [own_level.min(axis=1) if policy is None else policy.level(own_level, sums)]
    for name, cap in caps.items():
        ceiling = np.broadcast_to(np.asarray(cap, float), any_active.shape)
        if np.isnan(ceiling).any() or (ceiling < 0).any():
            raise ValueError(f"cap {name} on the receive amplitude is {ceiling}; use numbers from 0 to infinity")
        limits.append(ceiling / np.where(peak > 0, peak, 1.0))
    stacked = np.stack(limits)
    level = np.where(any_active, stacked.min(axis=0), 0.0)
    decision = AmplitudeDecision(
        level=level,
        amplitude=level * mean_gain,
        peak_amplitude=level * np.where(active, gains.arrival_peak, 0.0).max(axis=1),
        limit=np.where(any_active, stacked.argmin(axis=0), -1),
        limit_names=(POWER, *caps),
        active=active,
        arrival=level[:, None] * gains.gain_sum / np.maximum(gains.active_symbols, 1),
    )
    return decision if policy is None else _clipped(decision, gains, own_level, np.asarray(max_power / payload_power))


def _clipped(
    decision: AmplitudeDecision,
    gains: BlockGains,
    own_level: NDArray[np.float64],
    full_power: NDArray[np.float64],
) -> AmplitudeDecision:
    """The decision with devices that do not reach the level at their own, which is that of `full_power`."""
    active, below = decision.active, own_level < decision.level[:, None]
    reached = np.where(active, np.minimum(own_level, decision.level[:, None]), 0.0)
    return replace(
        decision,
        amplitude=(reached * gains.gain_sum).sum(axis=1) / np.maximum(gains.active_symbols.sum(axis=1), 1),
        peak_amplitude=(reached * gains.arrival_peak).max(axis=1),
        clipped=np.where(active & below, np.sqrt(full_power), 0.0),
        arrival=reached * gains.gain_sum / np.maximum(gains.active_symbols, 1),
    )


def decide_sum(
    link: LinkConfig,
    gains: BlockGains,
    payload: NDArray[Any],
    *,
    payload_power: float,
    caps: Mapping[str, ArrayLike],
    max_power: NDArray[np.float64] | None,
) -> AmplitudeDecision:
    """Power control of a sum over the air that depends on its payload; arguments as of `AirUplink.superpose`.

    Policy mse-optimal, and a limit `max_power`, act on the power that is really sent. All others let nobody exceed P0
    at payloads of `payload_power`. With scaling mmse, devices of payload power p_k arrive at a_k and the divisor is

        c = (sum_k p_k a_k^2 + sigma^2) / sum_k p_k a_k,

    which minimises sum_k p_k (a_k / c - 1)^2 + sigma^2 / c^2.
    """
    control, power = link.control, mean_power(payload)
    sums = Sums(payload_power=power, noise_power=(2.0 if payload.dtype.kind == "c" else 1.0) * link.channel.noise_power)
    if control.clips or max_power is not None:
        limit: float | NDArray[np.float64] = link.max_power
        if max_power is not None:
            limit = np.minimum(max_power / sent_watts(link, max_power.shape[1]), limit)
        allowed = limit / np.maximum(power, np.finfo(float).tiny)
        most = allowed if control.clips else np.minimum(allowed, link.max_power / payload_power)
        decision = decide_amplitude(gains, max_power=most, payload_power=1.0, caps=caps, policy=control, sums=sums)
    else:
        decision = decide_amplitude(gains, max_power=link.max_power, payload_power=payload_power, caps=caps)
    return replace(decision, mmse_scale=mmse_scale(decision, sums)) if link.mmse_scaling else decision


def depends_on_payload(link: LinkConfig) -> bool:
    """True if power control of a sum depends on its payload, as it does under a limit `max_power`: see `decide_sum`."""
    return link.mmse_scaling or link.control.clips


def mmse_scale(decision: AmplitudeDecision, sums: Sums) -> NDArray[np.float64]:
    """c of `decide_sum`, `[num_trials]`; 0 where all are silent."""
    assert decision.arrival is not None
    reached = (sums.payload_power * decision.arrival).sum(axis=1)
    squares = (sums.payload_power * decision.arrival**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(reached > 0.0, (squares + sums.noise_power) / reached, 0.0)


def mean_power(payload: NDArray[Any]) -> NDArray[np.float64]:
    """Mean power of a payload symbol `[num_trials, num_devices]`; 1 for packed bits."""
    if payload.dtype == np.uint8:
        return np.ones(payload.shape[:2])
    parts = payload.view(payload.real.dtype) if payload.dtype.kind == "c" else payload
    return np.asarray(np.einsum("tks,tks->tk", parts, parts, dtype=np.float64) / payload.shape[2])


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
