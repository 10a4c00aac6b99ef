"""The report page: its parts, and the file itself."""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl.base.words import plural
from scenarios.files.replacement import replace_text, writing
from scenarios.report.library import difference, own_notes
from scenarios.report.paths import ReportPaths
from scenarios.report.settings import computed_by
from scenarios.report.tables.table import Table
from scenarios.schema.errors import mapping
from scenarios.schema.permission import ALLOW

if TYPE_CHECKING:
    from markupsafe import Markup

    from phy.config import LinkConfig
    from scenarios.report.figures.style import FigureFiles
    from scenarios.schema.schema import Scenario
    from scenarios.store.rows import RunRecord
    from scenarios.store.store import Store

PAGE = "report.html"
_TURNS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
FIGURES = "figures"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a section, in this order: heading, text, small text, list, links, table, lines of code; or a picture.

    In text, `word` is code and **word** is bold. `links` are words and the path of another page. `items` begin with
    bold words, or none. With `fold` the part is closed behind these words. On a phone, rows of a table are `cards` if
    asked for. `curves` describes a figure that a browser draws; its picture is for paper, and where no script runs.
    """

    head: str = ""
    text: str = ""
    soft: str = ""
    items: Sequence[tuple[str, str]] = ()
    numbered: bool = False
    cards: bool = False
    links: Sequence[tuple[str, Path]] = ()
    table: Table | None = None
    code: str = ""
    image: str = ""
    curves: str = ""
    fold: str = ""

    @property
    def shown(self) -> bool:
        """False where there is nothing to show: a table without a row, or no text at all."""
        if self.table is not None:
            return bool(self.table.rows)
        return any((self.head, self.text, self.soft, self.items, self.links, self.code, self.image))


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page says of one study: facts in a line, warnings, and sections by their title; empty ones are left out.

    `command` computes the numbers again, to the same numbers as far as `same` says, over `links`; empty for numbers of
    another program.
    """

    scenario: Scenario
    facts: Sequence[str]
    sections: Mapping[str, Sequence[Part]]
    command: str
    same: str
    links: Iterable[LinkConfig]
    about: str = ""
    warnings: Sequence[str] = ()


def pictures(figures: Sequence[FigureFiles], *, numbered: bool = False) -> list[Part]:
    """Figures with their captions, inside the page."""
    parts = []
    for number, figure in enumerate(figures, start=1):
        caption = f"Figure {number}. {figure.caption}" if numbered else figure.caption
        image = data_uri(figure.svg.read_bytes())
        parts.append(Part(head=figure.title, soft=caption, image=image, curves=figure.curves))
    return parts


def data_uri(svg: bytes) -> str:
    """The picture inside the page. As an image, not as inline SVG: element ids of two figures collide."""
    return "data:image/svg+xml;base64," + b64encode(svg).decode("ascii")


def counted(number: int, noun: str) -> str:
    """`**2** trials`."""
    count, _, words = plural(number, noun).partition(" ")
    return f"**{count}** {words}"


@dataclass(frozen=True, kw_only=True)
class Head:
    """Name and facts of a page that is of no single study."""

    name: str
    description: str = ""
    facts: Sequence[str] = ()
    about: str = ""
    warnings: Sequence[str] = ()


def write_page(folder: Path, page: Page, *, store: Store, figures: Sequence[FigureFiles]) -> ReportPaths:
    """Write `report.html` whole or not; ScenarioError if it cannot be written.

    A scenario that differs from the library scenario of its name says so, and has no notes of the library.
    """
    scenario, differs = page.scenario, difference(store.read_scenario().root)
    notes = own_notes(scenario) if differs else scenario.report.notes
    sections = {**page.sections, "Notes": [Part(text=reflow(notes))], **_closing(folder, page, store)}
    html = render_page(scenario, page, sections, differs=differs)
    with writing(folder, "the report"):
        path = replace_text(folder / PAGE, html)
    return ReportPaths(html=path, figures=tuple(figure.svg for figure in figures))


def render_page(
    scenario: Scenario | Head, page: Page | Head, sections: Mapping[str, Sequence[Part]], *, differs: str = ""
) -> str:
    """Return the page as HTML: name and description of `scenario`, facts of `page`, and the sections that are shown."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # All text put into the page is escaped, what the template names must be given, and only the scripts whose digests
    # the page names may run.
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters.update(marked=marked, reflow=reflow)
    shown = {title: [one for one in parts if one.shown] for title, parts in sections.items()}
    scripts = [(here / "page.js").read_text(encoding="utf-8")]
    if any(part.curves for parts in shown.values() for part in parts):
        scripts.insert(0, _bokeh())
    return environment.get_template("page.html.j2").render(
        page=page,
        scripts=scripts,
        digests=[b64encode(sha256(one.encode()).digest()).decode() for one in scripts],
        style=(here / "page.css").read_text(encoding="utf-8"),
        scenario=scenario,
        differs=differs,
        sections={title: parts for title, parts in shown.items() if parts},
    )


def _closing(folder: Path, page: Page, store: Store) -> dict[str, Sequence[Part]]:
    name, runs = shlex.quote(str(folder)), tuple(store.runs.values())
    code = f" {ALLOW}" if mapping(store.read_scenario().root).get("code") else ""  # plug-ins are run with leave only
    commands = [f"phyloop report {name}{code}", f"phyloop export {name} --out csv{code}"]
    resolved = "phyloop measured these numbers in another program, which must run again to repeat them."
    if page.command:
        commands.insert(0, f"phyloop {page.command} {name}/scenario.yaml --out {name}{code}")
        resolved = f"`scenario.yaml` in this folder is the resolved scenario: it names every default, and {page.same}"
    provenance = [Part(text="No run was recorded.")]
    if runs:
        rows = _provenance(runs[-1], computed_by(page.links))
        provenance = [Part(table=Table(columns=("", " "), rows=rows, left=("", " "), wrapped=(" ",)))]
    if len(runs) > 1:
        lines = "\n".join(f"{one.started_at}  {one.status}  {one.command}" for one in runs)
        provenance.append(Part(code=lines, fold=f"All {len(runs)} runs into this folder"))
    yaml = Part(code=store.read_scenario().yaml, fold="Resolved scenario")
    return {
        "Commands to repeat the study": [Part(text=resolved), Part(code="\n".join(commands)), yaml],
        "Provenance": provenance,
    }


def _provenance(run: RunRecord, engine: str | None) -> tuple[tuple[str, str], ...]:
    """Name and value of everything known about a run."""
    known = run.provenance
    commit, changed = known.commit, ", with local changes" if known.dirty else ""
    return (
        ("command", run.command),
        ("started", run.started_at),
        ("finished", f"{run.finished_at or 'not yet'} ({run.status})"),
        ("commit", f"{commit}{changed}" if commit else "not run from a checkout"),
        ("versions", ", ".join(f"{name} {version}" for name, version in known.versions.items() if version)),
        ("platform", known.platform),
        ("processor", f"{known.cpu_model}, {known.cpu_count} in use"),
        *([("symbols computed by", engine)] if engine else []),
    )


def marked(text: str) -> Markup:
    """Text as HTML: `word` as code, **word** bold, all else escaped."""
    from markupsafe import Markup, escape

    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_visible(text))))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", html))


def _bokeh() -> str:
    """Return the scripts of Bokeh, 1.4 MB, without importing it: a report that draws nothing anew takes as long as it
    did."""
    spec = find_spec("bokeh")
    assert spec is not None  # a dependency
    assert spec.origin is not None
    scripts = Path(spec.origin).parent / "server" / "static" / "js"
    return "\n".join((scripts / f"{name}.min.js").read_text(encoding="utf-8") for name in ("bokeh", "bokeh-api"))


def _visible(value: Any) -> Any:
    """Text in which marks that turn its direction are escapes; HTML of our own as it is."""
    own = not isinstance(value, str) or hasattr(value, "__html__")
    return value if own else _TURNS.sub(lambda found: f"U+{ord(found[0]):04X}", value)


def reflow(text: str) -> str:
    """Text as paragraphs: a line end inside one is where the YAML file was full, not where the page is."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
