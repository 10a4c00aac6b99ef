"""Audits of points as rows: a lower bound, and the claims beside it with the verdict on each."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy.events.claims import Claim
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.tables.cells import csv_record
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import setting_cell
from scenarios.store.files import Replacement
from scenarios.studies.audit.plan import AuditOptions

if TYPE_CHECKING:
    from fl.audit.attack import Audited

CSV, JSON = "audit.csv", "audit.json"

REFUTED, STANDS, APART = "refuted", "stands", "not comparable"


@dataclass(frozen=True, kw_only=True)
class PointAudit:
    """One point of the sweep and its audit."""

    point: Point
    audited: Audited

    def verdict(self, claim: Claim) -> str:
        """Refuted by the games, not refuted, or about something that the games do not speak of."""
        if claim.order is None and claim.delta > self.audited.result.delta:
            return APART
        return REFUTED if self.audited.refuted(claim) else STANDS


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One point of the sweep that could not be audited, and why, in a sentence."""

    point: Point
    reason: str


def point_label(plan: Plan, point: Point) -> str:
    """The settings that tell the point from the others: its label, and what sets it apart from those that share it."""
    label = point.scenario.label
    alike = [other for other in plan.points if other.scenario.label == label]
    told = []
    for path in plan.swept_paths:
        cell = _cell(path, point)
        if path != "label" and path in point.settings and any(_cell(path, other) != cell for other in alike):
            told.append(f"{path.rsplit('.', 1)[-1]} {cell}")
    return ", ".join([label, *told] if label else told) or point.scenario.name


def _cell(path: str, point: Point) -> str:
    return setting_cell(path, value_of(point, path))


def write_results(
    folder: Path,
    plan: Plan,
    audits: Sequence[PointAudit],
    failures: Sequence[Failure],
    *,
    options: AuditOptions,
    name: str,
) -> tuple[Path, Path]:
    """`audit.csv` and `audit.json` in `folder`, each whole or not. Infinity is `inf` in the table and null in JSON.

    A failure is a row of bound `not audited`, with its reason as source. ScenarioError if they cannot be written.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=columns(plan), lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_record(row) for one in audits for row in _rows(plan, one))
    writer.writerows(
        csv_record({**_settings(plan, one.point), "bound": "not audited", "source": one.reason}) for one in failures
    )
    text = json.dumps(
        {
            "scenario": name,
            "seed": plan.seed,
            "options": asdict(options),
            "points": [_plain(plan, one) for one in audits],
            "not_audited": [
                {"settings": {path: value_of(one.point, path) for path in plan.swept_paths}, "reason": one.reason}
                for one in failures
            ],
        },
        indent=2,
        allow_nan=False,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in ((folder / CSV, buffer.getvalue()), (folder / JSON, text + "\n")):
            with Replacement(path) as file:
                file.write(content.encode())
    except OSError as error:
        raise ScenarioError(
            file=folder,
            problem=f"the audit cannot be written here ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error
    return folder / CSV, folder / JSON


def columns(plan: Plan) -> list[str]:
    """Column names of the table: a row per lower bound, and per claim."""
    return [
        *plan.swept_paths,
        *("bound", "epsilon", "delta", "confidence", "form", "verdict", "label", "source", "assumptions"),
        *("scope", "unit", "worlds", "rounds", "when", "attack", "games", "judged_null", "judged_alternative"),
        *("false_positives", "false_negatives", "threshold", "mu_lower"),
    ]


def _rows(plan: Plan, one: PointAudit) -> Iterator[dict[str, Any]]:
    audited, game = one.audited, one.audited.game
    head = _settings(plan, one.point) | {"scope": game.scope, "unit": game.unit, "worlds": game.worlds}
    head |= {"rounds": game.rounds, "when": game.when}
    for result in (audited.result, audited.gaussian):
        if result is not None:
            yield {
                **head,
                "bound": "lower",
                "epsilon": result.epsilon_lower,
                "delta": result.delta,
                "confidence": result.confidence,
                "form": result.form,
                "attack": audited.attack,
                "games": audited.num_games,
                "judged_null": result.num_null,
                "judged_alternative": result.num_alternative,
                "false_positives": result.false_positives,
                "false_negatives": result.false_negatives,
                "threshold": result.threshold,
                "mu_lower": result.mu_lower,
            }
    for order in renyi_orders(audited):
        yield {
            **head,
            "bound": "lower",
            "epsilon": audited.result.renyi_lower(order),
            "confidence": audited.result.confidence,
            "form": f"Renyi order {order:g}",
            "attack": audited.attack,
            "games": audited.num_games,
        }
    for claim in audited.claims:
        yield {
            **head,
            "scope": claim.scope,
            "bound": "claimed",
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "verdict": one.verdict(claim),
            "label": claim.label(),
            "source": claim.source,
            "assumptions": "; ".join(claim.assumptions),
        }


def _settings(plan: Plan, point: Point) -> dict[str, Any]:
    return {path: setting_cell(path, value_of(point, path)) for path in plan.swept_paths}


def renyi_orders(audited: Audited) -> list[float]:
    """Orders at which something is claimed."""
    return sorted({claim.order for claim in audited.claims if claim.order is not None})


def _plain(plan: Plan, one: PointAudit) -> dict[str, Any]:
    audited, game = one.audited, one.audited.game
    orders = renyi_orders(audited)
    plain = {
        "settings": {path: value_of(one.point, path) for path in plan.swept_paths},
        "game": {
            "scope": game.scope,
            "unit": game.unit,
            "worlds": game.worlds,
            "rounds": game.rounds,
            "when": game.when,
        },
        "attack": audited.attack,
        "games": audited.num_games,
        "lower": audited.result.to_dict(),
        "lower_gaussian": None if audited.gaussian is None else audited.gaussian.to_dict(),
        "lower_renyi": [{"order": order, "epsilon": audited.result.renyi_lower(order)} for order in orders],
        "claims": [
            {**asdict(claim), "label": claim.label(), "verdict": one.verdict(claim)} for claim in audited.claims
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
