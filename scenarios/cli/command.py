"""The one way in which commands run a study, whatever its kind: progress, interruption, exit codes, what is printed."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios.cli.progress import shown_progress
from scenarios.engine.interruption import interruptible
from scenarios.engine.options import ClusterLostError
from scenarios.engine.run import run_study
from scenarios.engine.study import Study
from scenarios.files.log import LEVELS, USUAL, telling
from scenarios.files.plain_files import RESULTS
from scenarios.report.library import difference
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.table import say
from scenarios.schema.permission import code_allowed, is_code_allowed
from scenarios.schema.plugins import has_plugins
from scenarios.studies.folders import study_in, write_paper_figures, write_report_of

if TYPE_CHECKING:
    from scenarios.studies.tune.search import Search

FAILED, INTERRUPTED = 1, 130
NOTICES_SHOWN = 20


def carry_out(
    make: Callable[[], tuple[Study, Path | None]],
    *,
    log_level: str = USUAL,
    debug: bool = False,
    retry_failed: bool = False,
    allow_code: bool = False,
) -> int:
    """Run the study that `make` returns in its folder, print what came of it; returns the exit code.

    Without a folder nothing is kept.
    """
    with code_allowed(allow_code or is_code_allowed()), telling(level=log_level, traces=debug):
        study, named = make()
        started = time.perf_counter()
        quiet = LEVELS[log_level] > LEVELS["info"]
        try:
            with (
                tempfile.TemporaryDirectory() if named is None else nullcontext(str(named)) as folder,
                interruptible(),
                shown_progress(len(study.ids), stored=study.done_words, quiet=quiet) as progress,
            ):
                outcome = run_study(
                    study, folder=Path(folder), progress=progress, retry_failed=retry_failed, log_level=log_level
                )
        except (KeyboardInterrupt, ClusterLostError) as stop:
            return _stopped(stop, named)
    study.show(outcome, seconds=time.perf_counter() - started)
    if differs := difference(study.document()[1]):
        print(f"This run {differs}.")
    if named is not None:
        print_paths(outcome.report)
    for sentence in outcome.notices[:NOTICES_SHOWN]:
        print(f"phyloop: {sentence}.", file=sys.stderr)
    if len(outcome.notices) > NOTICES_SHOWN:
        print(f"phyloop: the first {NOTICES_SHOWN} of {len(outcome.notices)} sentences like these.", file=sys.stderr)
    return FAILED if outcome.failed else 0


def carry_out_search(make: Callable[[], Search], *, log_level: str, debug: bool, allow_code: bool) -> int:
    """Run the studies of the search that `make` returns, one after the other; print and write what came of it."""
    with code_allowed(allow_code or is_code_allowed()), telling(level=log_level, traces=debug):
        search = make()
        quiet, failed = LEVELS[log_level] > LEVELS["info"], False
        try:
            with interruptible():
                for study in search.studies():
                    with shown_progress(len(study.ids), stored=study.done_words, quiet=quiet) as progress:
                        outcome = run_study(study, folder=search.folder, progress=progress, log_level=log_level)
                    failed = failed or bool(outcome.failed)
        except (KeyboardInterrupt, ClusterLostError) as stop:
            return _stopped(stop, search.folder)
        search.show()
        print_paths(search.write(command=shlex.join(["phyloop", *sys.argv[1:]])))
    return FAILED if failed else 0


def print_inspection(
    make: Callable[[], tuple[Any, Path]], *, at: Sequence[str], packets: int, allow_code: bool
) -> None:
    """`phyloop link --inspect`: packets of one point of the link study that `make` returns with its folder."""
    from scenarios.studies.folders import write_report_of
    from scenarios.studies.link.inspection import TELLING, inspect_point, parse_at, sentences, write_inspection

    with code_allowed(allow_code or is_code_allowed()), telling():
        study, folder = make()
        found = inspect_point(folder, study.plan, at=parse_at(at), num_packets=packets)
        page, figures = write_inspection(folder, found)
        if found.measured is not None:  # the page of the study names those of its inspections
            write_report_of(study, folder)
    why = f", the bit error rate nearest to {TELLING:g} of {found.fitting} points" if found.fitting > 1 else ""
    say(f"{found.setting}{why}")
    for what, sentence in sentences(found):
        say(f"  {what}: {sentence}")
    print_paths(ReportPaths(html=page, figures=tuple(figure.svg for figure in figures)))


def print_paths(report: ReportPaths) -> None:
    """Print the files of a report that people open: figures, tables, the page."""
    for figure in report.figures:
        print(f"figure  {figure}")
    for table in report.tables:
        if report.html is None or table.suffix == ".md":
            print(f"table   {table}")
    if report.html is not None:
        print(f"report  {report.html}")


def draw_again(folder: Path, *, paper: str | None, columns: int) -> None:
    """Write figures and page of a run again, and its figures for a `paper` in this format; print their paths."""
    study = study_in(folder)
    paths = write_report_of(study, folder)
    for path in write_paper_figures(study, folder, kind=paper, columns=columns) if paper else ():
        print(f"figure  {path}")
    print_paths(paths if paths.html is None else ReportPaths(html=paths.html))


def print_unexpected(error: Exception) -> None:
    """Print an error that no command catches, as one sentence."""
    if type(error).__module__.split(".")[0] in ("phy", "fl", "privacy"):
        print(f"phyloop: {error}.", file=sys.stderr)
        return
    remedy = "phyloop check-plugin tests the plug-ins" if has_plugins() else "run again with --debug for the traceback"
    print(f"phyloop: unexpected {type(error).__name__}: {error}; {remedy}.", file=sys.stderr)


def _stopped(stop: BaseException, folder: Path | None) -> int:
    """Print why a study stopped and how it goes on; returns the exit code."""
    by_hand = isinstance(stop, KeyboardInterrupt)
    print(f"\nphyloop: {how_to_go_on('stopped' if by_hand else str(stop), folder)}", file=sys.stderr)
    return INTERRUPTED if by_hand else FAILED


def how_to_go_on(why: str, folder: Path | None) -> str:
    """Return why a study stopped, what of it is kept in its folder, and the command that goes on."""
    if folder is None:
        return f"{why}."
    command = " ".join(["phyloop", *map(shlex.quote, sys.argv[1:])])
    if not (folder / RESULTS).is_file():
        return f"{why} before anything was finished. Begin again with: {command}"
    return f"{why}; everything finished is kept in {folder}. Go on with: {command}"
