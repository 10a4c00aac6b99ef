"""Reference checks as a study: each is one task; what is kept holds for exactly this version and machine."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from scenarios.engine.cluster.compatibility import versions
from scenarios.engine.study import Outcome, Progress, Study
from scenarios.files.provenance import find_cpu_model
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.identity import identity_of
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.table import csv_text, say
from scenarios.schema.loader import as_yaml
from scenarios.store.rows import Batch, Row
from scenarios.store.store import Store, telling_damage
from scenarios.studies.link.plan import expand_link
from scenarios.studies.link.results import MeasuredPoint, PointRadio
from scenarios.studies.verify.cards import (
    CSV_HEADS,
    INTERVAL_NOTE,
    Card,
    CardCheck,
    KnownRate,
    csv_values,
    load_card,
    summary,
    table_of,
)

FAST = 2.0
"""Under --fast a check may resolve this many times less: a quarter of the errors, or fewer."""

CSV = "verify.csv"


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Which reference checks, and how."""

    cards: list[str]
    fast: bool
    seed: int | None


_CHECKS, _OPTIONS = TypeAdapter(list[CardCheck]), TypeAdapter(_Options)


class VerifyStore(Store):
    """Run folder of reference checks: each is a task, its content the list of its checks."""

    study = "verify"


class VerifyStudy(Study):
    """Reference checks; see `scenarios.engine.study.Study`. A batch is a `Card`, its results number and checks."""

    name = "reference-checks"
    store = VerifyStore
    units = "checks"
    done_words = "reference checks done"

    def __init__(
        self, cards: Sequence[Card], *, fast: bool = False, seed: int | None = None, debug: bool = False
    ) -> None:
        self.cards, self.fast, self.seed, self._debug = cards, fast, seed, debug
        about = {"kind": "verify", "fast": fast, "versions": dict(versions()), "processor": find_cpu_model()}
        self.ids = [identity_of({**about, "card": card.loaded.scenario.model_dump(mode="json")}) for card in cards]
        self._checks: list[CardCheck] = []

    @classmethod
    def reload(cls, store: Store) -> Self:
        """Return the reference checks of a folder. ScenarioError for one that is no longer there."""
        with telling_damage(store.path):
            options = _OPTIONS.validate_python(store.read_scenario().root)
        cards = [load_card(name, seed=options.seed) for name in options.cards]
        return cls(cards, fast=options.fast, seed=options.seed)

    def document(self) -> tuple[str, Mapping[str, Any]]:
        """See `Study`: which reference checks, instead of a scenario."""
        root = {"cards": [str(card.path) for card in self.cards], "fast": self.fast, "seed": self.seed}
        return as_yaml(root), root

    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[Card], int]:
        cards = [card for card, one in zip(self.cards, self.ids, strict=True) if one not in done]
        return cards, len(cards)

    def compute(
        self, batches: Iterable[Card], *, progress: Progress
    ) -> Generator[tuple[int, list[CardCheck]], None, None]:
        for card in batches:
            number = self.cards.index(card)
            progress.taken(card.name, f"{number + 1} of {len(self.cards)}: {card.name}")
            checks = []
            for check in run_card(card, fast=self.fast, debug=self._debug):
                checks.append(check)
                if not check.passed:
                    progress.row(f"{card.name}, {check.what}: {check.verdict}")
            yield number, checks
            progress.advance(1)
            progress.settled(card.name)

    def keep(self, store: Store, results: tuple[int, list[CardCheck]], *, progress: Progress) -> int:
        """See `Study`: one with a check that does not pass has failed, and is measured again next time."""
        number, checks = results
        wrong = [check.verdict for check in checks if not check.passed]
        batch = Batch(
            ids=[self.ids[number]],
            numbers=[0],
            seconds=sum(check.seconds for check in checks),
            failures={0: "; ".join(wrong)} if wrong else {},
        )
        found = [asdict(check) for check in checks]
        store.add(Row(batch=batch), {"card": self.cards[number].name, "checks": found})
        return 1

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """See `Study`: the table as CSV."""
        self._checks = self.read(store)
        with writing(folder, "the table"):
            table = replace_text(folder / CSV, csv_text(CSV_HEADS, map(csv_values, self._checks)))
        return ReportPaths(html=None, tables=(table,))

    def show_stored(self, store: Store, *, progress: Progress) -> None:
        """See `Study`."""
        del progress
        self._checks = self.read(store)

    def show(self, outcome: Outcome, *, seconds: float) -> None:
        checks = self._checks
        styles = {one.verdict: "green" if one.passed else "bold red" for one in checks}
        table_of(checks).print(styles={**styles, **{one.card: "bold" for one in checks}})
        say(f"\n{INTERVAL_NOTE}")
        say(summary(checks, seconds=seconds))
        if outcome.found:
            print(f"{outcome.found} of them were measured before, by this version on this machine")

    def rows(self, store: Store) -> tuple[Iterable[Mapping[str, Any]], Sequence[str]]:
        """Rows and columns of the table of all comparisons."""
        return map(csv_values, self.read(store)), CSV_HEADS

    def read(self, store: Store) -> list[CardCheck]:
        found = [store.read(task, "checks") for task in store.read_tasks(self.ids).values()]
        with telling_damage(store.path):
            return list(chain.from_iterable(map(_CHECKS.validate_python, found)))


def run_card(card: Card, *, fast: bool = False, debug: bool = False) -> Iterator[CardCheck]:
    """Yield checks as they come. A reference check that cannot be measured fails, unless `debug`."""
    started = time.perf_counter()
    try:
        for check in _checks(card, resolves_db=card.config.resolves_db * (FAST if fast else 1.0)):
            now = time.perf_counter()
            yield replace(check, card=card.name, seconds=now - started)
            started = now
    except Exception as error:
        if debug:
            raise
        problem = " ".join(str(error).split()) or type(error).__name__
        yield CardCheck(what="run", problem=problem, card=card.name, seconds=time.perf_counter() - started)


def _checks(card: Card, *, resolves_db: float) -> Iterator[CardCheck]:
    """Compare with every known answer; every point of a link with those about error rates."""
    for expected in card.config.expect:
        yield from expected.measure(card.loaded, resolves_db=resolves_db)
    known = [one for one in card.config.expect if isinstance(one, KnownRate)]
    curves = expand_link(card.loaded).curves if known else ()
    for curve in curves:
        rates = [one for one in known if one.is_about(curve)]
        for point in curve.points:
            radio, measured = PointRadio(curve, point), MeasuredPoint.nothing(curve.num_devices)
            while measured.tally.sent_bits < curve.measure.stop.max_bits:  # until every interval is narrow enough
                if measured.tally.batches and all(
                    one.width_db(curve, point, one.counts(measured)) <= resolves_db for one in rates
                ):
                    break
                measured = measured + radio.batch(measured.tally.batches)
            where = f"{curve.label}, " if len(curves) > 1 else ""
            for one in rates:
                check = one.compare(curve, point, one.counts(measured), resolves_db=resolves_db)
                yield replace(check, what=f"{where}{point.value_db:g} dB: {check.what}")
