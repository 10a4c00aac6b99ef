"""How many dB lie between the curves of a link study at one error rate, with an interval.

The value at which a curve meets the rate is interpolated between the two measured points beside it: by monotone cubics
(Fritsch and Carlson, SIAM Journal on Numerical Analysis 17, 1980) in dB and the logarithm of the rate, because straight
lines are 0.1 dB too low between points that are 2 dB apart. Its interval are the values at which the rate lies inside
the interval of the error rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.base.words import plural
from scenarios.report.figures.curves import applies, labels_of
from scenarios.report.settings import said
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import FigureConfig
from scenarios.studies.link.level import PLAIN_LABELS

if TYPE_CHECKING:
    from scenarios.studies.link.plan import LinkPlan
    from scenarios.studies.link.results import PointResult, Results

TARGETS = {"packet_error_rate": (1e-2, 1e-1), "bit_error_rate": (1e-3, 1e-2, 1e-1)}
"""Error rates at which curves are compared, the first that two curves meet: the usual target of a link with packets, or
of one without a code, and larger ones."""
Point = tuple[float, float | None, float, float]
"""Value [dB], rate (None without an error), and its lower and upper limit."""
MOST_CURVES = 8
"""Curves that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """The value at which a curve meets an error rate [dB], and its interval; an end is infinite if not measured."""

    value_db: float
    low_db: float
    high_db: float


def crossing(points: Sequence[Point], *, target: float) -> Crossing | None:
    """Return where a falling curve meets `target`; None if no two neighbours with errors lie on its two sides.

    `points` are in ascending order of values.
    """
    from scipy.interpolate import PchipInterpolator  # slow to import
    from scipy.optimize import brentq

    seen = [(value, rate, low, high) for value, rate, low, high in points if rate is not None]
    if len(seen) < 2:
        return None
    values, rates, lows, highs = np.array(seen).T
    smooth = PchipInterpolator(values, np.log(rates / target))

    def meets(limits: NDArray[np.float64]) -> float | None:
        """Where the curve through the limits, whose distance to that of the rates is linear, falls to the target."""
        with np.errstate(divide="ignore"):
            apart = np.log(limits / rates)

        def excess(x: float) -> float:
            return float(smooth(x) + np.interp(x, values, apart))

        for left, right in pairwise(range(len(values))):
            if limits[left] >= target > limits[right]:
                if not np.isfinite(apart[right]):
                    return float(values[left])  # a lower limit of 0 says nothing between the points
                return float(brentq(excess, *values[left : right + 1]))
        return None

    at, low, high = (meets(limits) for limits in (rates, np.minimum(lows, rates), np.maximum(highs, rates)))
    if at is None:
        return None
    silent = [value for value, rate, _, limit in points if rate is None and limit < target]
    return Crossing(
        value_db=at,
        low_db=-inf if low is None else low,
        high_db=min(silent, default=inf) if high is None else high,
    )


def gap(one: Crossing, other: Crossing) -> Crossing:
    """Return `one` less `other`, with the interval of independent values (Zou and Donner 2008).

    Points share random numbers, which makes the true interval narrower.
    """
    apart = one.value_db - other.value_db
    return Crossing(
        value_db=apart,
        low_db=apart - hypot(one.value_db - one.low_db, other.high_db - other.value_db),
        high_db=apart + hypot(one.high_db - one.value_db, other.value_db - other.low_db),
    )


def gap_sentences(plan: LinkPlan, results: Results, figures: Sequence[FigureConfig]) -> Iterator[tuple[str, str]]:
    """Yield head and sentence for every panel and error rate at which two curves can be compared."""
    for quantity, targets in TARGETS.items():
        config = next((one for one in figures if one.y == quantity), None)
        if config is None:
            config = FigureConfig(x=plan.measure.over, y=quantity)
        labels = labels_of(config, plan.swept_paths, [curve.point for curve in plan.curves])
        panels: dict[str, dict[str, list[Point]]] = {}
        for curve, (label, _), points in zip(plan.curves, labels, results, strict=True):
            if quantity == "bit_error_rate" and curve.link.coding != "none":
                continue
            path = config.panels
            panel = said(curve.point, path) if path is not None and applies(path, curve.point) else ""
            if measured := [row for one in points if (row := _row(one, quantity)) is not None]:
                panels.setdefault(panel, {})[label or curve.label] = measured
        for panel, curves in panels.items():
            head, text = compared_at(
                curves, targets=targets, axis=PLAIN_LABELS[plan.measure.over].removesuffix(" [dB]")
            )
            if text:
                yield ", ".join(filter(None, (f"{axis_label(quantity)} {head}", panel))), text


def compared_at(curves: Mapping[str, Sequence[Point]], *, targets: Sequence[float], axis: str) -> tuple[str, str]:
    """Return the first error rate that two curves meet and how far apart they are, or why no rate is one.

    `curves`: points by label; one curve has no sentence.
    """
    for target in targets:
        if text := _compared({label: crossing(points, target=target) for label, points in curves.items()}, axis=axis):
            return _short(target), text
    rates = " or ".join(map(_short, targets))
    why = f"met by no two curves between measured points; how many dB apart they are needs more values of {axis}."
    return (rates, why) if len(curves) > 1 else ("", "")


def _short(rate: float) -> str:
    """`1e-2`."""
    return f"{rate:.0e}".replace("e-0", "e-")


def _row(one: PointResult, quantity: str) -> Point | None:
    estimate = one.rates()[quantity == "packet_error_rate"]
    return None if estimate is None else (one.point.value_db, estimate.rate, estimate.low, estimate.high)


def _compared(curves: Mapping[str, Crossing | None], *, axis: str) -> str:
    """The curve that needs least, and how much more every other one needs; empty without two that meet the rate."""
    known = {label: one for label, one in curves.items() if one is not None}
    if len(known) < 2:
        return ""
    order = sorted(known, key=lambda label: known[label].value_db)
    least, *others = order
    parts = [f"{least} needs {axis} = {_decibels(known[least])}"]
    for label in others[: MOST_CURVES - 1]:
        more = gap(known[label], known[least])
        clear = "" if more.low_db > 0.0 else ", no clear difference"
        parts.append(f"{label} {_decibels(more)} more{clear}")
    if len(others) >= MOST_CURVES:
        parts.append(f"and {plural(len(others) - MOST_CURVES + 1, 'more curve')}")
    if missing := [label for label, one in curves.items() if one is None]:
        parts.append(f"not met between two measured points by {', '.join(missing)}")
    return f"{'; '.join(parts)}."


def _decibels(found: Crossing) -> str:
    """`3.91 [3.8, 4.02] dB`; without an interval where one of its ends was not measured."""
    if not (isfinite(found.low_db) and isfinite(found.high_db)):
        return f"{found.value_db:.2f} dB (no interval)"
    return f"{found.value_db:.2f} [{found.low_db:.2f}, {found.high_db:.2f}] dB"
