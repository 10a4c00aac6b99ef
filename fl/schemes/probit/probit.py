"""PRoBit: one stochastic bit per number, and the maximum-likelihood mean of what was sent. Lan et al.

    c_i = +1 with probability (b_i + delta_i) / (2 b_i), else -1;    theta^_i = (2 N_i - M) / M b_i

for N_i ones among M devices. Here devices have shares w_k, and bits are flipped on the way, so that

    theta^_i = sum_k w_k b_k c_ki / f_k,    f_k = 1 - 2 p_k what flips leave of a bit's mean,

which is unbiased for the weighted mean of |delta_i| <= b. Where b comes from, and what it promises, is told in
`fl.schemes.probit.probit_bound`; how good the estimate is, in `fl.schemes.probit.probit_theory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.config.scheme import ProbitScheme
from fl.schemes.base import Senders, aggregated, checked_updates
from fl.schemes.probit.probit_bound import BoundForm, adapted_bound, dp_bound, privacy_loss
from fl.schemes.stochastic_bits import SignAggregator, SignSums, stochastic_bits
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

__all__ = ["Probit", "build_probit", "dp_bound", "first_bound", "probit_problem"]

_VALUES_AT_ONCE = 1 << 20
_SAFE = 1.0 - 2.0**-20
"""Rounding must not leave an update longer than it was clipped to."""


@dataclass(frozen=True, kw_only=True)
class Probit:
    """A `fl.schemes.base.Scheme` for one round; the next round's is `after` it. The bit 1 stands for +1.

    - `b`: of this round, what an observer meets: over a channel whose flips are credited devices send with less;
    - `clip`: every entry is cut to +-clip; `l1_clip`: then the update is scaled down to this l1 norm; beyond b entries
      become certain bits;
    - `epsilon`: of one device and round, kept by b alone: no randomized response; None: nothing is promised;
    - `largest` b of the adaptive rule; None: b stays;
    - `flip_rate` `[K]`: credited to the channel of this round's devices, see `over_channel`.

    Raises LearningError for an epsilon without `l1_clip`, and for b below what epsilon asks for.
    """

    num_values: int
    b: float
    clip: float | None = None
    epsilon: float | None = None
    l1_clip: float | None = None
    form: BoundForm = "printed"
    largest: float | None = None
    flip_rate: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.b) and self.b > 0.0):
            raise LearningError(f"b is {self.b}, with which no probability can be formed; give it above 0")
        problem = _bound_problem(self.b, self._needed())
        if problem is not None:
            raise LearningError(problem)

    @property
    def num_bits(self) -> int:
        """See `Scheme`: one per number."""
        return self.num_values

    @property
    def in_blocks(self) -> bool:
        """See `Scheme`."""
        return True

    @property
    def flip_target(self) -> None:
        """See `Scheme`: b gives privacy, so no bit must be flipped."""
        return None

    @property
    def exact_epsilon(self) -> float | None:
        """What one round really spends at most, by `probit_bound.privacy_loss`; None without `l1_clip`."""
        if self.l1_clip is None:
            return None
        return privacy_loss(self.b, l1_clip=self.l1_clip, clip=self.clip, num_values=self.num_values)

    def over_channel(self, flip_rate: NDArray[np.float64]) -> Probit:
        """The same round where the bits of its devices are surely flipped with `flip_rate` `[K]` at least.

        Device k then sends with b_k = max(D, (1 - 2 p_k) b): an observer meets b all the same, or more. Take the lower
        confidence limit of min(p_C, 1 - p_C), the devices in the order of `encode`. Without epsilon nothing changes.
        """
        rate = np.asarray(flip_rate, np.float64)
        if not np.all((rate >= 0.0) & (rate <= 0.5)):
            raise LearningError(f"a flip rate of {flip_rate!r} is not within 0 to 1/2; credit min(p, 1 - p)")
        return replace(self, flip_rate=rate)

    def device_bounds(self, count: int) -> NDArray[np.float64]:
        """b_k `[K]` of the `count` devices of this round."""
        bounds = np.full(count, self.b)
        if self.flip_rate is None or self.epsilon is None:
            return bounds
        if self.flip_rate.shape != (count,):
            raise LearningError(
                f"{count} devices send, and {self.flip_rate.size} channels are credited; give one rate per device"
            )
        return np.asarray(np.maximum(self._entry_limit(), (1.0 - 2.0 * self.flip_rate) * bounds))

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Scheme.encode`; draws from `Purpose.ROUNDING`."""
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        bounds, limit = self.device_bounds(len(devices)), self._entry_limit()
        shrink = self._shrink(updates)
        packed = stochastic_bits(
            updates,
            slope=shrink / bounds,
            ceiling=np.minimum(limit * shrink / bounds, 1.0),
            key=context.keys(Purpose.ROUNDING)[0],
            devices=devices,
        )
        return packed[None]

    def aggregate(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Scheme.aggregate`; `factor` is kept above `SMALLEST_DEBIAS_FACTOR`."""
        return aggregated(self, payload, senders)

    def aggregator(self, senders: Senders) -> SignAggregator:
        """See `Scheme.aggregator`."""
        sums = SignSums(num_values=self.num_values, weights=senders.weights, worth=self._worth(senders.factor))
        return SignAggregator(sums, lambda mean: mean.astype(np.float32))

    def of(self, rows: slice) -> Probit:
        """The same round, told of some of its devices alone."""
        return self if self.flip_rate is None else replace(self, flip_rate=self.flip_rate[rows])

    def _worth(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.device_bounds(len(factor)) / np.maximum(factor, SMALLEST_DEBIAS_FACTOR))

    def after(
        self,
        estimate: NDArray[np.floating[Any]],
        *,
        weights: NDArray[np.float64],
        factor: NDArray[np.float64],
        known: NDArray[np.bool_] | None = None,
        arrived: NDArray[np.float64] | None = None,
    ) -> Probit:
        """The scheme of the next round, once the server has told its `estimate` `[M]`, arguments as in `aggregate`.

        b stays, or follows `probit_bound.adapted_bound` and is raised to what epsilon asks for. Losses count by the
        share of each device's bits that arrived, `arrived` `[K]` where `known` is not at hand. Of a single device's
        bits nothing can be learnt: b stays.
        """
        fresh = replace(self, flip_rate=None)
        if self.largest is None:
            return fresh
        shares = weights if known is None else weights * known.mean(axis=1)
        shares = shares if arrived is None else weights * arrived
        if np.count_nonzero(shares) < 2:
            return fresh
        worth = self._worth(factor)
        # An entry of which a share q_k arrived has sum_k q_k w_k^2 a_k^2 / (sum_k q_k w_k)^2, nearly.
        noise_power = float((weights * shares * worth**2).sum() / shares.sum() ** 2)
        b = adapted_bound(estimate, b=self.b, noise_power=noise_power, largest=self.largest)
        return replace(fresh, b=max(b, self._needed()))

    def _needed(self) -> float:
        if self.epsilon is None:
            return 0.0
        return needed_bound(self.epsilon, self.l1_clip, self.clip, form=self.form, num_values=self.num_values)

    def _entry_limit(self) -> float:
        """D: no entry is larger than this after clipping; b where nothing else is asked for."""
        return min(limit for limit in (self.b, self.clip, self.l1_clip) if limit is not None)

    def _shrink(self, updates: NDArray[np.float32]) -> NDArray[np.float64]:
        """min(1, C / ||delta||_1) of updates cut to +-clip, `[K]`."""
        if self.l1_clip is None:
            return np.ones(len(updates))
        norms = np.zeros(len(updates))
        for rows, columns in _parts(*updates.shape):
            sizes = np.abs(updates[rows, columns])
            if self.clip is not None:
                np.minimum(sizes, np.float32(self.clip), out=sizes)
            norms[rows] += sizes.sum(axis=1, dtype=np.float64)
        limit = self.l1_clip * _SAFE
        return np.minimum(1.0, np.divide(limit, norms, out=np.ones_like(norms), where=norms > limit))


def needed_bound(
    epsilon: float, l1_clip: float | None, clip: float | None, *, form: BoundForm, num_values: int | None
) -> float:
    """`dp_bound` without a channel. Raises LearningError where the sensitivity is not bounded."""
    if l1_clip is None:
        raise LearningError("epsilon promises nothing for updates of any length; set l1_clip")
    return float(dp_bound(epsilon=epsilon, l1_clip=l1_clip, clip=clip, form=form, num_values=num_values))


def probit_problem(config: ProbitScheme, *, num_values: int | None) -> str | None:
    """One sentence if the fixed b of `config` is below what its epsilon asks for, else None.

    `num_values` M matters to the `exact` form; None: any number of them.
    """
    if config.bound != "fixed" or config.epsilon is None:
        return None
    return _bound_problem(config.b, _asked_for(config, num_values=num_values))


def first_bound(config: ProbitScheme, *, num_values: int | None) -> float:
    """b of the first round, `num_values` as for `probit_problem`.

    The one given (`fixed`), or `clip`, or the largest that the adaptive rule may take; the latter two are raised to
    what epsilon asks for.
    """
    start = config.b if config.clip is None else config.clip
    return start if config.bound == "fixed" else max(start, _asked_for(config, num_values=num_values))


def build_probit(config: ProbitScheme, *, num_values: int) -> Probit:
    """PRoBit of the first round for models of `num_values` numbers, with b = `first_bound`.

    Raises LearningError as `Probit` does, so for a fixed b that is too small for epsilon.
    """
    start = first_bound(config, num_values=num_values)
    return Probit(
        num_values=num_values,
        b=start,
        clip=config.clip,
        epsilon=config.epsilon,
        l1_clip=config.l1_clip,
        form=config.form,
        largest=start if config.bound == "adaptive" else None,
    )


def _asked_for(config: ProbitScheme, *, num_values: int | None) -> float:
    if config.epsilon is None:
        return 0.0
    return needed_bound(config.epsilon, config.l1_clip, config.clip, form=config.form, num_values=num_values)


def _bound_problem(b: float, needed: float) -> str | None:
    if b >= needed * (1.0 - 1e-9):
        return None
    return (
        f"b {b:g} is below {needed:.6g}, which (epsilon, 0)-DP asks for; raise b to that, lower l1_clip, or write "
        "bound: adaptive, which raises b itself"
    )


def _parts(count: int, num_values: int) -> Iterator[tuple[slice, slice]]:
    width = min(max(num_values, 1), _VALUES_AT_ONCE)
    height = max(_VALUES_AT_ONCE // width, 1)
    for top in range(0, count, height):
        for first in range(0, num_values, width):
            yield slice(top, top + height), slice(first, first + width)
