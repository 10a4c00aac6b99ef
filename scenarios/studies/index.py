"""The index page of a folder of runs: a row per run with its state, its first figure, and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from scenarios.files.plain_files import RESULTS
from scenarios.files.replacement import replace_text, writing
from scenarios.report.comparison import differing, settings_of
from scenarios.report.html import FIGURES, PAGE, Head, Part, counted, data_uri, render_page
from scenarios.report.tables.table import Table
from scenarios.schema.errors import ScenarioError, mapping, printable
from scenarios.store.store import Store
from scenarios.studies.status import read_status

if TYPE_CHECKING:
    from markupsafe import Markup

INDEX = "index.html"
MOST_SETTINGS = 8
"""Settings that a row names."""
HEADS = ("run", "date", "state", "first figure", "scenario", "settings that differ")
WRAPPED = ("run", "state", "settings that differ")
ABOUT = "Settings are those in which runs of one scenario differ."


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """A run folder; `state` is a sentence, and all else empty, where it cannot be read."""

    folder: Path
    state: str
    date: str = ""
    scenario: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


def write_index(folder: Path) -> tuple[Path, int]:
    """Write `index.html` of all runs in a folder and in its folders; return its path and the number of runs.

    The latest run comes first. ScenarioError if there is no run, or the page cannot be written.
    """
    found = sorted({file.parent for depth in ("*", "*/*") for file in folder.glob(f"{depth}/{RESULTS}")})
    if not found:
        problem = "holds no run, and neither do the folders in it"
        raise ScenarioError(file=folder, problem=problem, remedy="name a folder of run folders, such as runs")
    entries = sorted(map(_entry, found), key=lambda one: one.date, reverse=True)
    alike: dict[str, list[Mapping[str, str]]] = {}
    for entry in entries:
        alike.setdefault(entry.scenario, []).append(entry.settings)
    keys = {scenario: differing(settings) for scenario, settings in alike.items()}
    rows = tuple(_row(entry, keys[entry.scenario], within=folder) for entry in entries)
    table = Table(columns=HEADS, rows=rows, left=HEADS, wrapped=WRAPPED)
    head = Head(name=folder.resolve().name, facts=[counted(len(rows), "run")])
    page = render_page(head, head, {"Runs": [Part(table=table, cards=True), Part(soft=ABOUT)]})
    with writing(folder, "the index"):
        return replace_text(folder / INDEX, page), len(rows)


def _entry(folder: Path) -> IndexEntry:
    try:
        status = read_status(folder)
        with Store.open_existing(folder) as store:
            scenario = store.notes.get("scenario")
        study = "" if store.identity.study == "run" else f" ({store.identity.study})"
    except ScenarioError as error:
        return IndexEntry(folder=folder, state=f"cannot be read: {error.problem}; {error.remedy}.")
    rest = "".join(f", {n} {word}" for word, n in (("failed", status.failed), ("left", status.left)) if n)
    return IndexEntry(
        folder=folder,
        state=f"{status.state}: {status.done} {status.unit}{rest}",
        date=(status.finished_at or status.started_at or "")[:16].replace("T", " "),
        scenario=f"{status.scenario}{study}",
        settings={} if scenario is None else settings_of(mapping(scenario.root)),
    )


def _row(entry: IndexEntry, keys: Sequence[str], *, within: Path) -> tuple[str, ...]:
    from markupsafe import Markup

    place = entry.folder.relative_to(within)
    name = printable(str(place))
    run: str = name
    if (entry.folder / PAGE).is_file():
        run = Markup('<a href="./{}">{}</a>').format(quote(str(place / PAGE)), name)
    words = [f"{key}: {entry.settings[key]}" for key in keys if key in entry.settings]
    more = [f"and {len(words) - MOST_SETTINGS} more"] if len(words) > MOST_SETTINGS else []
    settings = "; ".join([*words[:MOST_SETTINGS], *more])
    return run, entry.date, entry.state, _thumbnail(entry.folder), entry.scenario, settings


def _thumbnail(folder: Path) -> str | Markup:
    """The first figure of a run inside the page; empty without one."""
    from markupsafe import Markup

    files = sorted((folder / FIGURES).glob("01-*.svg"))
    if not files:
        return ""
    return Markup('<img src="{}" width="160" alt="first figure">').format(data_uri(files[0].read_bytes()))
