"""Several run folders: `phyloop compare`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from fl.base.words import plural
from scenarios.files.replacement import replace_text, writing
from scenarios.report.comparison import UNMATCHED, RunComparison, comparison_page
from scenarios.report.tables.table import Table, say
from scenarios.schema.errors import printable
from scenarios.schema.labels.labels import axis_label

MOST_ROWS = 40
"""Rows of a table on the terminal; the page has all."""


def print_comparison(found: RunComparison, *, out: Path) -> None:
    """`phyloop compare`: print settings and differences, and write the page."""
    for run in found.runs:
        if run.missing:
            say(printable(f"{run.name}: {run.missing}."))
    for what, sentence in found.summary:
        say(printable(f"{what}: {sentence}"))
    _print("Settings that differ", found.settings)
    for metric, table in found.results.items():
        _print(axis_label(metric), table)
    if not found.summary:
        say(UNMATCHED)
    with writing(out.parent, "the page"):
        replace_text(out, comparison_page(found, command=shlex.join(["phyloop", *sys.argv[1:]])))
    print(f"\nreport  {out}")


def _print(title: str, table: Table) -> None:
    say(f"\n{title}")
    shown, same = table.without_constants() if len(table.rows) > 1 else (table, {})
    rows = tuple(tuple(printable(cell or "") for cell in row) for row in shown.rows[:MOST_ROWS])
    heads = tuple(map(printable, shown.columns))
    replace(shown, columns=heads, rows=rows, wrapped=heads).print()
    if len(shown.rows) > MOST_ROWS:
        say(f"... and {plural(len(shown.rows) - MOST_ROWS, 'more row')}: see the page.")
    if same:
        say(printable(f"In all rows: {'; '.join(f'{head} {text}' for head, text in same.items())}."))
