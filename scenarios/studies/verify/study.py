"""Reference checks as a study: each is one task; what is kept holds for exactly this version and machine."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import TypeAdapter
from rich.console import Console

from scenarios.engine.cluster.compatibility import versions
from scenarios.engine.study import Outcome, Progress, ReportPaths, Study
from scenarios.files.plain_files import DATABASE
from scenarios.files.provenance import find_cpu_model
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.identity import identity_of
from scenarios.report.tables.table import csv_row
from scenarios.store.database import telling_damage
from scenarios.store.rows import NewBatch
from scenarios.store.store import Store
from scenarios.studies.verify.cards import Card, load_card
from scenarios.studies.verify.check import Check, broken
from scenarios.studies.verify.link_rates import measure_link
from scenarios.studies.verify.table import (
    CSV_HEADS,
    INTERVAL_NOTE,
    Verdict,
    csv_values,
    markdown,
    print_verdicts,
    summary,
)

FAST = 2.0
"""Under --fast a check may resolve this many times less: a quarter of the errors, or fewer."""

CSV, MARKDOWN = "verify.csv", "verify.md"


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Which reference checks, and how."""

    cards: list[str]
    fast: bool
    seed: int | None


_VERDICTS, _OPTIONS = TypeAdapter(list[Verdict]), TypeAdapter(_Options)


class VerifyStore(Store):
    """Run folder of reference checks: each is a task, its extra the list of its verdicts."""

    study = "verify"


class VerifyStudy(Study):
    """Reference checks; see `scenarios.engine.study.Study`. A batch is a `Card`, its results number and verdicts."""

    name = "reference-checks"
    store = VerifyStore
    units = "checks"
    done_words = "reference checks done"

    def __init__(
        self, cards: Sequence[Card], *, fast: bool = False, seed: int | None = None, debug: bool = False
    ) -> None:
        self.cards, self.fast, self.seed, self._debug = cards, fast, seed, debug
        # What is kept holds for exactly this version and machine.
        about = {"kind": "verify", "fast": fast, "versions": dict(versions()), "processor": find_cpu_model()}
        self.ids = [identity_of({**about, "card": card.loaded.scenario.model_dump(mode="json")}) for card in cards]
        self._verdicts: list[Verdict] = []

    @classmethod
    def reload(cls, store: Store) -> Self:
        """Return the reference checks of a folder. ScenarioError for one that is no longer there."""
        with telling_damage(store.folder / DATABASE):
            options = _OPTIONS.validate_python(store.read_scenario().root)
        cards = [load_card(name, seed=options.seed) for name in options.cards]
        return cls(cards, fast=options.fast, seed=options.seed)

    def document(self) -> tuple[str, Mapping[str, Any]]:
        """See `Study`: which reference checks, instead of a scenario."""
        root = {"cards": [str(card.path) for card in self.cards], "fast": self.fast, "seed": self.seed}
        return yaml.safe_dump(root, sort_keys=False, allow_unicode=True), root

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[Card], int]:
        """See `Study`."""
        cards = [card for card, one in zip(self.cards, self.ids, strict=True) if one not in done]
        return cards, len(cards)

    def compute(
        self, batches: Iterable[Card], *, progress: Progress
    ) -> Generator[tuple[int, list[Verdict]], None, None]:
        """See `Study`."""
        for card in batches:
            number = self.cards.index(card)
            progress.taken(card.name, f"{number + 1} of {len(self.cards)}: {card.name}")
            verdicts = []
            for verdict in run_card(card, fast=self.fast, debug=self._debug):
                verdicts.append(verdict)
                if not verdict.check.passed:
                    progress.row(f"{card.name}, {verdict.check.what}: {verdict.check.verdict}")
            yield number, verdicts
            progress.advance(1)
            progress.settled(card.name)

    def keep(self, store: Store, results: tuple[int, list[Verdict]], *, progress: Progress) -> int:
        """See `Study`: one with a check that does not pass has failed, and is measured again next time."""
        number, verdicts = results
        wrong = [one.check.verdict for one in verdicts if not one.check.passed]
        batch = NewBatch(
            ids=[self.ids[number]],
            numbers=[0],
            about={"card": self.cards[number].name},
            seconds=sum(one.seconds for one in verdicts),
            failures={0: "; ".join(wrong)} if wrong else {},
            extras=[[asdict(one) for one in verdicts]],
        )
        store.add([batch])
        return 1

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """See `Study`: the table as CSV and as Markdown."""
        verdicts = self._verdicts = self._read(store)
        text = "".join([csv_row(CSV_HEADS), *self.rows(store, CSV)])
        seconds = sum(one.seconds for one in verdicts)
        with writing(folder, "the tables"):
            replace_text(folder / CSV, text)
            return ReportPaths(
                html=None,
                tables=(replace_text(folder / MARKDOWN, markdown(verdicts, seconds=seconds)), folder / CSV),
            )

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        """See `Study`."""
        console = Console(highlight=False)
        print_verdicts(self._verdicts)
        console.print(f"\n{INTERVAL_NOTE}", highlight=False, soft_wrap=not console.is_terminal)
        console.print(summary(self._verdicts, seconds=seconds), highlight=False, soft_wrap=True)
        if outcome.found:
            print(f"{outcome.found} of them were measured before, by this version on this machine")

    def columns(self) -> Mapping[str, Sequence[str]]:
        """See `Study`."""
        return {CSV: CSV_HEADS}

    def rows(self, store: Store, name: str) -> Iterator[str]:
        """See `Study`."""
        return (csv_row(csv_values(verdict)) for verdict in self._read(store))

    def _read(self, store: Store) -> list[Verdict]:
        tasks = store.read_tasks(self.ids)
        with telling_damage(store.folder / DATABASE):
            kept = [_VERDICTS.validate_python(tasks[one].extra) for one in self.ids if one in tasks]
        return [verdict for some in kept for verdict in some]


def run_card(card: Card, *, fast: bool = False, debug: bool = False) -> Iterator[Verdict]:
    """Yield verdicts as they come. A reference check that cannot be measured fails, unless `debug`."""
    started = time.perf_counter()
    try:
        for check in _checks(card, resolves_db=card.config.resolves_db * (FAST if fast else 1.0)):
            now = time.perf_counter()
            yield Verdict(name=card.name, check=check, seconds=now - started)
            started = now
    except Exception as error:
        if debug:
            raise
        problem = " ".join(str(error).split()) or type(error).__name__
        yield Verdict(name=card.name, check=broken(problem), seconds=time.perf_counter() - started)


def _checks(card: Card, *, resolves_db: float) -> Iterator[Check]:
    for expected in card.config.expect:
        yield from expected.measure(card.loaded, resolves_db=resolves_db)
    if of_link := [one for one in card.config.expect if one.of_link]:
        yield from measure_link(card.loaded, of_link, resolves_db=resolves_db)
