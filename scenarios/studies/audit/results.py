"""Audits of sweep points as rows: a lower bound, and the claims beside it with the verdict on each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from fl.audit.attack import Audited
from privacy.events.claims import Claim
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.tables.table import csv_text
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
        label = point.scenario.label
        alike = [other for other in self.plan.points if other.scenario.label == label]
        parts = []
        for path in self.plan.swept_paths:
            cell = _cell(path, point)
            if path != "label" and path in point.settings and any(_cell(path, other) != cell for other in alike):
                parts.append(f"{path.rsplit('.', 1)[-1]} {cell}")
        return ", ".join([label, *parts] if label else parts) or point.scenario.name

    @property
    def columns(self) -> list[str]:
        """Column names of the table: a row per lower bound, and per claim."""
        return [
            *self.plan.swept_paths,
            *("bound", "epsilon", "delta", "confidence", "form", "verdict", "label", "source", "assumptions"),
            *("scope", "unit", "worlds", "rounds", "when", "attack", "games", "judged_null", "judged_alternative"),
            *("false_positives", "false_negatives", "threshold", "mu_lower"),
        ]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of the table; a failure has the bound `not audited`, and its reason as source."""
        found = [(point, row) for point, audited in self.done for row in _rows(audited)]
        found += [(point, {"bound": "not audited", "source": reason}) for point, reason in self.failed]
        for point, row in found:
            yield {path: _cell(path, point) for path in self.plan.swept_paths} | row

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


def _cell(path: str, point: Point) -> str:
    return setting_cell(path, value_of(point, path))


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
            "label": claim.label(),
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
