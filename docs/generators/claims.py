"""Claims of papers with our verdicts: the rows of the tables on the pages of papers, by the scenario that they name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

PAPERS = Path(__file__).parents[1] / "papers"


class Claim(NamedTuple):
    """A row of the table of results on the page `paper`: item, result of the paper, ours, scenarios or tests."""

    paper: str
    item: str
    published: str
    here: str
    where: str


def claims_of(scenario: str) -> list[Claim]:
    """Return the claims whose row names a scenario, with links as from a page two folders below `docs/`."""
    return [one for one in _all() if scenario in re.findall(r"`([^`]+)`", one.where)]


@cache
def _all() -> list[Claim]:
    found = []
    for path in sorted(PAPERS.glob("*.md")):
        _, _, results = path.read_text(encoding="utf-8").partition("## Results")
        for line in results.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("|") and len(cells) == 4 and not line.startswith(("| item", "| ---")):
                found.append(Claim(path.stem, *(cell.replace("](../", "](../../") for cell in cells)))
    return found
