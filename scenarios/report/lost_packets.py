"""How many times as many packets an error model loses as the radio does, at equal settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fl.base.words import plural
from scenarios.report.settings import said
from scenarios.report.tables.summaries import PointSummary, Rate

_RATE = "packet_error_rate"


@dataclass(frozen=True, kw_only=True)
class Factor:
    """Ratio of two packet error rates, `value` in [`low`, `high`].

    Limits are the least and the largest ratio of values within both 95 % intervals, and so hold with at least 90 %.
    `high` is infinite where the interval below reaches 0.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, one: Rate, other: Rate) -> Factor:
        """Return `one` over `other`; `other` has an error."""
        high = one.high / other.low if other.low > 0.0 else math.inf
        return cls(value=one.value / other.value, low=one.low / other.high, high=high)

    def __str__(self) -> str:
        """Value and limits at three digits."""
        value, low, high = (f"{float(f'{one:.3g}'):,.6g}" for one in (self.value, self.low, self.high))
        return f"{value} times [{low}, {high}]"


def packets_lost(
    pairs: Sequence[tuple[PointSummary, PointSummary]], *, model: str, paths: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield a sentence on packets lost under an error model beside packets lost on the radio.

    `pairs`: summaries of the error model and of the radio at equal settings; `model`: the model in words; `paths`: axes
    that name a setting. Settings whose packets are accepted, or of which the radio lost none, say nothing. The largest
    factor is the one with the largest lower limit.
    """
    factors: list[tuple[Factor, PointSummary, Rate, Rate]] = []
    for one, other in pairs:
        rates = one.rates.get(_RATE), other.rates.get(_RATE)
        dropping = one.point.scenario.link.packets.policy != "accept"
        if dropping and rates[0] is not None and rates[1] is not None and rates[1].errors:
            factors.append((Factor.of(rates[0], rates[1]), one, rates[0], rates[1]))
    if not factors:
        return
    factor, point, given, measured = max(factors, key=lambda item: item[0].low)
    place = ", ".join(filter(None, (said(point.point, path) for path in paths)))
    wrong = sum(one.low > 1.0 or one.high < 1.0 for one, *_ in factors)
    yield (
        f"Packets lost with {model}",
        f"another share than measured at {wrong} of {plural(len(factors), 'setting')}; the largest factor is {factor}, "
        f"{given} where the radio lost {measured}{f' ({place})' if place else ''}.",
    )
