"""The gallery: a page for each scenario of the library, with its stored results if there are any."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.generators.markdown import code, page, table, toctree
from scenarios.cli.library import SYSTEMS
from scenarios.engine.limits import estimate
from scenarios.plan.points import Plan
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.draw import write_figures
from scenarios.report.library import library_scenario
from scenarios.report.published import COLUMNS, library_plan, mean_of, read_published, read_reference
from scenarios.report.settings import cells_of
from scenarios.report.tables.quantities import ROUND_AXES
from scenarios.report.tables.summaries import Mean, PointSummary
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.labels.units import byte_size
from scenarios.schema.loader import LoadedScenario, library_names
from scenarios.studies.link.plan import expand_link

PAPERS = {"flmc": "zhang-2022", "bitflip": "li-2025", "cpa": "lang-2023", "probit": "lan"}
"""First word of a scenario's name -> page of its paper."""

TIMES = Path(__file__).with_name("times.csv")
"""Processor time of `phyloop run` in one thread, kernels compiled before, on an AMD EPYC with AVX-512."""


def write(folder: Path) -> None:
    """Write a page per scenario into `folder`, and the page of contents beside it."""
    folder.mkdir(exist_ok=True)
    names = library_names()
    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in SYSTEMS.values()}
    for name, _ in names:
        title = next(title for first, title in SYSTEMS.items() if name.startswith(first))
        loaded = library_scenario(name)
        assert loaded is not None
        groups[title].append((name, _first_sentence(loaded)))
        (folder / f"{name}.md").write_text(page(*scenario_page(name, loaded, folder=folder)), encoding="utf-8")
    parts = [
        f"## {title}\n\n"
        + table(
            ("scenario", "content", "results"),
            ((f"[`{n}`]({n}.md)", about, "stored" if read_reference(n) else "not stored") for n, about in entries),
        )
        for title, entries in groups.items()
        if entries
    ]
    (folder / "index.md").write_text(
        page(
            "# Gallery",
            f"The library has {len(names)} scenarios, which `phyloop list` prints, too. Each page has a "
            "description, stored results with their figures if there are any, and the YAML file. `phyloop run NAME` "
            "computes a scenario.",
            *parts,
            toctree(*(name for name, _ in names)),
        ),
        encoding="utf-8",
    )


def _first_sentence(loaded: LoadedScenario) -> str:
    text = " ".join(str(loaded.scenario.description).split())
    return re.split(r"(?<!et al)\. ", text, maxsplit=1)[0].rstrip(".") + "."


def scenario_page(name: str, loaded: LoadedScenario, *, folder: Path) -> Iterator[str]:
    """Yield the parts of the page of a scenario; its figures are written into `folder`."""
    yield f"# {name}"
    yield loaded.scenario.description
    plan, measures = library_plan(name), loaded.scenario.measure is not None
    yield "\n".join(f"- {fact}" for fact in _facts(name, loaded))
    command = "link" if measures else "run"
    yield code(f"phyloop check {name}\nphyloop {command} {name}", "bash")
    if loaded.scenario.report.notes:
        yield "## Notes"
        yield loaded.scenario.report.notes
    yield "## Results"
    if plan is None or not read_reference(name):
        yield f"No results of this scenario are stored. `phyloop {command} {name}` computes them and draws its figures."
    else:
        yield from _results(loaded, plan, folder=folder)
    yield "## Scenario"
    yield f"```{{literalinclude}} ../../../scenarios/library/{name}.yaml\n:language: yaml\n```\n"
    if rows := read_reference(name):
        paths = [path for path in rows[0] if path not in COLUMNS]
        yield "## All stored results"
        heads = (*map(axis_label, paths), "quantity", "mean and interval", "trials")
        yield table(heads, (_cells(row, paths) for row in rows))


def _facts(name: str, loaded: LoadedScenario) -> Iterator[str]:
    paper = next((stem for first, stem in PAPERS.items() if name.startswith(first)), None)
    if paper is not None:
        yield f"Paper: [equations, and what is reproduced](../../papers/{paper}.md)"
    if (plan := library_plan(name)) is None:
        link = expand_link(loaded)
        yield f"Size: {len(link.curves)} curves × {len(link.measure.levels)} values, seed {link.seed}"
        return
    cost, tasks = estimate(plan), len(plan.points) * plan.trials
    yield f"Size: {len(plan.points)} sweep points × {plan.trials} trials = {tasks} tasks, seed {plan.seed}"
    yield f"Estimated memory: {byte_size(cost.memory_bytes)}; disk: {byte_size(cost.disk_bytes)}"
    with TIMES.open(encoding="utf-8", newline="") as lines:
        times = {row["scenario"]: row for row in csv.DictReader(lines)}
    if name in times:
        yield f"Time: {times[name]['processor_s']} s on one core (AMD EPYC, {times[name]['date']})"
    else:
        yield "Time: not stored; `phyloop run` measures it on the first tasks and shows the time left"


def _results(loaded: LoadedScenario, plan: Plan, *, folder: Path) -> Iterator[str]:
    """Stored results: origin, figures drawn from them, published numbers beside them, and all of them as a table."""
    name = loaded.scenario.name
    rows = read_reference(name)
    paths = [path for path in rows[0] if path not in COLUMNS]
    origins = dict.fromkeys(f"{row['source']}, phyloop {row['version']}, {row['date']}" for row in rows)
    trials = sorted({int(row["trials"]) for row in rows})
    several = f"{trials[0]} to {trials[-1]}" if len(trials) > 1 else str(trials[0])
    yield (
        f"Stored results: {'; '.join(origins)}; {several} trial{'s' if trials[-1] > 1 else ''} per sweep point. "
        "Intervals are 95 % t intervals of the mean over trials."
    )
    summaries = _summaries(plan, paths)
    stored = {row["metric"] for row in rows}
    figures = [one for one in loaded.scenario.report.figures if one.x not in ROUND_AXES and one.y in stored]
    drawings = [arrange(one, plan, summaries) for one in figures]
    (folder / name).mkdir(exist_ok=True)
    for files in write_figures(folder / name, [one for one in drawings if any(curves for _, curves in one.panels)]):
        yield f"![{files.title}]({name}/{files.svg.name})"
        yield f"*{files.caption}*"
    for published in read_published(plan, summaries):
        yield f"### {published.title}"
        yield published.table.markdown()
        yield published.caption


def _cells(row: dict[str, str], paths: Sequence[str]) -> tuple[object, ...]:
    return *(row[path] for path in paths), axis_label(row["metric"]), mean_of(row), row["trials"]


def _summaries(plan: Plan, paths: Sequence[str]) -> tuple[PointSummary, ...]:
    """The stored means of each sweep point, as a summary of a run has them."""
    found: dict[tuple[str, ...], dict[str, Mean]] = {}
    for row in read_reference(plan.points[0].scenario.name):
        found.setdefault(tuple(row[path] for path in paths), {})[row["metric"]] = mean_of(row)
    points = ((point, found.get(cells_of(point, paths))) for point in plan.points)
    return tuple(
        PointSummary(point=point, done=max(one.trials for one in means.values()), failed=0, metrics=means)
        for point, means in points
        if means
    )
