"""Published numbers are checked before the run: a misspelt label must not leave them without their point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from scenarios.plan.points import Plan, value_of
from scenarios.report.comparison import Published, of_plan, points_at, words_at
from scenarios.report.tables.quantities import METRICS, SHARES
from scenarios.schema.errors import KeyPath, ScenarioError, dotted, listing, mark_of, shorten
from scenarios.schema.schema_keys import schema_keys, unknown_key

if TYPE_CHECKING:
    from scenarios.schema.loader import LoadedScenario
    from scenarios.schema.schema import TableConfig

_WITHOUT = "run without published numbers: --set report.tables=[]"


class _Place(NamedTuple):
    """Where something of a table stands."""

    loaded: LoadedScenario
    at: KeyPath

    def inside(self, *parts: str | int) -> _Place:
        return _Place(self.loaded, (*self.at, *parts))

    def refuse(self, problem: str, remedy: str, value: Any = None) -> ScenarioError:
        file, line = mark_of(self.at, self.loaded.marks)
        return ScenarioError(problem=problem, remedy=remedy, file=file, line=line, key=dotted(self.at), value=value)


def check_tables(loaded: LoadedScenario, plan: Plan) -> None:
    """Raise ScenarioError for published numbers of nothing that is measured, or at settings that cannot be.

    A number at another number than those swept is not simulated, and no error; a word that no point has is one.
    """
    measured = {point.scenario.learning.algorithm for point in plan.points}
    metrics = tuple(dict.fromkeys(name for algorithm in measured for name in METRICS[algorithm]))
    for number, config in enumerate(loaded.scenario.report.tables):
        place = _Place(loaded, ("report", "tables", number))
        if config.metric not in metrics:
            raise place.inside("metric").refuse(
                "names no number of a whole trial", _nearest(config.metric, metrics), config.metric
            )
        if config.unit == "percent" and config.metric not in SHARES:
            raise place.inside("unit").refuse(
                f"{config.metric} is no share, and has no percent", "leave unit out", config.unit
            )
        if not config.published:
            raise place.inside("published").refuse("holds no number", "add one, or leave the table out")
        _check_settings(place.inside("at"), config.at, plan)
        for entry, row in enumerate(config.published):
            _check_settings(place.inside("published", entry, "at"), row.at, plan)
            _check_lengths(place, config, entry)
        _check_points(place, config, plan)


def _check_settings(place: _Place, at: dict[str, Any], plan: Plan) -> None:
    """Paths that exist, values that can be compared, and words that some point has."""
    known = [path for path, key in schema_keys().items() if not key.indexed]
    for path, value in at.items():
        here = place.inside(path)
        if path not in known:
            raise here.refuse("names no key of a scenario", unknown_key(path, among=known))
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, str | int | float):
                raise here.refuse(
                    "must be a word, a number or a list of them", f"write for example {path}: [1, 2]", value
                )
            words = words_at(plan, path)
            if isinstance(item, str) and item not in words and _is_meant(place.loaded, here, path, plan):
                raise here.refuse(f"no point has {path} {shorten(item)}", _nearest(item, words))


def _is_meant(loaded: LoadedScenario, here: _Place, path: str, plan: Plan) -> bool:
    """Whether a word was written for this very sweep: by the same file as the sweep, or as the setting itself.

    A file on top of it, or --set, may leave rivals out; their numbers are left out with them.
    """
    setting: KeyPath = ("sweep",) if path in plan.swept_paths else tuple(path.split("."))
    return mark_of(here.at, loaded.marks)[0] == mark_of(setting, loaded.marks)[0]


def _check_lengths(place: _Place, config: TableConfig, entry: int) -> None:
    """Lists among the settings of a row are as long as its values."""
    row = config.published[entry]
    lists = {path: value for path, value in {**config.at, **row.at}.items() if isinstance(value, list)}
    here = place.inside("published", entry, "values")
    if not isinstance(row.values, tuple):
        if lists:
            path, value = next(iter(lists.items()))
            raise here.refuse(
                f"is one number, and {path} lists {len(value)} values",
                "write a list of as many numbers, or one value",
                row.values,
            )
        return
    if not lists:
        raise here.refuse(
            f"lists {len(row.values)} numbers, and no setting in at lists where they belong",
            "write one number, or list the values of a swept path in at",
        )
    for path, value in lists.items():
        if len(value) != len(row.values):
            raise here.refuse(
                f"lists {len(row.values)} numbers, and {path} {len(value)} values", "make the lists equally long"
            )


def _check_points(place: _Place, config: TableConfig, plan: Plan) -> None:
    """Each number belongs to one point at most, and each point has one number at most."""
    first: dict[int, Published] = {}
    for published in of_plan(config, plan):
        here = place.inside("published", *published.place[:1])
        points = points_at(plan, published.at)
        if len(points) > 1:
            apart = [path for path in plan.swept_paths if not _same(value_of(point, path) for point in points)]
            raise here.refuse(
                f"its settings are those of {len(points)} points",
                f"add {listing(apart, last='and')} to at, or {_WITHOUT}",
            )
        for point in points:
            if point.index in first:
                raise here.refuse(
                    f"two numbers, {first[point.index].value:g} and {published.value:g}, belong to one point",
                    "keep one of them",
                )
            first[point.index] = published


def _same(values: Iterable[Any]) -> bool:
    known = list(values)
    return all(value == known[0] for value in known)


def _nearest(word: str, words: Sequence[str]) -> str:
    near = get_close_matches(word, words, n=1)
    if near:
        return f"did you mean {shorten(near[0])}"
    return f"write one of {listing(words)}" if words else "leave it out"
