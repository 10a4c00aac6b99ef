"""Audits of sweep points as rows, as lines of the terminal, and as a figure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from fl.base.words import plural
from privacy.audit.attack import Audited
from privacy.events.claims import Claim
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.figures.style import STYLE, wrap
from scenarios.report.settings import cells_of, short_setting
from scenarios.report.tables.table import Table, csv_text, in_groups, say
from scenarios.studies.audit.plan import AuditOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSV, JSON = "audit.csv", "audit.json"

REFUTED, STANDS, APART = "refuted", "stands", "not comparable"


def verdict_on(claim: Claim, audited: Audited) -> str:
    """Return the verdict on a claim: refuted by the games, not refuted, or about something that they do not test."""
    if claim.order is None and claim.delta > audited.result.delta:
        return APART
    return REFUTED if audited.refuted(claim) else STANDS


@dataclass(frozen=True, kw_only=True)
class Audits:
    """Sweep points with their audits, and those that could not be audited, each with the reason in a sentence."""

    plan: Plan
    options: AuditOptions
    done: list[tuple[Point, Audited]] = field(default_factory=list)
    failed: list[tuple[Point, str]] = field(default_factory=list)

    def label(self, point: Point) -> str:
        """Return what tells a sweep point from the others, in words."""
        return ", ".join(self.parts(point))

    def parts(self, point: Point) -> tuple[str, ...]:
        """The same, setting by setting; the name of the scenario where nothing is swept."""
        parts = short_setting(self.plan, point)
        return parts if any(parts) else (point.scenario.name,)

    @property
    def columns(self) -> list[str]:
        """Column names of the table: a row per lower bound, and per claim."""
        return [
            *self.plan.swept_paths,
            *("bound", "epsilon", "delta", "confidence", "form", "verdict", "claim", "source", "assumptions"),
            *("scope", "unit", "worlds", "rounds", "when", "attack", "games", "judged_null", "judged_alternative"),
            *("false_positives", "false_negatives", "threshold", "mu_lower"),
        ]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of the table; a failure has the bound `not audited`, and its reason as source."""
        found = [(point, row) for point, audited in self.done for row in _rows(audited)]
        found += [(point, {"bound": "not audited", "source": reason}) for point, reason in self.failed]
        for point, row in found:
            yield dict(zip(self.plan.swept_paths, cells_of(point, self.plan.swept_paths), strict=True)) | row

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write `audit.csv` and `audit.json` into `folder`. Infinity is `inf` in the table and null in JSON.

        ScenarioError if they cannot be written.
        """
        plan = self.plan
        plain = {
            "scenario": plan.points[0].scenario.name,
            "seed": plan.seed,
            "options": self.options,
            "points": [{"settings": self._values(point), **_plain(audited)} for point, audited in self.done],
            "not_audited": [{"settings": self._values(point), "reason": reason} for point, reason in self.failed],
        }
        text = json.dumps(to_jsonable_python(plain, inf_nan_mode="null"), indent=2, allow_nan=False)
        with writing(folder, "the audit"):
            table = replace_text(folder / CSV, csv_text(self.columns, self.rows()))
            return table, replace_text(folder / JSON, text + "\n")

    def _values(self, point: Point) -> dict[str, Any]:
        return {path: value_of(point, path) for path in self.plan.swept_paths}


def _rows(audited: Audited) -> Iterator[dict[str, Any]]:
    facts = asdict(audited.game)
    lower = {**facts, "attack": audited.attack, "games": audited.num_games, "bound": "lower"}
    for result in filter(None, (audited.result, audited.gaussian)):
        counts = {"judged_null": result.num_null, "judged_alternative": result.num_alternative}
        yield {**lower, **result.to_dict(), **counts, "epsilon": result.epsilon_lower}
    for order in audited.orders:
        bound = {"epsilon": audited.result.renyi_lower(order), "confidence": audited.result.confidence}
        yield {**lower, **bound, "form": f"Renyi order {order:g}"}
    for claim in audited.claims:
        yield {
            **facts,
            "scope": claim.scope,
            "bound": "claimed",
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "verdict": verdict_on(claim, audited),
            "claim": claim.label(),
            "source": claim.source,
            "assumptions": "; ".join(claim.assumptions),
        }


def _plain(audited: Audited) -> dict[str, Any]:
    return {
        "game": audited.game,
        "attack": audited.attack,
        "games": audited.num_games,
        "lower": audited.result,
        "lower_gaussian": audited.gaussian,
        "lower_renyi": [{"order": order, "epsilon": audited.result.renyi_lower(order)} for order in audited.orders],
        "claims": [
            {**asdict(claim), "label": claim.label(), "verdict": verdict_on(claim, audited)} for claim in audited.claims
        ],
    }


# --- on the terminal ------------------------------------------------------------------------------

FEW_LABELS = 4
"""Sweep points that a sentence lists."""

_HEADS = ("sweep point", "δ", "at least", "proved ε", "published ε", "verdict")


def print_audits(audits: Audits) -> None:
    """Print of each sweep point the lower bound and the smallest claims; then what was played, and what is claimed."""
    Table(
        columns=_HEADS,
        rows=tuple(in_groups((audits.parts(point), _cells(audited)) for point, audited in audits.done)),
        left=(_HEADS[0], _HEADS[-1]),
        wrapped=_HEADS[:1],
    ).print(styles={REFUTED: "bold"})
    for sentence in _games_in_words(audits):
        say(sentence)
    claims = [(point, claim, audited) for point, audited in audits.done for claim in audited.claims]
    for standing in dict.fromkeys(claim.standing for _, claim, _ in claims):
        sources = dict.fromkeys(claim.source for _, claim, _ in claims if claim.standing == standing)
        say(f"{standing[0].upper()}{standing[1:]}: {'; '.join(sources)}.")
    for point, claim, audited in claims:
        if verdict_on(claim, audited) == REFUTED:
            say(f"Refuted: ε = {claim.epsilon:.4g} of {audits.label(point)}, {claim.standing}, {claim.source}.")
    if any(math.isinf(claim.epsilon) for _, claim, _ in claims):
        say("∞: nothing is promised, and no audit can refute it.")
    say("Each bound has its confidence by itself; points share random numbers.")


def _cells(audited: Audited) -> tuple[str, ...]:
    """The lower bound of one sweep point, the smallest proved and published epsilon at its delta, and the verdict."""
    verdicts = {verdict_on(claim, audited) for claim in audited.claims}
    return (
        f"{audited.result.delta:.3g}",
        f"{audited.result.epsilon_lower:.4g}",
        *(_smallest(audited, published=published) for published in (False, True)),
        next((word for word in (REFUTED, STANDS) if word in verdicts), APART),
    )


def _smallest(audited: Audited, *, published: bool) -> str:
    found = [
        claim.epsilon
        for claim in audited.claims
        if (claim.accountant == "paper") == published and claim.order is None and verdict_on(claim, audited) != APART
    ]
    return "" if not found else "∞" if math.isinf(min(found)) else f"{min(found):.4g}"


def _games_in_words(audits: Audits) -> list[str]:
    """Return a sentence for each kind of game, with the labels of its sweep points if there are several kinds."""
    kinds: dict[str, list[str]] = {}
    for point, audited in audits.done:
        game, result = audited.game, audited.result
        judged = result.num_null + result.num_alternative
        words = (
            f"{game.worlds}; {game.when}; {audited.attack} attack; {100.0 * result.confidence:g} % confidence, "
            f"{plural(judged, 'game')} judged"
        )
        kinds.setdefault(words, []).append(audits.label(point))
    if len(kinds) == 1:
        return [f"Game: {words}." for words in kinds]
    return [
        f"Game for {'; '.join(labels) if len(labels) <= FEW_LABELS else plural(len(labels), 'sweep point')}: {words}."
        for words, labels in kinds.items()
    ]


FIGURE = "audit"
_SHAPES = {
    "paper": ("D", "as published"),
    "basic": ("s", "basic composition"),
    "exact": ("o", "closed form"),
    "pld": ("^", "privacy loss distribution"),
}
"""Marker and words of claims for single rounds or numbers, by their accountant."""
_INFINITY = r"$\infty$"
_BAR: dict[str, Any] = {"facecolor": "#9a9a9a", "edgecolor": "#222222", "hatch": "///"}
_POINT: dict[str, Any] = {"linestyle": "", "color": "#222222"}
_WIDE = 30.0
_LINE = 0.46


def draw_audit(audits: Audits) -> Figure:
    """A row per point; epsilon along x, logarithmic but for 0 where it spans much, infinity at the right edge."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter

    results = [audited.result for _, audited in audits.done]
    lower = [result.epsilon_lower for result in results]
    shown = [[claim for claim in audited.claims if claim.order is None] for _, audited in audits.done]
    finite = [claim.epsilon for claims in shown for claim in claims if math.isfinite(claim.epsilon)]
    top = max([*lower, *finite, 0.1])
    least = min([value for value in (*lower, *finite) if value > 0.01], default=top)
    wide = top / least > _WIDE
    edge = top * (3.0 if wide else 1.18)
    labels = [wrap(audits.label(point), width=2.6) for point, _ in audits.done]
    confidence = 100.0 * results[0].confidence
    with rc_context(STYLE):
        rows = [max(1.0, 0.55 * (label.count("\n") + 1)) for label in labels]
        figure = Figure(figsize=(7.4, 1.9 + _LINE * sum(rows)), layout="constrained")
        axes = figure.subplots()
        seen: dict[tuple[str, str, str], None] = {}
        unbounded = False
        places = [sum(rows[:row]) + rows[row] / 2.0 for row in range(len(rows))]
        for place, bound, claims in zip(places, lower, shown, strict=True):
            axes.barh(place, bound, height=0.5, linewidth=0.8, **_BAR)
            for claim in claims:
                if math.isfinite(claim.epsilon):
                    shape, fill, _ = mark = _mark_of(claim)
                    seen.setdefault(mark)
                    look: dict[str, Any] = {"marker": shape, "markerfacecolor": fill, "markeredgewidth": 1.4}
                    axes.plot(claim.epsilon, place, zorder=3, clip_on=False, markersize=7, **_POINT, **look)
                else:
                    unbounded = True
                    axes.plot(edge, place, marker=_INFINITY, markersize=11, zorder=3, **_POINT)
        axes.set_yticks(places, labels)
        axes.set_ylim(sum(rows) + 0.1, -0.1)
        if wide:
            axes.set_xscale("symlog", linthresh=10.0 ** math.floor(math.log10(max(least, 1e-3))))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlim(0.0, edge * (1.5 if wide else 1.05))
        deltas = {result.delta for result in results}
        axes.set_xlabel(f"ε at δ = {deltas.pop():g} [nats]" if len(deltas) == 1 else "ε, each at its own δ [nats]")
        axes.grid(visible=True, axis="x", color="#d9d9d9", linewidth=0.7)
        handles: list[Any] = [Patch(label=f"refuted by games ({confidence:g} % conf.)", **_BAR)]
        handles += [
            Line2D([], [], marker=shape, markerfacecolor=fill, label=label, **_POINT) for shape, fill, label in seen
        ]
        if unbounded:
            handles.append(Line2D([], [], marker=_INFINITY, label="no ε claimed", **_POINT))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _mark_of(claim: Claim) -> tuple[str, str, str]:
    """Shape, fill and words of a claim."""
    for_the_run = claim.scope == "run"
    shape, how = ("P", "for the whole run") if for_the_run else _SHAPES.get(claim.accountant, ("v", claim.accountant))
    fill = "#222222" if claim.standing == "proved" else "white"
    return shape, fill, ", ".join(dict.fromkeys((claim.standing, how)))
