"""Methods of classes with their types, as their source writes them: what a plug-in of a kind defines."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

_MARKS = {"abstractmethod": "must be defined", "property": "property", "cached_property": "property"}
_HIDDEN = {"classmethod", "staticmethod", "model_validator", "field_validator"}


class Method(NamedTuple):
    """Name with arguments and types, what it is, and the first sentence of its docstring."""

    signature: str
    mark: str
    about: str


def methods_of(cls: type) -> Iterator[Method]:
    """Yield the public methods and properties that a class writes itself, also those for type checkers alone."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, ValueError, SyntaxError):  # a class without a source file
        return
    assert isinstance(tree, ast.ClassDef)
    inside = [part for one in tree.body for part in (one.body if isinstance(one, ast.If) else [one])]
    for one in inside:
        if not isinstance(one, ast.FunctionDef) or one.name.startswith("_"):
            continue
        words = {ast.unparse(part).partition("(")[0] for part in one.decorator_list}
        if words & _HIDDEN:
            continue
        is_property = bool(words & {"property", "cached_property"})
        marks = [_MARKS[word] for word in ("property", "cached_property", "abstractmethod") if word in words]
        one.args.args = one.args.args[1:]  # self
        returns = f" -> {ast.unparse(one.returns)}" if one.returns is not None else ""
        arguments = "" if is_property else f"({ast.unparse(one.args)})"
        about = (ast.get_docstring(one) or "").split("\n\n", maxsplit=1)[0]
        yield Method(f"{one.name}{arguments}{returns}", ", ".join(marks), " ".join(about.split()))
