"""What a search ends with: tables and a figure of all candidates, a page, and the tuned scenario."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl.base.words import plural
from phy.config.conflict import flow, listing
from scenarios.files.provenance import PACKAGES, find_version
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import is_number
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.learning import MOST_CURVES
from scenarios.report.html import Head, Part, counted, pictures, render_page
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.table import Table, csv_text
from scenarios.schema.labels.labels import axis_label, setting_cell, setting_label
from scenarios.schema.loader import LIBRARY, as_yaml
from scenarios.schema.overrides import set_path
from scenarios.schema.schema import FigureConfig
from scenarios.studies.tune.plan import (
    OF_NUMBERS,
    VALIDATION,
    Block,
    Choice,
    Settings,
    Tuning,
    block_of,
    in_words,
    tuning_seed,
)

if TYPE_CHECKING:
    from scenarios.studies.tune.scores import Scored

PAGE, TUNED, CANDIDATES = "tune.html", "tuned.yaml", "tune.csv"
MEANS = "Mean over trials [95 % t interval]; differences from the best are paired, trial by trial."
RATES = f"Rate [95 % interval]; {CANDIDATES} has the number of observations, n. Differences are of independent rates."
CLEAR = "A difference is clear if its interval does not contain zero."


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished search: the candidates of each block of the derived sweep, best first; later stages come later."""

    tuning: Tuning
    blocks: tuple[Block, ...]
    ranked: tuple[tuple[Scored, ...], ...]

    def of(self, choice: Choice) -> list[tuple[Block, tuple[Scored, ...]]]:
        """The stages of a choice, the last first."""
        pairs = zip(self.blocks, self.ranked, strict=True)
        return [(block, scored) for block, scored in reversed([*pairs]) if block.choice is choice]

    def winner(self, choice: Choice) -> Settings:
        """The best candidate of the last stage."""
        return self.of(choice)[0][1][0].candidate

    def sentence(self, choice: Choice) -> str:
        """The winner of a choice, those that are not told apart from it, and a hint where it lies at an end."""
        best, *others = self.of(choice)[0][1]
        verdicts = [one.behind.verdict if one.behind is not None else "" for one in others]
        alike = [one.candidate for one, is_ in zip(others, verdicts, strict=True) if is_ in ("no", "equal")]
        parts = [f"{in_words(best.candidate)} ({best.cell.text})"]
        if not all(verdicts):
            parts.append("too few trials to tell it apart")
        elif alike:
            several = len(best.candidate) > 1
            names = (in_words(one) if several else flow(*one.values()) for one in alike)
            parts.append(f"not told apart from {listing(names, last='and')}")
        tried = {path: [one[path] for one in self.tuning.candidates] for path in best.candidate}
        ends = {path: (min(some), max(some)) for path, some in tried.items() if all(map(is_number, some))}
        if at_end := [path for path, (low, high) in ends.items() if low < high and best.candidate[path] in (low, high)]:
            parts.append(f"at the end of the candidates of {listing(at_end, last='and')}: try values beyond")
        return "; ".join(parts)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row per choice, stage and candidate, best first, the last stage first."""
        for choice in self.tuning.choices:
            settings = {path: setting_cell(path, value) for path, value in choice.settings.items()}
            stages = self.of(choice)
            for block, scored in stages:
                for one in scored:
                    behind = one.behind.mean if one.behind is not None else None
                    low, high = (None, None) if behind is None else (behind.low, behind.high)
                    yield {**settings, **one.candidate, "rounds": block.rounds, "mean": one.cell.value} | {
                        "low": one.cell.low,
                        "high": one.cell.high,
                        "n": one.cell.count,
                        "difference": None if behind is None else behind.mean,
                        "difference_low": low,
                        "difference_high": high,
                        "chosen": one is stages[0][1][0],
                    }

    def table(self, choice: Choice) -> Table:
        """All candidates of a choice, best first, those of the last stage before those that left earlier."""
        paths, halved = tuple(self.tuning.config.keys), len(self.tuning.stages) > 1
        rows: dict[tuple[str, ...], tuple[str, ...]] = {}
        for block, scored in self.of(choice):
            for one in scored:
                words = tuple(setting_cell(path, one.candidate[path]) for path in paths)
                rounds = (f"{block.rounds:,}",) if halved else ()
                behind = "best" if one.behind is None else str(one.behind.mean or "")
                verdict = "" if one.behind is None else one.behind.verdict or "too few trials"
                rows.setdefault(words, (*words, *rounds, one.cell.text, behind, verdict))
        heads = (*map(axis_label, paths), *(("rounds",) if halved else ()), self.tuning.metric.words)
        return Table(columns=(*heads, "difference", "clear"), rows=(*rows.values(),), left=("clear",))


def drawing(result: Result) -> Drawing:
    """The metric over the first tuned key: a curve per choice, or a panel per choice with a curve per stage."""
    x, *others = result.tuning.config.keys
    choices, halved = result.tuning.choices, len(result.tuning.stages) > 1
    together = not others and not halved and len(choices) <= MOST_CURVES
    panels: dict[str, dict[str, list[Spot]]] = {}
    for choice in choices:
        for block, scored in reversed(result.of(choice)):
            for candidate in block.candidates:
                (cell,) = (one.cell for one in scored if one.candidate == candidate)
                parts = [plural(block.rounds or 0, "round")] if halved else []
                parts += [setting_label(path, candidate[path]) for path in others]
                place, label = ("", choice.words) if together else (choice.words, ", ".join(parts) or "all rounds")
                low, high = (None if isnan(one) else one for one in (cell.low, cell.high))
                spots = panels.setdefault(place, {}).setdefault(label, [])
                if isfinite(cell.value):
                    spots.append(Spot(x=candidate[x], y=cell.value, low=low, high=high, n=cell.count))
    looks = {label: number for number, label in enumerate(dict.fromkeys(one for p in panels.values() for one in p))}
    return Drawing(
        config=FigureConfig(x=x, y=result.tuning.metric.name),
        panels=tuple(
            (title, tuple(Curve(label=label, series=looks[label], spots=(*spots,)) for label, spots in curves.items()))
            for title, curves in panels.items()
        ),
        caption="Candidates at the seeds of the search, means or rates with 95 % intervals.",
        seed=tuning_seed(result.tuning.loaded.scenario.seed),
    )


def _about(tuning: Tuning) -> str:
    """How candidates were compared, in sentences."""
    scenario, config, metric = tuning.loaded.scenario, tuning.config, tuning.metric
    number = "rate" if metric.of == "rate" else "mean"
    trials = "one measurement" if tuning.links else f"the {number} over {plural(config.trials, 'trial')}"
    better = "larger" if metric.better > 0 else "smaller"
    text = (
        f"Candidates are compared by {metric.words}, the {better} the better, {trials} of seed "
        f"{tuning_seed(scenario.seed)} = 2^63 + {scenario.seed}, from which no run with seed {scenario.seed} draws."
    )
    if metric.name in (VALIDATION, OF_NUMBERS):
        text += " The samples were held out of those to train on; no test sample was used."
    if config.halving is not None:
        rounds = listing((f"{one:,}" for one in tuning.stages), last="and")
        text += f" Successive halving over {rounds} rounds: the best 1/{config.halving.factor} of each stage went on."
    return text


def tuned_scenario(result: Result) -> dict[str, Any]:
    """The scenario with every choice made, as plain data of a file; on the library's where that was not changed."""
    tuning = result.tuning
    loaded = tuning.loaded
    scenario, document = loaded.scenario, deepcopy(loaded.document)
    changed = any(not isinstance(mark.file, Path) for at, mark in loaded.marks.items() if at[:1] != ("tune",))
    data: dict[str, Any] = {"name": f"{scenario.name[:74]}-tuned"}
    report = {key: value for key, value in (document.get("report") or {}).items() if key == "tables" and value}
    if loaded.source.parent == LIBRARY and not changed:
        data |= {"base": loaded.source.stem, "tune": "none"}
    else:
        data = {**document, **data}
        del data["tune"]
        report = data.get("report") or {}
    if len(tuning.choices) == 1 and not tuning.choices[0].settings:
        for path, value in result.winner(tuning.choices[0]).items():
            set_path(data, path, value)
    else:
        blocks = [*_chosen(result)]
        data["sweep"] = blocks if len(blocks) > 1 else blocks[0]
    candidates = f"Chosen by phyloop tune {find_version(PACKAGES['phyloop'])} among {in_words(tuning.config.keys)}."
    choices = [f"{one.words}: {result.sentence(one)}." for one in tuning.choices]
    data["report"] = {**report, "notes": "\n\n".join([candidates, _about(tuning), *choices])}
    return data


def _chosen(result: Result) -> Iterator[dict[str, Any]]:
    """Yield each block of the sweep with the winners beside the settings that they were chosen for."""
    choices = result.tuning.choices
    for number in dict.fromkeys(one.block for one in choices):
        own = [one for one in choices if one.block == number]
        found = [{**one.settings, **result.winner(one)} for one in own]
        yield block_of([{path: [one[path] for one in found] for path in found[0]}, *own[0].others])


def write_result(result: Result, folder: Path, *, command: str) -> ReportPaths:
    """Write the tuned scenario, all candidates as CSV, figures and the page. ScenarioError where the disk refuses."""
    tuning = result.tuning
    tuned, about = as_yaml(tuned_scenario(result)), _about(tuning)
    figures = write_figures(folder / "tuning", [drawing(result)])
    head = Head(
        name=tuning.name,
        description=f"Search for {listing(tuning.config.keys, last='and')} of {tuning.loaded.scenario.name}.",
        facts=[counted(len(tuning.candidates), "candidate"), counted(len(tuning.choices), "choice")],
    )
    choices = [(one.words, f"{result.sentence(one)}.") for one in tuning.choices]
    lead = f"{RATES if tuning.metric.of == 'rate' else MEANS} {CLEAR}"
    page = render_page(
        head,
        head,
        {
            "In short": [Part(items=choices), Part(soft=about)],
            "Figures": pictures(figures),
            "Candidates": [Part(soft=lead), *(Part(head=one.words, table=result.table(one)) for one in tuning.choices)],
            "The tuned scenario": [Part(text=f"`{TUNED}` in this folder, for `phyloop run`."), Part(code=tuned)],
            "Command to write this page again": [Part(code=command)],
        },
    )
    columns = dict.fromkeys(name for row in result.rows() for name in row)
    with writing(folder, "the result"):
        table = replace_text(folder / CANDIDATES, csv_text([*columns], result.rows()))
        replace_text(folder / TUNED, tuned)
        html = replace_text(folder / PAGE, page)
    files = tuple(figure.svg for figure in figures)
    return ReportPaths(html=html, figures=files, tables=(table,))
