"""The answer of a run, first on its page and on the terminal: what was compared, and who is better where.

Trials of the same number share data, fading and noise across sweep points, and differences are paired. Entries that
ask for privacy and entries that do not are ranked apart, and a smaller error at a larger epsilon is no win.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fl.base.words import plural
from phy.config.conflict import listing
from privacy.evidence import USUAL_DELTA
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.answers.contests import Contests, contests
from scenarios.report.answers.differences import Difference, largest_clear
from scenarios.report.answers.entries import Place
from scenarios.report.answers.proofs import EQUAL_PRIVACY, Proved
from scenarios.report.answers.ranks import CLEAR, Rank, rank, ranks_within_epsilon
from scenarios.report.answers.sentences import PRIVATE, PUBLIC, listed, sentences
from scenarios.report.figures.curves import NO_SETTINGS
from scenarios.report.figures.learning import default_figures, figures_of
from scenarios.report.html import Part
from scenarios.report.lost_packets import packets_lost
from scenarios.report.settings import axes_of, said
from scenarios.report.tables.quantities import sense
from scenarios.report.tables.summaries import PointSummary, told_by
from scenarios.report.tables.table import Table
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import FigureConfig

if TYPE_CHECKING:
    from scenarios.report.answers.sentences import Story

MOST_NAMES = 6
"""Names that a sentence lists."""
MOST_ROWS = 8
"""Of a table that is not folded."""
MOST_SENTENCES = 8
"""Sentences on who is better, on the page and on the terminal."""
ERROR_MODEL = "link.error_model"
LEAD = (
    "Differences are means over the trials that both have [95 % t interval], paired: trials of one number share data, "
    "fading and noise. A difference is clear if its interval does not contain zero."
)
AT_EQUAL_PRIVACY = (
    f"Two proved ε within a factor of {EQUAL_PRIVACY:g} count as equal privacy; the best of those that spend more is "
    "not at equal privacy, and those at equal privacy are ranked in rows of their own."
)
NO_PRIVACY: Mapping[int, Proved] = {}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`verdicts`: head and sentence on who is better where; `about`: what was compared; `rows`: every setting."""

    verdicts: tuple[tuple[str, str], ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    table: Table | None = None
    soft: str = ""

    def parts(self) -> list[Part]:
        """Return the parts of a page: sentences, table, and what its numbers are."""
        rows = len(self.table.rows) if self.table else 0
        fold = f"Best and next at each of {rows} settings" if rows > MOST_ROWS else ""
        return [Part(items=[*self.verdicts, *self.about]), Part(table=self.table, fold=fold), Part(soft=self.soft)]

    def lines(self) -> tuple[str, ...]:
        """Return the sentences on who is better, for a terminal."""
        return tuple(f"{head}: {text}" if head else text for head, text in self.verdicts)


def answer(plan: Plan, summaries: Sequence[PointSummary], *, proved: Mapping[int, Proved] = NO_PRIVACY) -> Answer:
    """The comparison of the first figure whose quantity is one number per trial; empty without one.

    Of a figure with budgets it is the quantity within each of them. `proved` by index of the point.
    """
    measured = {name for summary in summaries for name in summary.metrics}
    figures = (*figures_of(plan, measured), *default_figures(plan, measured))
    config = next((one for one in figures if any(name in measured for name in told_by(one))), None)
    if config is None:
        return Answer()
    if not any(name in measured for name in told_by(config)[:-1]):
        config = config.model_copy(update={"budgets": ()})
    found = contests(config, plan, summaries, proved)
    # Attacks are no schemes of which one could be better.
    attacks = bool(config.series_paths) and all(path.startswith("learning.attack") for path in config.series_paths)
    better = 0 if attacks else sense(found.metric)
    verdicts, ranks = _ranked(found, better=better) if better else ((), [])
    rows = [_row(title, one, private=bool(proved)) for title, one in ranks]
    heads = ["setting", "best", axis_label(found.metric), "next", "difference", "clear"]
    heads += ["proved ε: best, next"] * bool(proved)
    # The sentence of one setting has all of its row.
    table = Table(
        columns=tuple(heads), rows=tuple(rows) if len(rows) > 1 else (), left=heads, wrapped=("setting", "best", "next")
    )
    unfair = any(one.verdict == "unequal privacy" for _, one in ranks)
    about = (
        *_compared(config, found),
        *_references(found),
        *_error_models(plan, summaries, metric=found.metric),
        *(_budget(plan, proved) if unfair else ()),
    )
    soft = " ".join([LEAD, *([AT_EQUAL_PRIVACY] if unfair else [])]) if rows else ""
    return Answer(verdicts=tuple(verdicts), about=about, table=table, soft=soft)


def _ranked(found: Contests, *, better: int) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, Rank]]]:
    """Sentences, and title of the panel and rank at every place; with and without privacy apart where both compete."""
    groups = {PRIVATE: True, PUBLIC: False}
    fields = {head: _restricted(found, private=private) for head, private in groups.items()}
    known = {head: stories for head, stories in fields.items() if stories}
    entries = [entry for panel in found.panels for place in panel.places for entry in place.entries]
    if (len(known) < 2 and len({entry.private for entry in entries}) < 2) or not known:
        known = {"": [(panel.words, panel.places) for panel in found.panels]}
    said_: list[tuple[str, str]] = []
    rows: list[tuple[str, Rank]] = []
    for head, panels in known.items():
        stories: list[Story] = []
        within: list[Story] = []
        for title, places in panels:
            ranks = [rank(place, better=better) for place in places]
            stories.append((title, ranks))
            fair = [
                (*ranks_within_epsilon(one.place, better=better),) if one.verdict == "unequal privacy" else ()
                for one in ranks
            ]
            setting = ", ".join(filter(None, (head.lower(), title)))
            rows += [(setting, row) for one, more in zip(ranks, fair, strict=True) for row in (one, *more)]
            within += [(title, [row for more in fair for row in more])] if any(fair) else []
        said_ += sentences(stories, metric=found.metric, better=better, group=head)
        said_ += _within(within, metric=found.metric, better=better)
    more = [("", f"{plural(len(said_) - MOST_SENTENCES, 'more sentence')} like these: see the table of the report.")]
    return (*said_[:MOST_SENTENCES], *(more if len(said_) > MOST_SENTENCES else ())), rows


def _budget(plan: Plan, proved: Mapping[int, Proved]) -> Iterator[tuple[str, str]]:
    """The lines that give every mechanism one epsilon for the whole run: the smallest that is proved."""
    scenario = plan.points[0].scenario
    finite = [one for one in proved.values() if math.isfinite(one.epsilon)]
    own = all(point.scenario.mechanism is None for point in plan.points)  # schemes with an epsilon of their own
    if not finite or own or scenario.budget is not None or not scenario.learning.takes_budget:
        return
    learnings = [point.scenario.learning for point in plan.points]
    silent = dict.fromkeys(str(getattr(one, "scheme", one.algorithm)) for one in learnings if not one.uses_radio)
    least = min(finite, key=lambda one: one.epsilon)
    delta = least.delta or USUAL_DELTA
    line = f"privacy.budget: {{epsilon: {least.epsilon:.3g}, delta: {delta:.3g}}}"
    more = f", and privacy: none for {listing(silent, last='and')}, which send nothing" if silent else ""
    yield "To compare at equal privacy", f"write {line} in place of privacy.epsilon, a limit for the whole run{more}"


def _within(stories: Sequence[Story], *, metric: str, better: int) -> Iterator[tuple[str, str]]:
    """Sentences on those at equal privacy, by the names that compete."""
    fields: dict[tuple[str, ...], dict[str, list[Rank]]] = {}
    for title, ranks in stories:
        for one in ranks:
            names = tuple(sorted(entry.name for entry in one.place.entries))
            fields.setdefault(names, {}).setdefault(title, []).append(one)
    for some in fields.values():
        spans = dict.fromkeys(one.among for ranks in some.values() for one in ranks)
        head = f"At {next(iter(spans))}" if len(spans) == 1 else "At equal privacy"
        yield from sentences([*some.items()], metric=metric, better=better, group=head)


def _restricted(found: Contests, *, private: bool) -> list[tuple[str, tuple[Place, ...]]]:
    """Panels with the entries alone that ask for privacy, or that do not; places at which they compete."""
    panels = []
    for panel in found.panels:
        places = (
            replace(place, entries=tuple(entry for entry in place.entries if entry.private == private))
            for place in panel.places
        )
        if kept := tuple(place for place in places if len(place.entries) > 1):
            panels.append((panel.words, kept))
    return panels


def _row(title: str, one: Rank, *, private: bool) -> tuple[str, ...]:
    setting = ", ".join(filter(None, (title, one.place.words, one.among)))
    following = "" if one.following is None else one.following.name
    epsilons = [entry.proved.number for entry in (one.best, one.following) if entry is not None and entry.proved]
    cells = (setting, "; ".join(one.alike), str(one.best.mean), following, str(one.difference or ""))
    asked = one.best.private or (one.following is not None and one.following.private)
    return (*cells, CLEAR[one.verdict], *([", ".join(epsilons) if asked else ""] if private else []))


def _compared(config: FigureConfig, found: Contests) -> Iterator[tuple[str, str]]:
    names, better = found.names, sense(found.metric)
    settings = sum(len(panel.places) for panel in found.panels)
    if len(names) > 1:
        direction = {1: ", the larger the better", -1: ", the smaller the better"}.get(better, "")
        paths = [path for path in (config.panels, config.x) if path is not None]
        paths = [path for path in paths if path not in NO_SETTINGS or config.budgets]
        what = f" of {listed((axis_label(path) for path in paths if path != 'label'), most=MOST_NAMES)}"
        where = f", at {settings} settings{what if paths != ['label'] and paths else ''}" if settings > 1 else ""
        compared = listed(names, most=MOST_NAMES, between="; ")
        yield "Compared", f"{compared}, by {axis_label(found.metric)}{direction}{where}."


def _references(found: Contests) -> Iterator[tuple[str, str]]:
    words = [f"{one.name} {one.mean}" for one in found.references]
    if words:
        yield "Beside them", f"{listed(dict.fromkeys(words), most=MOST_NAMES, between='; ')}."


def _error_models(plan: Plan, summaries: Sequence[PointSummary], *, metric: str) -> Iterator[tuple[str, str]]:
    """How much given errors, independent or of a formula, differ from those measured on the radio."""
    models: dict[str, dict[str, PointSummary]] = {}
    for summary in summaries if ERROR_MODEL in plan.swept_paths else ():
        point = summary.point
        others = [(path, value_of(point, path)) for path in plan.swept_paths if path != ERROR_MODEL]
        models.setdefault(str(value_of(point, ERROR_MODEL)), {})[canonical_json(others)] = summary
    measured = models.pop("measured", {})
    for some in models.values():
        pairs = {key: (one, measured[key]) for key, one in some.items() if key in measured}
        apart = {
            key: Difference.of(a.trials.get(metric, {}), b.trials.get(metric, {})) for key, (a, b) in pairs.items()
        }
        phrase, largest = largest_clear(apart)
        if phrase:
            clear = sum(one.verdict == "yes" for one in apart.values())
            point = pairs[largest][0].point
            at = f" ({place})" if (place := _place(plan, point)) else ""
            known = sum(one.mean is not None for one in apart.values())
            # The packets first: a learner may bear the loss of many.
            paths = [path for path in axes_of(plan) if path != ERROR_MODEL]
            yield from packets_lost([*pairs.values()], model=said(point, ERROR_MODEL), paths=paths)
            yield (
                f"{said(point, ERROR_MODEL)} against measured errors",
                f"a clear difference at {clear} of {plural(known, 'setting')}; {phrase}{at}.",
            )


def _place(plan: Plan, point: Point) -> str:
    paths = [path for path in axes_of(plan) if path != ERROR_MODEL]
    return ", ".join(filter(None, (said(point, path) for path in paths)))
