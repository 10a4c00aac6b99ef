"""Delay line of OFDM in the time domain: pulse of every path, window of the receiver, and instants of a moving channel.

    y[n] = sum_l h_l[n] s[n - l],   h_l(t) = sum_p a_p(t) sinc(l - tau_p W),   W = num_subcarriers * spacing

(Sionna's `cir_to_time_channel` and `ApplyTimeChannel`, with the range of lags of `time_lag_discrete_time_channel`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig
from phy.frontends.air import motion
from phy.frontends.resource_grid import Grid

_SINC_LAGS = 6
"""Lags of the sinc kept on both sides, as in Sionna."""

_TURN_BETWEEN_KNOTS = 0.05
"""Phase [rad] that the fastest path may turn between two instants with linear interpolation in between; the error of
that interpolation is at most its square over 8, 70 dB below the path."""


def pulse(delays_s: NDArray[np.float64], *, bandwidth_hz: float) -> tuple[NDArray[np.float64], int]:
    """(sinc(l - tau_p W) `[paths, lags]`, first lag), without lags at the ends that hold nothing."""
    last = int(np.ceil(delays_s.max() * bandwidth_hz)) + _SINC_LAGS
    lags = np.arange(-_SINC_LAGS, last + 1)
    shape = np.sinc(lags - delays_s[:, None] * bandwidth_hz)
    used = np.flatnonzero(np.abs(shape).max(axis=0) > 1e-9)
    return shape[:, used[0] : used[-1] + 1], int(lags[used[0]])


@dataclass(frozen=True, kw_only=True)
class DelayLine:
    """Numbers of a tapped delay line between the samples of a grid's carriers.

    The receiver opens its window `advance` samples before the end of the prefix: half of what the prefix has left over
    the latest path, at most as early as the first lag of the pulse. It takes the known turn of every carrier back,
    `turned_back` `[num_carriers]`.

    - `pulse` `[paths, lags]` from lag `first_lag` on, `response` `[paths, num_carriers]`: of a carrier to a unit path;
    - `knots`: instants per OFDM symbol with interpolation in between, 0 where the channel does not move.
    """

    pulse: NDArray[np.float64]
    first_lag: int
    advance: int
    response: NDArray[np.complex128]
    turned_back: NDArray[np.complex128]
    knots: int

    @classmethod
    def of(cls, grid: Grid, *, channel: ChannelConfig, delays_s: NDArray[np.float64]) -> DelayLine:
        """Delay line of a channel with paths at `delays_s`."""
        ofdm = grid.ofdm
        size, bins = ofdm.num_subcarriers, grid.carriers - ofdm.num_subcarriers // 2
        bandwidth_hz = size * ofdm.subcarrier_spacing_hz
        shape, first_lag = pulse(delays_s, bandwidth_hz=bandwidth_hz)
        lags = first_lag + np.arange(shape.shape[1])
        latest = int(np.ceil(delays_s.max() * bandwidth_hz))
        advance = int(np.clip((ofdm.cyclic_prefix_length - latest) // 2, 0, max(-first_lag, 0)))
        turn = 2.0 * np.pi * channel.max_doppler_hz * ofdm.symbol_s
        return cls(
            pulse=shape,
            first_lag=first_lag,
            advance=advance,
            response=shape @ np.exp(-2j * np.pi * lags[:, None] * bins / size),
            turned_back=np.exp(2j * np.pi * bins * advance / size),
            knots=max(int(np.ceil(turn / _TURN_BETWEEN_KNOTS)), 1) if motion(channel) == "moving" else 0,
        )
