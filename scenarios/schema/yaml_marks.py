"""YAML text into plain data and the line of every key path, by the rules of YAML 1.2.

`1e-4` is a number, only `true` and `false` are booleans, `010` is ten, and dates are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scenarios.schema.errors import KeyPath, ScenarioError, dotted
from scenarios.schema.messages.syntax import syntax_error

MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_DIGITS, MAX_KEY, MAX_KEYS = 1 << 20, 32, 50_000, 64, 200, 1000
MAX_ANCHORS = 1000
"""Anchors and aliases of a file: PyYAML takes up to twice as long for a value that has one."""
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that steer a terminal, change the direction of a line, or have no UTF-8 form."""
_DIGITS = "[0-9](?:_?[0-9])*"
_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("(?:~|null|Null|NULL|)", lambda _: None),
    "bool": ("(?:true|True|TRUE|false|False|FALSE)", lambda text: text.lower() == "true"),
    "int": (f"[-+]?{_DIGITS}", int),
    "float": (rf"[-+]?(?:(?:{_DIGITS})?\.[0-9]+|{_DIGITS}\.?)(?:[eE][-+]?[0-9]+)?", float),
    "merge": ("<<", str),  # no key of ours
    "special": (r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))", lambda text: float(text.replace(".", ""))),
}
"""Plain scalars that are no text: the form of each kind, and its value."""
# The C parser is ten times as fast; wheels on some platforms come without it.
_Loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"yaml_implicit_resolvers": {}})
for _kind, (_form, _) in _KINDS.items():
    _Loader.add_implicit_resolver(_kind, re.compile(rf"{_form}\Z"), None)


class Marked(NamedTuple):
    """Plain data (dict, list, str, int, float, bool) and the 1-based line of every key path in it."""

    data: Any
    lines: dict[KeyPath, int]


def read_yaml(path: Path) -> Marked:
    """Return the mapping in a YAML file; raise ScenarioError for any other file."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    except (OSError, ValueError) as error:
        problem = f"the file cannot be read ({getattr(error, 'strerror', None) or error})"
        remedy = "check the path, or see phyloop list for the library"
        raise ScenarioError(problem=problem, remedy=remedy, file=path) from None
    marked = parse_yaml(raw, file=path)
    if marked is None or not isinstance(marked.data, dict):
        remedy = "write key: value lines, such as name: my-study"
        raise ScenarioError(problem="the file is empty, or no mapping", remedy=remedy, file=path)
    return marked


def plain_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file with values that no scenario may have, such as null; empty if it cannot be read."""
    try:
        data = yaml.load(path.read_bytes()[:MAX_BYTES], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}


def parse_yaml(text: str | bytes, *, file: Path | str) -> Marked | None:
    """Return the one value in `text`, or None without any; raise ScenarioError, which names `file`."""
    reader, depth, anchors = _Reader(file), 0, 0
    try:
        # Events are looked at before they become nodes, by a recursion in C without a limit.
        events: Iterable[Any] = yaml.parse(text, Loader=_Loader)
        for count, event in enumerate(events):
            reader.line = event.start_mark.line + 1
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            reader.refuse_large(count // 2, depth)
            anchors += getattr(event, "anchor", None) is not None
            if anchors > MAX_ANCHORS:
                raise reader.refuse(f"more than {MAX_ANCHORS} anchors and aliases", "write values out")
            if getattr(event, "tag", None):
                raise reader.refuse(f"the tag {event.tag} is not allowed", "leave the tag out")
            if found := UNSHOWN.search(getattr(event, "value", "")):
                raise reader.refuse(f"the character U+{ord(found[0]):04X} cannot be shown", "leave it out")
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: a character that does not exist
        raise syntax_error(error, text, file=file) from None
    return None if node is None else Marked(reader.value(node, (), node.start_mark.line + 1), reader.lines)


@dataclass
class _Reader:
    """Plain values of PyYAML's nodes; `lines` holds the line of each path, those below an alias once per use."""

    file: Path | str
    line: int = 1
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def refuse(self, problem: str, remedy: str, path: KeyPath = ()) -> ScenarioError:
        key = dotted(path) or None
        return ScenarioError(problem=problem, remedy=remedy, file=self.file, line=self.line, key=key)

    def refuse_large(self, count: int, depth: int) -> None:
        if count > MAX_NODES or depth > MAX_DEPTH:
            problem = f"more than {MAX_NODES} values once aliases are written out, or more than {MAX_DEPTH} levels"
            raise self.refuse(problem, "shorten the file, or flatten it")

    def value(self, node: Any, path: KeyPath, line: int) -> Any:
        """Return the value at `path`, whose key is on `line`."""
        self.lines[path] = self.line = line
        self.refuse_large(len(self.lines), len(path))
        match node:
            case yaml.MappingNode():
                return self.mapping(node, path)
            case yaml.SequenceNode():
                return [self.value(one, (*path, k), one.start_mark.line + 1) for k, one in enumerate(node.value)]
        if node.tag == "null":
            raise self.refuse("the key has no value", "leave the key out to get its default, or write a value", path)
        if node.tag == "int" and len(node.value) > MAX_DIGITS:
            raise self.refuse(f"a number of more than {MAX_DIGITS} digits", "write fewer digits", path)
        return _KINDS[node.tag][1](node.value) if node.tag in _KINDS else node.value

    def mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:
        items: dict[str, Any] = {}
        for name, value in node.value:
            key, self.line = name.value, name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode) or name.tag in _KINDS or len(key) > MAX_KEY:
                problem = f"a key must be text of at most {MAX_KEY} characters"
                raise self.refuse(problem, "write a name before the colon", path)
            if len(items) == MAX_KEYS:
                raise self.refuse(f"a mapping of more than {MAX_KEYS} keys", "shorten it", path)
            if key in items:
                problem = f"the key is written twice, first on line {self.lines[*path, key]}"
                raise self.refuse(problem, "keep one of them", (*path, key))
            if node.flow_style and (value.tag, value.value) == ("null", ""):
                before, colon, after = key.partition(":")
                remedy = f"{before}: {after}" if colon else f"{key} without braces, or name: {key} inside them"
                raise self.refuse(f"{{{key}}} is a key without a value", f"write {remedy}", path)
            items[key] = self.value(value, (*path, key), self.line)
        return items
