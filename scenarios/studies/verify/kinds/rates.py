"""Known error rates of links: closed forms, and tables of published or calculated rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import exp
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from phy.config import LinkConfig
from phy.config.conflict import ConflictError, Say
from scenarios.plan.points import value_of
from scenarios.studies.link.level import theory
from scenarios.studies.link.plan import LinkCurve, LinkPoint
from scenarios.studies.verify.cards import EXPECTED, KnownRate


@EXPECTED.register
class ClosedForm(KnownRate):
    """The closed form of `phyloop link`; with `as_if`, that of the link with these keys of `link:` replaced.

    `esno_db`: Es/N0 in place of that of each value, as where interference counts as noise.
    """

    kind: Literal["closed-form"]
    as_if: dict[str, Any] = Field(default_factory=dict)
    esno_db: tuple[float, ...] = ()

    def rate(self, curve: LinkCurve, point: LinkPoint, shift_db: float) -> float:
        """See `KnownRate`."""
        esno_db, like = point.esno_db, curve
        if self.esno_db:
            esno_db = self.esno_db[curve.points.index(point)]
        if self.as_if:
            written: dict[str, Any] = curve.link.model_dump(mode="json", exclude_none=True)
            for key, value in self.as_if.items():
                written[key] = {**written[key], **value} if isinstance(value, dict) else value
            scenario = curve.point.scenario.model_copy(update={"link": LinkConfig.model_validate(written)})
            like = replace(curve, point=replace(curve.point, scenario=scenario))
        found = theory(like, self.quantity, esno_db + shift_db)
        if found is None:
            raise ValueError(f"no closed form of the {self.quantity} is known for {curve.label}")
        return float(found)


_Rate = Annotated[
    float, Field(gt=0, lt=1), BeforeValidator(lambda given: float(Fraction(given)) if isinstance(given, str) else given)
]


@EXPECTED.register
class Rates(KnownRate):
    """Known rates, each `[value_db, rate]` or `[value_db, errors/observations]`; straight lines of log(rate) between.

    `where`: the settings of the curves that they belong to, by dotted paths.
    """

    kind: Literal["rates"]
    where: dict[str, Any] = Field(default_factory=dict)
    points: Annotated[tuple[tuple[float, _Rate], ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _falls(self) -> Rates:
        values_db, rates = np.array(self.points).T
        if (np.diff(values_db) <= 0).any() or (np.diff(rates) >= 0).any():
            raise ConflictError("points", "points must go up in value_db and down in rate", Say("sort them"))
        return self

    def is_about(self, curve: LinkCurve) -> bool:
        """See `KnownRate`."""
        return all(value_of(curve.point, path) == value for path, value in self.where.items())

    def rate(self, curve: LinkCurve, point: LinkPoint, shift_db: float) -> float:
        """See `KnownRate`."""
        if not self.points[0][0] <= point.value_db <= self.points[-1][0]:
            raise ValueError(f"no rate is known at {point.value_db:g} dB")
        return log_linear(point.value_db + shift_db, self.points)


def log_linear(x: float, points: Sequence[tuple[float, float]]) -> float:
    """Return exp of the straight lines through (x, log y), the first and last of them prolonged; at most 1."""
    at, logs = np.array(points).T[0], np.log(np.array(points).T[1])
    piece = int(np.clip(np.searchsorted(at, x) - 1, 0, len(at) - 2))
    slope = (logs[piece + 1] - logs[piece]) / (at[piece + 1] - at[piece])
    return min(exp(logs[piece] + slope * (x - at[piece])), 1.0)
