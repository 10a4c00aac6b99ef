"""Rates and means of sweep points with 95 % intervals, from stored trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.uplink.channel_credit import errors_together, packets_are_independent
from phy.config import LinkConfig
from phy.measure import counts as measurement
from phy.measure.monte_carlo import WORST_BIT_ERROR_RATE, ClusteredCounts, estimate_rate, silent_limit
from scenarios.plan.points import Plan, Point, is_shown
from scenarios.report.tables.quantities import NEVER_NEGATIVE, RATES, SHARES, WITHIN
from scenarios.schema.schema import FigureConfig

if TYPE_CHECKING:
    from scenarios.store.store import Series, Store
    from scenarios.store.trials import SeriesTable


# --- intervals ------------------------------------------------------------------------------------

CONFIDENCE = 0.95

FEWEST_TRIALS = 3
"""Trials from which figures, page and terminal show a t interval: of two it is 25 standard errors wide."""

_SAME = 1e-12
"""Relative width of an interval around one value that every trial has."""

_SMALL_COUNT, _LARGE_COUNT = 1e3, 1e15
"""Between these a whole number that every trial has is a count, shown with all its digits."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean over `trials` independent trials and its t interval; no interval from one trial."""

    mean: float
    low: float | None
    high: float | None
    trials: int

    def __str__(self) -> str:
        """`mean [low, high]`, digits as the interval allows; the mean alone of few trials or of equal values."""
        if self.mean.is_integer() and _SMALL_COUNT <= abs(self.mean) <= _LARGE_COUNT and self.low in (None, self.mean):
            return f"{self.mean:,.0f}"
        if self.low is None or self.high is None or self.trials < FEWEST_TRIALS:
            return f"{self.mean:.4g}"
        if self.high - self.low <= _SAME * abs(self.mean):
            return f"{self.mean:.6g}"
        return with_interval(self.mean, low=self.low, high=self.high)

    def within(self, quantity: str) -> Mean:
        """The same mean with the part of its interval that the quantity can take."""
        low, high, quantity = self.low, self.high, quantity.partition(WITHIN)[0]
        if low is not None and (quantity in (*NEVER_NEGATIVE, *SHARES) or quantity.endswith("_mse")):
            low = max(low, 0.0)
        if high is not None and quantity in SHARES:
            high = min(high, 1.0)
        return replace(self, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`errors` among `total` observations, and an interval of the rate."""

    errors: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """Errors per observation."""
        return self.errors / self.total

    def __str__(self) -> str:
        """See `rate_text`."""
        return rate_text(self.value if self.errors else None, low=self.low, high=self.high)


def mean_interval(values: NDArray[np.float64]) -> Mean:
    """Mean of `values` `[n]`, n >= 1, with the two-sided Student t interval of n - 1 degrees of freedom."""
    from scipy import special  # slow to import, and only the report needs it

    n = int(values.size)
    if n < 2 or not np.all(np.isfinite(values)):
        with np.errstate(invalid="ignore"):  # inf - inf
            return Mean(mean=float(np.mean(values)), low=None, high=None, trials=n)
    mean = float(np.mean(values))
    t = float(special.stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    half = t * float(np.std(values, ddof=1)) / float(np.sqrt(n))
    return Mean(mean=mean, low=mean - half, high=mean + half, trials=n)


INTERVALS = (
    "95 % interval of Clopper and Pearson where the link makes errors independent, otherwise of Korn and Graubard, "
    "from the spread between uploads"
)
UPPER_LIMIT = "one-sided 95 % upper limit"
"""What is known of a rate without an error: ln(20) over the number of independent observations."""


def observed_rate(name: str, counts: ClusteredCounts, *, link: LinkConfig) -> Rate:
    """Rate and interval of counts over uploads, the clusters; ValueError without observations.

    Errors are independent without fading and estimation, uncoded, and those of packets where every packet meets a
    channel of its own; then uploads do not matter. Else `estimate_rate`. Without any error only the upper limit is
    known: the one-sided `silent_limit`, as in link studies, over the observations if these are independent, else over
    the packets, or the uploads.
    """
    channel = link.channel
    drawn = channel.fades or channel.selective or channel.cell is not None
    packets = packets_are_independent(link)
    independent = (errors_together(link) == 1 and not drawn) or (packets and name == "packet_error_rate")
    if independent:
        found = rate_interval(errors=counts.errors, total=counts.observations)
    else:
        estimate = estimate_rate(counts, confidence=CONFIDENCE)
        found = Rate(errors=counts.errors, total=counts.observations, low=estimate.low, high=estimate.high)
    if counts.errors:
        return found
    worst = 1.0 if name == "packet_error_rate" or independent else WORST_BIT_ERROR_RATE
    units = counts.observations if independent else counts.clusters
    if packets and not independent:
        units = max(units, counts.observations // (8 * link.packet_size_bytes))
    return replace(found, high=silent_limit(units, confidence=CONFIDENCE, worst=worst))


def rate_interval(*, errors: int, total: int, confidence: float = CONFIDENCE) -> Rate:
    """Clopper-Pearson interval of independent `errors` among `total` observations; ValueError without any."""
    if total == 0:
        raise ValueError(f"{errors} errors among {total} observations have no rate")
    low, high = measurement.rate_interval(errors, total, confidence=confidence)
    return Rate(errors=errors, total=total, low=float(low), high=float(high))


def rate_text(rate: float | None, *, low: float, high: float) -> str:
    """`rate [low, high]`; for None, no error, only `< high`."""
    return f"< {high:.2g}" if rate is None else with_interval(rate, low=low, high=high)


def with_interval(value: float, *, low: float, high: float) -> str:
    """`value [low, high]`; significant digits such that the interval shows two of its own, 3 to 8."""
    width, digits = high - low, 4
    if width > 0 and value != 0 and math.isfinite(value):
        digits = min(max(2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(width)), 3), 8)
    # Alternate form: it keeps trailing zeros, which are digits that were measured.
    shown, bottom, top = (f"{number:#.{digits}g}".rstrip(".") for number in (value, low, high))
    return f"{shown} [{bottom}, {top}]"


TRIALS_AT_ONCE = 20
"""Trials in memory at a time: at 300 rounds of 20 devices some 20 MB of text."""


def done_series(store: Store, task_ids: Sequence[str], table: SeriesTable) -> Iterator[Series]:
    """Arrays of a table of each whole trial, read a few trials at a time."""
    done = [task_id for task_id, status in store.statuses(task_ids).items() if status == "done"]
    for start in range(0, len(done), TRIALS_AT_ONCE):
        yield from store.read_series(done[start : start + TRIALS_AT_ONCE], table).values()


@dataclass(frozen=True, kw_only=True)
class PointSummary:
    """A point of the sweep over its finished trials: `done` whole ones, `failed` ones; `trials`: metric by trial."""

    point: Point
    done: int
    failed: int
    metrics: Mapping[str, Mean] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    trials: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def summarise(store: Store, plan: Plan) -> tuple[PointSummary, ...]:
    """One summary per point that has a finished trial, in the order of the plan; rates are those of `RATES`."""
    summaries = []
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        statuses = store.statuses(ids)
        done = {task_id: trial for trial, task_id in enumerate(ids) if statuses.get(task_id) == "done"}
        values: dict[str, dict[int, float]] = {}
        for task_id, metrics in store.read_metrics(done).items():
            for name, value in metrics.items():
                if not np.isnan(value):  # not measured in this trial
                    values.setdefault(name, {})[done[task_id]] = value
        values |= _within_budgets(store, point, done)
        means = {name: mean_interval(np.array([*column.values()])) for name, column in values.items()}
        counts, link = _counts(store, point, [*done]), point.scenario.link
        rates = {name: observed_rate(name, one, link=link) for name, one in counts.items() if one.observations}
        failed = len(statuses) - len(done)
        if statuses:
            summaries.append(
                PointSummary(point=point, done=len(done), failed=failed, metrics=means, rates=rates, trials=values)
            )
    return tuple(summaries)


def along_run(x: str, rounds: Series, *, link: LinkConfig) -> NDArray[Any] | None:
    """Return where the rounds of a trial lie on an axis along the run, `[num_rounds]`; None: not measured."""
    if x == "round":
        return np.arange(1.0, len(next(iter(rounds.values()), ())) + 1.0)
    if x == "channel_uses":
        return np.rint(rounds["elapsed_s"] / link.channel_use_s) if "elapsed_s" in rounds else None
    return rounds.get(x)


def budget_names(config: FigureConfig) -> dict[str, float]:
    """Return the name of the metric at each budget of a figure, and the budget."""
    return {f"{config.y}{WITHIN}{amount:g} {config.x}": amount for amount in config.budgets}


def told_by(config: FigureConfig) -> list[str]:
    """Return the metrics that sum a figure up: within its budgets, the largest first, then of whole trials."""
    budgets = budget_names(config)
    return [*sorted(budgets, key=lambda name: -budgets[name]), config.y]


def _within_budgets(store: Store, point: Point, done: Mapping[str, int]) -> dict[str, dict[int, float]]:
    """A number of the last round whose x is within each budget, by trial; none where a trial has no such round.

    `done`: task identities and their trials.
    """
    figures = [one for one in point.scenario.report.figures if one.budgets and is_shown(one, point)]
    trials = list(done_series(store, [*done], "rounds")) if figures else []
    found: dict[str, dict[int, float]] = {}
    for config in figures:
        x = [along_run(config.x, rounds, link=point.scenario.link) for rounds in trials]
        for name, amount in budget_names(config).items():
            values = {
                trial: rounds[config.y][(at <= amount * (1.0 + _SAME)) & ~np.isnan(rounds[config.y])]
                for trial, at, rounds in zip(done.values(), x, trials, strict=True)
                if at is not None and config.y in rounds
            }
            if values and all(map(len, values.values())):
                found[name] = {trial: float(one[-1]) for trial, one in values.items()}
    return found


def _counts(store: Store, point: Point, done: Sequence[str]) -> dict[str, ClusteredCounts]:
    """Counts of every rate measured at a point; one upload is a cluster, for it meets one fade.

    So are all uploads of a device in a trial, where its channel lasts over rounds.
    """
    lasting = point.scenario.link.lasting
    names = [name for name in RATES if is_measured(name, point)]
    counts = {name: ClusteredCounts() for name in names}
    for table in dict.fromkeys(RATES[name].table for name in names):
        for start in range(0, len(done), TRIALS_AT_ONCE):
            some = store.read_series(done[start : start + TRIALS_AT_ONCE], table).values()
            for name in names:
                one = RATES[name]
                pairs = [(s[one.errors], s[one.total]) for s in some if one.errors in s and one.total in s]
                if one.table == table and pairs:
                    errors, total = (
                        np.concatenate([a.sum(axis=0) if lasting else a.ravel() for a in column])
                        for column in zip(*pairs, strict=True)
                    )
                    counts[name] += ClusteredCounts.of(errors[total > 0], total[total > 0])
    return counts


def is_measured(quantity: str, point: Point) -> bool:
    """Tell if a rate of the link was observed at a point: bits that met no radio bound no error rate."""
    return not (RATES[quantity].table == "link" and point.scenario.link.error_model == "error_free")


KEYS: dict[str, tuple[str, ...]] = {
    "metrics": ("trial",),
    "rounds": ("trial", "round"),
    "link": ("trial", "round", "device"),
    "privacy": ("trial", "round"),
    "bursts": ("trial", "device"),
    "devices": ("trial", "round", "device"),
}
"""Columns between the swept paths and what was measured; rounds count from 1, trials and devices from 0."""
