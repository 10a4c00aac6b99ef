"""What the report page says: everything is computed here, the template only lays it out."""

from __future__ import annotations

import base64
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.errors import ScenarioError
from scenarios.export import Replacement
from scenarios.figures import FigureFiles, write_figures
from scenarios.labels import plain_label, setting_cell
from scenarios.plan import Plan, Point, value_of
from scenarios.quantities import CODED, NEVER_NEGATIVE, RATES, SHARES, word_of
from scenarios.report.bursts import BURST_HEADS, PointBursts, burst_cells, draw_runs, read_bursts, setting_in_words
from scenarios.report.classification import PRIVACY_METRICS, PointPrivacy, draw_partitions, read_privacy
from scenarios.round_curves import over_rounds
from scenarios.store import RunRecord, Store
from scenarios.tables import Mean, PointSummary, Rate, TaskIds, summarise

if TYPE_CHECKING:
    from jinja2 import Template

PAGE = "report.html"
FIGURES = "figures"
FAILURES_SHOWN = 50
_SAME = 1e-12
"""Relative width of an interval around one value that every trial has."""


@dataclass(frozen=True, kw_only=True)
class ReportPaths:
    """What was written: the page, and the figures as separate files (PNG and SVG)."""

    html: Path
    figures: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text; `numeric` columns are aligned to the right, None is an empty cell."""

    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]


def write_report(folder: Path, plan: Plan, *, task_ids: TaskIds, store: Store) -> ReportPaths:
    """Draw the figures of the scenario and write `report.html` into `folder`, each file whole or not.

    Works at any moment of a run; the page says how complete it is. ScenarioError if the folder
    cannot be written or holds no scenario.
    """
    summaries = summarise(store, plan, task_ids=task_ids)
    scenario = plan.points[0].scenario
    figures = write_figures(
        folder / FIGURES,
        plan,
        summaries=summaries,
        figures=scenario.report.figures,
        along=lambda config: over_rounds(store, plan, task_ids=task_ids, config=config),
    )
    partitions = write_partitions(folder / FIGURES, plan)
    html = render_page(
        folder, plan, task_ids=task_ids, store=store, summaries=summaries, figures=figures, partitions=partitions
    )
    return write_page(folder, html, figures=(*figures, *partitions))


def write_partitions(folder: Path, plan: Plan) -> tuple[FigureFiles, ...]:
    """Draw who holds which samples into `folder`; ScenarioError if it cannot be written."""
    try:
        return draw_partitions(folder, plan)
    except OSError as error:
        raise ScenarioError(
            file=folder,
            problem=f"figures cannot be written here ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error


def write_page(folder: Path, html: str, *, figures: Sequence[FigureFiles]) -> ReportPaths:
    """Write `report.html` whole or not; ScenarioError if it cannot be written."""
    path = folder / PAGE
    try:
        with Replacement(path) as file:
            file.write(html.encode(errors="surrogateescape"))
    except OSError as error:
        raise ScenarioError(
            file=path,
            problem=f"the report cannot be written ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error
    return ReportPaths(html=path, figures=tuple(p for f in figures for p in (f.png, f.svg)))


def template(name: str) -> Template:
    """A page of this folder; all text put into it is escaped, and what it names must be given."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def render_page(
    folder: Path,
    plan: Plan,
    *,
    task_ids: TaskIds,
    store: Store,
    summaries: Sequence[PointSummary],
    figures: Sequence[FigureFiles],
    partitions: Sequence[FigureFiles] = (),
) -> str:
    """The page as HTML."""
    scenario = plan.points[0].scenario
    planned = len(plan.points) * plan.trials
    done, failed = sum(s.done for s in summaries), sum(s.failed for s in summaries)
    runs = store.read_runs()
    bursts = read_bursts(store, plan, task_ids=task_ids)
    run_lengths = draw_runs(plan, bursts)
    return template("page.html.j2").render(
        name=scenario.name,
        description=reflow(scenario.description),
        notes=reflow(scenario.report.notes),
        seed=plan.seed,
        trials=plan.trials,
        num_points=len(plan.points),
        planned=planned,
        done=done,
        failed=failed,
        missing=planned - done - failed,
        figures=[(figure, data_uri(figure.svg.read_bytes())) for figure in figures],
        partitions=[(figure, data_uri(figure.svg.read_bytes())) for figure in partitions],
        metrics=metrics_rows(plan, summaries),
        privacy=privacy_table(plan, summaries, tuple(read_privacy(store, plan, task_ids=task_ids))),
        rates=rates_rows(plan, summaries),
        bursts=bursts_rows(plan, bursts),
        verdicts=[(setting_in_words(plan, one.point), one.sentence) for one in bursts],
        run_lengths=None if run_lengths is None else data_uri(run_lengths),
        failures=_failures(plan, task_ids=task_ids, store=store, summaries=summaries),
        failures_shown=FAILURES_SHOWN,
        yaml=store.read_scenario().yaml,
        run=provenance_rows(runs[-1]) if runs else (),
        runs=runs,
        folder=shlex.quote(str(folder)),
    )


def reflow(text: str) -> str:
    """Text as paragraphs: a line end inside one is where the YAML file was full, not where the page is."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


# --- tables ---------------------------------------------------------------------------------------


def metrics_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point: swept settings, trials done and failed, mean [low, high] of each metric."""
    names = tuple(dict.fromkeys(name for s in summaries for name in s.metrics if not _of_privacy(name, s.point)))
    return Table(
        columns=(*map(plain_label, plan.swept_paths), "trials", "failed", *map(plain_label, names)),
        numeric=(*(False for _ in plan.swept_paths), *(True for _ in range(2 + len(names)))),
        rows=tuple(
            (
                *_settings(plan, s.point),
                str(s.done),
                str(s.failed),
                *(_metric_cell(name, s.metrics.get(name)) for name in names),
            )
            for s in summaries
        ),
    )


def _of_privacy(name: str, point: Point) -> bool:
    """Whether a metric stands in the table of privacy."""
    return name in PRIVACY_METRICS and point.scenario.learning.algorithm == "fedavg"


def privacy_table(plan: Plan, summaries: Sequence[PointSummary], found: Sequence[PointPrivacy]) -> Table:
    """A row per point with a mechanism: epsilon and whose it is, what follows from it, and how often flips clamped."""
    metrics = {summary.point.index: summary.metrics for summary in summaries}
    names = [name for name in PRIVACY_METRICS if any(name in metrics[one.point.index] for one in found)]
    heads = (
        "ε asked for",
        *map(plain_label, names),
        "mean flip probability p_A",
        "clamps, share of devices and rounds",
    )
    return Table(
        columns=(*map(plain_label, plan.swept_paths), *heads),
        numeric=(*(False for _ in plan.swept_paths), False, *(True for _ in names), True, False),
        rows=tuple(
            (
                *_settings(plan, one.point),
                one.asked,
                *(_metric_cell(name, metrics[one.point.index].get(name)) for name in names),
                None if one.flip_probability is None else f"{one.flip_probability:.4g}",
                one.clamps,
            )
            for one in found
        ),
    )


def _metric_cell(name: str, mean: Mean | None) -> str | None:
    """A mean with its interval; of a code its word, or `mixed` where trials differ."""
    if mean is None:
        return None
    if name in CODED:
        return word_of(name, mean.mean) or "mixed"
    if name in (*NEVER_NEGATIVE, *SHARES) and mean.low is not None:
        mean = replace(mean, low=max(mean.low, 0.0))
    if name in SHARES and mean.high is not None:
        mean = replace(mean, high=min(mean.high, 1.0))
    return format_mean(mean)


def rates_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point whose devices were detected: counts, rate and interval of bits, packets and probes.

    Bits before decoding are shown where they differ from those after it.
    """
    names = tuple(dict.fromkeys(name for s in summaries for name in s.rates))
    if all(s.rates.get("raw_bit_error_rate") in (None, s.rates.get("bit_error_rate")) for s in summaries):
        names = tuple(name for name in names if name != "raw_bit_error_rate")
    heads = tuple(
        head
        for name in names
        for unit in [RATES[name].said]
        for head in (f"{unit}s", f"{unit} errors", plain_label(name))
    )
    return Table(
        columns=(*map(plain_label, plan.swept_paths), *heads),
        numeric=(*(False for _ in plan.swept_paths), *(True for _ in heads)),
        rows=tuple(
            (*_settings(plan, s.point), *(cell for name in names for cell in _rate_cells(s.rates.get(name))))
            for s in summaries
            if s.rates
        ),
    )


def bursts_rows(plan: Plan, bursts: Sequence[PointBursts]) -> Table:
    """A row per point whose payloads were compared: how its errors lie together."""
    return Table(
        columns=(*map(plain_label, plan.swept_paths), *BURST_HEADS),
        numeric=(*(False for _ in plan.swept_paths), *(True for _ in BURST_HEADS)),
        rows=tuple((*_settings(plan, one.point), *burst_cells(one)) for one in bursts),
    )


def format_mean(mean: Mean) -> str:
    """`mean [low, high]`, digits as the interval allows; without an interval, or where all are one, the mean alone."""
    if mean.low is None or mean.high is None:
        return f"{mean.mean:.4g}"
    if mean.high - mean.low <= _SAME * abs(mean.mean):
        return f"{mean.mean:.6g}"
    return with_interval(mean.mean, low=mean.low, high=mean.high)


def format_rate(rate: Rate) -> str:
    """`rate [low, high]`; without errors only `< high`."""
    if not rate.errors:
        return f"< {rate.high:.2g}"
    return with_interval(rate.value, low=rate.low, high=rate.high)


def with_interval(value: float, *, low: float, high: float) -> str:
    digits = _digits(value, high - low)
    # Alternate form: it keeps trailing zeros, which are digits that were measured.
    shown, bottom, top = (f"{number:#.{digits}g}".rstrip(".") for number in (value, low, high))
    return f"{shown} [{bottom}, {top}]"


def _digits(value: float, width: float) -> int:
    """Significant digits of `value` such that the interval shows two of its own; 3 to 8."""
    if width <= 0 or value == 0 or not math.isfinite(value):
        return 4
    return min(max(2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(width)), 3), 8)


def _rate_cells(rate: Rate | None) -> tuple[str | None, ...]:
    if rate is None:
        return (None, None, None)
    return (f"{rate.total:,}", f"{rate.errors:,}", format_rate(rate))


def _settings(plan: Plan, point: Point) -> tuple[str | None, ...]:
    return tuple(setting_cell(path, value_of(point, path)) or None for path in plan.swept_paths)


# --- failures and provenance ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed trial: where, which, why."""

    setting: str
    trial: int
    reason: str


def _failures(plan: Plan, *, task_ids: TaskIds, store: Store, summaries: Sequence[PointSummary]) -> tuple[Failure, ...]:
    """The failed trials, at most `FAILURES_SHOWN` of them."""
    found: list[Failure] = []
    for summary in summaries:
        if summary.failed and len(found) < FAILURES_SHOWN:
            cells = zip(plan.swept_paths, _settings(plan, summary.point), strict=True)
            setting = ", ".join(f"{path}: {cell}" for path, cell in cells if cell is not None)
            records = store.read_tasks(task_ids[plan.points.index(summary.point)]).values()
            found += [
                Failure(setting=setting, trial=record.trial, reason=record.failure or "")
                for record in records
                if record.status == "failed"
            ]
    return tuple(found[:FAILURES_SHOWN])


def provenance_rows(run: RunRecord) -> tuple[tuple[str, str], ...]:
    """Name and value of everything known about the latest run."""
    known = run.provenance
    versions = known.get("versions", {})
    commit = known.get("commit")
    changed = ", with local changes" if known.get("dirty") else ""
    return (
        ("command", run.command),
        ("started", run.started_at),
        ("finished", f"{run.finished_at or 'not yet'} ({run.status})"),
        ("commit", f"{commit}{changed}" if commit else "not run from a checkout"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)),
        ("platform", str(known.get("platform", ""))),
        ("processor", f"{known.get('cpu_model', '')}, {known.get('cpu_count', '')} in use"),
    )


def data_uri(svg: bytes) -> str:
    """The picture inside the page. As an image, not as inline SVG: element ids of two figures collide."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
