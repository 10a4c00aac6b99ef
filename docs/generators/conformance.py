"""Clauses of the standards that are followed, partly followed or not: the tables of the page `conformance`.

Rows are in `docs/conformance/*.yaml`, written by hand; tests hold them to the files and tests that they name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from docs.generators.markdown import page, table

ROWS = Path(__file__).parents[1] / "conformance"
HEADS = ("clause", "subject", "status", "what differs", "cost [dB]", "compared with", "keys")


class Clause(BaseModel):
    """A row: a clause of a standard, and how far phyloop follows it.

    `cost_db`: what the difference costs, a number, a range in words, or None where it is not known; `test`: a path,
    with the name of a test behind `::`, or an empty word; `keys`: dotted keys of a scenario.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    standard: str
    clause: str
    subject: str
    status: Literal["followed", "partly", "not"]
    differs: str
    cost_db: float | str | None
    checked_with: str
    test: str
    keys: tuple[str, ...]


def clauses() -> tuple[Clause, ...]:
    """Return the rows of all files, in the order of the files."""
    rows: list[Any] = []
    for path in sorted(ROWS.glob("*.yaml")):
        rows += yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(Clause.model_validate(row) for row in rows)


def order(clause: Clause) -> tuple[str, list[tuple[int, str]]]:
    """Return what sorts clauses as the standard numbers them."""
    parts = clause.clause.replace(" ", ".").split(".")
    return clause.standard, [(int(part), "") if part.isdecimal() else (10**6, part) for part in parts]


def render() -> str:
    """Return the tables, one per standard."""
    rows = sorted(clauses(), key=order)
    parts = []
    for standard in dict.fromkeys(row.standard for row in rows):
        own = [row for row in rows if row.standard == standard]
        parts += [f"## {standard}", table(HEADS, [_cells(row) for row in own])]
    return page(*parts)


def _cells(row: Clause) -> tuple[str, ...]:
    cost = "not known" if row.cost_db is None else f"{row.cost_db:g}" if isinstance(row.cost_db, float) else row.cost_db
    keys = ", ".join(f"`{key}`" for key in row.keys)
    return row.clause, row.subject, row.status, row.differs, cost, row.checked_with or "none", keys


def write(path: Path) -> None:
    """Write the tables as a part of a page."""
    path.write_text(render(), encoding="utf-8")
