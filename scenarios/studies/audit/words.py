"""Audits on the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console

from fl.audit.attack import Audited
from scenarios.report.claims import claim_cells
from scenarios.report.tables.table import Table
from scenarios.studies.audit.results import REFUTED, Audits, verdict_on

_HEADS = ("point", "", "ε", "δ", "accountant", "neighbours differ in", "per", "standing", "source", "verdict")


def print_audits(audits: Audits) -> None:
    """Print the lower bound of each sweep point, then the claims, each with its labels and the verdict."""
    notes: list[str] = []
    table: list[tuple[str, ...]] = []
    for point, audited in audits.done:
        first, *others = _cells(audited, notes)
        table += [(audits.label(point), *first), *(("", *cells) for cells in others)]
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
