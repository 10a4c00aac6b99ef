"""Windows of an OFDM receiver over waveforms in continuous time: motion within a window, and paths beyond the prefix.

Prefix included, OFDM symbol t of N carriers X_t(c) is a function of the time n [samples] since the end of its prefix,

    s_t(n) = 1 / sqrt(N) sum_c X_t(c) exp(2 pi i c n / N),   -CP <= n < N,

and the next one follows N + CP samples later. A path tau samples late arrives as s_t(n - tau), on every carrier a turn:
no pulse is cut and no path moved to a sample. Hence, with H_t(c, n) = sum_p a_p(n) exp(-2 pi i c tau_p / N),

    y_t[n] = sum_c H_t(c, n) X_t(c) exp(2 pi i c n / N) / sqrt(N)
             + sum_p [n < e_p] a_p(n) (s_(t-1)(n - tau_p + N + CP) - s_t(n - tau_p)).

The second line is all that a short prefix costs: the first e_p = tau_p - CP samples of a late path are those of the
symbol before. Without late paths and motion the first line is the product of the frequency domain.

Sample clocks of device and server have no common phase: a late path misses floor(e_p + u) samples, u uniform on [0, 1)
per packet, which are e_p in the mean. The mean interference is thus the closed form sum_p 2 p_p min(e_p / N, 1) of
`y - H x`, at any delay. A path more than a symbol late brings the symbol before, not those before it.

Gains within a window follow from a few instants of the symbol, the middle of the window among them, by polynomials:

    a_p(n) = a_p(middle) + sum_(q != middle) L_q(n) (a_p(q) - a_p(middle)),

which err by at most 2^-14 of the amplitude of a path (-84 dB) at the largest Doppler shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phy.config.ofdm import ON_GRID, OfdmConfig

CLOCK_DRAW = 3
"""Number of the draw of u among those of a transmitter's impairments."""
CLOCK_PHASES = 1 << 16
"""u is (k + 1/2) / 2^16: far enough from 0 and 1 that rounding never adds a sample."""

_LARGEST_ERROR = 2.0**-14
_MOST_DEGREES = 8
"""Polynomials of higher degree between equidistant instants amplify rounding; each then holds for the nearest ones."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Numbers of the windows of one channel.

    - `steps`: intervals between the instants of a symbol, an even number, 0 where the channel holds for a symbol;
      `first_s`, `step_s`: the first instant, and the distance of two [s];
    - `between` `[steps + 1, num_subcarriers]`: L_q(n), 1 in all without steps;
    - `late` `[late paths]`: numbers of the paths beyond the prefix, the latest last; `missed`, `part`: e_p as a whole
      number and the rest below 1.
    """

    steps: int
    first_s: float
    step_s: float
    between: NDArray[np.float64]
    late: NDArray[np.int64]
    missed: NDArray[np.int64]
    part: NDArray[np.float32]

    @classmethod
    def of(cls, ofdm: OfdmConfig, *, doppler_hz: float, delays_s: NDArray[np.float64]) -> Windows:
        """Windows over paths at `delays_s` that turn by up to `doppler_hz`, 0 for those that hold for a symbol."""
        size = ofdm.num_subcarriers
        beyond = delays_s / ofdm.sample_s - ofdm.cyclic_prefix_length
        order = np.argsort(delays_s, kind="stable")
        late = order[beyond[order] > ON_GRID]
        whole = np.floor(beyond[late] + ON_GRID)
        steps, between = 0, np.ones((1, size))
        if doppler_hz:
            turn = 2.0 * np.pi * doppler_hz * ofdm.sample_s
            steps, between = _between(size, size + ofdm.cyclic_prefix_length, turn=turn)
        return cls(
            steps=steps,
            first_s=0.5 * ofdm.prefix_s,
            step_s=ofdm.symbol_s / max(steps, 1),
            between=between,
            late=late,
            missed=np.minimum(whole, size).astype(np.int64),
            part=np.where(whole < size, np.maximum(beyond[late] - whole, 0.0), 0.0).astype(np.float32),
        )

    @property
    def exact_on_carriers(self) -> bool:
        """True if a channel that multiplies every carrier is all there is."""
        return not self.steps and not len(self.late)

    def instants_s(self, num_symbols: int) -> NDArray[np.float64]:
        """Instants of `num_symbols` OFDM symbols, `[steps * num_symbols + 1]`: neighbours share one."""
        return np.asarray(self.first_s + np.arange(self.steps * num_symbols + 1) * self.step_s, float)


def _between(size: int, each: int, *, turn: float) -> tuple[int, NDArray[np.float64]]:
    """(steps, L `[steps + 1, size]`) for waves that turn by at most `turn` [rad] per sample, `each` samples a symbol.

    Over n instants t_j a wave of frequency f errs by at most |2 pi f|^n / n! max_t prod_j |t - t_j|; see
    `phy.engines.fused.fading.nodes`.
    """
    at, steps = np.arange(size), 0
    while True:
        steps += 2
        instants = size / 2.0 + (np.arange(steps + 1) / steps - 0.5) * each
        count = min(steps, _MOST_DEGREES) + 1
        nearest = np.rint((at - instants[0]) / (each / steps)).astype(np.int64) - count // 2
        first = np.clip(nearest, 0, steps + 1 - count)
        distances = at[:, None] - instants[first[:, None] + np.arange(count)]
        reach = np.abs(turn * distances).prod(axis=1).max() / math.factorial(count)
        if reach <= _LARGEST_ERROR:
            between = np.zeros((steps + 1, size))
            for j in range(count):
                others = np.delete(np.arange(count), j)
                gaps = (j - others) * (each / steps)
                between[first + j, at] = (distances[:, others] / gaps).prod(axis=1)
            return steps, between
