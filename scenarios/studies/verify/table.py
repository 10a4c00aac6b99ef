"""Table of the reference checks: on the terminal, as CSV and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.studies.verify.check import CONFIDENCE, FAMILY, Check

if TYPE_CHECKING:
    from scenarios.studies.verify.cards import Card

HEADS = ("card", "what", "errors / counted", "measured", "interval", "expected", "resolves", "verdict", "time")
CSV_HEADS = (
    "card",
    "what",
    "errors",
    "observations",
    "measured",
    "low",
    "high",
    "expected_low",
    "expected_high",
    "resolves",
    "verdict",
    "seconds",
)
INTERVAL_NOTE = (
    f"Intervals hold at {100 * CONFIDENCE:.4f} % each, widened for bursts, so that the table as a whole holds at "
    f"{100 * FAMILY:g} % (Bonferroni). resolves: the smallest difference that a check surely notices."
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One check of one card, and the time since the one before it [s]."""

    card: Card
    check: Check
    seconds: float


def cells(verdict: Verdict, *, first: bool) -> tuple[str, ...]:
    """A row of text; its card is named in the `first` row only."""
    check = verdict.check
    counted = "" if check.observations is None else f"{check.observations:,}"
    if check.errors is not None:
        counted = f"{check.errors:,} / {counted}"
    low, high = check.expected
    exact = isnan(low) or high - low <= 1e-9 * abs(high)
    return (
        verdict.card.name if first else "",
        check.what,
        counted,
        _number(check.measured),
        "" if check.low == check.high else f"{_number(check.low)} to {_number(check.high)}",
        _number(low) if exact else f"{_number(low)} to {_number(high)}",
        check.resolves,
        check.verdict,
        f"{verdict.seconds:.1f} s",
    )


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """Print the table, as wide as it needs to be where the output is no terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in HEADS:
        table.add_column(head, no_wrap=head not in ("what", "verdict"), justify="right" if head == "time" else "left")
    for row, verdict in _rows(verdicts):
        colour = "green" if verdict.check.passed else "bold red"
        table.add_row(*row[:-2], Text(row[-2], style=colour), row[-1])
    console.print(table, soft_wrap=not console.is_terminal)


def summary(verdicts: Sequence[Verdict], *, seconds: float) -> str:
    """The last line."""
    failed = [verdict for verdict in verdicts if not verdict.check.passed]
    cards = list(dict.fromkeys(verdict.card.name for verdict in verdicts))
    counts = f"{len(cards)} reference check{'s' if len(cards) != 1 else ''}, {len(verdicts)} comparisons"
    if not failed:
        return f"{counts}: all pass, in {seconds:.0f} s"
    names = ", ".join(dict.fromkeys(verdict.card.name for verdict in failed))
    return f"{counts}: {len(failed)} FAIL ({names}), in {seconds:.0f} s"


def csv_values(verdict: Verdict) -> tuple[object, ...]:
    """One check in the columns of `CSV_HEADS`; empty where nothing is counted or known."""
    check = verdict.check
    numbers = (check.measured, check.low, check.high, *check.expected)
    return (
        verdict.card.name,
        check.what,
        check.errors,
        check.observations,
        *("" if isnan(number) else repr(number) for number in numbers),
        check.resolves,
        check.verdict,
        f"{verdict.seconds:.3f}",
    )


def markdown(verdicts: Sequence[Verdict], *, seconds: float) -> str:
    """The table with its summary and the meaning of its intervals."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + " --- |" * len(HEADS)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row, _ in _rows(verdicts)]
    return "\n".join([*lines, "", summary(verdicts, seconds=seconds), "", INTERVAL_NOTE, ""])


def _rows(verdicts: Sequence[Verdict]) -> list[tuple[tuple[str, ...], Verdict]]:
    names = [verdict.card.name for verdict in verdicts]
    return [
        (cells(verdict, first=number == 0 or names[number - 1] != verdict.card.name), verdict)
        for number, verdict in enumerate(verdicts)
    ]


def _number(value: float) -> str:
    return "" if isnan(value) else f"{value:.4g}"
