"""Audits of sweep points as rows of files and of the terminal: a lower bound, then claims with the verdict on each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from privacy.audit.attack import Audited
from privacy.events.claims import Claim
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.settings import cells_of
from scenarios.report.tables.table import Table, csv_text, in_groups, say
from scenarios.schema.labels.labels import setting_cell
from scenarios.studies.audit.plan import AuditOptions

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
        """Return the label of a point, and the settings that tell it from the others with this label."""
        return ", ".join(self.parts(point))

    def parts(self, point: Point) -> tuple[str, ...]:
        """The same, setting by setting."""
        label = point.scenario.label
        alike = [other for other in self.plan.points if other.scenario.label == label]
        parts = [label] if label else []
        for path in self.plan.swept_paths:
            cell, *others = (setting_cell(path, value_of(other, path)) for other in (point, *alike))
            if path != "label" and path in point.settings and set(others) != {cell}:
                parts.append(f"{path.rsplit('.', 1)[-1]} {cell}")
        return tuple(parts) or (point.scenario.name,)

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
            f"{judged:,} games judged"
        )
        kinds.setdefault(words, []).append(audits.label(point))
    if len(kinds) == 1:
        return [f"Game: {words}." for words in kinds]
    return [
        f"Game for {'; '.join(labels) if len(labels) <= FEW_LABELS else f'{len(labels)} sweep points'}: {words}."
        for words, labels in kinds.items()
    ]
