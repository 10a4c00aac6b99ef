"""Pieces of Markdown that the generated pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    """Return text as one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table, empty without rows."""
    lines = [" | ".join(map(cell, row)) for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {line} |" for line in (" | ".join(heads), " | ".join("---" for _ in heads), *lines)) + "\n"


def code(text: str, language: str = "") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.strip()}\n```\n"


def toctree(*names: str) -> str:
    """Return the hidden list of the pages below a page."""
    return "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def page(*parts: str) -> str:
    """Return parts, which may be empty, with a blank line between two of them."""
    return "\n".join(f"{part.strip()}\n" for part in parts if part.strip())
