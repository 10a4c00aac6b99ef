"""What a conflict is, and where its keys stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from scenarios.schema.schema import Scenario

Where = Callable[[str], tuple[Path | str | None, int | None] | None]
"""Dotted path -> file and line where it was written, or None if it was left out."""


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Keys that cannot be together. The first of `keys` that the user wrote is the one to blame."""

    keys: tuple[str, ...]
    problem: str
    remedy: str


def value_of_key(scenario: Scenario, key: str) -> Any:
    """What stands at the key, None for a section: there the key is the trouble, not what is in it."""
    value: Any = scenario
    for part in key.split("."):
        value = getattr(value, part, None)
    return None if isinstance(value, BaseModel) else value
