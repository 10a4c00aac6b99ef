"""Every combination of keys that cannot be simulated: line, key and remedy, and following the remedy ends it."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from conflicts import CONFLICTS, UNREACHED

from phy.config.conflict import Conflict
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import as_yaml
from scenarios.schema.messages.following import follow
from scenarios.schema.schema_keys import OWNERS, left_out_keys
from scenarios.schema.shorthand import normalise
from scenarios.schema.yaml_marks import read_yaml
from scenarios.studies.check import check

ROOT = Path(__file__).parents[3]
CALLS = ("Conflict",)
FOUND: dict[str, list[list[Any]]] = yaml.safe_load(Path(__file__).with_name("conflicts.yaml").read_text("utf-8"))
"""Line, key and remedy of every error of a case."""


@cache
def outcome(case: str, folder: Path) -> tuple[list[ScenarioError], list[str], set[tuple[str, int]]]:
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
    document = read_yaml(path).data
    normalise(document, left_out=left_out_keys())
    for one in found:
        follow(one.change, document, {}, tags=OWNERS)
    path.write_text(as_yaml(written(document)), encoding="utf-8")
    return list(found), [str(one) for one in check(path).errors], raised


def written(value: Any) -> Any:
    """A value with `none` as a user writes it."""
    if isinstance(value, dict):
        return {key: written(inside) for key, inside in value.items()}
    return "none" if value is None else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conflicts")


@pytest.mark.parametrize("case", CONFLICTS, ids=lambda case: case.replace(" ", "_"))
def test_a_conflict_has_its_line_key_and_remedy(case: str, folder: Path) -> None:
    found, _, _ = outcome(case, folder)
    assert [[one.line, one.key, one.remedy] for one in found] == FOUND[case]


@pytest.mark.parametrize("case", CONFLICTS, ids=lambda case: case.replace(" ", "_"))
def test_following_a_remedy_leaves_no_error(case: str, folder: Path) -> None:
    _, left, _ = outcome(case, folder)
    assert left == []


def test_every_case_has_a_row_and_every_row_a_case() -> None:
    assert list(FOUND) == list(CONFLICTS)


@pytest.mark.parametrize(
    ("case", "epsilon"), [("a budget of less than a round", "0.01"), ("a budget that leaves too little", "1e-6")]
)
def test_a_budget_that_is_too_small_is_raised_no_more_than_fourfold_too_far(
    case: str, epsilon: str, folder: Path
) -> None:
    (found,), _, _ = outcome(case, folder)
    ((_, enough),) = found.change.new
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
