"""YAML text into plain data and the line of every key path, by the rules of YAML 1.2.

`1e-4` is a number, only `true` and `false` are booleans, `010` is ten, and dates are text.
PyYAML's events are counted before they become values: no file can fill the memory.
"""

from __future__ import annotations

import re
import stat
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scenarios.schema.errors import KeyPath, ScenarioError, dotted

MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_DIGITS, MAX_KEY, MAX_KEYS = 1 << 20, 32, 50_000, 64, 200, 1000
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that steer a terminal, change the direction of a line, or have no UTF-8 form."""
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_PLAIN = re.compile(
    rf"(?P<null>|~|null|Null|NULL)|(?P<bool>true|True|TRUE|false|False|FALSE)|(?P<int>[-+]?{_DIGITS})"
    rf"|(?P<float>[-+]?(?:(?:{_DIGITS})?\.[0-9]+|{_DIGITS}\.?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_TAG = "tag:yaml.org,2002:"


class Marked(NamedTuple):
    """Plain data (dict, list, str, int, float, bool) and the 1-based line of every key path in it."""

    data: Any
    lines: dict[KeyPath, int]


def _refuse(problem: str, remedy: str, file: Path | str, line: int | None = None, **where: Any) -> ScenarioError:
    return ScenarioError(problem=problem, remedy=remedy, file=file, line=line, **where)


def read_yaml(path: Path) -> Marked:
    """Return the mapping in a YAML file; raise ScenarioError for any other file."""
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode):  # reading a pipe or a device could wait for ever
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise _refuse(f"this is {kind}", "name a YAML file", path)
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise _refuse(f"the file is larger than {MAX_BYTES} bytes", "check that this is a scenario", path)
        marked = parse_yaml(raw.decode("utf-8-sig"), file=path)
    except FileNotFoundError:
        raise _refuse("the file does not exist", "check the path, or see phyloop list for the library", path) from None
    except UnicodeDecodeError as error:
        problem = f"byte 0x{raw[error.start]:02x} at offset {error.start} is not UTF-8"
        raise _refuse(problem, "save the file as UTF-8", path, raw.count(b"\n", 0, error.start) + 1) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _refuse(f"the file cannot be read ({reason})", "check the path and its permissions", path) from None
    if marked is None:
        raise _refuse("the file is empty", "write at least name: and learning:", path, 1)
    if not isinstance(marked.data, dict):
        remedy = "write key: value lines, such as name: my-study"
        raise _refuse("the top level is not a mapping", remedy, path, marked.lines[()], value=marked.data)
    return marked


def parse_yaml(text: str, *, file: Path | str) -> Marked | None:
    """Return the one value in `text`, or None without any; raise ScenarioError, which names `file`."""
    reader = _Reader(text, file)
    try:
        data = reader.document()
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: a character that does not exist
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        position = getattr(error, "position", getattr(error, "start", 0))
        line = (mark.line if mark else text.count("\n", 0, position)) + 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", "a character does not exist")
        within = re.search("scanning|flow", getattr(error, "context", None) or "")
        start = getattr(error, "context_mark", None) if within else None
        first = line if start is None else start.line + 1
        line, remedy = _syntax_remedy(text.splitlines(), first, line)
        raise _refuse(f"not valid YAML: {problem}", remedy, file, line) from None
    return Marked(data, dict(reader.marks)) if reader.marks else None


def _syntax_remedy(lines: list[str], first: int, last: int) -> tuple[int, str]:
    """The line of a syntax error that shows between two lines, and its remedy."""
    for number in range(max(1, first - 1), min(last, len(lines)) + 1):
        line = lines[number - 1]
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return number, "indent with spaces in place of the tab"
        if key := re.match(r" *(?:- )?([\w.]+)(?: *= *|:(?=[\w.\[{]))(.+)", line):
            return number, f"write {key[1]}: {key[2]}"
        if re.match(r" *(?:- )?[\w.]+: [^{\[\"'#]*, *[\w.]+: ", line):
            return number, "write each of these keys on a line of its own"
        for sign, closed in (("'", "'"), ('"', '"'), ("{", "}"), ("[", "]")):
            opened = line.count(sign) % 2 if sign == closed else line.count(sign) > line.count(closed)
            if opened and number >= first:
                return number, f"close the {sign} of this line with {closed}"
    here, above, *_ = [*(line for line in reversed(lines[:last]) if line.strip()), "", ""]
    spaces = [len(line) - len(line.lstrip()) for line in (here, above)]
    if len(set(spaces)) > 1:
        return last, f"check indentation ({spaces[0]} spaces, the line above has {spaces[1]}), colons and quotes"
    return last, "check indentation, colons and quotes"


class _Reader:
    """Values from PyYAML's events; `marks` holds path and line of each value, those of aliases once per use."""

    def __init__(self, text: str, file: Path | str) -> None:
        # The C parser is ten times as fast; wheels on some platforms come without it.
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.events: Any = iter(yaml.parse(text, Loader=loader))
        self.file, self.line = file, 1
        self.marks: list[tuple[KeyPath, int]] = []
        self.anchors: dict[str, tuple[Any, int, list[tuple[KeyPath, int]]]] = {}

    def next(self) -> Any:
        event = next(self.events)
        self.line = event.start_mark.line + 1
        return event

    def refuse(self, problem: str, remedy: str, path: KeyPath = (), value: Any = None) -> ScenarioError:
        return _refuse(problem, remedy, self.file, self.line, key=dotted(path) or None, value=value)

    def document(self) -> Any:
        data = None
        while type(event := self.next()) is not yaml.StreamEndEvent:
            if type(event) is yaml.DocumentStartEvent:
                if self.marks:
                    raise self.refuse("a second document starts here", "keep one document per file")
                data = self.value(self.next(), (), self.line)
        return data

    def value(self, event: Any, path: KeyPath, line: int) -> Any:
        """Return the value at `path`, whose key is on `line`."""
        start, is_alias = len(self.marks), type(event) is yaml.AliasEvent
        if is_alias and event.anchor not in self.anchors:
            raise self.refuse(f"the alias *{event.anchor} has no finished anchor", "write the value out", path)
        value, depth, below = self.anchors[event.anchor] if is_alias else (None, 0, [])
        self.marks += [(path, line), *(((*path, *at[depth:]), number) for at, number in below)]
        if len(self.marks) > MAX_NODES:
            raise self.refuse(f"more than {MAX_NODES} values once aliases are written out", "shorten the file", path)
        if max(len(at) for at, _ in self.marks[start:]) > MAX_DEPTH:  # the whole path would fill the screen
            raise self.refuse(f"nested deeper than {MAX_DEPTH} levels", "flatten it", path[:3])
        if is_alias:
            return deepcopy(value)
        value = self.scalar(event, path) if type(event) is yaml.ScalarEvent else self.collection(event, path)
        if value is None:
            self.line = line
            name, colon, written = str(path[-1] if path else "").partition(":")
            if colon:
                raise self.refuse("a space is missing after the colon", f"write {name}: {written}", path)
            raise self.refuse("the key has no value", "leave the key out to get its default, or write a value", path)
        if event.anchor is not None:
            self.anchors[event.anchor] = value, len(path), self.marks[start + 1 :]
        return value

    def collection(self, event: Any, path: KeyPath) -> dict[Any, Any] | list[Any]:
        is_map = type(event) is yaml.MappingStartEvent
        if event.tag not in (None, "!", f"{_TAG}{'map' if is_map else 'seq'}"):
            raise self.refuse(f"the tag {event.tag} is not allowed", "leave the tag out", path)
        items: dict[Any, Any] = {}
        in_braces = is_map and event.flow_style
        while not isinstance(event := self.next(), yaml.CollectionEndEvent):
            line, key = self.line, self.key(event, path) if is_map else len(items)
            if key in items:
                problem = f"the key is written twice, first on line {dict(self.marks)[*path, key]}"
                raise self.refuse(problem, "keep one of them", (*path, key))
            if is_map and len(items) == MAX_KEYS:
                raise self.refuse(f"a mapping of more than {MAX_KEYS} keys", "shorten it", path)
            value = self.next() if is_map else event
            if (
                in_braces
                and not items
                and ":" not in str(key)
                and getattr(value, "value", None) == ""
                and value.implicit[0]
            ):
                remedy = f"write {key} without braces, or name: {key} inside them"
                raise self.refuse(f"{{{key}}} is a key without a value", remedy, path)
            items[key] = self.value(value, (*path, key), line)
        return items if is_map else list(items.values())

    def key(self, event: Any, path: KeyPath) -> str:
        key = self.scalar(event, path) if type(event) is yaml.ScalarEvent else None
        if not isinstance(key, str):
            text = getattr(event, "value", "a collection or an alias")
            raise self.refuse("a key must be text", "write a name before the colon", path, text)
        if len(key) > MAX_KEY:
            raise self.refuse(f"a key of more than {MAX_KEY} characters", "shorten it", path, key)
        if key == "<<" and event.implicit[0]:
            raise self.refuse("merge keys are not read", "use base: other.yaml instead", (*path, key))
        return key

    def scalar(self, event: Any, path: KeyPath) -> str | int | float | None:
        text, tag = event.value, event.tag
        if found := UNSHOWN.search(text):
            raise self.refuse(f"the character U+{ord(found[0]):04X} cannot be shown", "leave it out", path, text)
        is_text = tag in ("!", f"{_TAG}str") or (tag is None and not event.implicit[0])
        match = None if is_text else _PLAIN.fullmatch(text)
        kind = match.lastgroup if match else "str"
        if kind == "int" and len(text) > MAX_DIGITS:
            raise self.refuse(f"a number of more than {MAX_DIGITS} digits", "write fewer digits", path, text)
        if tag not in (None, "!", f"{_TAG}{kind}") and (tag, kind) != (f"{_TAG}float", "int"):
            raise self.refuse(f"the tag {tag} is not allowed here", "leave the tag out", path, text)
        if kind == "float":
            return float(text.replace(".", "") if text[-1] in "fFnN" else text)
        if kind == "int":
            return int(text)
        return text if kind == "str" else None if kind == "null" else text.lower() == "true"
