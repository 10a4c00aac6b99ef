"""PRoBit: one stochastic bit per number, and the maximum-likelihood mean of what was sent. Lan et al.

    c_i = +1 with probability (b_i + delta_i) / (2 b_i), else -1;    theta^_i = (2 N_i - M) / M b_i

for N_i ones among M devices. Here devices have shares w_k, and bits are flipped on the way, so that

    theta^_i = sum_k w_k b_k c_ki / f_k,    f_k = 1 - 2 p_k what flips leave of a bit's mean,

which is unbiased for the weighted mean of |delta_i| <= b. Where b comes from, and what it promises, is told in
`fl.schemes.probit.probit_bound`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.audit.law import FAR, Law
from fl.checkpoints import State
from fl.schemes.coders.coder import Coder, Known, Senders, checked_updates
from fl.schemes.coders.stochastic_bits import SignSums, received_signs, stochastic_bits
from fl.schemes.probit.probit_bound import SMALLEST_SHARE, BoundForm, adapted_bound, dp_bound, privacy_loss
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.config.scheme import ChannelUse
    from fl.schemes.probit.scheme import ProbitScheme

__all__ = ["Probit", "build_probit", "dp_bound", "first_bound", "probit_problem"]

_MOST_ENTRIES = 4096
_VALUES_AT_ONCE = 1 << 20
_SAFE = 1.0 - 2.0**-20
"""Rounding must not leave an update longer than it was clipped to."""


@dataclass(kw_only=True, eq=False)
class Probit(Coder):
    """PRoBit at the bound `b`, which may change from round to round. The bit 1 stands for +1.

    - `b`: of this round, what an observer meets: a device sends with less where channel errors count towards privacy;
    - `clip`: every entry is cut to +-clip; `l1_clip`: then the update is scaled down to this l1 norm; beyond b entries
      become certain bits;
    - `epsilon`: of one device and round, kept by b alone: no randomized response; None: no guarantee;
    - `largest` b of the adaptive rule; None: b stays;
    - `channel`: `native` lets device k, whose bits are flipped with p_k at least, send with
      b_k = max(D, (1 - 2 p_k) b): an observer meets b all the same, or more.

    Raises LearningError for an epsilon without `l1_clip`, and for b below what epsilon asks for.
    """

    num_values: int
    b: float
    clip: float | None = None
    epsilon: float | None = None
    l1_clip: float | None = None
    form: BoundForm = "printed"
    largest: float | None = None
    channel: ChannelUse = "native"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.b) and self.b > 0.0):
            raise LearningError(f"b is {self.b}; b must be positive")
        problem = _bound_problem(self.b, self._needed())
        if problem is not None:
            raise LearningError(problem)
        self._next_b = self.b
        self._devices, self._flip_rate = np.zeros(0, np.int64), np.zeros(0)

    def begin(self, context: UplinkContext, *, devices: NDArray[np.int64], flip_rate: NDArray[np.float64]) -> None:
        """See `Coder.begin`. `flip_rate`: the lower confidence limits of min(p_C, 1 - p_C)."""
        native = self.channel == "native" and self.epsilon is not None
        if native and not np.all((flip_rate >= 0.0) & (flip_rate <= 0.5)):
            raise LearningError(f"a flip rate of {flip_rate!r} is not within 0 to 1/2; count min(p, 1 - p)")
        self.b, self._devices, self._flip_rate = self._next_b, devices[: len(devices) * native], flip_rate

    def device_bounds(self, devices: NDArray[np.int64]) -> NDArray[np.float64]:
        """b_k `[K]` of some devices of this round."""
        bounds = np.full(len(devices), self.b)
        if not len(self._devices):
            return bounds
        at = np.minimum(np.searchsorted(self._devices, devices), len(self._devices) - 1)
        if (self._devices[at] != devices).any():
            raise LearningError("a device sends that did not begin the round; begin it with all senders")
        return np.asarray(np.maximum(self._entry_limit(), (1.0 - 2.0 * self._flip_rate[at]) * bounds))

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Coder.encode`; draws from `Purpose.ROUNDING`."""
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        bounds, limit = self.device_bounds(devices), self._entry_limit()
        shrink = self._shrink(updates)
        packed = stochastic_bits(
            updates,
            slope=shrink / bounds,
            ceiling=np.minimum(limit * shrink / bounds, 1.0),
            key=context.keys(Purpose.ROUNDING)[0],
            devices=devices,
        )
        return packed[None]

    def gather(self, senders: Senders) -> SignSums:
        """See `Coder.gather`; `factor` is kept above `SMALLEST_DEBIAS_FACTOR`. The next b follows from the update."""
        return _Sums(self, senders)

    def read(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Coder.read`: signs times b_k."""
        signs = received_signs(payload, senders, num_bits=self.num_values)
        return np.asarray(signs * self.device_bounds(senders.devices)[:, None], np.float32)

    def metrics(self) -> Mapping[str, float]:
        """See `Coder.metrics`: b of this round."""
        return {"b": self.b}

    def state(self) -> State:
        """See `Coder.state`: b of the next round."""
        return {"b": float(self._next_b)}

    def restore(self, state: State) -> None:
        """See `Coder.restore`."""
        self._next_b = float(state["b"])

    def worth(self, senders: Senders) -> NDArray[np.float64]:
        """b_k / f_k `[K]`: what a bit as +-1 adds to the estimate."""
        return np.asarray(self.device_bounds(senders.devices) / np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR))

    def learn(self, estimate: NDArray[np.floating[Any]], senders: Senders, *, arrived: NDArray[np.float64]) -> None:
        """Find b of the next round from the `estimate` `[M]` that the server has made public.

        b stays, or follows `probit_bound.adapted_bound` and is raised to what epsilon asks for. Losses count by the
        share of each device's bits that `arrived` `[K]`. Of a single device's bits nothing can be learnt: b stays.
        """
        weights, shares = senders.weights, senders.weights * arrived
        if self.largest is None or np.count_nonzero(shares) < 2:
            return
        worth = self.worth(senders)
        # An entry of which a share q_k arrived has sum_k q_k w_k^2 a_k^2 / (sum_k q_k w_k)^2, nearly.
        noise_power = float((weights * shares * worth**2).sum() / shares.sum() ** 2)
        b = adapted_bound(estimate, b=self.b, noise_power=noise_power, largest=self.largest)
        self._next_b = max(b, self._needed())

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


class _Sums(SignSums):
    """The weighted mean of b_k c_k / f_k, from which the coder learns."""

    def __init__(self, coder: Probit, senders: Senders) -> None:
        super().__init__(num_values=coder.num_values, weights=senders.weights, worth=coder.worth(senders))
        self._coder, self._senders = coder, senders
        self._arrived: list[NDArray[np.float64]] = []

    def add(self, payload: NDArray[np.uint8], *, known: Known) -> None:
        """See `Gathering.add`."""
        self._arrived.append(np.ones(payload.shape[1]) if known is None else known.mean(axis=1))
        super().add(payload, known=known)

    def update(self) -> NDArray[np.float32]:
        """See `Gathering.update`."""
        estimate = super().update()
        self._coder.learn(estimate, self._senders, arrived=np.concatenate(self._arrived))
        return estimate


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
        channel=config.channel,
    )


def probit_law(scheme: ProbitScheme, *, num_values: int | None) -> Law:
    """Return the law for models of `num_values` numbers (None: any) at the smallest b of any round.

    The adaptive rule follows what the server has published, which data and attackers can bring down to its least value:
    what epsilon asks for, or a fixed share of the first b.
    """
    first = b = first_bound(scheme, num_values=num_values)
    note, adaptive = f", b {b:.4g}", scheme.bound == "adaptive"
    upload = exact = needed = None
    if scheme.epsilon is not None and adaptive:
        needed = needed_bound(scheme.epsilon, scheme.l1_clip, scheme.clip, form=scheme.form, num_values=num_values)
    if adaptive:
        b = max(SMALLEST_SHARE * first, needed or 0.0)
        note = f", b at {b:.4g}, the smallest that the adaptive rule may take (it starts at {first:.4g})"
    if scheme.l1_clip is not None:
        largest = min(scheme.clip or scheme.l1_clip, scheme.l1_clip)
        most = num_values or _MOST_ENTRIES
        upload = min(int(scheme.l1_clip / largest * (1.0 + 1e-12)), _MOST_ENTRIES, most)
        exact = privacy_loss(b, l1_clip=scheme.l1_clip, clip=scheme.clip, num_values=num_values)
    steady = partial(
        Probit,
        b=b,
        clip=scheme.clip,
        epsilon=scheme.epsilon,
        l1_clip=scheme.l1_clip,
        form=scheme.form,
        channel=scheme.channel,
    )
    return Law(
        coder=lambda size: steady(num_values=size),
        epsilon=scheme.epsilon,
        source="Lan et al., Theorem 2",
        proved=False,
        exact_epsilon=exact,
        channel_credited=scheme.channel == "native",
        upload=upload,
        far=scheme.l1_clip or FAR,
        note=note,
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
