"""Times of a round: devices compute and upload, and the server waits for all of them or for some."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fl.base.arrays import F64
from fl.base.fields import Count, Frozen, PositiveFloat

Seconds = Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)]
SecondsOfAll = Seconds | Annotated[tuple[Seconds, ...], Field(min_length=1)]


class ComputeConfig(Frozen):
    """Time to process d samples, shifted exponential: Pr(T <= t) = 1 - exp(-(t / d - a) / m) for t >= a d.

    Lee et al. 2018, IEEE Trans. Inf. Theory 64(3), with m = 1 / mu. In a round d is local steps times samples of a
    step.
    """

    shift_s_per_sample: SecondsOfAll = Field(
        default=0.0, description="a, least time per sample [s], one for all devices or one per device"
    )
    mean_s_per_sample: SecondsOfAll = Field(
        default=0.0,
        description="m, mean of the exponential part per sample [s], one for all devices or one per device; 0: every "
        "sample takes shift_s_per_sample",
    )


class TimingConfig(Frozen):
    """Time to compute, and when the server ends a round: at a deadline, at the n-th arrival, or when all are there."""

    compute: ComputeConfig = Field(default=ComputeConfig(), description="time that devices take to compute")
    deadline_s: PositiveFloat | None = Field(
        default=None, description="longest time of a round [s]; left out: the server waits"
    )
    arrivals: Count | None = Field(
        default=None, description="n: a round ends when so many uploads have arrived; left out: all of them"
    )
    late: Literal["drop", "keep"] = Field(
        default="drop",
        description="drop: an upload that cannot end in its round is never sent; keep: it arrives in a later round",
    )
    staleness_exponent: Annotated[float, Field(ge=0.0, le=1e3, allow_inf_nan=False)] = Field(
        default=0.5,
        description="alpha in the weight (1 + tau)^-alpha of an update that is tau rounds old; 0.5 as in Nguyen et al. "
        "2022; 0: all ages count the same",
    )

    @property
    def keeps(self) -> bool:
        """True if late updates arrive in later rounds."""
        return self.late == "keep"

    def describe(self) -> list[str]:
        """Return the line for `phyloop check`."""
        ends = [] if self.deadline_s is None else [f"after {self.deadline_s:g} s"]
        ends += [] if self.arrivals is None else [f"at arrival {self.arrivals}"]
        if not ends:
            return ["a round ends when all uploads have arrived"]
        late = f"count (1 + age)^-{self.staleness_exponent:g} in a later round" if self.keeps else "are dropped"
        return [f"a round ends {' or '.join(ends)}; late updates {late}"]


def compute_times(compute: ComputeConfig, *, processed: F64, exponential: F64) -> F64:
    """T = d (a + m E) `[K]` [s] of devices that process d = `processed` samples, from draws E ~ Exp(1)."""
    each = np.asarray(compute.shift_s_per_sample) + np.asarray(compute.mean_s_per_sample) * exponential
    return np.asarray(processed * each)


def upload_ends(ready_s: F64, *, airtime_s: F64 | float, free_s: float, in_turn: bool) -> F64:
    """Times at which uploads `[K]` of known `airtime_s` end [s], by the times at which they are ready to be sent.

    None begins before `free_s`. In turn they are sent in the order in which they are ready: with airtimes A,
    e_j = max(e_{j-1}, r_j) + A_j = S_j + max(free, max_{i<=j} (r_i - S_{i-1})), S_j = A_1 + ... + A_j. Otherwise all of
    a round add up at once, and e_j is the earliest end of a sum that has upload j in it.
    """
    if not in_turn:
        return np.asarray(np.maximum(ready_s, free_s) + airtime_s)
    order = np.argsort(ready_s, kind="stable")
    each = np.broadcast_to(airtime_s, ready_s.shape)[order]
    total = np.cumsum(each)
    ends = np.empty_like(ready_s)
    ends[order] = total + np.maximum.accumulate(np.maximum(ready_s[order] - (total - each), free_s))
    return ends


def round_duration(ends_s: F64, *, deadline_s: float | None, arrivals: int | None) -> float:
    """min(deadline, n-th smallest end, last end) [s]; an upload that never comes ends at infinity."""
    wanted = len(ends_s) if arrivals is None else min(arrivals, len(ends_s))
    last = float(np.partition(ends_s, wanted - 1)[wanted - 1]) if wanted else 0.0
    return last if deadline_s is None else min(deadline_s, last)
