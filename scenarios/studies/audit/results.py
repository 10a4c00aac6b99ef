"""Audits of sweep points as rows of files and of the terminal: a lower bound, then claims with the verdict on each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console

from fl.audit.game import Audited
from privacy.events.claims import Claim
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.claims import claim_cells
from scenarios.report.tables.table import Table, csv_text
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
            cell, *others = (setting_cell(path, value_of(other, path)) for other in (point, *alike))
            if path != "label" and path in point.settings and set(others) != {cell}:
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
            yield {path: setting_cell(path, value_of(point, path)) for path in self.plan.swept_paths} | row

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


# --- on the terminal ------------------------------------------------------------------------------

_HEADS = ("point", "", "ε", "δ", "accountant", "neighbours differ in", "per", "standing", "source", "verdict")


def print_audits(audits: Audits) -> None:
    """Print the lower bound of each sweep point, then the claims, each with its labels and the verdict."""
    notes: list[str] = []
    table: list[tuple[str, ...]] = []
    for point, audited in audits.done:
        rows = _cells(audited, notes)
        table += [("" if number else audits.label(point), *cells) for number, cells in enumerate(rows)]
    left = [head for head in _HEADS if head not in ("ε", "δ")]
    Table(columns=_HEADS, rows=tuple(table), left=left).print(styles={REFUTED: "bold"})
    console = Console()
    for sentence in _games_in_words(audits):
        console.print(sentence, highlight=False, markup=False)
    for number, note in enumerate(notes, start=1):
        console.print(f"\\[{number}] {note}", highlight=False)
    if any(not math.isfinite(claim.epsilon) for _, audited in audits.done for claim in audited.claims):
        console.print("Where infinity is claimed nothing is promised: no audit can refute it.", highlight=False)
    console.print("Each bound has its confidence by itself; points share random numbers.", highlight=False)


def _cells(audited: Audited, notes: list[str]) -> Iterator[tuple[str, ...]]:
    """Rows of one sweep point, without its label."""
    game, attack = audited.game, f"{audited.attack} attack"
    for result in filter(None, (audited.result, audited.gaussian)):
        errors = f"{result.false_positives:,}+{result.false_negatives:,} errors of "
        yield (
            "at least",
            f"{result.epsilon_lower:.4g}",
            f"{result.delta:.3g}",
            attack + (", Gaussian form" if result.form == "gaussian" else ""),
            f"{game.unit}, replace-one",
            game.scope + (f" x {game.rounds} rounds" if game.rounds > 1 else ""),
            f"{100.0 * result.confidence:g} % confidence",
            errors + f"{result.num_null + result.num_alternative:,} judged",
            "",
        )
    for order in audited.orders:
        bound = f"{audited.result.renyi_lower(order):.4g}"
        yield ("at least", bound, f"Rényi order {order:g}", f"{attack}, the same errors", *("",) * 5)
    for claim in audited.claims:
        scope, epsilon, delta, _, accountant, unit, _, standing, source = claim_cells(claim, notes=notes)
        epsilon = epsilon if math.isfinite(claim.epsilon) else "infinite"
        yield ("claimed", epsilon, delta, accountant, unit, scope, standing, source, verdict_on(claim, audited))


def _games_in_words(audits: Audits) -> list[str]:
    """Return a sentence for each kind of game, with the labels of its sweep points if there are several kinds."""
    kinds: dict[str, list[str]] = {}
    for point, audited in audits.done:
        kinds.setdefault(f"{audited.game.worlds}; {audited.game.when}", []).append(audits.label(point))
    if len(kinds) == 1:
        return [f"Game: {words}." for words in kinds]
    return [f"Game for {'; '.join(dict.fromkeys(labels))}: {words}." for words, labels in kinds.items()]
