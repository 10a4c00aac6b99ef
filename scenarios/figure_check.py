"""Figures are checked before the run that they end: a misspelt metric must not cost an hour."""

from __future__ import annotations

from scenarios.curves import RATES, ROUND_AXES
from scenarios.errors import ScenarioError, listing, mark_of, schema_keys
from scenarios.loader import LoadedScenario
from scenarios.round_curves import PER_DEVICE, PER_ROUND
from scenarios.schema import FigureConfig

METRICS = (
    "mse",
    "wasserstein2",
    "variance_ratio",
    "amplitude",
    "active_cap",
    "total_airtime_s",
    "total_energy_j",
)


def check_figures(loaded: LoadedScenario) -> None:
    """Raise ScenarioError for a figure of something that is never measured or set."""
    for number, figure in enumerate(loaded.scenario.report.figures):
        along = figure.x in ROUND_AXES
        series = (figure.series,) if isinstance(figure.series, str) else figure.series
        if not along and figure.x not in schema_keys():
            _refuse(
                loaded,
                number,
                "x",
                figure.x,
                "names no key of a scenario",
                f"write a dotted path, or {listing(ROUND_AXES)} for a curve along the run",
            )
        if "device" in series:
            _check_devices(loaded, number, figure)
        settings = [path for path in series if path != "device"]
        for key, paths in (("series", settings), ("panels", [figure.panels or "label"])):
            for path in paths:
                if path not in schema_keys():
                    _refuse(loaded, number, key, path, "names no key of a scenario", "write a dotted path")
        known = (*PER_ROUND, *PER_DEVICE, *RATES) if along else (*METRICS, *RATES)
        if figure.y not in known:
            others = (*METRICS,) if along else (*PER_ROUND, *PER_DEVICE)
            problem = "names nothing that is measured"
            if figure.y in others:
                problem = f"is no number of {'one round' if along else 'a whole trial'}, which x = {figure.x} asks for"
            _refuse(loaded, number, "y", figure.y, problem, f"write one of {listing(known)}")


def _check_devices(loaded: LoadedScenario, number: int, figure: FigureConfig) -> None:
    """A curve per device needs an x along the run and a y that is known of each device."""
    if figure.x not in ROUND_AXES:
        remedy = f"set x to {listing(ROUND_AXES)}, or leave device out"
        _refuse(loaded, number, "series", "device", f"tells no curves apart over x = {figure.x}", remedy)
    if figure.y not in (*PER_DEVICE, *RATES):
        remedy = f"set y to {listing((*PER_DEVICE, *RATES))}, or leave device out"
        _refuse(loaded, number, "series", "device", f"tells no curves of {figure.y} apart", remedy)


def _refuse(loaded: LoadedScenario, number: int, key: str, value: str, problem: str, remedy: str) -> None:
    mark = mark_of(("report", "figures", number, key), loaded.marks)
    file, line = mark if mark is not None else (None, None)
    raise ScenarioError(
        problem=problem, remedy=remedy, file=file, line=line, key=f"report.figures[{number}].{key}", value=value
    )
