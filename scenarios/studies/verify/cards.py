"""Reference checks: scenario files with a `card:` section, in the package or the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ValidationError

from scenarios.schema.errors import ScenarioError, listing
from scenarios.schema.explain import explain
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.studies.verify.expected import CardConfig

CARDS = Path(__file__).parent / "cards"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class Card:
    """A reference check: a scenario, and the known answers for it."""

    name: str
    path: Path
    config: CardConfig
    loaded: LoadedScenario


class _Carded(BaseModel):
    card: CardConfig


def card_names() -> tuple[str, ...]:
    """Return the names of the reference checks of the package, in their order in the table."""
    return tuple(path.stem for path in sorted(CARDS.glob("*.yaml")))


def load_card(source: str | Path, *, seed: int | None = None, overrides: Sequence[str] = ()) -> Card:
    """Return a reference check by its name, or from a file. Raises ScenarioError for an unknown name or a bad file."""
    path = Path(source)
    if path.suffix not in _SUFFIXES:
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
    return Card(name=loaded.scenario.name, path=path, config=config, loaded=loaded)
