"""Load a scenario: read the file, merge its bases and overrides, and check the result."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fl.algorithms.learning import UNNAMED
from phy.config.conflict import listing, needs_quotes
from phy.config.files import DIGESTS, files_beside, whole_paths
from scenarios.schema.errors import KeyPath, Mark, ScenarioError, mapping, mark_of, names_of, together, value_at
from scenarios.schema.messages.explain import examine, explain
from scenarios.schema.messages.remedies import answer
from scenarios.schema.messages.values import without_value
from scenarios.schema.overrides import OVERRIDE, first_point, override, parse_override, unsweep
from scenarios.schema.plugins import pin_plugins
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.schema_keys import left_out_keys
from scenarios.schema.shorthand import SECTIONS, is_another, named_section, normalise
from scenarios.schema.yaml_marks import parse_yaml, plain_yaml, read_yaml

IN_PYTHON = "scenario"
"""Name of a scenario without a file, in errors and as the name of its results."""
LIBRARY = Path(__file__).parents[1] / "library"
MAX_BASES = 16

Source = str | Path | Mapping[str, Any]
"""A file, the name of a scenario of the library, or a mapping with the keys of a file."""


@dataclass(frozen=True, kw_only=True)
class LoadedScenario:
    """A checked scenario, its plain data, and file and line of each value."""

    scenario: Scenario
    document: dict[str, Any]
    marks: dict[KeyPath, Mark]
    source: Path

    @property
    def folder(self) -> Path:
        """Where files that the scenario names are looked up first."""
        return self.source if self.source.is_dir() else self.source.parent

    def error(
        self, at: KeyPath, problem: str, remedy: str, *, key: str | None = None, value: Any = None
    ) -> ScenarioError:
        """Return the error of what is written at a key path, which `key` names in other words."""
        (file, line), key = mark_of(at, self.marks), key or names_of(at)
        file = file or self.source
        return ScenarioError(problem=problem, remedy=remedy, file=file, line=line, key=key, value=value)


def load_scenario(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
) -> LoadedScenario:
    """Read and check a scenario.

    A mapping may leave out its name, and names files relative to the working directory.
    `overrides` are `dotted.path=value` and win over the file and over its sweep; `trials` and `seed` are overrides,
    too. Raises ScenarioError for bad input.
    """
    document, marks, path = _read(source, overrides=overrides, trials=trials, seed=seed)
    with files_beside(path.parent):
        return validated(document, marks, path)


def load_kept(root: Any, *, folder: Path) -> LoadedScenario:
    """Check the scenario that a run folder keeps as a file would be: the folder may come from others."""
    document, marks = _from_python(root, file=folder)
    pin_plugins(document, marks, folder=folder)
    with files_beside(folder):
        return validated(_with_whole_paths(document, folder=folder), marks, folder)


def load_as_meant(source: Source, **changes: Any) -> tuple[LoadedScenario, set[KeyPath]] | None:
    """The scenario as it is once the remedies for all of its errors are followed; None if nothing valid is left.

    Also the paths of values without such a remedy, which are left out, in the sweep, too.
    """
    try:
        document, marks, path = _read(source, **changes)
    except ScenarioError:
        return None
    with files_beside(path.parent):
        document, marks, swept, found = _judged(document, marks)
        if isinstance(found, Scenario):
            return None
        meant = examine(found, answer=answer, document=document, marks=marks, prefer=swept)
    if meant.scenario is None:
        return None
    if ("learning", "algorithm") in meant.lost:
        meant.document.pop("report", None)  # its figures are those of an unknown algorithm
    lost = meant.lost | ({("plugins",)} if meant.document.get("plugins") != document.get("plugins") else set())
    for key in lost:
        with suppress(ScenarioError):  # a section around the key is swept as a whole
            unsweep(meant.document, meant.marks, path=names_of(key), name=str(path))
    loaded = LoadedScenario(scenario=meant.scenario, document=meant.document, marks=meant.marks, source=path)
    return loaded, lost


def _read(
    source: Source, *, overrides: Sequence[str] = (), trials: int | None = None, seed: int | None = None
) -> tuple[dict[str, Any], dict[KeyPath, Mark], Path]:
    """Plain data with bases and overrides, the place of each value, and the file."""
    if isinstance(source, Mapping):
        path = Path(IN_PYTHON)
        document, marks = _merged(_from_python(source), path, ())
    else:
        path = find_source(source)
        document, marks = _load_merged(path, ())
    errors = []
    for text in overrides:
        try:
            dotted_path, value, lines = parse_override(text)
            override(document, marks, path=dotted_path, value=value, name=OVERRIDE, lines=lines)
        except ScenarioError as error:
            errors.append(error)
    if errors:
        raise together(errors)
    for name, number in (("trials", trials), ("seed", seed)):
        if number is not None:
            plain_number = plain(number) if hasattr(number, "tolist") else number
            override(document, marks, path=name, value=plain_number, name=f"--{name}", lines=((),))
    normalise(document, left_out=left_out_keys())
    pin_plugins(document, marks, folder=path.parent)
    return _with_whole_paths(document, folder=path.parent), marks, path


def _with_whole_paths(document: dict[str, Any], *, folder: Path) -> dict[str, Any]:
    """Data in which swept files have whole paths, so that they mean the same in the run folder."""
    with files_beside(folder):
        whole = {key: whole_paths(document[key]) for key in ("sweep", "tune", "report") if key in document}
    return document | whole


def unswept(loaded: LoadedScenario, paths: Sequence[str]) -> LoadedScenario:
    """Remove `paths`, and the paths below them, from the sweep of a scenario."""
    document, marks = deepcopy(loaded.document), dict(loaded.marks)
    for path in paths:
        unsweep(document, marks, path=path, name=str(loaded.source))
    return replace(loaded, document=document, marks=marks)


def validate(document: dict[str, Any], *, marks: Mapping[KeyPath, Mark]) -> Scenario:
    """Plain data as a Scenario; raises ScenarioError with the place from `marks`."""
    return validated(document, dict(marks), Path(IN_PYTHON)).scenario


def validated(document: dict[str, Any], marks: dict[KeyPath, Mark], source: Path) -> LoadedScenario:
    """Plain data as a scenario; raises ScenarioError with the place from `marks`."""
    document, marks, swept, found = _judged(document, marks)
    if isinstance(found, ValidationError):
        raise explain(found, answer=answer, document=document, marks=marks, prefer=swept)
    return LoadedScenario(scenario=found, document=document, marks=marks, source=source)


def _judged(
    document: dict[str, Any], marks: dict[KeyPath, Mark]
) -> tuple[dict[str, Any], dict[KeyPath, Mark], set[KeyPath], Scenario | ValidationError]:
    """The data, marks, the swept paths that were set, and the scenario or the error.

    Values that a sweep replaces are in no sweep point: where the data have an error, the first swept values stand in.
    """
    if isinstance(found := _read_quickly(document), Scenario):
        return document, marks, set(), found
    first, places, swept = first_point(document, marks)
    normalise(first, left_out=left_out_keys())
    return (first, places, swept, _read_quickly(first)) if swept else (document, marks, swept, found)


def _read_quickly(document: dict[str, Any]) -> Scenario | ValidationError:
    try:
        return validate_quickly(document)
    except ValidationError as error:
        return error


def resolved_root(loaded: LoadedScenario, *, swept_paths: Collection[str]) -> dict[str, Any]:
    """The scenario with every default written out; its sweep gives the same plan.

    A section whose kind is swept keeps the user's keys alone, because each kind has other defaults.
    """
    root = resolved_data(loaded.scenario)
    for section, key in SECTIONS.items():
        if ".".join(map(str, (*section, key))) not in swept_paths:
            continue
        around, written = value_at(root, section[:-1]), value_at(loaded.document, section)
        if written is not None:
            around[section[-1]] = deepcopy(written)
        else:
            around.pop(section[-1], None)
    for path in swept_paths:  # each file has a digest of its own
        *above, key = path.split(".")
        if key in DIGESTS and isinstance(around := value_at(root, tuple(above)), dict):
            around.pop(DIGESTS[key], None)
    return root


def as_yaml(data: dict[str, Any]) -> str:
    """Plain data as YAML, keys in their order."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Quotes a text that the reader takes for a number: 1e30 is text for PyYAML."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if needs_quotes(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _quoted)


def resolved_data(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data with every default written out."""
    # None means that a key was left out, and a null cannot be loaded again.
    return dict(_without_null(scenario.model_dump(mode="json")))


def _without_null(value: Any) -> Any:
    """Plain data without null values; pydantic's `exclude_none` also drops keys that write None as a word."""
    match value:
        case dict():
            return {key: _without_null(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_null(item) for item in value]
    return value


def library_names() -> list[tuple[str, str]]:
    """Name and description of each scenario in the library, by name."""
    entries = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        description = read_yaml(path).data.get("description", "")
        entries.append((path.stem, " ".join(str(description).split())))
    return entries


def find_source(source: str | Path) -> Path:
    """The file of a path or library name; raises ScenarioError for an unknown name."""
    path = Path(source)
    if isinstance(source, Path) or len(path.parts) > 1 or path.suffix in (".yaml", ".yml"):
        return path
    if found := _in_library(source) or _existing(path):
        return found
    problem = "no scenario of the library and no file has this name"
    raise ScenarioError(problem=problem, remedy=_near_names(source), file=source)


def _near_names(name: str) -> str:
    """Remedy for a wrong name of a library scenario."""
    near = get_close_matches(name, [path.stem for path in LIBRARY.glob("*.yaml")])
    return (f"did you mean {listing(near)}? " if near else "") + "see phyloop list"


def _existing(path: Path) -> Path | None:
    try:
        return path if path.exists() else None
    except (OSError, ValueError):  # the name is too long or has a null character
        return None


def _in_library(name: str) -> Path | None:
    return None if "/" in name or "\\" in name else _existing(LIBRARY / f"{name}.yaml")


def _load_merged(path: Path, chain: tuple[Path, ...]) -> tuple[dict[str, Any], dict[KeyPath, Mark]]:
    """Merge a file over its base, and so on; `chain` holds the files above this one."""
    try:
        data, lines = read_yaml(path)
    except ScenarioError as error:
        raise without_value(error, lambda: plain_yaml(path)) from None
    return _merged((data, {key: Mark(path, line) for key, line in lines.items()}), path, chain)


def _from_python(mapping: Any, *, file: Path | str = IN_PYTHON) -> tuple[dict[str, Any], dict[KeyPath, Mark]]:
    """The data of a mapping as a file with the same keys would give them, and marks without lines."""
    try:
        unnamed = {} if "base" in mapping else {"name": IN_PYTHON}
        text = json.dumps(_with_exponents({**unnamed, **mapping}), ensure_ascii=False, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"a value is no plain data ({error})"
        raise ScenarioError(problem=problem, remedy="use numbers, text, lists and dictionaries", file=file) from None
    marked = parse_yaml(text, file=file)  # JSON is YAML, whose reader has the bounds
    assert marked is not None  # a mapping
    return marked.data, {key: Mark(file, None) for key in marked.lines}


def _with_exponents(value: Any) -> Any:
    """Plain data with 2e6 and 1e-5 as numbers, which PyYAML reads as text."""
    match value:
        case dict():
            return {key: _with_exponents(item) for key, item in value.items()}
        case list() | tuple():
            return [_with_exponents(item) for item in value]
        case str() if re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
            return float(value)
    return value


def plain(value: Any) -> Any:
    """A path, a mapping, or an array or number of NumPy as plain data."""
    match value:
        case Path():
            return str(value)
        case Mapping():
            return dict(value)
    return value.tolist() if hasattr(value, "tolist") else list(value)


def _merged(
    file: tuple[dict[str, Any], dict[KeyPath, Mark]], path: Path, chain: tuple[Path, ...]
) -> tuple[dict[str, Any], dict[KeyPath, Mark]]:
    """Merge the data and marks of a file over its base."""
    data, marks = file
    if "base" not in data:
        return data, marks
    base = data.pop("base")
    line = marks.pop(("base",)).line

    def refuse(problem: str, remedy: str) -> ScenarioError:
        return ScenarioError(problem=problem, remedy=remedy, file=path, line=line, key="base", value=base)

    if not isinstance(base, str):
        library = [one.stem for one in LIBRARY.glob("*.yaml") if one.stem != path.stem]
        example = (get_close_matches(path.stem, library, n=1, cutoff=0.5) or ["fedavg-digits"])[0]
        raise refuse("must be the name of one file", f"write for example base: {example}")
    below = _existing(path.parent / base)
    target = below if below is not None and below.is_file() else _in_library(base)
    if target is not None and target is below and not target.resolve().is_relative_to(path.parent.resolve()):
        raise refuse(
            "names a file outside the folder of this one",
            "copy that file beside this one: a scenario cannot open files elsewhere",
        )
    if target is None:
        raise refuse(
            "neither a file beside this one nor a scenario of the library",
            _near_names(base),
        )
    chain = (*chain, path.resolve())
    if target.resolve() in chain:
        names = [one.name for one in (*chain, target)]
        raise refuse(f"the bases form a circle, {' -> '.join(names)}", "remove one of these base: lines")
    if len(chain) > MAX_BASES:
        raise refuse(f"more than {MAX_BASES} files, each the base of another", "merge some of them")
    merged, merged_marks = _load_merged(target, chain)
    # These hold for the settings of their own file, and a sweep and its figures for an algorithm.
    for key in ("notes", "tables"):
        (value_at(merged, ("report",)) or {}).pop(key, None)
    algorithm = value_at(data, ("learning", "algorithm"))
    if algorithm not in (None, value_at(merged, ("learning", "algorithm")) or UNNAMED):
        for key in ("sweep", "report", "privacy"):
            merged.pop(key, None)
    replaced: set[KeyPath] = set()
    _merge(merged, data, path=(), replaced=replaced)
    kept = {
        path: mark
        for path, mark in merged_marks.items()
        if not any(path[:depth] in replaced for depth in range(1, len(path) + 1))
    }
    return merged, kept | marks


def _merge(under: dict[str, Any], over: dict[str, Any], *, path: KeyPath, replaced: set[KeyPath]) -> None:
    """Put `over` on top of `under`, in place; the paths of values that go are added to `replaced`."""
    for key, value in over.items():
        here = (*path, key)
        old = under.get(key)
        if here in SECTIONS and key in under:
            # Another kind of task has other keys, so that the base's keys do not apply.
            old = named_section(here, old, algorithm=under.get("algorithm"))
            value = named_section(here, value) if isinstance(value, str) else value
            if is_another(here, old=old, new=value):
                old = None
        if old is mapping(old) and value is mapping(value) and here != ("sweep",):
            under[key] = old
            _merge(old, value, path=here, replaced=replaced)
        else:
            under[key] = value
            replaced.add(here)
