"""`phyloop privacy`: claims from the ledgers of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from fl.base.words import plural
from scenarios.files.replacement import writing
from scenarios.plan.points import Plan
from scenarios.report.claims import HEADS, FlippingTable, PointClaims, claim_table, summary_table
from scenarios.report.settings import setting_in_words, short_setting
from scenarios.report.tables.table import Table, csv_text, say
from scenarios.schema.errors import ScenarioError
from scenarios.studies.accounts import Accounts, account

ROUNDS_SHOWN, ROUNDS_WRITTEN = 6, 25
"""Rounds at which a terminal, and a CSV file, have the epsilon of all rounds so far."""


def account_run(
    folder: Path,
    *,
    accountants: Sequence[str],
    everything: bool,
    csv_file: Path | None,
    by: str | None = None,
    **options: Any,
) -> None:
    """Print the claims on a run, and write them to `csv_file`; `options` are further ones of `account`.

    With `by` "round" the epsilon of all rounds so far is printed and written instead.
    """
    if by not in (None, "round"):
        raise ScenarioError(file=folder, key="--by", value=by, problem="is not known", remedy="write --by round")
    most = 0 if by is None else ROUNDS_SHOWN if csv_file is None else ROUNDS_WRITTEN
    accounts = account(folder, accountants=accountants, most_rounds=most, **options)
    if by == "round":
        _show_rounds(accounts)
        if csv_file is not None:
            _write_csv(csv_file, accounts.columns_by_round, accounts.rows_by_round())
        return
    everything = everything or bool(accountants)
    _show(accounts.plan, accounts.claims, everything=everything)
    for one in accounts.flipping if everything else ():
        _show_flipping(accounts.plan, one)
    if csv_file is not None:
        _write_csv(csv_file, accounts.columns, accounts.rows())


def _show(plan: Plan, found: Sequence[PointClaims], *, everything: bool) -> None:
    """A row per sweep point, or `everything`: each scope and accountant, and why one has no claim."""
    table, footnotes = claim_table(plan, found) if everything else summary_table(plan, found)
    if everything:  # the source follows from the accountant, and one column tells the sweep points apart
        settings = [", ".join(short_setting(plan, one.point)) for one in found for _ in one.claims]
        rows = tuple((words, *row[-len(HEADS) : -1]) for words, row in zip(settings, table.rows, strict=True))
        heads = ("setting", *HEADS[:-1])
        words = [head for head in heads if head not in ("ε", "δ")]
        table = replace(table, columns=heads, rows=rows, wrapped=words, left=(*table.left, "setting"))
    table, fixed = table.without_constants()
    most = max(one.trials for one in found)
    what = "claims on" if everything else "epsilon of all rounds together of"
    name = escape(plan.points[0].scenario.name)
    say(f"[bold]{name}[/bold]: {what} the worst device of {plural(most, 'trial')}", markup=True)
    if any(fixed.values()):
        alike = "; ".join(f"{head}: {text}" for head, text in fixed.items() if text)
        points = f"All {len(found)} sweep points" if len(found) > 1 else "The sweep point"
        say(f"{'All claims' if everything else points}: {alike}")
    if len(table.columns) > 1:
        table.print()
    for number, sentence in enumerate(footnotes, start=1):
        say(f"[{number}] {sentence}.")
    sources = {claim.accountant: claim.source for one in found for claim in one.claims}
    for accountant, source in sources.items() if everything else ():
        say(f"{accountant}: {source}.")
    none = "none" if everything else "∞"
    if none in {cell for row in table.rows for cell in row} | {*fixed.values()}:
        say(f"{none}: no guarantee at this δ.")
    early = sum(one.ended_early for one in found)
    if early:
        say(
            f"{early} of {plural(sum(one.trials for one in found), 'trial')} failed before their last "
            "round: what they had sent by then counts, and a whole run would release more."
        )
    for sentence in dict.fromkeys(sentence for one in found for sentence in one.left_out):
        if everything:
            say(f"left out: {sentence}")
    if not everything:
        say("--all shows single rounds and numbers, every accountant and its source.")


def _show_flipping(plan: Plan, one: FlippingTable) -> None:
    setting = setting_in_words(plan, one.point)
    say(f"\n{setting + ': ' if setting else ''}bits wrong with probability {one.flip_probability:.4g} at least")
    rows = tuple(
        (
            row.what,
            "none" if math.isinf(row.claim.epsilon) else f"{row.claim.epsilon:.4g}",
            f"{row.claim.delta:.3g}",
            row.claim.standing,
            row.worth,
        )
        for row in one.rows
    )
    heads = ("what is counted", "ε", "δ", "standing", "worth")
    words = [head for head in heads if head not in "εδ"]
    Table(columns=heads, rows=rows, left=words, wrapped=words).print()


def _show_rounds(accounts: Accounts) -> None:
    """A row per sweep point: the epsilon of all rounds up to some of them."""
    plan, spent = accounts.plan, accounts.spent
    known_rounds = sorted({number for one in spent for number in one.rounds})
    steps = min(ROUNDS_SHOWN, len(known_rounds)) - 1
    numbers = [known_rounds[round(i * (len(known_rounds) - 1) / max(steps, 1))] for i in range(steps + 1)]
    heads = ("setting", "δ", *(f"round {number}" for number in numbers))
    rows = []
    for one in spent:
        known = dict(zip(one.rounds, one.proved, strict=True))
        last = one.proved[-1]
        cells = (known[number].number if number in known else "" for number in numbers)
        delta = "" if math.isinf(last.epsilon) else f"{last.delta:.3g}"
        rows.append((setting_in_words(plan, one.point) or plan.points[0].scenario.name, delta, *cells))
    say(f"{plan.points[0].scenario.name}: ε proved for all rounds so far, of the worst device of all trials")
    Table(columns=heads, rows=tuple(rows), left=heads[:1], wrapped=heads[:1]).print()
    if len(numbers) < numbers[-1]:
        say(f"{len(numbers)} of {numbers[-1]} rounds are shown; --csv FILE writes up to {ROUNDS_WRITTEN} of them.")
    if any("∞" in row for row in rows):
        say("∞: no guarantee at this δ.")


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    with writing(path.parent, "claims"):
        path.write_text(csv_text(columns, rows), encoding="utf-8", newline="\r\n")
