"""The interface of a study: what the commands need of learning runs, link studies and audits alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from scenarios.report.paths import ReportPaths
    from scenarios.report.tables.table import Table
    from scenarios.schema.loader import LoadedScenario
    from scenarios.store.store import Store

RUNS = Path("runs")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Callbacks of a running study.

    - `start(units)`: units to compute, e.g. trial-rounds; `advance(units)`: more were computed; `restored(units)`: more
      were found in checkpoints, and took no time;
    - `stored(tasks)`: more tasks are stored; those found done are stored from the start;
    - `taken(key, text)`: work on a batch goes on, described by `text`; `settled(key)`: all of it is stored;
    - `row(text)`: a line of results to show as the study goes on.
    """

    start: Callable[[int], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None
    restored: Callable[[int], None] = lambda _: None
    stored: Callable[[int], None] = lambda _: None
    taken: Callable[[Hashable, str], None] = lambda _, __: None
    settled: Callable[[Hashable], None] = lambda _: None
    row: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a study: tasks planned, computed now, found done, failed; and the report.

    - `answers`: sentences on what follows from the results; `results`: rows of sweep points, of studies that show none
      as they go on; `more`: sweep points that `results` leaves to the report;
    - `notices`: sentences, without their full stop, on what went wrong in sweep points and tasks;
    - `complete`: everything was there already, report included, and nothing was written.
    """

    planned: int
    computed: int
    found: int
    failed: int
    report: ReportPaths
    answers: tuple[str, ...] = ()
    results: Table | None = None
    more: int = 0
    notices: tuple[str, ...] = ()
    complete: bool = False


class Study(ABC):
    """One kind of study of one scenario: its tasks, how a batch of them is computed, and the columns of its tables.

    A batch is whatever `batches` yields and `compute` takes; `Results` of a batch are whatever `keep` stores.
    """

    store: ClassVar[type[Store]]
    """Store of this kind; its `study` names the kind, and a folder holds one kind."""
    units: ClassVar[str]
    """What `Progress.start` counts."""
    done_words: ClassVar[str]
    """Words behind the number of finished tasks."""
    name: str
    """Name of the scenario."""
    ids: Sequence[str]
    """Identity of every task."""
    skipped: int = 0
    """Tasks that turned out not to be needed."""

    @classmethod
    @abstractmethod
    def reload(cls, store: Store) -> Self:
        """Return the study of a run folder. Raises ScenarioError if it holds none of this kind."""

    @abstractmethod
    def document(self) -> tuple[str, Mapping[str, Any]]:
        """Resolved scenario: YAML text, and plain values to rebuild the study from."""

    def refuse_too_large(self, folder: Path, *, done: Collection[str]) -> None:
        """Raise ScenarioError where the tasks not `done` cannot fit into memory, or on the disk of `folder`."""
        return  # most kinds take little of either

    @abstractmethod
    def batches(self, store: Store, *, done: Collection[str], progress: Progress) -> tuple[Iterable[Any], int]:
        """Batches of what is not `done`, to be taken one after the other, and their units of work."""

    @abstractmethod
    def compute(self, batches: Iterable[Any], *, progress: Progress) -> Generator[Any, None, None]:
        """Compute batches; yield the results of each, or of a part of it, as they come."""

    @abstractmethod
    def keep(self, store: Store, results: Any, *, progress: Progress) -> int:
        """Store results; returns how many tasks they finish."""

    @abstractmethod
    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """Write figures, tables and the report page from what is stored, at any moment of the study."""

    def settled(self, store: Store) -> bool:
        """Return True if nothing of the study is left to compute or to store: here, if every task is done."""
        statuses = store.statuses(self.ids)
        return len(statuses) == len(self.ids) and {*statuses.values()} <= {"done"}

    def show_stored(self, store: Store, *, progress: Progress) -> None:
        """Hand `progress` the rows of a study of which nothing is left."""
        del store, progress

    def notices(self, store: Store) -> tuple[str, ...]:
        """Sentences on single tasks, see `Outcome`."""
        return ()

    def shown(self, store: Store) -> Mapping[str, Any]:
        """Fields `answers`, `results` and `more` of the outcome, see `Outcome`."""
        return {}

    @abstractmethod
    def show(self, outcome: Outcome, *, seconds: float) -> None:
        """Print how the study ended."""


def default_folder(loaded: LoadedScenario, kind: str) -> Path:
    """Folder of the results where the user names none; only learning runs have the plain name."""
    plain = kind == "run" or (kind == "link" and "learning" not in loaded.document)
    return RUNS / (loaded.scenario.name if plain else f"{loaded.scenario.name}-{kind}")
