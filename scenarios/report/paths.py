"""The files of a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ReportPaths:
    """Files of a report: the page if there is one, figures (PNG and SVG), and tables (Markdown, CSV, JSON)."""

    html: Path | None
    figures: tuple[Path, ...] = ()
    tables: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (*(() if self.html is None else (self.html,)), *self.figures, *self.tables)
