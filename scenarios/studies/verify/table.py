"""Table of the reference checks: on the terminal, as CSV and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from scenarios.report.tables.table import Table
from scenarios.studies.verify.check import CONFIDENCE, FAMILY, Check

HEADS = (
    "reference check",
    "what",
    "errors / counted",
    "measured",
    "interval",
    "expected",
    "resolves",
    "verdict",
    "time",
)
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
    """One check of the reference check `name`, and the time since the one before it [s]."""

    name: str
    check: Check
    seconds: float


def cells(verdict: Verdict, *, first: bool) -> tuple[str, ...]:
    """Return a row of text; its reference check is named in the `first` row only."""
    check = verdict.check
    counted = "" if check.observations is None else f"{check.observations:,}"
    if check.errors is not None:
        counted = f"{check.errors:,} / {counted}"
    low, high = check.expected
    exact = isnan(low) or high - low <= 1e-9 * abs(high)
    return (
        verdict.name if first else "",
        check.what,
        counted,
        _number(check.measured),
        "" if isnan(check.low) or check.low == check.high else f"{_number(check.low)} to {_number(check.high)}",
        _number(low) if exact else f"{_number(low)} to {_number(high)}",
        check.resolves,
        check.verdict,
        f"{verdict.seconds:.1f} s",
    )


def table_of(verdicts: Sequence[Verdict]) -> Table:
    """The table of all checks."""
    names = ["", *(verdict.name for verdict in verdicts)]
    rows = tuple(cells(verdict, first=verdict.name != before) for verdict, before in zip(verdicts, names, strict=False))
    return Table(columns=HEADS, rows=rows, left=HEADS[:-1], wrapped=("what", "verdict"))


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print the table, as wide as it needs to be where the output is no terminal."""
    styles = {one.check.verdict: "green" if one.check.passed else "bold red" for one in verdicts}
    table_of(verdicts).print(styles=styles)


def summary(verdicts: Sequence[Verdict], *, seconds: float) -> str:
    """Return the last line: how many checks, and which failed."""
    failed = [verdict for verdict in verdicts if not verdict.check.passed]
    number = len({verdict.name for verdict in verdicts})
    counts = f"{number} reference check{'s' if number != 1 else ''}, {len(verdicts)} comparison"
    counts += "s" if len(verdicts) != 1 else ""
    if not failed:
        return f"{counts}: all pass, in {seconds:.0f} s"
    names = ", ".join(dict.fromkeys(verdict.name for verdict in failed))
    return f"{counts}: {len(failed)} FAIL ({names}), in {seconds:.0f} s"


def csv_values(verdict: Verdict) -> tuple[object, ...]:
    """One check in the columns of `CSV_HEADS`; empty where nothing is counted or known."""
    check = verdict.check
    numbers = (check.measured, check.low, check.high, *check.expected)
    return (
        verdict.name,
        check.what,
        check.errors,
        check.observations,
        *("" if isnan(number) else repr(number) for number in numbers),
        check.resolves,
        check.verdict,
        f"{verdict.seconds:.3f}",
    )


def markdown(verdicts: Sequence[Verdict], *, seconds: float) -> str:
    """Return the table with its summary and the meaning of its intervals."""
    return "\n".join([table_of(verdicts).markdown(), "", summary(verdicts, seconds=seconds), "", INTERVAL_NOTE, ""])


def _number(value: float) -> str:
    return "" if isnan(value) else f"{value:.4g}"
