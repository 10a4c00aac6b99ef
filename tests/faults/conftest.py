"""Undisturbed runs, once per session, and the table of faults at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import LEARNING, SAMPLING, Outcome, Tally, undisturbed_run

HEADS = ("fault", "injected", "lost", "duplicated", "tables equal")


@pytest.fixture(scope="session")
def learning(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Federated averaging, undisturbed."""
    return undisturbed_run(tmp_path_factory.mktemp("learning"), LEARNING)


@pytest.fixture(scope="session")
def sampling(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Langevin sampling, undisturbed."""
    return undisturbed_run(tmp_path_factory.mktemp("sampling"), SAMPLING)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Callable[[str], Tally]]:
    """Begins the row of a fault."""
    begun: list[Tally] = []

    def begin(fault: str) -> Tally:
        begun.append(Tally(fault=fault, note=record_property))
        return begun[-1]

    yield begin
    for one in begun:  # an assertion ended the test before its conclusion
        if one.equal is None:
            record_property("fault", json.dumps([one.fault, one.injected, one.lost, one.duplicated, False]))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder to be."""
    return tmp_path / "run"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One row per kind of fault: how often injected, tasks lost, tasks duplicated, tables equal or not."""
    rows: dict[str, list[Any]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            for name, told in getattr(report, "user_properties", ()):
                if name != "fault":
                    continue
                fault, *numbers, equal = json.loads(told)
                row = rows.setdefault(fault, [0, 0, 0, True])
                row[:3] = [a + b for a, b in zip(row[:3], numbers, strict=True)]
                row[3] = row[3] and equal
    if not rows:
        return
    width = max(map(len, rows))
    terminalreporter.section("faults")
    terminalreporter.write_line(f"{HEADS[0]:{width}}  " + "  ".join(HEADS[1:]))
    for fault, (injected, lost, duplicated, equal) in rows.items():
        cells = (f"{injected:8}", f"{lost:4}", f"{duplicated:10}", "yes" if equal else "NO")
        terminalreporter.write_line(f"{fault:{width}}  " + "  ".join(cells))
