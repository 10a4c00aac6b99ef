"""ScenarioError, the one error that a user meets, and the helpers that put values and places into words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import category

from fl.base.words import plural
from phy.config.conflict import Conflict, conflict_in, flow, remedy_in
from privacy.errors import PrivacyError

KeyPath = tuple[str | int, ...]
"""Keys of mappings and indices of lists from the top of the file to a value."""


MAX_SHOWN = 20
"""Errors of one scenario that are shown."""

PIPED_COLUMNS = 100
"""Width of tables and sentences where there is no terminal."""


class Mark(NamedTuple):
    """File and line where a value is written; an override on the command line has no line."""

    file: Path | str
    line: int | None


class Change(NamedTuple):
    """What a remedy does to a document: keys that go, and keys that come with their values.

    Not `sure`: the keys go because the remedy leaves their values to the user.
    """

    gone: tuple[KeyPath, ...] = ()
    new: tuple[tuple[KeyPath, Any], ...] = ()
    sure: bool = True


# Not frozen: Python itself writes __traceback__ and __context__ of an exception on its way up.
@dataclass(kw_only=True, eq=False)
class ScenarioError(Exception):
    """Bad input. The command line prints one sentence per error and exits with code 2.

    Fields that do not apply stay None: an unreadable file has no key, an override has no line. `remedy` is empty where
    none is known. `others` are further errors in the same scenario; `change` is what the remedy does, as far as it
    names values.
    """

    problem: str
    remedy: str
    file: Path | str | None = None
    line: int | None = None
    key: str | None = None
    value: object = None
    others: tuple[ScenarioError, ...] = ()
    change: Change = field(default_factory=Change)

    @property
    def errors(self) -> tuple[ScenarioError, ...]:
        """All errors, one each."""
        return (replace(self, others=()), *self.others)

    def __str__(self) -> str:
        return "\n".join(one.sentence() for one in (self, *self.others))

    def sentence(self) -> str:
        """Return this error alone as one sentence."""
        place = "" if self.file is None else f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        subject = ""
        if self.key is not None:
            subject = f"{self.key}: " if self.value is None else f"{self.key} = {shorten(self.value)}: "
        return printable(f"{place}{subject}{'; '.join(filter(None, (self.problem, self.remedy)))}.")

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception pickles positional arguments only, so that the fields of a worker's error would be lost.
        return partial(type(self), **self.__dict__), ()


def together(errors: Iterable[ScenarioError], *, unseen: int = 0) -> ScenarioError:
    """Join errors into one, sorted by file and line, those that differ in the value alone once.

    Those beyond MAX_SHOWN, and `unseen` others, become a number.
    """
    different: dict[tuple[object, ...], ScenarioError] = {}
    for one in (one for error in errors for one in error.errors):
        different.setdefault((*_place(one), one.key, one.problem, one.remedy), one)
    found = sorted(different.values(), key=_place)
    first, *others = found[:MAX_SHOWN]
    if more := len(found[MAX_SHOWN:]) + unseen:
        others[-1].remedy += f" ({plural(more, 'more error')} to correct after this)"
    return replace(first, others=tuple(others))


def conflict_of(error: BaseException) -> Conflict:
    """Return the conflict that an error of another package carries; without one, its text as the problem."""
    if isinstance(error, PrivacyError):
        return Conflict(error.keys, error.problem.removesuffix("."), *map(remedy_in, error.remedies))
    return conflict_in(error)


def told_by(error: BaseException) -> tuple[str, str]:
    """Return problem and remedy of an error of another package; the remedy is empty where it has none."""
    conflict = conflict_of(error)
    return conflict.problem, conflict.remedy


def _place(error: ScenarioError) -> tuple[str, int]:
    return str(error.file), error.line or 0


def shorten(value: object, limit: int = 60) -> str:
    """A value as the user would write it in YAML, cut to `limit` characters."""
    text = " ".join(flow(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Text for a terminal: characters that steer it, end the line or turn its direction become escapes."""
    return "".join(
        one if one.isprintable() or category(one) == "Zs" else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def mapping(value: Any) -> dict[Any, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def has_parts(value: object) -> bool:
    """Return True for a mapping or a list, whose parts have values of their own."""
    return isinstance(value, dict | list)


def items_of(value: Any) -> list[Any]:
    """Return a list as it is, any other value as its only item."""
    return value if isinstance(value, list) else [value]


def dotted(path: Iterable[str | int]) -> str:
    """A key path as the user writes it: `link.channel.gain[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def names_of(path: Iterable[str | int]) -> str:
    """The keys of a path without the numbers of list items: `link.channel.gain`."""
    return ".".join(part for part in path if type(part) is str)


def value_at(document: Any, path: KeyPath) -> Any:
    """The plain value at a key path; None if the path does not exist."""
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def mark_of(path: KeyPath, marks: Mapping[KeyPath, Mark]) -> tuple[Path | str | None, int | None]:
    """File and line of `path`, or of the nearest mapping around it that has a mark."""
    for length in range(len(path), -1, -1):
        if path[:length] in marks:
            return marks[path[:length]]
    return None, None
