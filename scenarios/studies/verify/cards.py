"""The cards: scenario files with a `card:` section, in the package or the user's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from scenarios.schema.errors import ScenarioError, listing
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.studies.verify.config import CardConfig

CARDS = Path(__file__).parent / "cards"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class Card:
    """A scenario and what is expected of it."""

    name: str
    path: Path
    config: CardConfig
    loaded: LoadedScenario


def card_names() -> tuple[str, ...]:
    """Names of the cards of the package, in their order in the table."""
    return tuple(path.stem for path in sorted(CARDS.glob("*.yaml")))


def load_card(source: str | Path, *, seed: int | None = None, overrides: Sequence[str] = ()) -> Card:
    """A card by its name, or from a file. Raises ScenarioError for an unknown name or a card that is not valid."""
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
        # Through JSON, so that strict types and tuples are read as everywhere in a scenario.
        config = CardConfig.model_validate_json(json.dumps(loaded.scenario.card))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["card", *(str(part) for part in first["loc"])])
        raise ScenarioError(
            problem=str(first["msg"]).lower(),
            remedy="see the reference checks of phyloop verify --list",
            file=path,
            key=place,
        ) from None
    return Card(name=loaded.scenario.name, path=path, config=config, loaded=loaded)
