"""The gallery: a page for each scenario of the library, with its stored results if there are any."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from docs.generators.claims import claims_of
from docs.generators.gallery_results import all_results, results, search
from docs.generators.markdown import code, page, table, toctree
from phy.numerics.workers import available_threads
from scenarios.cli.library import SYSTEMS
from scenarios.engine.limits import estimate
from scenarios.plan.points import Plan
from scenarios.report.library import library_scenario
from scenarios.report.published import library_plan, read_reference
from scenarios.schema.labels.units import byte_size
from scenarios.schema.loader import LoadedScenario, library_names
from scenarios.studies.link.plan import expand_link

PAPERS = {"flmc": "zhang-2022", "bitflip": "li-2025", "cpa": "lang-2023", "probit": "lan"}
"""First word of a scenario's name -> page of its paper."""

TIMES = Path(__file__).with_name("times.csv")
"""Processor time (user and system) of `phyloop run` or `link` in one thread, on a processor with AVX-512.

Kernels were compiled before. Where no full run was measured: that of a task, what was measured for it, and why.
"""


class Time(NamedTuple):
    """Processor time of a whole run [s], or of one of `tasks` tasks where no whole run was measured."""

    run_s: float | None
    task_s: float
    tasks: int
    measured: str
    why: str
    processor: str
    date: str

    @property
    def total_s(self) -> float:
        """Processor time of all tasks, measured or estimated [s]."""
        return self.task_s * self.tasks if self.run_s is None else self.run_s


@cache
def rows() -> dict[str, dict[str, str]]:
    """Return the line of `TIMES` of every scenario."""
    with TIMES.open(encoding="utf-8", newline="") as lines:
        return {row["scenario"]: row for row in csv.DictReader(lines)}


@cache
def time_of(name: str) -> Time:
    """Return the time of a scenario."""
    row, plan = rows()[name], library_plan(name)
    run_s = float(row["run_s"]) if row["run_s"] else None
    tasks = 0 if plan is None else len(plan.points) * plan.trials
    return Time(run_s, float(row["task_s"] or 0), tasks, row["measured"], row["why"], row["processor"], row["date"])


def duration(seconds: float) -> str:
    """Return a time in its largest unit, with two digits."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


class Entry(NamedTuple):
    """Row of a scenario in the table of contents."""

    name: str
    about: str
    stored: str
    total: str
    on_two_cores: str


def write_scenario(name: str, folder: Path) -> Entry:
    """Write the page of a scenario into `folder`, and return its row in the table of contents."""
    loaded = library_scenario(name)
    assert loaded is not None
    (folder / f"{name}.md").write_text(page(*scenario_page(name, loaded, folder=folder)), encoding="utf-8")
    return Entry(name, _first_sentence(loaded), "stored" if read_reference(name) else "none", *_time_cells(name))


def write(folder: Path, tell: Callable[[str], None] = print) -> None:
    """Write a page per scenario into `folder`, and the page of contents beside it; `tell` gets lines of progress."""
    folder.mkdir(exist_ok=True)
    names = [name for name, _ in library_names()]
    groups: dict[str, list[Entry]] = {title: [] for title in SYSTEMS.values()}
    # Drawing takes nine tenths of the time, and matplotlib one core.
    with ProcessPoolExecutor(available_threads(), mp_context=get_context("spawn")) as pool:
        for done, entry in enumerate(pool.map(write_scenario, names, repeat(folder)), 1):
            title = next(title for first, title in SYSTEMS.items() if entry.name.startswith(first))
            groups[title].append(entry)
            if done % 10 == 0 or done == len(names):
                tell(f"gallery: {done} of {len(names)} scenarios")
    parts = [
        f"## {title}\n\n"
        + table(
            ("scenario", "content", "results", "processor time", "on two cores, at least"),
            ((f"[`{one.name}`]({one.name}.md)", *one[1:]) for one in entries),
        )
        for title, entries in groups.items()
        if entries
    ]
    (folder / "index.md").write_text(
        page(
            "# Gallery",
            f"The library has {len(names)} scenarios, which `phyloop list` prints, too. Each page has a "
            "description, stored results with their figures if there are any, what they show, claims of the paper "
            "with our verdicts, and the YAML file. `phyloop run NAME` computes a scenario, `phyloop link NAME` one of "
            "links.",
            "Processor time is that of one thread of an AMD EPYC or Intel Xeon with AVX-512 that other work shared, "
            "with kernels compiled before. Two cores need half of it or more. *About* marks an estimate: the time of a "
            "task times the number of tasks. The page of the scenario says which processor, and why.",
            *parts,
            toctree(*names),
        ),
        encoding="utf-8",
    )


def _time_cells(name: str) -> tuple[str, str]:
    time = time_of(name)
    about = "about " if time.run_s is None else ""
    return f"{about}{duration(time.total_s)}", f"{about}{duration(time.total_s / 2)}"


def _first_sentence(loaded: LoadedScenario) -> str:
    text = " ".join(str(loaded.scenario.description).split())
    return re.split(r"(?<!et al)(?<!Fig)(?<!Figs)\. ", text, maxsplit=1)[0].rstrip(".") + "."


def scenario_page(name: str, loaded: LoadedScenario, *, folder: Path) -> Iterator[str]:
    """Yield the parts of the page of a scenario; its figures are written into `folder`."""
    yield f"# {name}"
    yield loaded.scenario.description
    plan, stored = library_plan(name), read_reference(name)
    yield "\n".join(f"- {fact}" for fact in _facts(name, loaded, plan))
    command = "link" if plan is None else "run"
    yield code(f"phyloop check {name}\nphyloop {command} {name}", "bash")
    yield "## Results"
    if stored:
        yield from results(loaded, plan, folder=folder)
    else:
        yield f"No results of this scenario are stored. `phyloop {command} {name}` computes them and draws its figures."
    if loaded.scenario.report.notes:
        yield "## What it shows"
        yield loaded.scenario.report.notes
    yield from search(name)
    if claims := claims_of(name):
        yield "## Claims of the paper and our verdicts"
        yield table(("item", "result of the paper", "here"), ((one.item, one.published, one.here) for one in claims))
    yield "## Scenario"
    yield f"```{{literalinclude}} ../../../scenarios/library/{name}.yaml\n:language: yaml\n```\n"
    if stored:
        yield "## All stored results"
        yield all_results(name)


def _facts(name: str, loaded: LoadedScenario, plan: Plan | None) -> Iterator[str]:
    paper = next((stem for first, stem in PAPERS.items() if name.startswith(first)), None)
    if paper is not None:
        yield f"Paper: [equations, and what is reproduced](../../papers/{paper}.md)"
    if plan is None:
        link = expand_link(loaded)
        yield f"Size: {len(link.curves)} curves × {len(link.measure.levels)} values, seed {link.seed}"
    else:
        cost, tasks = estimate(plan), len(plan.points) * plan.trials
        yield f"Size: {len(plan.points)} sweep points × {plan.trials} trials = {tasks} tasks, seed {plan.seed}"
        yield f"Estimated memory: {byte_size(cost.memory_bytes)}; disk: {byte_size(cost.disk_bytes)}"
    time = time_of(name)
    total, half = duration(time.total_s), duration(time.total_s / 2)
    if time.run_s is not None:
        yield f"Processor time: {total}, at least {half} on two cores ({time.processor}, {time.date})"
    else:
        yield (
            f"Processor time: about {duration(time.task_s)} for a task (from {time.measured}; {time.processor}, "
            f"{time.date}), about {total} for all {time.tasks} tasks, at least {half} on two cores"
        )
        yield time.why
