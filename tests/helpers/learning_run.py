"""Studies in this process, as the commands make them, and the tables of their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from scenarios.cli.command import carry_out
from scenarios.engine.batch import Engine
from scenarios.engine.limits import Room
from scenarios.engine.options import RunOptions
from scenarios.engine.run import run_study
from scenarios.engine.study import Outcome, Progress
from scenarios.plan.points import Plan
from scenarios.schema.loader import LoadedScenario
from scenarios.studies import folders, prepare
from scenarios.studies.audit.plan import AuditOptions
from scenarios.studies.learning import LearningStudy
from scenarios.studies.tables import export as export_tables
from scenarios.studies.tables import read_table

USUAL = RunOptions()


def run_plan(
    loaded: LoadedScenario,
    plan: Plan,
    *,
    folder: Path,
    engine: Engine,
    progress: Progress | None = None,
    room: Room | None = None,
    **options: Any,
) -> Outcome:
    """Compute the missing tasks of a plan into `folder` and write the report."""
    study = LearningStudy(loaded, plan, engine=engine, room=room)
    return run_study(study, folder=folder, progress=progress, **options)


def run_scenario(
    source: str,
    *,
    out: Path | None,
    options: RunOptions = USUAL,
    retry_failed: bool = False,
    log_level: str = "info",
    debug: bool = False,
    **changes: Any,
) -> int:
    """`phyloop run`; returns the exit code."""
    return carry_out(
        lambda: prepare.learning(source, out=out, options=options, **changes),
        retry_failed=retry_failed,
        log_level=log_level,
        debug=debug,
    )


def audit_scenario(source: str, *, out: Path, options: AuditOptions, **changes: Any) -> int:
    """`phyloop audit`; returns the exit code."""
    return carry_out(lambda: prepare.audit(source, out=out, options=options, **changes))


def link_scenario(source: str, *, out: Path, max_seconds: float | None = None, **changes: Any) -> int:
    """`phyloop link`; returns the exit code."""
    return carry_out(lambda: prepare.link(source, out=out, max_seconds=max_seconds, **changes))


def reload(folder: Path) -> tuple[LoadedScenario, Plan]:
    """The scenario and the plan of a learning run, from its folder."""
    study = folders.study_in(folder)
    assert isinstance(study, LearningStudy)
    return study.loaded, study.plan


def report_run(folder: Path) -> None:
    """`phyloop report`."""
    folders.write_report_of(folders.study_in(folder), folder)


def export_run(folder: Path, out: Path) -> None:
    """`phyloop export --table all`."""
    export_tables(folders.study_in(folder), folder, out, tables=["all"])


class _OfPlan(LearningStudy):
    """The tasks of a plan, without its scenario."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.ids = plan, [one for ids in plan.task_ids for one in ids]


def export(folder: Path, out: Path, *, plan: Plan, **options: Any) -> tuple[Path, ...]:
    """Write tables of some tasks in `folder` into `out`."""
    return export_tables(_OfPlan(plan), folder, out, **options)


def table_of(folder: Path, table: str, *, plan: Plan) -> pd.DataFrame:
    """A table of some tasks in `folder`."""
    return read_table(_OfPlan(plan), folder, table)
