"""Errors of YAML's syntax: the line of the mistake, and what to write there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from yaml.composer import ComposerError

from scenarios.schema.errors import ScenarioError


def syntax_error(error: Exception, text: str | bytes, *, file: Path | str) -> ScenarioError:
    """Return the error for what PyYAML has refused: a mark in the text, or a character."""
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        position = getattr(error, "position", getattr(error, "start", 0))
        before = text[:position] if isinstance(text, str) else text[:position].decode(errors="replace")
        line, remedy = before.count("\n") + 1, "leave this character out, or save the file as UTF-8"
        problem = getattr(error, "reason", "a character does not exist")
    else:
        lines = text.splitlines() if isinstance(text, str) else text.decode(errors="replace").splitlines()
        start: Any = getattr(error, "context_mark", None)
        within = start and re.search("scanning|flow", getattr(error, "context", None) or "")
        line, remedy = _line_and_remedy(lines, start.line + 1 if within else mark.line + 1, mark.line + 1)
        problem = getattr(error, "problem", None)
        if start and isinstance(error, ComposerError):  # "expected a single document", "but found another"
            problem = f"{getattr(error, 'context', None)}, {problem}"
    return ScenarioError(problem=f"not valid YAML: {problem}", remedy=remedy, file=file, line=line)


def _line_and_remedy(lines: list[str], first: int, last: int) -> tuple[int, str]:
    """Return the line of a syntax error that shows between two lines, and its remedy."""
    for number in range(max(1, first - 1), min(last, len(lines)) + 1):
        line = lines[number - 1]
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return number, "indent with spaces in place of the tab"
        if key := re.match(r" *(?:- )?([\w.]+)(?: *= *|:(?=[\w.\[{]))(.+)", line):
            return number, f"write {key[1]}: {key[2]}"
        if re.match(r" *(?:- )?[\w.]+: [^{\[\"'#]*, *[\w.]+: ", line):
            return number, "write each of these keys on a line of its own"
        if text := re.match(r" *(?:- )?([\w.]+): ([^{\[\"'#]*: .*)", line):
            return number, f"put the text in quotes: {text[1]}: {json.dumps(text[2], ensure_ascii=False)}"
        for sign, closed in (("'", "'"), ('"', '"'), ("{", "}"), ("[", "]")):
            opened = line.count(sign) % 2 if sign == closed else line.count(sign) > line.count(closed)
            if opened and number >= first:
                return number, f"close the {sign} of this line with {closed}"
    here, above, *_ = [*(line for line in reversed(lines[:last]) if line.strip()), "", ""]
    spaces = [len(line) - len(line.lstrip()) for line in (here, above)]
    if len(set(spaces)) > 1:
        return last, f"check indentation ({spaces[0]} spaces, the line above has {spaces[1]}), colons and quotes"
    return last, "check indentation, colons and quotes"
