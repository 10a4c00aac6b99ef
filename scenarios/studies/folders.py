"""Studies that run folders hold: found again by their kind, reported and exported."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.files.replacement import Replacement, writing
from scenarios.report.tables.table import csv_row
from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store

if TYPE_CHECKING:
    from scenarios.engine.study import ReportPaths, Study


_STUDIES = {
    "run": ("scenarios.studies.learning", "LearningStudy"),
    "link": ("scenarios.studies.link.study", "LinkStudy"),
    "audit": ("scenarios.studies.audit.study", "AuditStudy"),
    "verify": ("scenarios.studies.verify.study", "VerifyStudy"),
    "flower": ("scenarios.studies.flower.study", "FlowerStudy"),
}
"""Module and class of each kind of study, loaded where a folder holds one."""


def study_in(folder: Path) -> Study:
    """Return the study that a run folder holds. ScenarioError if it holds none."""
    with Store.open_existing(folder) as store:
        kind = store.identity["study"]
        if kind not in _STUDIES:
            problem = f"holds a study of an unknown kind ({kind})"
            raise ScenarioError(file=folder, problem=problem, remedy="upgrade phyloop")
        module, name = _STUDIES[kind]
        study: Study = getattr(import_module(module), name).reload(store)
    return study


def write_report_of(study: Study, folder: Path) -> ReportPaths:
    """Write figures, tables and page of a study again. ScenarioError where no result is of this study."""
    with study.store.open_existing(folder) as store:
        _refuse_foreign(study, store)
        return study.write_report(folder, store)


def export(study: Study, folder: Path, out: Path) -> tuple[Path, ...]:
    """Write the CSV files of a study in `folder` into `out`, each whole or not at all.

    UTF-8, with a header even where there is no row. ScenarioError if `folder` holds no result of the study, or `out`
    cannot be written.
    """
    paths = []
    with study.store.open_existing(folder) as store:
        _refuse_foreign(study, store)
        with writing(out, "CSV files"):
            for name, columns in study.columns().items():
                paths.append(out / name)
                with Replacement(out / name) as file:
                    file.write(csv_row(columns).encode())
                    for text in study.rows(store, name):
                        file.write(text.encode())
    return tuple(paths)


def _refuse_foreign(study: Study, store: Store) -> None:
    """Raise ScenarioError where tasks are stored and none is of the study: no empty figure replaces the others."""
    stored = len(store.tasks)
    if stored and not store.statuses(study.ids):
        raise ScenarioError(
            file=store.folder,
            problem=f"none of the {stored} tasks stored here is one that this version of phyloop computes",
            remedy="keep the figures and tables there are, or run the scenario again into a new folder",
        )
