"""The one error a user meets: what is wrong, where, and what to do about it, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ScenarioError(Exception):
    """Bad input. The command line prints it as one sentence and exits with code 2.

    Fields that do not apply stay None: a file that cannot be read has no key, an override from the
    command line has no line.
    """

    problem: str
    remedy: str
    file: Path | str | None = None
    line: int | None = None
    key: str | None = None
    value: object = None

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        subject = ""
        if self.key is not None:
            subject = f"{self.key}: " if self.value is None else f"{self.key} = {shorten(self.value)}: "
        return f"{place}{subject}{self.problem}; {self.remedy}."


def shorten(value: object, limit: int = 60) -> str:
    """A value as the user would recognise it, cut to `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
