"""The `card:` section of a scenario: a claim, its source, and the known answers that it is measured against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from phy.config import Frozen
from phy.config.registry import Registry
from scenarios.studies.verify.check import Check, Reference

if TYPE_CHECKING:
    from scenarios.schema.loader import LoadedScenario
    from scenarios.studies.link.batches import Measured
    from scenarios.studies.link.plan import Curve, LinkPoint

Decibels = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]


class Expected(Frozen):
    """Base of every kind of known answer; a kind overrides `measure`, or for `of_link` one of the other two.

    All raise ValueError where the answer does not hold for the scenario. A check whose interval is wider than
    `resolves_db` fails.
    """

    of_link: ClassVar[bool] = False
    """True: the answer is about error rates, which all such answers of a scenario share."""

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[Check]:
        """Measure, and compare with the known answer."""
        return iter(())

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        """Return the known error rates at a point of a curve."""
        return ()

    def over_curve(self, curve: Curve, found: Sequence[tuple[LinkPoint, Measured]]) -> Iterator[Check]:
        """Compare what was counted at all points of a curve with the known answer."""
        return iter(())


EXPECTED: Registry[Expected] = Registry(
    "reference check", Expected, package="scenarios.studies.verify.kinds", tag="kind"
)


class CardConfig(Frozen):
    """Claim of a reference check.

    A statistical check is measured until its whole interval is no wider than a shift of the link by `resolves_db`
    (twice that under `--fast`), so that such a shift is surely seen, and fails where it does not come to that: no
    reference check passes for want of data.
    """

    claim: Annotated[str, Field(min_length=10)]
    source: Annotated[str, Field(min_length=10)]
    resolves_db: Annotated[float, Field(gt=0, le=5)] = 0.25
    fast: bool = Field(default=True, description="whether --fast runs it too")
    expect: tuple[Annotated[Expected, EXPECTED], ...]

    @model_validator(mode="after")
    def _expects(self) -> CardConfig:
        if not self.expect:
            raise ValueError("expect lists no known answer; add for example {kind: closed-form}")
        return self
