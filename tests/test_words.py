"""Counts in sentences go through one helper, so that one thing is never written as several."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fl.base.words import plural

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", ["fl", "scenarios", "phyloop"])
def test_no_sentence_forms_a_plural_on_its_own(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.IfExp | ast.BinOp)
        and any(isinstance(part, ast.Constant) and part.value in ("s", "es") for part in ast.iter_child_nodes(node))
        and ("!= 1" in (text := ast.unparse(node)) or "> 1" in text)  # the s of a verb stands at one
    ]
    assert found == []


def test_a_plural_has_an_s_and_groups_of_digits() -> None:
    assert [plural(1, "round"), plural(2, "round"), plural(1200, "batch", "batches")] == [
        *("1 round", "2 rounds", "1,200 batches"),
    ]
