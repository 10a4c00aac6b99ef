"""Audits of points as rows: a lower bound, and the claims beside it with the verdict on each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from privacy.audit.game import AuditResult
from privacy.events.claims import Claim
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.tables.cells import csv_text
from scenarios.schema.labels.labels import setting_cell
from scenarios.studies.audit.plan import AuditOptions

CSV, JSON = "audit.csv", "audit.json"

REFUTED, STANDS, APART = "refuted", "stands", "not comparable"


@dataclass(frozen=True, kw_only=True)
class GameFacts:
    """Facts of a game, see `fl.audit.games.game.Game`."""

    scope: str
    unit: str
    worlds: str
    rounds: int
    when: str


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Audit of one point as it is stored, see `fl.audit.attack.Audited`."""

    result: AuditResult
    gaussian: AuditResult | None
    claims: tuple[Claim, ...]
    attack: Literal["lr", "classifier"]
    num_games: int
    game: GameFacts

    @property
    def orders(self) -> list[float]:
        """Renyi orders at which something is claimed."""
        return sorted({claim.order for claim in self.claims if claim.order is not None})

    def verdict(self, claim: Claim) -> str:
        """Verdict on a claim: refuted by the games, not refuted, or about something that the games do not test."""
        if claim.order is not None:
            refuted = self.result.renyi_lower(claim.order) > claim.epsilon
        elif claim.delta > self.result.delta:
            return APART
        else:
            refuted = self.result.epsilon_lower > claim.epsilon
        return REFUTED if refuted else STANDS


@dataclass(frozen=True, kw_only=True)
class PointAudit:
    """One point of the sweep and its audit."""

    point: Point
    audit: Audit


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One point of the sweep that could not be audited, and why, in a sentence."""

    point: Point
    reason: str


def point_label(plan: Plan, point: Point) -> str:
    """Label of a point, and the settings that tell it from the others with this label."""
    label = point.scenario.label
    alike = [other for other in plan.points if other.scenario.label == label]
    parts = []
    for path in plan.swept_paths:
        cell = _cell(path, point)
        if path != "label" and path in point.settings and any(_cell(path, other) != cell for other in alike):
            parts.append(f"{path.rsplit('.', 1)[-1]} {cell}")
    return ", ".join([label, *parts] if label else parts) or point.scenario.name


def _cell(path: str, point: Point) -> str:
    return setting_cell(path, value_of(point, path))


def write_results(
    folder: Path, plan: Plan, audits: Sequence[PointAudit], failures: Sequence[Failure], *, options: AuditOptions
) -> tuple[Path, Path]:
    """Write `audit.csv` and `audit.json` into `folder`. Infinity is `inf` in the table and null in JSON.

    ScenarioError if they cannot be written.
    """
    text = json.dumps(
        {
            "scenario": plan.points[0].scenario.name,
            "seed": plan.seed,
            "options": asdict(options),
            "points": [_plain(plan, one) for one in audits],
            "not_audited": [{"settings": _values(plan, one.point), "reason": one.reason} for one in failures],
        },
        indent=2,
        allow_nan=False,
    )
    with writing(folder, "the audit"):
        return (
            replace_text(folder / CSV, csv_text(columns(plan), rows(plan, audits, failures))),
            replace_text(folder / JSON, text + "\n"),
        )


def columns(plan: Plan) -> list[str]:
    """Column names of the table: a row per lower bound, and per claim."""
    return [
        *plan.swept_paths,
        *("bound", "epsilon", "delta", "confidence", "form", "verdict", "label", "source", "assumptions"),
        *("scope", "unit", "worlds", "rounds", "when", "attack", "games", "judged_null", "judged_alternative"),
        *("false_positives", "false_negatives", "threshold", "mu_lower"),
    ]


def rows(plan: Plan, audits: Sequence[PointAudit], failures: Sequence[Failure]) -> Iterator[dict[str, Any]]:
    """Rows of the table; a failure has the bound `not audited`, and its reason as source."""
    for one in audits:
        yield from _rows(plan, one)
    for failure in failures:
        yield {**_settings(plan, failure.point), "bound": "not audited", "source": failure.reason}


def _rows(plan: Plan, one: PointAudit) -> Iterator[dict[str, Any]]:
    audit = one.audit
    head = _settings(plan, one.point) | asdict(audit.game)
    by = {"attack": audit.attack, "games": audit.num_games, "bound": "lower"}
    for result in filter(None, (audit.result, audit.gaussian)):
        yield {
            **head,
            **by,
            "epsilon": result.epsilon_lower,
            "delta": result.delta,
            "confidence": result.confidence,
            "form": result.form,
            "judged_null": result.num_null,
            "judged_alternative": result.num_alternative,
            "false_positives": result.false_positives,
            "false_negatives": result.false_negatives,
            "threshold": result.threshold,
            "mu_lower": result.mu_lower,
        }
    for order in audit.orders:
        bound = {"epsilon": audit.result.renyi_lower(order), "confidence": audit.result.confidence}
        yield {**head, **by, **bound, "form": f"Renyi order {order:g}"}
    for claim in audit.claims:
        yield {
            **head,
            "scope": claim.scope,
            "bound": "claimed",
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "verdict": audit.verdict(claim),
            "label": claim.label(),
            "source": claim.source,
            "assumptions": "; ".join(claim.assumptions),
        }


def _settings(plan: Plan, point: Point) -> dict[str, Any]:
    return {path: _cell(path, point) for path in plan.swept_paths}


def _values(plan: Plan, point: Point) -> dict[str, Any]:
    return {path: value_of(point, path) for path in plan.swept_paths}


def _plain(plan: Plan, one: PointAudit) -> dict[str, Any]:
    audit = one.audit
    plain = {
        "settings": _values(plan, one.point),
        "game": asdict(audit.game),
        "attack": audit.attack,
        "games": audit.num_games,
        "lower": audit.result.to_dict(),
        "lower_gaussian": None if audit.gaussian is None else audit.gaussian.to_dict(),
        "lower_renyi": [{"order": order, "epsilon": audit.result.renyi_lower(order)} for order in audit.orders],
        "claims": [
            {**asdict(claim), "label": claim.label(), "verdict": audit.verdict(claim)} for claim in audit.claims
        ],
    }
    return dict(_finite(plain))


def _finite(value: Any) -> Any:
    """JSON knows no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
