"""PRoBit: one stochastic bit per number, and the maximum-likelihood mean of what was sent. Lan et al.

    c_i = +1 with probability (b_i + delta_i) / (2 b_i), else -1;    theta^_i = (2 N_i - M) / M b_i

for N_i ones among M devices. Here devices have shares w_k, and bits are flipped on the way, so that

    theta^_i = sum_k w_k b_k c_ki / f_k,    f_k = 1 - 2 p_k what flips leave of a bit's mean,

which is unbiased for the weighted mean of |delta_i| <= b. The b that an epsilon asks for: `privacy.mechanisms.probit`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fl.base.arrays import F32, F64, I64, U8, Reals
from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.coders.coder import Coder, Known, Senders, checked_updates
from fl.schemes.coders.stochastic_bits import SignSums, received_signs, stochastic_bits
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.schemes.probit.scheme import ProbitScheme

NOISE_TO_SIGNAL = 4.0
"""rho of the adaptive rule."""

SMALLEST_SHARE = 2.0**-10
"""How far below its largest value the adaptive b may come."""

_SAFE = 1.0 - 2.0**-20
"""Rounding must not leave an update longer than it was clipped to."""


class Probit(Coder):
    """PRoBit at the bound `b`, which may change from round to round. The bit 1 stands for +1.

    With channel `native` and an epsilon, device k, whose bits are flipped with p_k at least, sends with
    b_k = max(D, (1 - 2 p_k) b). Every entry is cut to +-clip, then the update is scaled down to the l1 norm `l1_clip`;
    beyond b entries become certain bits.
    """

    kept = ("_next_b",)

    def __init__(self, config: ProbitScheme, *, num_values: int, b: float | None = None) -> None:
        self.config, self.num_values = config, num_values
        self.first = self.b = config.first_bound(num_values) if b is None else b
        self._next_b = np.array(self.b)
        self._devices, self._flip_rate = np.zeros(0, np.int64), np.zeros(0)

    def begin(self, context: UplinkContext, *, devices: I64, flip_rate: F64) -> None:
        """See `Coder.begin`. `flip_rate`: the lower confidence limits of min(p_C, 1 - p_C)."""
        native = self.config.channel == "native" and self.config.epsilon is not None
        self.b, self._devices, self._flip_rate = float(self._next_b), devices[: len(devices) * native], flip_rate

    def device_bounds(self, devices: I64) -> F64:
        """b_k `[K]` of some devices of this round."""
        bounds = np.full(len(devices), self.b)
        if not len(self._devices):
            return bounds
        flip_rate = self._flip_rate[np.searchsorted(self._devices, devices)]
        return np.asarray(np.maximum(self._entry_limit(), (1.0 - 2.0 * flip_rate) * bounds))

    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        """See `Coder.encode`; draws from `Purpose.ROUNDING`."""
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        bounds, shrink = self.device_bounds(devices), self._shrink(updates)
        packed = stochastic_bits(
            updates,
            slope=shrink / bounds,
            ceiling=np.minimum(self._entry_limit() * shrink / bounds, 1.0),
            key=context.keys(Purpose.ROUNDING)[0],
            devices=devices,
        )
        return packed[None]

    def gather(self, senders: Senders) -> SignSums:
        """See `Coder.gather`; `factor` is kept above `SMALLEST_DEBIAS_FACTOR`. The next b follows from the update."""
        return _Sums(self, senders)

    def read(self, payload: U8, senders: Senders) -> F32:
        """See `Coder.read`: signs times b_k."""
        signs = received_signs(payload, senders, num_bits=self.num_values)
        return np.asarray(signs * self.device_bounds(senders.devices)[:, None], np.float32)

    def of_votes(self, mean: F64, senders: Senders, *, noise_power: float) -> F32:
        """See `Coder.of_votes`; the next b follows from the update, whose noise is also the receiver's."""
        worth = float(self.worth(senders).mean())
        estimate = np.asarray(worth * mean, np.float32)
        self.learn(estimate, senders, arrived=np.ones(len(senders.devices)), more_noise=worth**2 * noise_power)
        return estimate

    def metrics(self) -> Mapping[str, float]:
        return {"b": self.b}

    def worth(self, senders: Senders) -> F64:
        """b_k / f_k `[K]`: what a bit as +-1 adds to the estimate."""
        return np.asarray(self.device_bounds(senders.devices) / np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR))

    def learn(self, estimate: Reals, senders: Senders, *, arrived: F64, more_noise: float = 0.0) -> None:
        """Find b of the next round from the `estimate` `[M]` that the server has made public.

        b stays, or follows `adapted_bound` and is raised to what epsilon asks for. Losses count by the share of each
        device's bits that `arrived` `[K]`. Of a single device's bits nothing can be learnt: b stays. `more_noise`:
        variance of an entry of the estimate for reasons other than random bits.
        """
        weights, shares = senders.weights, senders.weights * arrived
        if self.config.bound != "adaptive" or np.count_nonzero(shares) < 2:
            return
        # An entry of which a share q_k arrived has sum_k q_k w_k^2 a_k^2 / (sum_k q_k w_k)^2, nearly.
        noise_power = float((weights * shares * self.worth(senders) ** 2).sum() / shares.sum() ** 2) + more_noise
        b = adapted_bound(estimate, b=self.b, noise_power=noise_power, largest=self.first)
        self._next_b = np.array(max(b, self.config.needed_bound(self.num_values)))

    def _entry_limit(self) -> float:
        """D: no entry is larger than this after clipping; b where nothing else is asked for."""
        return min(limit for limit in (self.b, self.config.clip, self.config.l1_clip) if limit is not None)

    def _shrink(self, updates: F32) -> F64:
        """min(1, C / ||delta||_1) of updates cut to +-clip, `[K]`."""
        if self.config.l1_clip is None:
            return np.ones(len(updates))
        sizes = np.abs(updates)
        if self.config.clip is not None:
            np.minimum(sizes, np.float32(self.config.clip), out=sizes)
        norms = sizes.sum(axis=1, dtype=np.float64)
        limit = self.config.l1_clip * _SAFE
        return np.asarray(np.minimum(1.0, np.divide(limit, norms, out=np.ones_like(norms), where=norms > limit)))


class _Sums(SignSums):
    """The weighted mean of b_k c_k / f_k, from which the coder learns."""

    def __init__(self, coder: Probit, senders: Senders) -> None:
        super().__init__(num_values=coder.num_values, weights=senders.weights, worth=coder.worth(senders))
        self._coder, self._senders = coder, senders
        self._arrived: list[F64] = []

    def add(self, payload: U8, *, known: Known) -> None:
        self._arrived.append(np.ones(payload.shape[1]) if known is None else known.mean(axis=1))
        super().add(payload, known=known)

    def update(self) -> F32:
        estimate = super().update()
        self._coder.learn(estimate, self._senders, arrived=np.concatenate(self._arrived))
        return estimate


def adapted_bound(estimate: Reals, *, b: float, noise_power: float, largest: float) -> float:
    """b of the next round from the update `estimate` `[M]` that the server has just made public; our own rule.

        s^2 = max(mean_i theta^_i^2 - v, v sqrt(2 / M)),    b_{t+1} = b_t rho s / sqrt(v),
        kept within b_t / 2 .. 2 b_t and within b_0 / 1024 .. b_0

    v = `noise_power` is the variance of one entry of the estimate for delta = 0: b^2 / K with equal shares. s^2 is the
    power of the mean update, at least its standard error v sqrt(2 / M), and b_{t+1} makes the noise of an entry rho = 4
    times its signal. Estimate and v follow from the bits, so that the bits keep their (eps, 0)-DP.

    With a constant b the noise b^2 / K does not shrink with the updates. With a b below the updates of single devices
    bits become bare signs, whose mean is biased, and bits do not tell how large these updates are. Hence b is as large
    as noise allows. b_0 = `largest` limits the influence of a share beta of attackers to 2 beta b_0.
    """
    power = float(np.mean(np.square(estimate, dtype=np.float64)))
    unclear = noise_power * math.sqrt(2.0 / estimate.size)
    wanted = b * NOISE_TO_SIGNAL * math.sqrt(max(power - noise_power, unclear) / noise_power)
    wanted = min(max(wanted, 0.5 * b), 2.0 * b)
    return min(max(wanted, SMALLEST_SHARE * largest), largest)
