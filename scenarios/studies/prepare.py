"""Studies as commands and `import phyloop` ask for them, loaded and checked before anything is computed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scenarios.engine.limits import room
from scenarios.engine.options import RunOptions, refuse_impossible
from scenarios.engine.study import default_folder
from scenarios.files.log import logger
from scenarios.plan.plan import expand
from scenarios.plan.warnings import learning_warnings
from scenarios.report.check import check_figures, check_stop, check_tables, stop_warnings
from scenarios.schema.errors import ScenarioError, together
from scenarios.schema.loader import LoadedScenario, Source, load_scenario
from scenarios.studies.check import check
from scenarios.studies.learning import LearningStudy, choose_engine


def learning(source: Source, *, out: Path | None, options: RunOptions, **changes: Any) -> tuple[LearningStudy, Path]:
    """Study and folder of `phyloop run`; `changes` are those of `load_scenario`."""
    refuse_impossible(options)
    try:
        loaded = _load_learning(source, changes)
        plan = expand(loaded)
        check_figures(loaded)
        check_tables(loaded, plan)
        check_stop(loaded, plan)
    except ScenarioError as error:
        raise together([error, *check(source, **changes).errors]) from None
    space = room(options.memory_limit, workers=options.workers or 1, elsewhere=options.scheduler is not None)
    folder = out or default_folder(loaded, "run")
    for sentence in (*learning_warnings(plan), *stop_warnings(loaded)):
        logger("scenario").warning(sentence)
    engine = choose_engine(options, folder=folder, worker_bytes=space.process_bytes)
    return LearningStudy(loaded, plan, engine=engine, room=space), folder


def link(
    source: Source, *, out: Path | None, max_seconds: float | None, overrides: Sequence[str] = (), **changes: Any
) -> tuple[Any, Path]:
    """Study and folder of `phyloop link`; `max_seconds` is `measure.stop.max_seconds`, where it is not None."""
    from scenarios.studies.link.plan import study_warnings
    from scenarios.studies.link.study import LinkStudy

    loaded = load_scenario(source, overrides=overrides, **changes)
    if max_seconds is not None and loaded.scenario.measure is not None:
        limit = f"measure.stop.max_seconds={max_seconds}"
        loaded = load_scenario(source, overrides=(*overrides, limit), **changes)
    study = LinkStudy(loaded)
    check_figures(loaded)
    for sentence in study_warnings(study.plan):
        logger("scenario").warning(sentence)
    return study, out or default_folder(loaded, "link")


def audit(source: Source, *, out: Path | None, options: Any, **changes: Any) -> tuple[Any, Path]:
    """Study and folder of `phyloop audit`; `options` are `AuditOptions`."""
    from scenarios.studies.audit.study import AuditStudy

    loaded = _load_learning(source, changes)
    plan = expand(loaded)
    study = AuditStudy(loaded, plan, options=options)
    for reason in study.left_out:
        print(f"phyloop: {reason}: not audited.", file=sys.stderr)
    return study, out or default_folder(loaded, "audit")


def verify(
    *, only: Sequence[str], fast: bool, seed: int | None, out: Path | None, debug: bool
) -> tuple[Any, Path | None]:
    """Study and folder of `phyloop verify`; the reference checks named by `only`, all for none."""
    from scenarios.studies.verify.cards import card_names, load_card
    from scenarios.studies.verify.study import VerifyStudy

    cards = [load_card(name, seed=seed) for name in dict.fromkeys(only or card_names())]
    if fast and not only:
        cards = [card for card in cards if card.config.fast]
    return VerifyStudy(cards, fast=fast, seed=seed, debug=debug), out


def _load_learning(source: Source, changes: dict[str, Any]) -> LoadedScenario:
    """Load a scenario; ScenarioError for one that only measures a link."""
    loaded = load_scenario(source, **changes)
    if loaded.scenario.measure is not None and "learning" not in loaded.document:
        problem = "this scenario has a measure: section and no learning:, so there is nothing to learn"
        remedy = "use phyloop link, or add learning:"
        raise ScenarioError(problem=problem, remedy=remedy, file=loaded.source)
    return loaded
