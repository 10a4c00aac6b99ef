"""Parts of every report page: template, provenance, pictures inside the page, and the file itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.engine.study import ReportPaths
from scenarios.files.replacement import replace_text, writing
from scenarios.report.computed_by import computed_by

if TYPE_CHECKING:
    from jinja2 import Template

    from phy.config import LinkConfig
    from scenarios.report.figures.style import FigureFiles
    from scenarios.store.records import RunRecord

PAGE = "report.html"


FIGURES = "figures"


def write_page(folder: Path, html: str, *, figures: Sequence[FigureFiles]) -> ReportPaths:
    """Write `report.html` whole or not; ScenarioError if it cannot be written."""
    with writing(folder, "the report"):
        path = replace_text(folder / PAGE, html)
    return ReportPaths(html=path, figures=tuple(p for f in figures for p in (f.png, f.svg)))


def template(name: str) -> Template:
    """A page of this folder; all text put into it is escaped, and what it names must be given."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def reflow(text: str) -> str:
    """Text as paragraphs: a line end inside one is where the YAML file was full, not where the page is."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def provenance_rows(run: RunRecord, *, links: Iterable[LinkConfig]) -> tuple[tuple[str, str], ...]:
    """Name and value of everything known about the latest run, and which engine computes the `links`."""
    engine = computed_by(links)
    known = run.provenance
    versions = known.get("versions", {})
    commit = known.get("commit")
    changed = ", with local changes" if known.get("dirty") else ""
    return (
        ("command", run.command),
        ("started", run.started_at),
        ("finished", f"{run.finished_at or 'not yet'} ({run.status})"),
        ("commit", f"{commit}{changed}" if commit else "not run from a checkout"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)),
        ("platform", str(known.get("platform", ""))),
        ("processor", f"{known.get('cpu_model', '')}, {known.get('cpu_count', '')} in use"),
        *([("symbols computed by", engine)] if engine else []),
    )


def data_uri(svg: bytes) -> str:
    """The picture inside the page. As an image, not as inline SVG: element ids of two figures collide."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
