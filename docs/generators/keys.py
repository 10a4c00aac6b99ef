"""The scenario reference: every key of the schema with unit, default, allowed values, meaning and source."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from docs.generators.markdown import code, page, table, toctree
from phy.config.conflict import listing
from phy.config.registry import Registry
from scenarios.cli.words.meanings import registry_at
from scenarios.cli.words.show import allowed, default_of, written
from scenarios.schema.schema_keys import OWNERS, UNNAMED, choices, schema_keys

HEADS = ("key", "unit", "default", "allowed", "meaning and source")

PARTS = {
    "study": "Name, seed, trials and sweep",
    "link": "The radio link",
    "learning": "Learning",
    "privacy": "Privacy",
    "measure": "Link studies",
    "stop": "End of trials",
    "tune": "Tuning",
    "report": "Figures and tables",
}
"""Page of each part of a scenario, by the first word of its keys; `study` has the keys without a section."""

DOWNLINK = ("learning.downlink.", "learning.downlink_codec.")
"""Sections with the keys of another one."""


def write(folder: Path) -> None:
    """Write the page of contents and a page per part into `folder`."""
    folder.mkdir(exist_ok=True)
    counted = [key for key in schema_keys() if not key.startswith(DOWNLINK)]
    rows = [
        (f"[{title}]({name}.md)", ", ".join(f"`{one}`" for one in _sections(name))) for name, title in PARTS.items()
    ]
    (folder / "index.md").write_text(
        page(
            "# Scenario keys",
            f"A scenario is a YAML file. These pages have all of its {len(counted)} keys. They are generated from the "
            "schema that checks scenarios, so that they hold for this version.",
            "A dotted path such as `link.channel.speed_m_s` is the key `speed_m_s` in the section `channel` of the "
            "section `link`. `--set` and `sweep` write paths in this way.",
            table(("page", "sections"), rows),
            "In a terminal, `phyloop show link.channel` prints a section, and `phyloop show cpa` one thing by its "
            "name. `phyloop schema` prints the JSON Schema, with which an editor completes and checks scenario files.",
            toctree(*PARTS),
        ),
        encoding="utf-8",
    )
    for name, title in PARTS.items():
        (folder / f"{name}.md").write_text(page(f"# {title}", *_part(name)), encoding="utf-8")


def _sections(part: str) -> list[str]:
    """The sections of a part that have keys, each before those inside it."""
    if part == "study":
        return ["top level"]
    found = dict.fromkeys(key.rpartition(".")[0] for key in schema_keys())
    return [one for one in found if f"{one}.".startswith(f"{part}.") and not f"{one}.".startswith(DOWNLINK)]


def _part(part: str) -> Iterator[str]:
    if part == "study":
        yield _rows([key for key in schema_keys() if "." not in key])
        return
    for section in _sections(part):
        keys = [key for key in schema_keys() if key.rpartition(".")[0] == section]
        yield f"## `{section}`"
        yield _about(section)
        registry = registry_at(section)
        things = registry is not None and section != "privacy"  # of which one class has no word
        yield from _things(registry, section, keys) if things and registry else _section(section, keys)
    if part == "learning":
        yield "## `learning.downlink`"
        yield "The keys of [`link`](link.md). `learning.downlink_codec` has those of `learning.codec`."


def _about(section: str) -> str:
    text = next((one.description for one in schema_keys()[section].definitions if one.description), "")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _section(section: str, keys: Sequence[str]) -> Iterator[str]:
    """The keys that all kinds of a section have, then those of each kind."""
    kinds = {key: set(schema_keys()[key].variants) for key in keys}
    every = set().union(*kinds.values())
    yield _rows([key for key in keys if kinds[key] in (set(), every)])
    tag = next((one for one in OWNERS if f"{section}.{one}" in keys), "kind")
    for word in sorted(every) if len(every) > 1 else ():
        own = _rows([key for key in keys if word in kinds[key] != every], word=word)
        if own:
            yield f"### {f'Without `{tag}`' if word in UNNAMED.values() else f'`{tag}: {word}`'}"
            yield own


def _things(registry: Registry[Any], section: str, keys: Sequence[str]) -> Iterator[str]:
    """The keys that all things of a registry have, then each thing with its own."""
    classes = registry.classes()
    read = {name for cls in classes for name in getattr(cls, "reads", ())}
    shared = set.intersection(*(set(cls.model_fields) for cls in classes)) - read
    yield _rows([key for key in keys if key.rpartition(".")[2] in shared])
    for cls in classes:
        words = [word for word in registry.words() if registry[word] is cls]
        yield f"### {', '.join(f'`{word}`' for word in words)}"
        yield _docstring(cls)
        forms = [form for form in written(registry, cls, words[0]) if form.startswith(section)]
        yield code("\n".join(forms[:1]), "yaml") if forms else ""
        others = shared | {registry.tag} | read - {*getattr(cls, "reads", ())}
        own = {name: field for name, field in cls.model_fields.items() if name not in others}
        rows = ((n, default_of(f), _allowed(f"{section}.{n}", (f,)), f.description or "") for n, f in own.items())
        yield table(HEADS, (_row(*row) for row in rows))


def _docstring(cls: type) -> str:
    """The text of a docstring as Markdown: equations and lists of its own lines stay lines."""
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    return "\n\n".join(code(one, "text") if one.startswith("    ") else re.sub(r"\s+", " ", one) for one in paragraphs)


def _rows(keys: Sequence[str], *, word: str = "") -> str:
    rows = []
    for key in keys:
        found = schema_keys()[key]
        field = found.meant(word)
        defaults = {default_of(one) for one in found.definitions}
        default = default_of(field) if word or len(defaults) == 1 else "depends"
        registry = registry_at(key.rpartition(".")[0])
        of_tag = registry is not None and key.rpartition(".")[2] == registry.tag
        about = field.description or ("selects one of the kinds below" if of_tag or key.endswith("algorithm") else "")
        rows.append(
            _row(key.rpartition(".")[2], default, _allowed(key, (field,) if word else found.definitions), about)
        )
    return table(HEADS, rows)


def _row(key: str, default: str, values: str, about: str) -> tuple[str, ...]:
    unit = re.search(r" ?\[([^\]\d][^\]]*)\]", about)
    about = about.replace(unit[0], "", 1) if unit else about
    default = {"{...}": "its own defaults", "depends": "depends"}.get(default, f"`{default}`")
    return f"`{key}`", unit[1] if unit else "", default, values, about


@cache
def _models(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    return any(_models(one) for one in get_args(annotation) if not isinstance(one, str | int | float | list))


def _allowed(key: str, fields: Sequence[FieldInfo]) -> str:
    """Words and limits of a key as some fields define it; a section says where its keys are."""
    if any(other.startswith(f"{key}.") for other in schema_keys()):
        return listing([*choices(key), f"section `{key}`"])
    if registry_at(key) is not None or any(_models(one.annotation) for one in fields):
        return listing(choices(key)) or "mapping"
    if choices(key) and len(fields) > 1:
        return listing(choices(key))
    kinds: Any = (Annotated[one.annotation, *one.metadata, None] for one in fields)
    found = dict.fromkeys(allowed(TypeAdapter(kind).json_schema()) for kind in kinds)
    return next(iter(found)) if len(found) == 1 else "depends"
