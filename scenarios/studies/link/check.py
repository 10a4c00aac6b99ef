"""Checks of a link study before it is measured: its figures, and warnings about its links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scenarios.plan.points import swept_keys
from scenarios.schema.errors import ScenarioError, listing, mark_of
from scenarios.schema.overrides import OVERRIDE
from scenarios.schema.schema import FigureConfig
from scenarios.studies.link.level import DEVICE, LABELS, QUANTITIES

if TYPE_CHECKING:
    from scenarios.schema.loader import LoadedScenario
    from scenarios.studies.link.plan import LinkPlan


def figures_of(plan: LinkPlan, configured: Sequence[FigureConfig]) -> tuple[FigureConfig, ...]:
    """The figures of a study: those the scenario names that are about rates over an axis, or bits and packets."""
    own = tuple(logarithmic(config) for config in configured if config.x in LABELS)
    return own or tuple(FigureConfig(x=plan.measure.over, y=y, y_scale="log") for y in QUANTITIES[:2])


def logarithmic(config: FigureConfig) -> FigureConfig:
    """The same figure on a logarithmic axis, unless it is about something else or says which axis it wants."""
    if config.x not in LABELS or "y_scale" in config.model_fields_set:
        return config
    return config.model_copy(update={"y_scale": "log"})


def without_overridden(loaded: LoadedScenario, config: FigureConfig) -> FigureConfig:
    """The same figure without the series and panels that --set took out of the sweep."""
    series = (config.series,) if isinstance(config.series, str) else config.series
    kept = tuple(path for path in series if not _overridden(loaded, path))
    panels = None if config.panels is None or _overridden(loaded, config.panels) else config.panels
    if kept == series and panels == config.panels:
        return config
    return config.model_copy(update={"series": kept, "panels": panels})


def _overridden(loaded: LoadedScenario, path: str) -> bool:
    if path in {at[-1] for at in swept_keys(loaded.document.get("sweep"))}:
        return False
    parts = tuple(path.split("."))
    above = (loaded.marks.get(parts[:depth]) for depth in range(1, len(parts) + 1))
    return any(mark is not None and mark.file == OVERRIDE for mark in above)


def check_study_figures(loaded: LoadedScenario, plan: LinkPlan) -> None:
    """Raise ScenarioError for a figure that this study cannot draw; figures of learning are left alone."""
    learns = "learning" in loaded.document
    for number, written in enumerate(loaded.scenario.report.figures):
        figure = without_overridden(loaded, written)
        if learns and figure.x not in LABELS:
            continue
        _check(loaded, number, "x", figure.x, tuple(LABELS))
        _check(loaded, number, "y", figure.y, QUANTITIES)
        series = (figure.series,) if isinstance(figure.series, str) else figure.series
        for path in series:
            _check(loaded, number, "series", path, (*plan.swept_paths, DEVICE))
        if figure.panels is not None:
            _check(loaded, number, "panels", figure.panels, plan.swept_paths)


def _check(loaded: LoadedScenario, number: int, key: str, value: str, known: Sequence[str]) -> None:
    if value in known:
        return
    file, line = mark_of(("report", "figures", number, key), loaded.marks)
    raise ScenarioError(
        problem="a figure of a link study has no such " + ("axis" if key in "xy" else "setting, nothing sweeps it"),
        remedy=f"write {listing(known)}" if known else f"leave {key} out",
        file=file,
        line=line,
        key=f"report.figures[{number}].{key}",
        value=value,
    )
