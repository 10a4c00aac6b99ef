"""What `phyloop verify` does."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.table import Table

from scenarios.studies.verify.cards import CARDS, Card, card_names, load_card
from scenarios.studies.verify.run import Verdict, run_cards
from scenarios.studies.verify.table import INTERVAL_NOTE, print_table, summary, write_csv, write_markdown

CSV_NAME, MARKDOWN_NAME = "verify.csv", "verify.md"


def verify(*, only: Sequence[str], fast: bool, seed: int | None, out: Path | None, debug: bool = False) -> int:
    """Measure the cards named by `only` (all for none), print the table; returns the exit code, 1 if one failed."""
    cards = [load_card(name, seed=seed) for name in dict.fromkeys(only or card_names())]
    if fast and not only:
        cards = [card for card in cards if card.config.fast]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    verdicts: list[Verdict] = []
    with _progress(len(cards)) as progress:
        for verdict in run_cards(cards, fast=fast, debug=debug, began=progress.began):
            verdicts.append(verdict)
            progress.heard(verdict)
    seconds = time.perf_counter() - started
    console = Console(highlight=False)
    print_table(verdicts, console if console.is_terminal else Console(highlight=False, width=400))
    console.print(f"\n{INTERVAL_NOTE}", highlight=False, soft_wrap=not console.is_terminal)
    console.print(summary(verdicts, seconds=seconds), highlight=False, soft_wrap=True)
    if out is not None:
        write_csv(out / CSV_NAME, verdicts)
        write_markdown(out / MARKDOWN_NAME, verdicts, seconds=seconds)
        print(f"table   {out / MARKDOWN_NAME}")
    return 0 if all(verdict.check.passed for verdict in verdicts) else 1


def list_cards() -> None:
    """`phyloop verify --list`: every card, what it claims and who says so."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    for name in card_names():
        card = load_card(name)
        table.add_row(f"[bold]{name}[/bold]", f"{card.config.claim.strip()}\n[dim]{card.config.source.strip()}[/dim]")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\nEach is a scenario, to read and to copy, in {CARDS}", highlight=False, soft_wrap=True)


class _Progress:
    """Which card is in hand: a line that changes on a terminal, a line per card in a log."""

    def __init__(self, total: int, status: Status | None) -> None:
        self._total, self._status, self._number = total, status, 0
        self._told = ""

    def began(self, card: Card) -> None:
        """A card is next."""
        self._number += 1
        self._say(f"{self._number} of {self._total}: {card.name}")

    def heard(self, verdict: Verdict) -> None:
        """One of its checks is done."""
        check = verdict.check
        if self._status is not None:
            self._say(f"{self._number} of {self._total}: {verdict.card.name}, {check.what}: {check.verdict}")
        elif not check.passed:
            self._say(f"{verdict.card.name}, {check.what}: {check.verdict}")

    def _say(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)
        else:
            print(f"phyloop: {text}", file=sys.stderr, flush=True)


@contextmanager
def _progress(total: int) -> Iterator[_Progress]:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Progress(total, None)
        return
    with Status("starting", console=console) as status:
        yield _Progress(total, status)
