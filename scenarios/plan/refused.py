"""Errors of sweep points: each once, with its sweep point, and with the sweep that has no such error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, compress, product
from math import prod
from typing import Any, NamedTuple

from phy.config.conflict import flow, listing
from scenarios.schema.errors import KeyPath, ScenarioError, mapping, shorten, value_at
from scenarios.schema.schema_keys import left_out_keys, schema_keys
from scenarios.schema.shorthand import SECTIONS

_MOST_ROWS = 24
"""Rows of a zip that a remedy writes out."""


class Setting(NamedTuple):
    """A swept path, one of its values, and the place of this value in the sweep."""

    path: str
    value: Any
    origin: KeyPath


Axis = list[tuple[Setting, ...]]
"""One tuple of settings per step."""

_Said = tuple[str | None, str]
"""Key and remedy of an error, which is the same at many sweep points."""

Refused = Sequence[tuple[ScenarioError, Sequence[Setting]]]


def errors_of_points(
    refused: Refused, blocks: Sequence[Sequence[Axis]], root: Mapping[str, Any], *, everywhere: bool
) -> Iterator[ScenarioError]:
    """Yield each error once, with the first sweep point that has it; without, if all points have it."""
    times = Counter(one.sentence() for error, _ in refused for one in error.errors)
    shown: set[str] = set()
    zips = {} if everywhere else _zips(refused, blocks, root)
    for error, settings in refused:
        for one in error.errors:
            said = one.key, one.remedy
            sentence, remedy = one.sentence(), zips.get(said, one.remedy)
            if (once := str(said) if said in zips else sentence) not in shown:
                shown.add(once)
                alike = everywhere and times[sentence] == len(refused) > 1
                found = _of_kinds(replace(one, remedy=remedy), settings, root, blocks)
                found = _not_repeated(found, settings, blocks)
                yield one if alike else _with_settings(found, settings)


def _zips(refused: Refused, blocks: Sequence[Sequence[Axis]], root: Mapping[str, Any]) -> dict[_Said, str]:
    """Remedies for keys whose value the steps of one axis or two decide: all points of some steps refuse it.

    A key of the scenario steps together with the axis. Where the key is itself swept, the steps that no point takes go.
    The first key of an axis has the remedy for all keys that step with it.
    """
    said = {(one.key, one.remedy): _other_value(one) for error, _ in refused for one in error.errors}
    points = [
        ({(one.key, one.remedy) for one in error.errors}, {one.origin for one in settings})
        for error, settings in refused
    ]
    remedies: dict[_Said, str] = {}
    decided: set[_Said] = set()
    for block in blocks:
        for axes in [*combinations(block, 1), *combinations(block, 2)]:
            if prod(map(len, axes)) > _MOST_ROWS:
                continue
            steps = [tuple(chain(*step)) for step in product(*axes)]
            at, each = [{one.origin for one in step} for step in steps], prod(map(len, block)) // len(steps)
            lists = {one.path: [step[number].value for step in steps] for number, one in enumerate(steps[0])}
            swept, found, kept = [*lists], [], [True] * len(steps)
            for error, other in said.items():
                times = [sum(error in errors and step <= origins for errors, origins in points) for step in at]
                if set(times) != {0, each} or error in decided:
                    continue
                decided.add(error)
                key, written = str(error[0]), value_at(root, tuple(str(error[0]).split(".")))
                if any(f"{key}.".startswith(f"{path}.") for path in swept):
                    if len(axes) == 1:  # the value is wrong in itself
                        continue
                    kept = [one and not number for one, number in zip(kept, times, strict=True)]
                elif None not in (other, written) and key not in lists:
                    lists[key] = [other if number else written for number in times]
                else:
                    continue
                found.append(error)
            rows = {path: [*compress(values, kept)] for path, values in lists.items()}
            for number, error in enumerate(found):
                remedies[error] = f"the zip for {found[0][0]} sets it" if number else _zip(rows, axes, block)
    return remedies


def _zip(rows: Mapping[str, Sequence[Any]], axes: Sequence[Axis], block: Sequence[Axis]) -> str:
    """The remedy that writes `rows` in place of some axes of a block, beside its other zipped lists."""
    others = [
        {one.path: [step[number].value for step in axis] for number, one in enumerate(axis[0])}
        for axis in block
        if axis not in axes and _is_zip(axis)
    ]
    gone = [one.path for axis in axes if not _is_zip(axis) for one in axis[0]]
    gone += ["zip"] if any(map(_is_zip, block)) else []
    return (
        f"write zip: {flow([*others, rows] if others else rows)} in place of {listing(gone, last='and')} in the sweep"
    )


def _is_zip(axis: Axis) -> bool:
    return "zip" in axis[0][0].origin


def _other_value(error: ScenarioError) -> Any:
    """The value that the remedy writes for the key of an error, `none` if it leaves the key out; None if neither."""
    key = tuple(str(error.key).split("."))
    nothing = "none" if key in error.change.gone and error.key in left_out_keys() else None
    return dict(error.change.new).get(key, nothing)


def _with_settings(error: ScenarioError, settings: Sequence[Setting]) -> ScenarioError:
    """Add the sweep point to an error, unless its key is the only swept path."""
    others = [setting for setting in settings if setting.path != error.key]
    if others:
        listed = ", ".join(f"{setting.path} = {shorten(setting.value, 30)}" for setting in others)
        return replace(error, problem=f"{error.problem} (at the sweep point {listed})")
    return error


def _not_repeated(error: ScenarioError, settings: Sequence[Setting], blocks: Sequence[Sequence[Axis]]) -> ScenarioError:
    """An error of a swept value whose remedy is an example that its list has already: leave the value out."""
    own = next((one for one in settings if one.path == error.key), None)
    example = dict(error.change.new).get(tuple(str(error.key).split(".")))
    if own is None or example is None or "zip" in own.origin or not error.change.gone:
        return error
    axis = [one for block in blocks for axis in block for step in axis for one in step]
    values = [one.value for one in axis if one.origin[:-1] == own.origin[:-1]]
    return replace(error, remedy="leave this value out of the list") if example in values else error


def _is_of(section: str, name: str, kind: Any) -> bool:
    """Return True if a section of this kind has the key, which does not select the kind."""
    known = schema_keys().get(f"{section}.{name}")
    return known is not None and kind in known.variants and name not in SECTIONS.values()


def _of_kinds(
    error: ScenarioError, settings: Sequence[Setting], root: Mapping[str, Any], blocks: Sequence[Sequence[Axis]]
) -> ScenarioError:
    """Show how to sweep whole sections, where one kind has an unknown key or lacks one that the others have not."""
    section, _, name = (error.key or "").rpartition(".")
    missing = error.problem == "the key is missing"
    lacking = next((value for _, value in error.change.new), None) if missing else None
    steps = [one for block in blocks for axis in block for step in axis for one in step]
    whole = next((one for one in settings if one.path == section and isinstance(one.value, dict)), None)
    if lacking is not None and whole is not None:
        values = [one.value for one in steps if one.origin[:-1] == whole.origin[:-1]]
        values[values.index(whole.value)] = {**whole.value, name: lacking}
        return replace(error, remedy=f"write {section}: {flow(values)} in the sweep")
    path = tuple(section.split("."))
    tag, written = SECTIONS.get(path, ""), mapping(value_at(root, path))
    kinds = dict.fromkeys(one.value for one in steps if one.path == f"{section}.{tag}" and isinstance(one.value, str))
    if not tag or not kinds or not written or (lacking is None and not error.problem.startswith("unknown key")):
        return error
    given = written if lacking is None else {**written, name: lacking}
    mappings = [
        {tag: one, **{key: value for key, value in given.items() if _is_of(section, key, one)}} for one in kinds
    ]
    return replace(error, remedy=f"write {section}: {flow(mappings)} in place of {section}.{tag} in the sweep")
