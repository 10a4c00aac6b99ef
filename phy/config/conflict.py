"""Conflict: a combination of valid keys that cannot be simulated, and its remedies as data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class Write:
    """Lines to write, by dotted path; they take the place of the keys `over`.

    A path is read as a reader does: from the nearest section around the wrong key that has it, and "" is the wrong key
    itself. `example`: the value is one of many. `note`: words behind the lines, such as "or less".
    """

    lines: Mapping[str, Any]
    over: Sequence[str] = ()
    example: bool = False
    note: str = ""

    def __str__(self) -> str:
        return f"write {self.clause()}"

    def clause(self) -> str:
        """Return the words behind "write"."""
        lines = " and ".join(f"{key}: " * bool(key) + _in_yaml(value) for key, value in self.lines.items())
        replaced = f" in place of {listing(self.over, last='and')}" if self.over else ""
        return f"{'for example ' * self.example}{lines}{replaced}{_behind(self.note)}"

    @property
    def named(self) -> tuple[str, ...]:
        """The keys that the remedy changes."""
        return (*self.lines, *self.over)

    def renamed(self, names: Mapping[str, str]) -> Write:
        """Return the remedy with other names for keys."""
        lines = {names.get(key, key): value for key, value in self.lines.items()}
        return replace(self, lines=lines, over=tuple(names.get(key, key) for key in self.over))


@dataclass(frozen=True, init=False)
class LeaveOut:
    """Keys to leave out, by dotted path as in `Write`; none is the wrong key itself. `note`: words behind them."""

    keys: tuple[str, ...]
    note: str

    def __init__(self, *keys: str, note: str = "") -> None:
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "note", note)

    def __str__(self) -> str:
        return f"leave {listing(self.keys, last='and') or 'it'} out{_behind(self.note)}"

    @property
    def named(self) -> tuple[str, ...]:
        """The keys that the remedy leaves out."""
        return self.keys

    def renamed(self, names: Mapping[str, str]) -> LeaveOut:
        """Return the remedy with other names for keys."""
        return LeaveOut(*(names.get(key, key) for key in self.keys), note=self.note)


@dataclass(frozen=True)
class Say:
    """Advice in words, which names no value."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def named(self) -> tuple[str, ...]:
        """No key."""
        return ()

    def renamed(self, names: Mapping[str, str]) -> Say:
        """Return the same words."""
        del names
        return self


Remedy = Write | LeaveOut | Say


def _in_yaml(value: object) -> str:
    return flow(value).replace("e-0", "e-") if isinstance(value, float) else flow(value)


def _behind(note: str) -> str:
    return note if note.startswith((":", ",")) else f" {note}".rstrip()


def sentence_of(remedies: Iterable[Remedy]) -> str:
    """Return the words for remedies of which any one is enough; "write" stands once for several lines."""
    words: list[str] = []
    writing = False
    for one in remedies:
        words.append(one.clause() if isinstance(one, Write) and writing else str(one))
        writing = isinstance(one, Write) or (writing and isinstance(one, Say))
    return ", or ".join(words)


def remedy_in(plain: Mapping[str, Any] | Sequence[str] | str) -> Remedy:
    """Return the remedy in plain data: lines to write (in place of keys with None), keys to leave out, or words."""
    match plain:
        case str():
            return Say(plain)
        case Mapping():
            lines = {key: value for key, value in plain.items() if value is not None}
            return Write(lines, over=tuple(key for key, value in plain.items() if value is None))
    return LeaveOut(*plain)


@dataclass(frozen=True, init=False)
class Conflict:
    """A combination of keys, in `listed` separated by spaces. The error names the first key that the user wrote.

    Any one of the remedies ends it, the likeliest first.
    """

    listed: str
    problem: str
    remedies: tuple[Remedy, ...] = field(default=())

    def __init__(self, listed: str, problem: str, *remedies: Remedy) -> None:
        for name, value in (("listed", listed), ("problem", problem), ("remedies", remedies)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.problem, self.remedy)))

    @property
    def keys(self) -> tuple[str, ...]:
        """Dotted paths, the likeliest to be wrong first."""
        return tuple(self.listed.split())

    @property
    def named(self) -> frozenset[str]:
        """All keys of the conflict and of its remedies."""
        return frozenset(self.keys).union(*(one.named for one in self.remedies))

    @property
    def remedy(self) -> str:
        """The remedies in words."""
        return sentence_of(self.remedies)

    def completed(self, keys: str, *remedies: Remedy) -> Conflict:
        """The conflict with these keys, and with these remedies, where it has none of its own."""
        return Conflict(self.listed or keys, self.problem, *(self.remedies or remedies))

    def under(self, path: str, others: str = "") -> Conflict:
        """The conflict with its keys below `path`, and `others` after them, which remedies name in full."""
        keys, names = " ".join(f"{path}.{key}" for key in self.keys), {}
        for other in others.split():
            names[other.rpartition(".")[2]] = other
        remedies = (one.renamed(names) for one in self.remedies)
        return Conflict(f"{keys} {others}".strip(), self.problem, *remedies)


class ConflictError(ValueError):
    """The conflict of a section, for its validator: keys are relative to the section."""

    def __init__(self, listed: str, problem: str, *remedies: Remedy) -> None:
        super().__init__(listed, problem, *remedies)
        self.conflict = Conflict(listed, problem, *remedies)

    def __str__(self) -> str:
        return str(self.conflict)


class RemediedError(Exception):
    """A problem and its remedies, of which any one is enough; text is advice. A conflict may stand for all of them."""

    def __init__(self, problem: str | Conflict, *remedies: Remedy | str) -> None:
        super().__init__(problem, *remedies)
        self.conflict = problem if isinstance(problem, Conflict) else Conflict("", problem, *map(_said, remedies))

    def __str__(self) -> str:
        return str(self.conflict)


def _said(remedy: Remedy | str) -> Remedy:
    return Say(remedy) if isinstance(remedy, str) else remedy


def conflict_in(error: BaseException) -> Conflict:
    """Return the conflict that an exception carries; for others, their text as the problem."""
    if isinstance(error, ConflictError | RemediedError):
        return error.conflict
    return Conflict("", str(error))


def rounded(number: float, digits: int) -> float:
    """Return a number with so many digits, as an integer where it is one."""
    short = float(f"{number:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def listing(words: Iterable[object], *, last: str = "or") -> str:
    """`a, b or c`."""
    items = [str(word) for word in words]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""


def flow(value: object) -> str:
    """A value in one line of YAML."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False) if needs_quotes(value) else value
        case bool():
            return "true" if value else "false"
        case dict():
            return "{" + ", ".join(f"{key}: {_inside(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_inside, value)) + "]"
    return repr(value)


def _inside(value: object) -> str:
    """A value within a list or mapping in one line, whose marks a text must quote."""
    quoted = isinstance(value, str) and re.search(r"[,\[\]{}#\"]|: ", value)
    return json.dumps(value, ensure_ascii=False) if quoted else flow(value)


def needs_quotes(text: str) -> bool:
    """Return True if YAML reads the word without quotes as a number, a boolean or nothing."""
    try:
        return not text.strip() or text in ("true", "false") or isfinite(float(text))
    except ValueError:
        return False
