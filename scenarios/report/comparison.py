"""Several runs beside each other: settings in which they differ, curves in one figure per metric, and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, isclose, isfinite
from typing import Any

from fl.base.words import plural
from scenarios.report.answers.differences import ROUNDING, Difference, Values, largest_clear
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Curve, Drawing
from scenarios.report.figures.interactive import describe
from scenarios.report.figures.style import render
from scenarios.report.html import Head, Part, data_uri, render_page
from scenarios.report.tables.summaries import Mean
from scenarios.report.tables.table import Table
from scenarios.schema.errors import items_of, mapping
from scenarios.schema.labels.labels import axis_label, setting_cell
from scenarios.schema.schema import FigureConfig
from scenarios.schema.sweep import blocks_of, groups_of

NO_SETTINGS = ("name", "description", "report", "sweep", "label", "base", "code", "tune")
"""Keys of a scenario that change no number."""
LEAD = (
    "A difference is that of the later run less the first, with its interval. **Paired**: trials of one number have "
    "the same seed in both runs, and the interval is that of their differences. **Unpaired**: the interval follows "
    "from those of both values, as if these were independent. A difference is **clear** if its interval has no "
    "zero in it."
)
UNMATCHED = "No metric has results at sweep points of two runs that agree in all settings that all runs sweep."


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A metric at a sweep point of a run: `value` with interval `low` to `high`, NaN without one, and as `text`.

    `key` is equal at sweep points that share their settings, `setting` says these in words, `own` the settings that
    not all runs sweep. `count`: trials, or observations of a rate. `trials`: the value of each trial; None for a rate.
    """

    key: str
    setting: str
    own: str
    value: float
    low: float
    high: float
    count: int
    text: str
    trials: Values | None = None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A run to compare: what its study computes, its settings in words by key, its swept paths, and its metrics.

    `missing`: trials or points that are not finished. `draw` returns the figure of a metric. `cells` yields the values
    of a metric; those with equal values of the given swept paths and of the axis of a link study have equal keys.
    """

    name: str
    seed: int
    missing: str
    settings: Mapping[str, str]
    swept: Sequence[str]
    axes: Sequence[str]
    metrics: Sequence[str]
    draw: Callable[[FigureConfig], Drawing]
    cells: Callable[[str, Sequence[str], str], Iterable[Cell]]


def settings_of(root: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a resolved scenario in words by key, all values of a swept one."""
    found = {path: setting_cell(path, value) for path, value in _leaves(root) if path.split(".")[0] not in NO_SETTINGS}
    swept: dict[str, dict[str, None]] = {}
    for at, block in blocks_of(root.get("sweep") or {}).items():
        for _, group in groups_of(block, at):
            for path, values in mapping(group).items():
                swept.setdefault(path, {}).update(dict.fromkeys(setting_cell(path, one) for one in items_of(values)))
    return found | {path: f"swept: {', '.join(words)}" for path, words in swept.items()}


def _leaves(node: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if mapping(value):
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def differing(several: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the keys whose words are not the same in all of several settings."""
    keys = dict.fromkeys(key for settings in several for key in settings)
    return [key for key in keys if len({settings.get(key) for settings in several}) > 1]


def difference(x: Cell, y: Cell, *, paired: bool) -> Difference:
    """Return `y` less `x`: over trials in pairs, else with the interval of independent values.

    From limits l and u of each value this is from y - x - sqrt((y - l_y)^2 + (u_x - x)^2) to
    y - x + sqrt((u_y - y)^2 + (x - l_x)^2) (Zou and Donner, Statistics in Medicine 27, 2008); 0 where values and
    limits differ by rounding alone.
    """
    if paired and x.trials is not None and y.trials is not None:
        return Difference.of(y.trials, x.trials)
    mean = y.value - x.value
    low, high = mean - hypot(y.value - y.low, x.high - x.value), mean + hypot(y.high - y.value, x.value - x.low)
    if all(isclose(one, x.value, rel_tol=ROUNDING) for one in (x.low, x.high, y.low, y.high)):
        mean = low = high = 0.0
    known = isfinite(low) and isfinite(high)
    count = min(x.count, y.count)
    return Difference(mean=Mean(mean=mean, low=low if known else None, high=high if known else None, trials=count))


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Runs beside each other over the axis `by`; see `compared`."""

    runs: Sequence[Compared]
    settings: Table
    results: Mapping[str, Table]
    summary: Sequence[tuple[str, str]]
    figures: Sequence[Drawing]


def compared(runs: Sequence[Compared], *, by: str) -> RunComparison:
    """Compare runs of one kind, each with the first, in the metrics that all of them have.

    A metric that is equal everywhere has a sentence, but neither figure nor table.
    Sweep points are matched by the values of the settings that all runs sweep.
    """
    first, shared = runs[0], shared_paths(runs)
    keys = differing([run.settings for run in runs])
    heads = ("key", *(run.name for run in runs))
    rows = tuple((key, *(run.settings.get(key, "not set") for run in runs)) for key in keys)
    results: dict[str, Table] = {}
    summary: list[tuple[str, str]] = []
    figures: list[Drawing] = []
    for metric in (one for one in first.metrics if all(one in run.metrics for run in runs[1:])):
        pairs = []
        cells = [cell for alike in _by_key(first.cells(metric, shared, by)).values() for cell in alike]
        for run in runs[1:]:
            partners = _by_key(run.cells(metric, shared, by))
            matched = [(x, y) for x in cells for y in partners.get(x.key, ())]
            paired = run.seed == first.seed
            found = [(run, x, y, difference(x, y, paired=paired)) for x, y in matched]
            pairs += found
            summary += [(f"{axis_label(metric)}, {run.name} less {first.name}", _in_short(found))] if found else []
        if pairs and all(one.verdict == "equal" for *_, one in pairs):
            continue
        drawing = _joined(runs, FigureConfig(x=by, y=metric))
        figures += [drawing] if drawing.panels else []
        if pairs:
            results[metric] = _table(pairs, first, paired={run.name: run.seed == first.seed for run in runs})
    left = (*heads, "setting", "run")
    return RunComparison(
        runs=runs,
        settings=Table(columns=heads, rows=rows, left=left, wrapped=heads),
        results=results,
        summary=summary,
        figures=figures,
    )


def shared_paths(runs: Sequence[Compared]) -> list[str]:
    """Return the swept paths of the first run that all others sweep, too."""
    return [path for path in runs[0].swept if all(path in run.swept for run in runs[1:])]


def _by_key(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Sort the cells of a run by their key; those without another of their key need no settings of their own."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.key, []).append(cell)
    return {key: alike if len(alike) > 1 else [replace(alike[0], own="")] for key, alike in found.items()}


_Pair = tuple[Compared, Cell, Cell, Difference]


def _table(pairs: Sequence[_Pair], first: Compared, *, paired: Mapping[str, bool]) -> Table:
    names = list(paired)
    others = ("run", "its value") if len(names) > 2 else (names[1],)
    heads = ("setting", first.name, *others, "difference", "trials", "clear")
    rows = tuple(
        (
            "; ".join(filter(None, (x.setting, x.own and f"{first.name}: {x.own}", y.own and f"{run.name}: {y.own}")))
            or "the run",
            x.text,
            *(run.name, y.text)[-len(others) :],
            str(one.mean or ""),
            "paired" if paired[run.name] and x.trials is not None else "unpaired",
            one.verdict or "too few trials",
        )
        for run, x, y, one in pairs
    )
    return Table(columns=heads, rows=rows, left=("setting", "run", "trials", "clear"), wrapped=heads)


def _in_short(pairs: Sequence[_Pair]) -> str:
    """How often the difference is clear, and the largest."""
    known = [(x, one.mean, one.verdict) for _, x, _, one in pairs if one.mean is not None and isfinite(one.mean.mean)]
    if not known:
        return "no trial of equal number is finished in both."
    if all(verdict == "equal" for *_, verdict in known):
        return "equal in all trials at all sweep points."
    clear = [mean.mean for _, mean, verdict in known if verdict == "yes"]
    apart = {str(number): one for number, (_, _, _, one) in enumerate(pairs)}
    phrase, number = largest_clear(apart)
    where = f" ({setting})" if (setting := pairs[int(number)][1].setting) else ""
    signs = f" ({sum(d > 0 for d in clear)} larger, {sum(d < 0 for d in clear)} smaller)" if clear else ""
    return f"a clear difference at {len(clear)} of {plural(len(known), 'sweep point')}{signs}; {phrase}{where}."


def _joined(runs: Sequence[Compared], config: FigureConfig) -> Drawing:
    """One figure of all runs: a panel per curve of the first, in which a run has one look in all panels.

    A curve that has a number more in its label, of a key that this run alone sweeps, stands beside those without it.
    """
    panels: dict[str, list[Curve]] = {}
    captions: dict[str, None] = {}
    looks: dict[str, int] = {}
    for run in runs:
        drawing = run.draw(config)
        captions[drawing.caption] = None
        known = list(panels)
        for title, curves in drawing.panels:
            for curve in curves:
                parts = [part for text in (title, curve.label) for part in text.split(", ") if part]
                less = [part for part in parts if " = " not in part]
                place, own = ", ".join(parts), ", ".join(part for part in parts if " = " in part)
                if place not in known and ", ".join(less) in known:
                    place, label = ", ".join(less), f"{run.name}, {own}"
                else:
                    label = run.name
                number = looks.setdefault(label, len(looks))
                panels.setdefault(place, []).append(replace(curve, label=label, series=number))
    seeds = {run.seed for run in runs}
    return Drawing(
        config=config,
        panels=tuple((title, tuple(curves)) for title, curves in panels.items()),
        caption=" ".join(captions),
        seed=seeds.pop() if len(seeds) == 1 else None,
    )


def comparison_page(found: RunComparison, *, command: str) -> str:
    """Return the page of a comparison as HTML."""
    pictures = [
        Part(
            head=f"{axis_label(one.config.y)} over {axis_label(one.config.x)}",
            soft=one.caption,
            image=data_uri(render(draw(one), "svg")),
            curves=describe(one),
        )
        for one in found.figures
    ]
    head = Head(
        name=" and ".join(run.name for run in found.runs),
        facts=[f"**{len(found.runs)}** runs", *(f"{run.name}: seed {run.seed}" for run in found.runs)],
        warnings=[f"{run.name}: {run.missing}" for run in found.runs if run.missing],
    )
    tables = [Part(head=axis_label(metric), table=table) for metric, table in found.results.items()]
    same = "" if found.settings.rows else "The runs have the same settings."
    return render_page(
        head,
        head,
        {
            "In short": [Part(items=found.summary), Part(text="" if found.summary else UNMATCHED)],
            "Settings that differ": [Part(table=found.settings), Part(text=same)],
            "Figures": pictures,
            "Differences": [Part(soft=LEAD if tables else ""), *tables],
            "Command to write this page again": [Part(code=command)],
        },
    )
