"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    heads: Sequence[str], numeric: Iterable[bool], rows: Iterable[Sequence[str | None]], *, markup: bool = False
) -> None:
    """Print a table; `numeric` columns are aligned to the right. Cells are plain text unless `markup`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, right in zip(heads, numeric, strict=True):
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell or "" if markup else Text(cell or "") for cell in row))
    # A table cut to a narrow window loses digits: let long lines wrap instead.
    Console(width=max(Console().width, 1000), soft_wrap=True).print(table)
