"""Studies that run folders hold: found again by their kind, reported and exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.files.replacement import Replacement, writing
from scenarios.report.tables.cells import csv_row
from scenarios.schema.errors import ScenarioError
from scenarios.store.folder import identity_of
from scenarios.store.store import Store

if TYPE_CHECKING:
    from scenarios.engine.study import ReportPaths, Study


def study_in(folder: Path) -> Study:
    """The study that a run folder holds. ScenarioError if it holds none."""
    kind = identity_of(folder)["study"]
    with Store.open_existing(folder) as store:
        if kind == "run":
            from scenarios.studies.learning import LearningStudy

            return LearningStudy.reload(store)
        if kind == "link":
            from scenarios.studies.link.study import LinkStudy

            return LinkStudy.reload(store)
        if kind == "audit":
            from scenarios.studies.audit.study import AuditStudy

            return AuditStudy.reload(store)
        if kind == "verify":
            from scenarios.studies.verify.study import VerifyStudy

            return VerifyStudy.reload(store)
    raise ScenarioError(file=folder, problem=f"holds a study of an unknown kind ({kind})", remedy="upgrade phyloop")


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
    stored = store.count_tasks()
    if stored and not store.statuses(study.ids):
        raise ScenarioError(
            file=store.folder,
            problem=f"none of the {stored} tasks stored here is one that this version of phyloop computes",
            remedy="keep the figures and tables there are, or run the scenario again into a new folder",
        )
