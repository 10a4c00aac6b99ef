"""Scenarios a little wrong: the library's, with keys deleted, replaced, moved and repeated, and text cut and spoilt."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

import yaml
from hypothesis import strategies as st

from scenarios.schema.loader import LIBRARY
from scenarios.schema.schema_keys import schema_keys

WORDS = (
    *("none", "auto", "true", "null", "~", "digital", "analog", "fedavg", "flmc", "measured", "ldpc5g", "mnist"),
    *("digits", "round", "mse", "link", "label", "os:system", "../x", "/etc/passwd", "[/bold]", "$\\frac{$", "=1+1"),
    *("<b>", "\x1b[2J", "\u202e", "\ud7ff", "é", "𝛆", "%s", "{0}", "a" * 300, ""),
)
NUMBERS = (0, 1, -1, 2, 3, 7, 1000, 10**6, 10**12, 2**63, 2**64, 10**63, 10**70, 0.0, -0.0, 0.5, 1e-300, 1e300, 1e-16)
RAW = (
    *(
        b": ",
        b"- ",
        b"\n",
        b"\n  ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"&a ",
        b"*a",
        b"!!python/object:x ",
        b"<<: *a",
        b"|",
        b">",
    ),
    *(b">", b"?", b"'", b'"', b"#", b"%", b"@", b"`", b"\t", b"\x00", b"\xff", b"\xef\xbb\xbf", b"---\n", b"...\n"),
    *(
        b".nan",
        b"1e999",
        b"0x10",
        b"1_0",
        b"9" * 80,
        b"sweep:",
        b"base: flmc-snr\n",
        b"zip:",
        b"\\x",
        b"\xc2\x85",
        b"\r\n",
    ),
)

scalars = (
    st.sampled_from(WORDS)
    | st.sampled_from(NUMBERS)
    | st.booleans()
    | st.floats(allow_subnormal=False)
    | st.integers()
    | st.text(max_size=8)
)
values = st.recursive(
    scalars | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(("name", "zip", "a", "x", "epsilon", "kind", "code")), inner, max_size=3)
    ),
    max_leaves=6,
)


@cache
def library() -> tuple[str, ...]:
    """Every scenario of the library, as text."""
    return tuple(path.read_text() for path in sorted(LIBRARY.glob("*.yaml")))


@cache
def written() -> dict[str, tuple[Any, ...]]:
    """Every value that the library has for a dotted path, swept or not."""
    found: dict[str, list[Any]] = {}

    def note(value: Any, path: str) -> None:
        found.setdefault(path, []).append(value)
        for key, inner in value.items() if isinstance(value, dict) else ():
            note(inner, f"{path}.{key}" if path else key)

    for text in library():
        document = yaml.safe_load(text)
        sweep = document.pop("sweep", {})
        note(document, "")
        for block in sweep if isinstance(sweep, list) else [sweep]:
            for path, swept in block.items():
                if isinstance(swept, list):
                    found.setdefault(path, []).extend(swept)
    return {path: tuple(entries) for path, entries in found.items() if path}


@cache
def key_names() -> tuple[str, ...]:
    """Words and dotted paths that mean something somewhere in a scenario."""
    paths = tuple(schema_keys())
    return tuple(dict.fromkeys((*paths, *(word for path in paths for word in path.split(".")), "zip", "base")))


@st.composite
def spoilt_documents(draw: st.DrawFn) -> dict[str, Any]:
    """A scenario of the library, as plain data, after one to four changes of what it says."""
    document: dict[str, Any] = deepcopy(yaml.safe_load(draw(st.sampled_from(library()))))
    for _ in range(draw(st.integers(1, 4))):
        _change(document, draw)
    return document


@st.composite
def spoilt_scenarios(draw: st.DrawFn) -> bytes:
    """The text of a spoilt document, in the block style of YAML or as JSON."""
    document = draw(spoilt_documents())
    if draw(st.booleans()):
        return json.dumps(document, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    return yaml.dump(document, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")


def _change(document: dict[Any, Any], draw: st.DrawFn) -> None:
    """Change the document itself at a place of its own."""
    places = list(_places(document))
    holder, key = draw(st.sampled_from(places)) if places else (document, None)
    match draw(st.sampled_from(("delete", "replace", "insert", "wrap", "copy", "sweep"))):
        case "delete" if key is not None:
            del holder[key]
        case "replace" if key is not None:
            ending = f".{key}"
            known = [one for path, entries in written().items() if path.endswith(ending) for one in entries]
            holder[key] = deepcopy(draw(st.sampled_from(known) if known and draw(st.booleans()) else values))
        case "wrap" if key is not None:
            holder[key] = draw(st.sampled_from(([holder[key]], {"name": holder[key]}, [holder[key]] * 3)))
        case "copy" if key is not None:
            other, where = draw(st.sampled_from(places))
            other[where] = deepcopy(holder[key])
        case "sweep":
            path = draw(st.sampled_from(key_names()))
            known = written().get(path, ())
            swept = st.lists(st.sampled_from(known), min_size=1, max_size=3) if known else st.lists(values, max_size=3)
            document["sweep"] = {path: deepcopy(draw(swept))}
        case _:
            inside = holder if isinstance(holder, dict) else document
            inside[draw(st.sampled_from(key_names()))] = draw(values)


def _places(value: Any) -> Any:
    """Every holder and key of plain data."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


@st.composite
def spoilt_text(draw: st.DrawFn) -> bytes:
    """The text of a scenario of the library after one to six changes of its bytes."""
    text = bytearray(draw(st.sampled_from(library())).encode())
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(start + draw(st.integers(0, 30)), len(text))
        piece = draw(st.sampled_from(RAW) | st.binary(max_size=4) | st.just(bytes(text[start:end]) * 2))
        text[start : draw(st.sampled_from((start, end)))] = piece
    return bytes(text)


plausible = st.deferred(lambda: st.sampled_from(sorted(written()))).flatmap(
    lambda path: st.sampled_from(written()[path]).map(lambda value: f"{path}={json.dumps(value)}")
)
overrides = plausible | st.builds(
    "{}={}".format,
    st.sampled_from(("", "a b", "..", "sweep", "learning", "link."))
    | st.deferred(lambda: st.sampled_from(key_names())),
    st.text(max_size=6) | values.map(lambda value: json.dumps(value, ensure_ascii=False)),
)
"""What may stand behind `--set`."""
