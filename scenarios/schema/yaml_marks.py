"""YAML text into plain data and the line of every key, by rules without surprises.

The rules are those of YAML 1.2 where YAML 1.1 would silently change a meaning: `1e-4` is a number,
only `true` and `false` are booleans (`on`, `yes` and `none` are words), `010` is ten, and dates are
text. Values are built from PyYAML's event stream, so nothing is constructed before it is counted.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scenarios.schema.errors import KeyPath, ScenarioError, dotted

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 50_000
MAX_DIGITS = 64
MAX_KEY = 200
MAX_KEYS = 1000
"""Keys of one mapping; a scenario has some 500 in all."""

_INT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_FLOAT = re.compile(r"[-+]?(?:(?:[0-9]+(?:_[0-9]+)*)?\.[0-9]+|[0-9]+(?:_[0-9]+)*\.?)(?:[eE][-+]?[0-9]+)?")
_NON_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = frozenset(("", "~", "null", "Null", "NULL"))

UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
"""Characters that steer a terminal or turn the direction of a line: no name or label needs one."""

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, type | tuple[type, ...]] = {
    f"{_TAG}str": str,
    f"{_TAG}int": int,
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": bool,
}


class Marked(NamedTuple):
    """Plain data (dict, list, str, int, float, bool) and the 1-based line of every key path in it."""

    data: Any
    lines: dict[KeyPath, int]


def read_yaml(path: Path) -> Marked:
    """The mapping in a YAML file; its `lines` hold the line of every key.

    Raises ScenarioError for a file that cannot be read, is too large, is not UTF-8, is empty, or is
    not one well-formed mapping of plain values.
    """
    text = _read_text(path)
    marked = parse_yaml(text, file=path)
    if marked is None:
        raise ScenarioError(problem="the file is empty", remedy="write at least name: and learning:", file=path, line=1)
    if not isinstance(marked.data, dict):
        raise ScenarioError(
            problem="the top level is not a mapping",
            remedy="write key: value lines, such as name: my-study",
            file=path,
            line=marked.lines[()],
            value=marked.data,
        )
    return marked


def parse_yaml(text: str, *, file: Path | str) -> Marked | None:
    """The one value written in `text`, or None if there is none; `file` is named in errors.

    Raises ScenarioError for anything that is not plain data within the limits of this module.
    """
    try:
        root = _Composer(_events(text), file).document()
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, file) from None
    except (UnicodeError, ValueError, OverflowError):
        raise ScenarioError(
            problem="a character cannot be read",
            remedy="write it as plain UTF-8 text",
            file=file,
        ) from None
    if root is None:
        return None
    lines: dict[KeyPath, int] = {}
    return Marked(_plain(root, (), lines, file), lines)


def _read_text(path: Path) -> str:
    def refuse(problem: str, remedy: str, **where: Any) -> ScenarioError:
        return ScenarioError(problem=problem, remedy=remedy, file=path, **where)

    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise refuse("this is a directory", "name a YAML file in it")
        if not stat.S_ISREG(mode):  # reading a pipe or a device could wait for ever
            raise refuse("this is not a regular file", "name a YAML file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise refuse("the file does not exist", "check the path, or see phyloop list for the library") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(f"the file cannot be read ({reason})", "check the path and its permissions") from None
    if len(raw) > MAX_BYTES:
        raise refuse(f"the file is larger than {MAX_BYTES} bytes", "a scenario is short: check that this is one")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(
            f"byte 0x{raw[error.start]:02x} at offset {error.start} is not UTF-8",
            "save the file as UTF-8",
            line=raw.count(b"\n", 0, error.start) + 1,
            value=f"0x{raw[error.start]:02x}",
        ) from None


def _events(text: str) -> Iterator[Any]:
    # The C parser is ten times as fast; wheels on some platforms come without it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


def _syntax_error(error: yaml.YAMLError, text: str, file: Path | str) -> ScenarioError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = getattr(error, "position", None)
    line = None
    if mark is not None:
        line = mark.line + 1
    elif isinstance(position, int):
        line = text.count("\n", 0, position) + 1
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    return ScenarioError(
        problem=f"not valid YAML: {reason}",
        remedy="check indentation, colons and quotes",
        file=file,
        line=line,
    )


@dataclass(slots=True)
class _Node:
    value: Any  # a scalar, or list/dict as the kind of a collection
    line: int
    items: list[tuple[str | int, int, _Node]] = field(default_factory=list)
    size: int = 1  # nodes once aliases are written out
    height: int = 0


class _Composer:
    """Events into nodes. Aliased nodes are shared, and counted as often as they are used."""

    def __init__(self, events: Iterator[Any], file: Path | str) -> None:
        self.events = events
        self.file = file
        self.anchors: dict[str, _Node] = {}
        self.count = 0

    def refuse(self, problem: str, remedy: str, event: Any, path: KeyPath = (), value: Any = None) -> ScenarioError:
        return ScenarioError(
            problem=problem,
            remedy=remedy,
            file=self.file,
            line=event.start_mark.line + 1,
            key=dotted(path) or None,
            value=value,
        )

    def document(self) -> _Node | None:
        root = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self.refuse("a second document starts here", "keep one document per file", event)
                root = self.node(next(self.events), (), 0)
        return root

    def node(self, event: Any, path: KeyPath, depth: int) -> _Node:
        if isinstance(event, yaml.AliasEvent):
            node = self.anchors.get(str(event.anchor))
            if node is None:
                raise self.refuse(
                    f"the alias *{event.anchor} has no finished anchor", "write the value out", event, path
                )
            self.admit(node.size, depth + node.height, event, path)
            return node
        self.admit(1, depth, event, path)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self.scalar(event, path), line)
        else:
            node = self.collection(event, path, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def admit(self, size: int, depth: int, event: Any, path: KeyPath) -> None:
        self.count += size
        if self.count > MAX_NODES:
            raise self.refuse(
                f"more than {MAX_NODES} values once aliases are written out", "shorten the file", event, path
            )
        if depth > MAX_DEPTH:
            # The path is as deep as the nesting: naming it would fill the screen.
            raise self.refuse(f"nested deeper than {MAX_DEPTH} levels", "flatten it", event, path[:3])

    def collection(self, start: Any, path: KeyPath, depth: int) -> _Node:
        is_map = isinstance(start, yaml.MappingStartEvent)
        kind, end = (dict, yaml.MappingEndEvent) if is_map else (list, yaml.SequenceEndEvent)
        if start.tag not in (None, "!", f"{_TAG}{'map' if is_map else 'seq'}"):
            raise self.refuse(f"the tag {start.tag} is not allowed", "leave the tag out", start, path)
        node = _Node(kind(), start.start_mark.line + 1)
        seen: dict[str, int] = {}
        event: Any
        for event in self.events:
            if isinstance(event, end):
                break
            line = event.start_mark.line + 1
            key: str | int = len(node.items)
            if is_map:
                key = self.key(event, path)
                if key in seen:
                    raise self.refuse(
                        f"the key is written twice, first on line {seen[key]}",
                        "keep one of them",
                        event,
                        (*path, key),
                    )
                seen[key] = line
                if len(seen) > MAX_KEYS:
                    raise self.refuse(f"a mapping of more than {MAX_KEYS} keys", "shorten it", event, path)
                event = next(self.events)
            child = self.node(event, (*path, key), depth + 1)
            node.items.append((key, line, child))
            node.size += child.size
            node.height = max(node.height, child.height + 1)
        return node

    def key(self, event: Any, path: KeyPath) -> str:
        value = self.scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(value, str):
            text = value if isinstance(event, yaml.ScalarEvent) else "a collection or an alias"
            raise self.refuse("a key must be text", "write a name before the colon", event, path, text)
        if len(value) > MAX_KEY:
            raise self.refuse(f"a key of more than {MAX_KEY} characters", "shorten it", event, path, value)
        if value == "<<" and event.implicit[0]:
            raise self.refuse("merge keys are not read", "use base: other.yaml instead", event, (*path, value))
        return value

    def scalar(self, event: Any, path: KeyPath) -> Any:
        text: str = event.value
        text.encode("utf-8")  # a lone surrogate, written as an escape, is no text
        if (found := UNSHOWN.search(text)) is not None:
            raise self.refuse(f"the character U+{ord(found[0]):04X} cannot be shown", "leave it out", event, path, text)
        if event.tag is None:
            return self.plain(text, event, path) if event.implicit[0] else text
        if event.tag in ("!", f"{_TAG}str"):
            return text
        value = self.plain(text, event, path) if event.tag in _SCALAR_TAGS else None
        if value is None or not isinstance(value, _SCALAR_TAGS[event.tag]):
            raise self.refuse(f"the tag {event.tag} is not allowed here", "leave the tag out", event, path, text)
        return value

    def plain(self, text: str, event: Any, path: KeyPath) -> Any:
        """What an unquoted word stands for."""
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if not (text[0].isdecimal() or text[0] in "+-."):
            return text
        if _INT.fullmatch(text):
            if len(text) > MAX_DIGITS:
                raise self.refuse(f"a number of more than {MAX_DIGITS} digits", "write fewer digits", event, path, text)
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _NON_FINITE.fullmatch(text):
            return float(text.replace(".", "").lower())
        return text


def _plain(node: _Node, path: KeyPath, lines: dict[KeyPath, int], file: Path | str) -> Any:
    """A node as data of its own (nothing shared between aliases); notes the line of each path."""
    lines.setdefault(path, node.line)
    if node.value is None:
        raise ScenarioError(
            problem="the key has no value",
            remedy="leave the key out to get its default, or write a value",
            file=file,
            line=lines[path],
            key=dotted(path) or None,
        )
    if not isinstance(node.value, dict | list):
        return node.value
    for key, line, _ in node.items:
        lines[*path, key] = line
    values = {key: _plain(child, (*path, key), lines, file) for key, _, child in node.items}
    return values if isinstance(node.value, dict) else list(values.values())
