"""Figures are checked before the run that they end: a misspelt metric must not cost an hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from scenarios.report.tables.quantities import METRICS, PER_DEVICE, PER_ROUND, RATES_OF, along
from scenarios.schema.errors import ScenarioError, listing, mark_of
from scenarios.schema.schema_keys import schema_keys

if TYPE_CHECKING:
    from scenarios.schema.loader import LoadedScenario
    from scenarios.schema.schema import FigureConfig


class _Known(NamedTuple):
    """Names that figures of a scenario may use."""

    axes: tuple[str, ...]
    metrics: tuple[str, ...]
    per_round: tuple[str, ...]
    per_device: tuple[str, ...]
    rates: tuple[str, ...]


def check_figures(loaded: LoadedScenario) -> None:
    """Raise ScenarioError for a figure of something that is never measured or set."""
    known = _known(loaded)
    for number, figure in enumerate(loaded.scenario.report.figures):
        follows = figure.x in known.axes
        series = (figure.series,) if isinstance(figure.series, str) else figure.series
        if not follows and figure.x not in schema_keys():
            _refuse(
                loaded,
                number,
                "x",
                figure.x,
                "names no key of a scenario",
                f"write a dotted path, or {listing(known.axes)} for a curve along the run"
                if known.axes
                else "write a dotted path",
            )
        if "device" in series:
            _check_devices(loaded, number, figure, known)
        settings = [path for path in series if path != "device"]
        named = (("series", settings), ("panels", [figure.panels or "label"]), ("where", list(figure.where)))
        for key, paths in named:
            for path in paths:
                if path not in schema_keys():
                    _refuse(loaded, number, key, path, "names no key of a scenario", "write a dotted path")
        of_rounds = (*known.per_round, *known.per_device)
        fitting = (*of_rounds, *known.rates) if follows else (*known.metrics, *known.rates)
        for key, name in (("y", figure.y), ("beside", figure.beside or figure.y)):
            if name not in fitting:
                problem = "names nothing that is measured"
                if name in (known.metrics if follows else of_rounds):
                    problem = (
                        f"is no number of {'one round' if follows else 'a whole trial'}, which x = {figure.x} asks for"
                    )
                _refuse(loaded, number, key, name, problem, f"write one of {listing(fitting)}")


def _known(loaded: LoadedScenario) -> _Known:
    """What the algorithm measures; where the sweep names others, what any of them does."""
    swept = set(_swept(loaded.document.get("sweep", {})))
    of = list(METRICS) if swept & {"learning", "learning.algorithm"} else [loaded.scenario.learning.algorithm]

    def names(table: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for algorithm in of for name in table[algorithm]))

    return _Known(
        axes=tuple(dict.fromkeys(axis for algorithm in of for axis in along(algorithm))),
        metrics=names(METRICS),
        per_round=names(PER_ROUND),
        per_device=names(PER_DEVICE),
        rates=names(RATES_OF),
    )


def _swept(sweep: Any) -> Iterator[str]:
    """Paths of a checked sweep."""
    for block in sweep if isinstance(sweep, list) else [sweep]:
        for path, values in block.items():
            if path == "zip":
                yield from _swept(values)
            else:
                yield path


def _check_devices(loaded: LoadedScenario, number: int, figure: FigureConfig, known: _Known) -> None:
    """A curve per device needs an x along the run and a y that is known of each device."""
    if figure.x not in known.axes:
        remedy = f"set x to {listing(known.axes)}, or leave device out" if known.axes else "leave device out"
        _refuse(loaded, number, "series", "device", f"tells no curves apart over x = {figure.x}", remedy)
    fitting = (*known.per_device, *known.rates)
    if figure.y not in fitting:
        remedy = f"set y to {listing(fitting)}, or leave device out" if fitting else "leave device out"
        _refuse(loaded, number, "series", "device", f"tells no curves of {figure.y} apart", remedy)


def _refuse(loaded: LoadedScenario, number: int, key: str, value: str, problem: str, remedy: str) -> None:
    mark = mark_of(("report", "figures", number, key), loaded.marks)
    file, line = mark if mark is not None else (None, None)
    raise ScenarioError(
        problem=problem, remedy=remedy, file=file, line=line, key=f"report.figures[{number}].{key}", value=value
    )
