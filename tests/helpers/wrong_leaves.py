"""Library scenarios with one wrong leaf each, and what a check says of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from followed import followed

from scenarios.schema.errors import KeyPath, ScenarioError, dotted, has_parts, value_at
from scenarios.schema.loader import LIBRARY, as_yaml
from scenarios.schema.yaml_marks import read_yaml
from scenarios.studies.check import check

Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class WrongLeaf:
    """A library scenario whose leaf at `path` has the value `wrong` in place of `right`."""

    scenario: str
    path: KeyPath
    right: Any
    wrong: Any

    def __str__(self) -> str:
        return f"{self.scenario}: {dotted(self.path)} = {self.wrong!r} in place of {self.right!r}"

    def document(self) -> Document:
        """The scenario as it is written, with the wrong value."""
        document = deepcopy(read_yaml(LIBRARY / f"{self.scenario}.yaml").data)
        value_at(document, self.path[:-1])[self.path[-1]] = self.wrong
        return document


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The errors of a wrong leaf, the number of them at its line, and what is left once their remedies are followed.

    `left` is None if a remedy cannot be followed to the letter.
    """

    errors: tuple[ScenarioError, ...]
    at_its_line: bool
    left: tuple[ScenarioError, ...] | None

    @property
    def good(self) -> bool:
        """One error, at the line of the leaf, whose remedy leaves none."""
        return len(self.errors) == 1 and self.at_its_line and self.left == ()


def wrong_leaves() -> Iterator[WrongLeaf]:
    """Every leaf of every library scenario with six wrong values each; of a list the first item alone."""
    for file in sorted(LIBRARY.glob("*.yaml")):
        for path, right in _leaves(read_yaml(file).data, ()):
            free = {"label"} & {*path}  # free text, also from a number
            for wrong in _wrong_values(right):
                if free and not (wrong is None or has_parts(wrong)):
                    continue
                yield WrongLeaf(scenario=file.stem, path=path, right=right, wrong=wrong)


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not has_parts(value):
        yield path, value
        return
    for key, inside in value.items() if isinstance(value, dict) else [*enumerate(value)][:1]:
        yield from _leaves(inside, (*path, key))


def _wrong_values(right: Any) -> list[Any]:
    """A wrong type, out of range low and high, a misspelt word, null and a nested mapping."""
    other_type = 7.25 if isinstance(right, str | bool) else "some text"
    misspelt = right + right[-1] if isinstance(right, str) else f"{right}x"
    return [other_type, -1e30, 1e30, misspelt, None, {"inside": 1}]


def judged(leaf: WrongLeaf, folder: Path) -> Verdict | None:
    """The verdict on a wrong leaf; None if the value is allowed there, so that nothing is wrong.

    `folder` keeps copies of the library, which are the bases of one another.
    """
    for file in (*LIBRARY.glob("*.yaml"), *LIBRARY.glob("*.npz")):
        if not (folder / file.name).exists():
            shutil.copy(file, folder)
    path = folder / f"{leaf.scenario}.yaml"
    document = leaf.document()
    try:
        path.write_text(_text(document))
        errors = check(path).errors
        if not errors:
            return None
        placed = deepcopy(document)
        if leaf.wrong is None:  # a file with a null is not read
            value_at(placed, leaf.path[:-1])[leaf.path[-1]] = "null"
            path.write_text(_text(placed))
        lines = {line for at, line in read_yaml(path).lines.items() if at[: len(leaf.path)] == leaf.path}
        at_its_line = {one.line for one in errors} <= lines
        try:
            mended = (
                _without_null(placed, leaf.path, errors[0].remedy) if leaf.wrong is None else followed(path, errors)
            )
        except (AssertionError, ScenarioError, LookupError, TypeError, AttributeError):
            return Verdict(errors=errors, at_its_line=at_its_line, left=None)
        path.write_text(mended)
        return Verdict(errors=errors, at_its_line=at_its_line, left=check(path).errors)
    finally:
        shutil.copy(LIBRARY / path.name, path)


def _without_null(document: Document, path: KeyPath, remedy: str) -> str:
    """Follow the remedy of a key without a value."""
    if remedy.startswith("leave the key out"):
        del value_at(document, path[:-1])[path[-1]]
    else:
        value_at(document, path[:-1])[path[-1]] = yaml.safe_load(
            remedy.removeprefix("write for example ").removesuffix(", or leave the key out")
        )
    return _text(document)


def _text(document: Document) -> str:
    """YAML that PyYAML reads back as it is: 1e+30 is text without a dot."""
    return re.sub(r"(?<![\w.])(-?\d+)e\+?(\d+)\b", r"\1.0e+\2", as_yaml(document))
