"""Stored results of library scenarios: the figures drawn from them, published numbers beside them, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.generators.markdown import table
from scenarios.plan.points import Plan
from scenarios.report.figures.curves import Shown, arrange
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.drawing import Drawing, Spot
from scenarios.report.published import COLUMNS, number_of, read_published, read_reference
from scenarios.report.settings import cells_of
from scenarios.report.tables.quantities import ROUND_AXES
from scenarios.report.tables.summaries import Mean, PointSummary, Rate, rate_text
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.schema.schema import FigureConfig
from scenarios.studies.link.plan import LinkPlan, expand_link
from scenarios.studies.link.report import compose, figures_of
from scenarios.studies.tune.plan import VALIDATION, plan_tuning

Row = dict[str, str]

ALONG = ("axis", "x")
"""Columns of stored curves between settings and `COLUMNS`: which axis along the run, and the value on it."""


def results(loaded: LoadedScenario, plan: Plan | None, *, folder: Path) -> Iterator[str]:
    """Yield stored results of a scenario, which must have some; figures go into `folder`. `plan`: None for links."""
    name = loaded.scenario.name
    rows = read_reference(name)
    origins = dict.fromkeys(f"`{row['source']}`, phyloop {row['version']}, {row['date']}" for row in rows)
    yield f"Stored results: {'; '.join(origins)}, seed {rows[0]['seed']}.{'' if plan is None else _trials(rows)}"
    if read_reference(f"curves/{name}"):
        yield "Of a curve along the run, at most 25 values are stored and drawn."
    summaries = () if plan is None else _summaries(plan, rows)
    drawings = _link_drawings(expand_link(loaded), rows) if plan is None else _drawings(plan, summaries)
    (folder / name).mkdir(exist_ok=True)
    for files in write_figures(folder / name, [one for one in drawings if any(curves for _, curves in one.panels)]):
        yield f"![{files.title}]({name}/{files.svg.name})"
        yield f"*{files.caption}*"
    for published in () if plan is None else read_published(plan, summaries):
        yield f"### {published.title}"
        yield published.table.markdown()
        yield published.caption
        yield published.config.note


def all_results(name: str) -> str:
    """Return the table of all stored results of a scenario."""
    rows = read_reference(name)
    paths = _paths(rows)
    heads = {path: axis_label(path) for path in paths}
    cells = [
        {path: row[path] for path in paths} | {"quantity": axis_label(row["metric"])} | _cells(row) for row in rows
    ]
    columns = [one for one in cells[0] if any(row[one] for row in cells)]
    return table([heads.get(one, one) for one in columns], ([row[one] for one in columns] for row in cells))


def search(name: str) -> Iterator[str]:
    """Yield the stored search for settings of a scenario: how candidates were compared, and the table of all."""
    if not (rows := read_reference(f"tune/{name}")):
        return
    first = rows[0]
    metric = plan_tuning(load_scenario(name)).metric
    images = "validation images and on " if metric.name == VALIDATION else ""
    yield "## Search for its settings"
    yield (
        f"`{first['source']}`, phyloop {first['version']}, {first['date']}. Candidates were compared by "
        f"{metric.words} on {images}trials of seed {first['seed']}, from which no trial above draws. "
        "Of each choice the best candidates are shown. "
        "Where the interval of a difference contains zero, the two candidates are not told apart."
    )
    numbers = ("rounds", "n", "difference", "difference_low", "difference_high", "chosen")
    paths = [path for path in _paths(rows) if path not in numbers]
    heads = (
        *map(axis_label, paths),
        "rounds",
        "mean and 95 % interval",
        "difference from the best",
        "trials",
        "chosen",
    )
    cells = (
        (
            *(row[path] for path in paths),
            row["rounds"],
            _value(row | {"trials": row["n"]}),
            _behind(row),
            row["n"],
            "yes" if row["chosen"] == "True" else "",
        )
        for row in rows
    )
    yield table(heads, cells)


def _behind(row: Row) -> str:
    """The difference of a candidate from the best one, which itself has none."""
    columns = {"mean": "difference", "low": "difference_low", "high": "difference_high", "trials": "n"}
    return row["difference"] and _value({name: row[column] for name, column in columns.items()})


def _cells(row: Row) -> Row:
    counts = f"{int(row['errors']):,} of {int(row['total']):,}" if row.get("total") else ""
    return {"value and 95 % interval": _value(row), "errors": counts, "trials": row.get("trials", "")}


def _value(row: Row) -> str:
    """A number with its interval; the rate of a link is its unbiased estimate rather than errors over observations."""
    number = number_of(row)
    if isinstance(number, Rate):
        return rate_text(float(row["mean"]) if row["mean"] else None, low=number.low, high=number.high)
    return str(number)


def _trials(rows: Sequence[Row]) -> str:
    few, many = (pick(int(row["trials"]) for row in rows) for pick in (min, max))
    several = f"{few} to {many} trials" if few < many else f"{many} trial{'s' if many > 1 else ''}"
    return f" {several} per sweep point. Intervals of means are 95 % t intervals over trials."


def _drawings(plan: Plan, summaries: Sequence[PointSummary]) -> Iterator[Drawing]:
    stored = {name for one in summaries for name in (*one.metrics, *one.rates)}
    for config in plan.points[0].scenario.report.figures:
        if config.x in ROUND_AXES or config.y in stored:
            yield arrange(config, plan, summaries, along=lambda one: _curves(plan, one))


def _summaries(plan: Plan, rows: Sequence[Row]) -> tuple[PointSummary, ...]:
    """The stored means and rates of each sweep point, as a summary of a run has them."""
    found = _by_settings(rows)
    summaries = []
    for point in plan.points:
        if own := found.get(cells_of(point, _paths(rows))):
            numbers = {row["metric"]: number_of(row) for row in own}
            means = {name: one for name, one in numbers.items() if isinstance(one, Mean)}
            rates = {name: one for name, one in numbers.items() if isinstance(one, Rate)}
            done = max(int(row["trials"]) for row in own)
            summaries.append(PointSummary(point=point, done=done, failed=0, metrics=means, rates=rates))
    return tuple(summaries)


def _curves(plan: Plan, config: FigureConfig) -> Iterator[Shown]:
    """The stored values along the run of a figure; none without a file of curves."""
    rows = [
        row
        for row in read_reference(f"curves/{plan.points[0].scenario.name}")
        if (row["axis"], row["metric"]) == (config.x, config.y)
    ]
    found = _by_settings(rows)
    for point in plan.points:
        for row in found.get(cells_of(point, _paths(rows)), ()):
            yield point, "", _spot(row, float(row["x"]))


def _link_drawings(plan: LinkPlan, rows: Sequence[Row]) -> Iterator[Drawing]:
    """The figures of a link study; its stored values are on the axis that it measured over."""
    over = plan.measure.over
    found = _by_settings(rows, without=over)
    for config in figures_of(plan, plan.curves[0].point.scenario.report.figures):
        shown = [
            (curve.point, "", _spot(row, float(row[over])))
            for curve in plan.curves
            for row in found[cells_of(curve.point, _paths(rows, without=over))]
            if row["metric"] == config.y
        ]
        yield compose(config, plan, shown)


def _spot(row: Row, x: float) -> Spot:
    mean, low, high = (float(row[name]) if row[name] else None for name in ("mean", "low", "high"))
    errors, total = (int(row[name]) if row.get(name) else None for name in ("errors", "total"))
    return Spot(x=x, y=mean, low=low, high=high, n=int(row.get("trials") or total or 0), errors=errors, total=total)


def _paths(rows: Sequence[Row], *, without: str = "") -> tuple[str, ...]:
    return tuple(path for path in rows[0] if path not in (*COLUMNS, *ALONG, without)) if rows else ()


def _by_settings(rows: Sequence[Row], *, without: str = "") -> dict[tuple[str, ...], list[Row]]:
    """Rows by the words of their settings."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[path] for path in _paths(rows, without=without)), []).append(row)
    return found
