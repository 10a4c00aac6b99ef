"""Figures are checked before the run that they end: a misspelt metric must not cost an hour."""

from __future__ import annotations

from scenarios.curves import RATES
from scenarios.errors import ScenarioError, listing, mark_of, schema_keys
from scenarios.loader import LoadedScenario

METRICS = ("mse", "wasserstein2", "variance_ratio", "amplitude", "active_cap")


def check_figures(loaded: LoadedScenario) -> None:
    """Raise ScenarioError for a figure of something that is never measured or set."""
    for number, figure in enumerate(loaded.scenario.report.figures):
        series = (figure.series,) if isinstance(figure.series, str) else figure.series
        for key, paths in (("x", (figure.x,)), ("series", series), ("panels", (figure.panels or "label",))):
            for path in paths:
                if path not in schema_keys():
                    _refuse(loaded, number, key, path, "names no key of a scenario", "write a dotted path")
        if figure.y not in (*METRICS, *RATES):
            known = f"write one of {listing([*METRICS, *RATES])}"
            _refuse(loaded, number, "y", figure.y, "names nothing that is measured", known)


def _refuse(loaded: LoadedScenario, number: int, key: str, value: str, problem: str, remedy: str) -> None:
    mark = mark_of(("report", "figures", number, key), loaded.marks)
    file, line = mark if mark is not None else (None, None)
    raise ScenarioError(
        problem=problem, remedy=remedy, file=file, line=line, key=f"report.figures[{number}].{key}", value=value
    )
