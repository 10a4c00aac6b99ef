"""The answer in sentences: over which part of the x axis who is better, and by how much.

Neighbouring places with the same verdict are one clause. Panels with the same clauses are one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import isinf
from typing import TYPE_CHECKING

from scenarios.report.answers.proofs import spends_more
from scenarios.report.tables.summaries import FEWEST_TRIALS, Mean
from scenarios.schema.labels.labels import axis_label

if TYPE_CHECKING:
    from scenarios.report.answers.entries import Place
    from scenarios.report.answers.ranks import Rank, Verdict

    Story = tuple[str, Sequence[Rank]]
    """Title of a panel, and the ranks of its places in order."""

MOST_PLACES = 4
"""Words of the x axis that a clause lists."""
MOST_RIVALS = 3
"""Names that a clause lists as not clearly worse."""
PRIVATE, PUBLIC = "With privacy", "Without privacy"


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One verdict over a part of the x axis, `where` in words; `ranks` are those of its places."""

    verdict: Verdict
    winner: str
    where: str
    ranks: tuple[Rank, ...]


def sentences(stories: Sequence[Story], *, metric: str, better: int, group: str) -> Iterator[tuple[str, str]]:
    """Yield head and sentence for all panels that have the same clauses; `group` heads those without another head."""
    alike: dict[tuple[tuple[str, ...], ...], list[tuple[str, list[Clause]]]] = {}
    names = list(dict.fromkeys(e.name for _, ranks in stories for one in ranks for e in one.place.entries))
    shared, short = without_shared(names)
    for title, ranks in stories:
        told = list(_clauses(ranks))
        alike.setdefault(tuple((c.verdict, c.winner, c.where) for c in told), []).append((title, told))
    pair = len(names) == 2
    for members in alike.values():
        titles = [title for title, _ in members]
        merged = _merged([told for _, told in members], whole=len(members) == len(stories))
        panels = "; ".join(filter(None, titles)) if len(alike) > 1 else ""
        head = ", ".join(filter(None, (shared or group, panels)))
        where = {id(rank): title for title, told in members for clause in told for rank in clause.ranks}
        teller = _Teller(metric=metric, better=better, pair=pair, short=short, panel=where if len(titles) > 1 else {})
        text = "; ".join(teller.tell(clause) for clause in merged)
        yield head, f"{text}{_crossing(merged) if pair else ''}."


def without_shared(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the parts that all names have in common, and every name without them."""
    parts = {name: name.split(", ") for name in names}
    common = [part for part in next(iter(parts.values()), []) if all(part in some for some in parts.values())]
    short = {name: ", ".join(part for part in some if part not in common) for name, some in parts.items()}
    if len(names) < 2 or not all(short.values()) or len({*short.values()}) < len(names):
        return "", {name: name for name in names}
    return ", ".join(common), short


def _clauses(ranks: Sequence[Rank]) -> Iterator[Clause]:
    """Clauses of one panel; those of the same verdict and winner are one, however far apart."""
    segments: dict[tuple[Verdict, str], list[list[int]]] = {}

    def kind(number: int) -> tuple[Verdict, str]:
        one = ranks[number]
        return one.verdict, "" if one.verdict in ("equal", "unclear") else one.best.name

    for key, numbers in groupby(range(len(ranks)), key=kind):
        segments.setdefault(key, []).append(list(numbers))
    places = [one.place for one in ranks]
    for (verdict, winner), some in segments.items():
        members = tuple(ranks[number] for part in some for number in part)
        yield Clause(verdict=verdict, winner=winner, where=_where(places, some), ranks=members)


def _where(places: Sequence[Place], segments: Sequence[Sequence[int]]) -> str:
    """Words for parts of the x axis: `at P₀/N₀ ≤ 10 dB`, `at 2 of 7 settings`."""
    count = sum(map(len, segments))
    if len(places) == 1:
        return f"at {places[0].words}" if places[0].words else ""
    if count == len(places):
        return f"at all {count} settings"
    if places[0].numeric and all(" = " in place.words for place in places):
        return "at " + " and ".join(_range(places, part) for part in segments)
    words = [places[number].words for part in segments for number in part]
    return f"at {' and '.join(words)}" if len(words) <= MOST_PLACES else f"at {count} of {len(places)} settings"


def _range(places: Sequence[Place], part: Sequence[int]) -> str:
    first, last = places[part[0]].words, places[part[-1]].words
    if len(part) == 1:
        return first
    if part[0] == 0:
        return last.replace(" = ", " ≤ ", 1)
    if part[-1] == len(places) - 1:
        return first.replace(" = ", " ≥ ", 1)
    name, _, low = first.partition(" = ")
    high = last.partition(" = ")[2]
    unit = high.partition(" ")[2]
    return f"{name} = {low.removesuffix(unit).rstrip() if unit else low} to {high}"


def _merged(several: Sequence[Sequence[Clause]], *, whole: bool) -> list[Clause]:
    """The clauses of panels that have the same ones, as one list."""
    merged = []
    for clauses in zip(*several, strict=True):
        ranks = tuple(rank for clause in clauses for rank in clause.ranks)
        first = clauses[0]
        where = f"at all {len(ranks)} settings" if whole and first.where.startswith("at all") else first.where
        merged.append(replace(first, ranks=ranks, where=where))
    return merged


def _crossing(clauses: Sequence[Clause]) -> str:
    """Between which values two curves cross, where each is clearly better on one side."""
    sure = [clause for clause in clauses if clause.verdict == "clear"]
    if len(sure) != 2 or len({clause.winner for clause in sure}) != 2:
        return ""
    low, high = sure
    numeric = all(rank.place.numeric for clause in sure for rank in clause.ranks)
    ends = (low.ranks[-1].place.words, high.ranks[0].place.words)
    return f"; the order changes between {ends[0]} and {ends[1]}" if numeric and all(ends) else ""


@dataclass(frozen=True, kw_only=True)
class _Teller:
    """Words of a clause; `short` names entries, `panel` titles the panel of a rank, by its id."""

    metric: str
    better: int
    pair: bool
    short: dict[str, str]
    panel: dict[int, str]

    def tell(self, clause: Clause) -> str:
        low = "larger" if self.better > 0 else "smaller"
        most = low if self.pair else {"larger": "largest", "smaller": "smallest"}[low]
        label, where = axis_label(self.metric), f" {clause.where}" if clause.where else ""
        first = clause.ranks[0]
        winners = " and ".join(map(self.name, first.alike))
        be, have = ("is", "has") if len(first.alike) == 1 else ("are", "have")
        match clause.verdict:
            case "clear":
                comparative = "better" if self.pair else "best"
                proof = ", no ε proved" if all(map(_without_proof, clause.ranks)) else ""
                return f"{winners} {be} {comparative}{where}, {self.margin(clause.ranks)}{proof}"
            case "unclear":
                return self.unclear(clause, where=where)
            case "equal":
                return f"no difference{where}"
            case "few trials":
                return f"{winners} {have} the {most} {label}{where}; an interval needs {FEWEST_TRIALS} trials"
            case "unequal privacy":
                return f"{winners} {have} the {most} {label}{where}, but not at equal privacy: {self.spent(clause)}"

    def name(self, name: str) -> str:
        return self.short.get(name, name)

    def margin(self, ranks: Sequence[Rank]) -> str:
        """By how much the best is better than the next: the least and the largest difference of clear ones."""
        known = sorted(
            (one for one in ranks if one.difference is not None and one.following is not None),
            key=lambda one: abs(one.difference.mean) if one.difference else 0.0,
        )
        places = len({(self.panel.get(id(one), ""), one.place.words) for one in known}) > 1
        parts = []
        for one in known if len(known) < 2 else (known[0], known[-1]):
            assert one.difference is not None
            assert one.following is not None
            over = "" if self.pair else f" over {self.name(one.following.name)}"
            parts.append(f"{_size(one.difference)}{over}{self.at(one) if places else ''}")
        return f"by {' to '.join(parts)}, {'there ' if places else ''}{self.means(known[-1])}"

    def unclear(self, clause: Clause, *, where: str) -> str:
        """Who leads, by what that is not clear, and who is clearly behind."""
        one = max(clause.ranks, key=lambda rank: abs(rank.difference.mean) if rank.difference else 0.0)
        assert one.following is not None
        at = self.at(one) if len(clause.ranks) > 1 else ""
        difference = f"difference {one.difference}{at}"
        epsilons = self.epsilons(one)
        if self.pair:
            names = ", ".join(f"{self.name(entry.name)} {entry.mean.mean:.3g}" for entry in (one.best, one.following))
            return f"no clear difference{where}: {names}, {difference}{epsilons}"
        leaders = dict.fromkeys(name for rank in clause.ranks for name in (*rank.alike, *rank.rivals))
        words = [self.name(name) for name in leaders]
        others = dict.fromkeys(entry.name for rank in clause.ranks for entry in rank.place.entries)
        behind = [self.name(name) for name in others if name not in leaders]
        worse = f"; clearly behind: {listed(behind, most=MOST_RIVALS, between='; ')}" if behind else ""
        if len(clause.ranks) > 1:
            leading = listed(words, most=MOST_RIVALS, between="; ")
            return f"no clear best{where}: {leading} lead, largest {difference}{epsilons}{worse}"
        rest = listed(words[1:], most=MOST_RIVALS, between="; ")
        return (
            f"no clear best{where}: {words[0]} has {one.best.mean.mean:.3g}, and not clearly worse "
            f"{'is' if len(words) == 2 else 'are'} {rest}, {difference}{epsilons}{worse}"
        )

    def means(self, one: Rank) -> str:
        """`MSE 0.1 against 0.2`."""
        values = [f"{entry.mean.mean:.3g}" for entry in (one.best, one.following) if entry is not None]
        return f"{axis_label(self.metric)} {' against '.join(values)}"

    def epsilons(self, one: Rank) -> str:
        """Proved epsilons where they are not equal privacy, of the two or of all there; or that none is proved."""
        mine, its = one.best.proved, one.following.proved if one.following else None
        if mine is not None and its is not None and (spends_more(mine, its) or spends_more(its, mine)):
            return f", at proved ε = {mine.number} and {its.number}"
        asked = [entry.proved for entry in one.place.entries if entry.private and entry.proved is not None]
        least, most = (pick(asked, key=lambda proved: proved.epsilon, default=None) for pick in (min, max))
        if least is not None and most is not None and spends_more(most, least):
            return f", not at equal privacy: proved ε from {least.number} to {most.number}"
        return ", no ε proved" if _without_proof(one) else ""

    def spent(self, clause: Clause) -> str:
        def ratio(one: Rank) -> float:
            mine, its = one.best.proved, one.following.proved if one.following else None
            return mine.epsilon / its.epsilon if mine is not None and its is not None else 0.0

        worst = max(clause.ranks, key=ratio)
        assert worst.following is not None
        mine, its = worst.best.proved, worst.following.proved
        at = self.at(worst) if len(clause.ranks) > 1 else ""
        return f"the run has proved ε = {mine and mine.number} against {its and its.number} of " + (
            f"{self.name(worst.following.name)}{at}"
        )

    def at(self, rank: Rank) -> str:
        words = ", ".join(filter(None, (self.panel.get(id(rank), ""), rank.place.words)))
        return f" ({words})" if words else ""


def _without_proof(one: Rank) -> bool:
    """Tell if privacy is asked of all at a place, and no finite epsilon is proved of any."""
    known = [entry.proved for entry in one.place.entries if entry.private]
    return len(known) == len(one.place.entries) and all(proved and isinf(proved.epsilon) for proved in known)


def _size(difference: Mean) -> str:
    """A difference without its sign."""
    if difference.mean >= 0.0:
        return str(difference)
    low, high = (None if end is None else -end for end in (difference.high, difference.low))
    return str(replace(difference, mean=-difference.mean, low=low, high=high))


def listed(words: Iterable[str], *, most: int, between: str = " and ") -> str:
    """Words in a list, of many the first `most` and how many more there are."""
    known = list(words)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return between.join(known[:most]) + more
