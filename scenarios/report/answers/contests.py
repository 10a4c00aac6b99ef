"""Contests of a figure: at each place of a panel its curves compete, in one metric.

A place is a value of the x axis; of a figure with budgets, a budget. Of one curve its values of x compete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.plan.points import Plan, is_number, is_shown, value_of
from scenarios.report.answers.entries import Entry, Place
from scenarios.report.answers.proofs import NOTHING, Proved, is_private
from scenarios.report.figures.curves import NO_SETTINGS, applies, labels_of
from scenarios.report.settings import said
from scenarios.report.tables.summaries import PointSummary, budget_names
from scenarios.schema.labels.labels import axis_label, format_value
from scenarios.schema.schema import FigureConfig


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Places of one panel, in the order of x; `words` are its title, empty without panels."""

    words: str
    places: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True)
class Contests:
    """All contests of a figure in `metric`, and the entries that stand beside all of them."""

    metric: str
    panels: tuple[Panel, ...]
    references: tuple[Entry, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that competes, in the order of the sweep."""
        places = [place for panel in self.panels for place in panel.places]
        return tuple(dict.fromkeys(entry.name for place in places for entry in place.entries))


_Place = tuple[str, float | None]
"""Words of a place and its number, None for a word."""


def contests(
    config: FigureConfig, plan: Plan, summaries: Sequence[PointSummary], proved: Mapping[int, Proved]
) -> Contests:
    """Sort the sweep points of a figure into contests; `proved` by index of the point."""
    ascending = dict(sorted(budget_names(config).items(), key=lambda item: item[1]))
    budgets: dict[str, float | None] = {**ascending} or {config.y: None}
    found = [s for s in summaries if is_shown(config, s.point) and any(_is_known(s, name) for name in budgets)]
    points = [summary.point for summary in found]
    labels = labels_of(config, plan.swept_paths, points)
    x = None if config.x in NO_SETTINGS else config.x
    several = len({label for label, line in labels if not line}) > 1
    panels: dict[str, dict[_Place, dict[str, Entry]]] = {}
    references: dict[str, Entry] = {}
    for summary, (label, line) in zip(found, labels, strict=True):
        point = summary.point
        beside = line or (config.panels is not None and not applies(config.panels, point))
        panel = "" if config.panels is None or beside else said(point, config.panels)
        for metric, amount in budgets.items():
            if not _is_known(summary, metric):
                continue
            within = "" if amount is None else f"{axis_label(config.x)} up to {format_value(float(amount))}"
            name = label if several or x is None or beside else said(point, x)
            entry = Entry(
                name=name,
                mean=summary.metrics[metric].within(metric),
                values=summary.trials.get(metric, {}),
                private=is_private(point),
                proved=proved.get(point.index, NOTHING) if proved else None,
            )
            if beside:
                references.setdefault(", ".join(filter(None, (label, within))), entry)
                continue
            at: Any = value_of(point, x) if x is not None and several else amount
            words = ", ".join(filter(None, (said(point, x) if x is not None and several else "", within)))
            place = (words, float(at) if is_number(at) else None)
            panels.setdefault(panel, {}).setdefault(place, {})[name] = entry
    sizes = [len(entries) for places in panels.values() for entries in places.values()]
    for places in panels.values():  # alone at its place, where others have rivals
        for entries in (some for some in places.values() if len(some) == 1 and len(sizes) > 1):
            references.update(entries)
    sorted_panels = (Panel(words=title, places=_in_order(places)) for title, places in panels.items())
    return Contests(
        metric=config.y,
        panels=tuple(panel for panel in sorted_panels if panel.places),
        references=tuple(references.values()),
    )


def _in_order(places: Mapping[_Place, Mapping[str, Entry]]) -> tuple[Place, ...]:
    """Places at which something competes: numbers ascending, words in the order of the sweep."""
    known = [(at, entries) for at, entries in places.items() if len(entries) > 1]
    numeric = all(number is not None for (_, number), _ in known)
    if numeric:
        known.sort(key=lambda item: item[0][1] or 0.0)
    return tuple(Place(words=words, numeric=numeric, entries=(*entries.values(),)) for (words, _), entries in known)


def _is_known(summary: PointSummary, metric: str) -> bool:
    return metric in summary.metrics and bool(np.isfinite(summary.metrics[metric].mean))
