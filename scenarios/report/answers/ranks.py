"""Who is best at a place, against whom, by how much, and if the two are at equal privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scenarios.report.answers.differences import Difference
from scenarios.report.answers.entries import Entry, Place
from scenarios.report.answers.proofs import spends_more
from scenarios.report.tables.summaries import Mean

Verdict = Literal["clear", "unclear", "equal", "unequal privacy", "few trials"]

CLEAR: dict[Verdict, str] = {
    "clear": "yes",
    "unclear": "no",
    "equal": "equal",
    "unequal privacy": "not at equal privacy",
    "few trials": "",
}
"""Words of a verdict in a table."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The best at a place, with all that have the same values, and the next.

    - `clear`: better than every other beyond the interval of the paired difference, with no more privacy spent;
    - `unequal privacy`: better than every other, but with more privacy spent than `following`;
    - `unclear`: `rivals` are not clearly worse, `following` is the best of them;
    - `difference`: of `following`, the best less it.
    """

    place: Place
    alike: tuple[str, ...]
    best: Entry
    verdict: Verdict
    following: Entry | None = None
    difference: Mean | None = None
    rivals: tuple[str, ...] = ()
    among: str = ""


def rank(place: Place, *, better: int) -> Rank:
    """Rank the entries of a place; `better` is 1 where larger values are, -1 where smaller ones are."""
    order = sorted(place.entries, key=lambda entry: -better * entry.mean.mean)
    best = order[0]
    against = {entry.name: Difference.of(best.values, entry.values) for entry in order}
    alike = [entry for entry in order if entry is best or against[entry.name].verdict == "equal"]
    if len(alike) > 1:  # of equal results the one that spends least stands for all
        best = next((one for one in alike if not any(spends_more(one.proved, other.proved) for other in alike)), best)
    names = tuple(entry.name for entry in alike)
    others = [entry for entry in order if entry.name not in names]
    found = Rank(place=place, alike=names, best=best, verdict="equal")
    if not others:
        return found

    def settle(verdict: Verdict, following: Entry, rivals: Sequence[Entry] = ()) -> Rank:
        return replace(
            found,
            verdict=verdict,
            following=following,
            difference=against[following.name].mean,
            rivals=tuple(one.name for one in rivals),
        )

    if not all(against[entry.name].verdict for entry in others):
        return settle("few trials", others[0])
    unclear = [entry for entry in others if against[entry.name].verdict != "yes"]
    if unclear:
        return settle("unclear", unclear[0], unclear)
    unfair = [entry for entry in others if spends_more(best.proved, entry.proved)]
    if unfair:
        return settle("unequal privacy", min(unfair, key=lambda one: one.proved.epsilon if one.proved else 0.0))
    return settle("clear", others[0])


def ranks_within_epsilon(place: Place, *, better: int) -> Iterator[Rank]:
    """Rank those entries of a place among themselves that are at equal privacy, the smallest epsilon first."""
    groups: list[list[Entry]] = []
    for entry in sorted(place.entries, key=lambda one: one.proved.epsilon if one.proved else 0.0):
        if groups and not spends_more(entry.proved, groups[-1][0].proved):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    for group in groups if len(groups) > 1 else ():
        if len(group) > 1:
            ends = list(dict.fromkeys(one.proved.number for one in (group[0], group[-1]) if one.proved))
            among = f"proved ε {' to '.join(ends)}"
            yield replace(rank(replace(place, entries=tuple(group)), better=better), among=among)
