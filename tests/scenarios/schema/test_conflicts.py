"""Every combination of keys that cannot be simulated: its remedy, followed to the letter, ends it."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conflicts import CONFLICTS, UNREACHED
from followed import followed

from phy.config.conflict import Conflict
from scenarios.studies.check import check

ROOT = Path(__file__).parents[3]
CALLS = ("Conflict",)


@cache
def outcome(case: str, folder: Path) -> tuple[list[str], list[str], set[tuple[str, int]]]:
    """The errors of a scenario, those that are left once each has been followed, and the places that raised them."""
    raised: set[tuple[str, int]] = set()
    original = Conflict.__init__

    def recorded(self: Conflict, *args: Any, **keywords: Any) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith("config/conflict.py") and frame.f_back is not None:
            frame = frame.f_back
        raised.add((str(Path(frame.f_code.co_filename).relative_to(ROOT)), frame.f_lineno))
        original(self, *args, **keywords)

    path = folder / "s.yaml"
    path.write_text(f"name: a\n{CONFLICTS[case]}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conflict, "__init__", recorded)
        found = check(path).errors
    path.write_text(followed(path, found), encoding="utf-8")
    return [str(one) for one in found], [str(one) for one in check(path).errors], raised


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conflicts")


@pytest.mark.parametrize("case", CONFLICTS, ids=lambda case: case.replace(" ", "_"))
def test_the_remedy_of_a_conflict_ends_it_to_the_letter(case: str, folder: Path) -> None:
    found, left, _ = outcome(case, folder)
    assert found != []
    assert left == []


@pytest.mark.parametrize(
    ("case", "epsilon"), [("a budget of less than a round", "0.01"), ("a budget that leaves too little", "1e-6")]
)
def test_a_budget_that_is_too_small_is_raised_no_more_than_fourfold_too_far(
    case: str, epsilon: str, folder: Path
) -> None:
    (sentence,), _, _ = outcome(case, folder)
    enough = float(sentence.partition("write privacy.budget.epsilon: ")[2].removesuffix("."))
    fourth = CONFLICTS[case].replace(f"budget: {{epsilon: {epsilon},", f"budget: {{epsilon: {enough / 4.0},")
    (folder / "fourth.yaml").write_text(f"name: a\n{fourth}\n", encoding="utf-8")
    assert enough > float(epsilon)
    assert check(folder / "fourth.yaml").errors != ()


def test_every_conflict_is_reached_but_for_a_few(folder: Path) -> None:
    reached = {place for case in CONFLICTS for place in outcome(case, folder)[2]}
    missed = [
        (name, first)
        for name, first, last in sites()
        if not any((name, line) in reached for line in range(first, last + 1))
    ]
    assert Counter(name for name, _ in missed) == UNREACHED, missed


def sites() -> Iterator[tuple[str, int, int]]:
    """File, first and last line of every call that makes a conflict."""
    for package in ("phy", "fl", "scenarios"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS and path.name != "conflict.py":
                    yield str(path.relative_to(ROOT)), node.lineno, node.end_lineno or node.lineno
