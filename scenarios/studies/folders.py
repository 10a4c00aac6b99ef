"""What run folders hold: a study, found again by its kind and reported; and its scenario."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from fl.base.words import plural
from scenarios.engine.study import Study
from scenarios.report.paths import ReportPaths
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_kept
from scenarios.store.store import Store

_STUDIES = {
    "run": ("scenarios.studies.learning", "LearningStudy"),
    "link": ("scenarios.studies.link.study", "LinkStudy"),
    "audit": ("scenarios.studies.audit.study", "AuditStudy"),
    "verify": ("scenarios.studies.verify.study", "VerifyStudy"),
    "flower": ("scenarios.studies.flower.study", "FlowerStudy"),
}
"""Module and class of each kind of study, loaded where a folder holds one."""

OF_APPS = "air_grid"
"""Settings of a Flower app that are no keys of a scenario."""


def study_in(folder: Path) -> Study:
    """Return the study that a run folder holds. ScenarioError if it holds none."""
    with Store.open_existing(folder) as store:
        kind = store.identity.study
        if kind not in _STUDIES:
            problem = f"holds a study of an unknown kind ({kind})"
            raise ScenarioError(file=folder, problem=problem, remedy="upgrade phyloop")
        module, name = _STUDIES[kind]
        study: Study = getattr(import_module(module), name).reload(store)
    return study


def write_report_of(study: Study, folder: Path) -> ReportPaths:
    """Write figures, tables and page of a study again. ScenarioError where no result is of this study."""
    with study.store.open_existing(folder) as store:
        refuse_foreign(study, store)
        return study.write_report(folder, store)


def write_paper_figures(study: Any, folder: Path, *, kind: str, columns: int) -> tuple[Path, ...]:
    """Write the figures of a study for a paper. ScenarioError for a study whose figure is no set of curves."""
    from scenarios.report.figures.draw import write_for_paper
    from scenarios.report.html import FIGURES

    if not hasattr(study, "drawings"):
        problem = f"results of phyloop {study.store.study} have no curves"
        raise ScenarioError(file=folder, problem=problem, remedy="leave --paper out")
    with study.store.open_existing(folder) as store:
        return write_for_paper(folder / FIGURES, study.drawings(store), kind=kind, columns=columns)


def refuse_foreign(study: Study, store: Store) -> None:
    """Raise ScenarioError where tasks are stored and none is of the study: no empty figure replaces the others."""
    stored = len(store.tasks)
    if stored and not store.statuses(study.ids):
        problem = f"none of the {plural(stored, 'task')} stored here is one that this version of phyloop computes"
        remedy = "keep the figures and tables there are, or run the scenario again into a new folder"
        raise ScenarioError(file=store.folder, problem=problem, remedy=remedy)


def stored_scenario(store: Store) -> LoadedScenario:
    """Return the scenario that a store keeps; ScenarioError where it has none, or one that no file could hold."""
    root = store.read_scenario().root
    if isinstance(root, dict):  # a file from elsewhere may hold anything
        root = {key: value for key, value in root.items() if key != OF_APPS}
    return load_kept(root, folder=store.folder)
