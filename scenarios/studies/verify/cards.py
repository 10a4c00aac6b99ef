"""Reference checks: scenario files whose `card:` section has a claim, its source and the known answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from phy.config import Frozen
from phy.config.registry import Registry
from scenarios.schema.errors import ScenarioError, listing
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.schema.messages.explain import explain
from scenarios.studies.link.measure import Measured
from scenarios.studies.link.plan import Curve, LinkPoint
from scenarios.studies.verify.check import Check, Reference

CARDS = Path(__file__).parent / "cards"

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


@dataclass(frozen=True, kw_only=True)
class Card:
    """A reference check: a scenario, and the known answers for it."""

    path: Path
    config: CardConfig
    loaded: LoadedScenario

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.loaded.scenario.name


class _Carded(BaseModel):
    card: CardConfig


def card_names() -> tuple[str, ...]:
    """Return the names of the reference checks of the package, in their order in the table."""
    return tuple(path.stem for path in sorted(CARDS.glob("*.yaml")))


def load_card(source: str | Path, *, seed: int | None = None, overrides: Sequence[str] = ()) -> Card:
    """Return a reference check by its name, or from a file. Raises ScenarioError for an unknown name or a bad file."""
    path = Path(source)
    if path.suffix not in (".yaml", ".yml"):
        path = CARDS / f"{source}.yaml"
        if str(source) not in card_names():
            near = get_close_matches(str(source), card_names())
            raise ScenarioError(
                problem="no reference check has this name",
                remedy=(f"did you mean {listing(near)}? " if near else "") + "see phyloop verify --list",
                file=str(source),
            )
    loaded = load_scenario(path, seed=seed, overrides=overrides)
    if loaded.scenario.card is None:
        raise ScenarioError(
            problem="a reference check needs a card: section, and this scenario has none",
            remedy="add card: {claim: ..., source: ..., expect: [...]}, or use phyloop link",
            file=path,
        )
    try:
        config = _Carded.model_validate(loaded.document).card
    except ValidationError as error:
        raise explain(error, document=loaded.document, marks=loaded.marks) from None
    return Card(path=path, config=config, loaded=loaded)
