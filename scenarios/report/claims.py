"""Privacy claims of a run from its ledgers: gathered point by point, as rows of text, and on the report page."""

from __future__ import annotations

import math
import pickle
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fl.base.results import PrivacyAccount
from fl.base.words import plural
from privacy.accounting.flipped_bits import AccountRow, StatedSensitivity, bit_flipping_rows
from privacy.errors import PrivacyError
from privacy.events.claims import Accountant, Claim
from privacy.events.events import Relation
from privacy.events.merging import side_by_side
from privacy.mechanisms.bit_flipping import AES_BLOCK_BITS
from scenarios.plan.points import Plan, Point
from scenarios.report.answers.proofs import Proved, best_proof, is_private, scenario_delta
from scenarios.report.html import Part
from scenarios.report.settings import point_table, short_setting
from scenarios.report.tables.table import Table, in_groups
from scenarios.store.store import Store

ACCOUNTANTS: tuple[Accountant, ...] = tuple(name for name in get_args(Accountant) if name != "paper")

_PREFERRED: tuple[Accountant, ...] = ("exact", "pld", "renyi", "basic", "advanced", "paper")
"""Who is believed first where epsilon and delta are the same."""

_MUCH_LESS = 0.9
"""Share of a budget below which a run says that it used less."""

MOST_POINTS = 60
"""Beyond this many sweep points the page has their range alone; beyond this many different ledgers, claims are those of
the fastest accountant that treats every event."""

MOST_ROWS = 40
"""Of a table that is not folded."""


@dataclass(frozen=True, kw_only=True)
class PointClaims:
    """A point, how many of its trials have an account, and what is claimed of the worst of them.

    `left_out`: sentences of accountants that could not say anything; `ended_early`: how many of the trials failed, so
    that their run is of fewer rounds.
    """

    point: Point
    trials: int
    claims: tuple[Claim, ...]
    left_out: tuple[str, ...] = ()
    ended_early: int = 0


def gather_claims(
    store: Store,
    plan: Plan,
    *,
    delta: float | None = None,
    accountants: Sequence[Accountant] = ACCOUNTANTS,
    relation: Relation | None = None,
) -> Iterator[PointClaims]:
    """Claims of every point that has an account, in the order of the plan; `delta` None: the scenario's, or 1e-5.

    Failed trials count: what they sent is out. Equal ledgers are accounted once. PrivacyError for a relation that the
    ledgers cannot be read in.
    """
    known: dict[bytes, PointClaims] = {}
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        accounts = store.read_accounts(ids)
        if accounts:
            ledgers, wanted = list(accounts.values()), scenario_delta(point) if delta is None else delta
            key = pickle.dumps((ledgers, wanted))
            if key not in known:
                known[key] = claims_of(point, ledgers, delta=wanted, accountants=accountants, relation=relation)
            ended_early = sum(one.failure is not None for one in store.read_tasks(list(accounts)).values())
            yield replace(known[key], point=point, ended_early=ended_early)


def broken_budgets(store: Store, plan: Plan) -> Iterator[str]:
    """Yield a sentence, without its full stop, for every sweep point whose ledger proves another epsilon than its
    budget: more, or less because its noise is that of devices that send in all rounds."""
    bound = replace(plan, points=tuple(point for point in plan.points if point.scenario.budget is not None))
    for found in gather_claims(store, bound):
        epsilon = getattr(found.point.scenario.budget, "epsilon", math.inf)
        proved = min(one.epsilon for one in found.claims if one.scope == "run" and one.accountant != "paper")
        setting = ", ".join(short_setting(plan, found.point))
        if proved > epsilon * (1.0 + 1e-6):
            yield (
                f"{setting + ': ' if setting else ''}the ledger proves epsilon {proved:.4g} for the run, more than the "
                f"budget of {epsilon:g}; phyloop privacy names what does not count"
            )
        elif proved < _MUCH_LESS * epsilon and found.point.scenario.learning.num_drawn is not None:
            yield (
                f"{setting + ': ' if setting else ''}the ledger proves epsilon {proved:.4g} for the run, less than the "
                f"budget of {epsilon:g}: its noise is that of devices that send in all rounds, and only some are drawn "
                "in each; raise privacy.budget.epsilon to add less noise"
            )


def claims_of(
    point: Point,
    accounts: Sequence[PrivacyAccount],
    *,
    delta: float,
    accountants: Sequence[Accountant],
    relation: Relation | None = None,
) -> PointClaims:
    """What holds for every device of every trial: published claims, then those of one accountant after the other."""
    from privacy.accounting import account_claims, refusals
    from privacy.accounting.claiming import SCOPES

    ledger = side_by_side([one.ledger for one in accounts])
    found: list[Claim] = list(_worst(claim for one in accounts for claim in one.published))
    left_out: list[str] = []
    for accountant in accountants:
        try:
            made = account_claims(ledger, delta=delta, accountant=accountant, relation=relation)
        except PrivacyError as error:
            left_out.append(str(error))
            continue
        found.extend(made)
        if {claim.scope for claim in made} != set(SCOPES):
            refused = refusals(ledger, delta=delta, accountants=(accountant,), relation=relation)
            left_out.extend(f"no {scope} claim by {name}: {reason}" for (name, scope), reason in refused.items())
    if ledger.coordinates == 1:  # an upload that is released in one piece has no single numbers to claim of
        found = [claim for claim in found if claim.accountant == "paper" or claim.scope != "coordinate"]
    if left_out and not any(claim.accountant != "paper" for claim in found):
        raise PrivacyError(left_out[0])
    return PointClaims(point=point, trials=len(accounts), claims=tuple(found), left_out=tuple(left_out))


def strongest(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Of the proved claims with the same scope and credits the smallest epsilon, then delta; published ones stay.

    Epsilons that agree to a millionth are one: a closed form is not beaten by the grid that was laid over it.
    """
    best: dict[tuple[str, bool, bool], Claim] = {}
    for claim in claims:
        key = (claim.scope, claim.channel_credited, claim.sampling_credited)
        if claim.accountant != "paper" and (key not in best or _rank(claim) < _rank(best[key])):
            best[key] = claim
    return (*(claim for claim in claims if claim.accountant == "paper"), *best.values())


def _rank(claim: Claim) -> tuple[float, float, int]:
    """Return what orders proved claims: epsilon to six digits, delta, and the accountant that is believed first."""
    digits = claim.epsilon if math.isinf(claim.epsilon) else float(f"{claim.epsilon:.6g}")
    return digits, claim.delta, _PREFERRED.index(claim.accountant)


def proved_epsilons(found: Sequence[PointClaims]) -> dict[int, Proved]:
    """Return what is proved of every sweep point that asks for privacy and has claims, by its index."""
    return {one.point.index: best_proof(one.claims) for one in found if is_private(one.point)}


def _worst(claims: Iterator[Claim]) -> Iterator[Claim]:
    """Claims that differ in their numbers alone as one with the larger numbers."""
    found: dict[Claim, tuple[float, float]] = {}
    for claim in claims:
        bare = replace(claim, epsilon=0.0, delta=0.0)
        epsilon, delta = found.get(bare, (-math.inf, 0.0))
        found[bare] = (max(epsilon, claim.epsilon), max(delta, claim.delta))
    for bare, (epsilon, delta) in found.items():
        yield replace(bare, epsilon=epsilon, delta=delta)


# --- bit flipping ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FlippingTable:
    """The lines of one point, and the rate of wrong bits that they count on."""

    point: Point
    flip_probability: float
    rows: tuple[AccountRow, ...]


def flipping_tables(store: Store, plan: Plan, *, delta: float | None = None) -> Iterator[FlippingTable]:
    """One for every point of bit flipping on fixed-point numbers with a whole trial; `delta` None: the scenario's.

    All rounds count at the rate of the least protected device and round, with the channel where the evidence for it
    costs less than delta, else by the devices' own flips. Points where that rate is 0 have none: nothing is proved.
    """
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        learning: Any = point.scenario.learning
        privacy: Any = point.scenario.mechanism
        if privacy is None or privacy.protects != "bits" or learning.played is not learning:
            continue
        accounts, metrics = store.read_accounts(ids), store.read_metrics(ids)
        known = [one for one in metrics.values() if {"sensitivity", "kappa"} <= one.keys()]
        size, codec = learning.num_values(), learning.codec.as_fractions()
        if not (accounts and known and codec is not None and size is not None):
            continue
        wanted = delta if delta is not None else scenario_delta(point)
        ledger = side_by_side([account.ledger for account in accounts.values()])
        rounds = int((~np.isnan(ledger.parameter)).sum(axis=0).max())
        evidence = rounds * ledger.credit_failure
        credited = ledger.uncredited is not None and evidence < wanted
        rate = float(np.nanmin(ledger.parameter if credited or ledger.uncredited is None else ledger.uncredited))
        if rate <= 0.0:
            continue
        bits, sensitivity = codec.fraction_bits, max(one["sensitivity"] for one in known)
        rows = bit_flipping_rows(
            flip_probability=rate,
            order=privacy.order,
            num_rounds=rounds,
            kappa=max(one["kappa"] for one in known),
            num_numbers=size,
            bits=bits,
            sensitivity=StatedSensitivity.of(
                sensitivity, value_range=codec.value_range, bits=bits, norm="l2", on_grid=False
            ),
            delta=wanted,
            delta_evidence=evidence if credited else 0.0,
            channel_credited=credited,
            block_bits=AES_BLOCK_BITS if privacy.cipher == "aes" else 1,
        )
        yield FlippingTable(point=point, flip_probability=rate, rows=rows)


# --- rows and page --------------------------------------------------------------------------------

OF_A_ROUND = "ε of a round"
HEADS = (
    "scope",
    "ε",
    "δ",
    "δ spent on evidence",
    "accountant",
    "neighbours differ in",
    "channel",
    "standing",
    "source",
)


def claim_table(plan: Plan, found: Sequence[PointClaims], *, named: bool = False) -> tuple[Table, tuple[str, ...]]:
    """All claims of all points, and the footnotes that the numbers in brackets behind `standing` refer to.

    If `named`, a row begins with its setting in words, and settings that these words leave out come last.
    """
    notes: list[str] = []
    rows = [(one.point, claim_cells(claim, notes=notes)) for one in found for claim in one.claims]
    return point_table(plan, HEADS, rows, left=(HEADS[0], *HEADS[4:]), named=named), tuple(notes)


def summary_table(plan: Plan, found: Sequence[PointClaims]) -> tuple[Table, tuple[str, ...]]:
    """Return the smallest proved and the published epsilon of every sweep point, and the footnotes.

    Where a bound holds per round, what its worst round truly spends stands beside.
    """
    notes: list[str] = []
    rows = []
    per_round = any(getattr(one.point.scenario.mechanism, "of_rounds", None) is not None for one in found)
    for one in found:
        published = [claim for claim in one.claims if claim.accountant == "paper"]
        proved = [claim for claim in one.claims if claim.accountant != "paper" and claim.scope == "run"]
        best = min(proved, key=_rank, default=None)
        cells = ("", "", "", "")
        if best is not None and math.isinf(best.epsilon):
            cells = (best.unit, "∞", "", f"none {_marks(best, notes)}".rstrip())
        elif best is not None and best.standing != "proved":
            cells = (best.unit, "∞", "", f"none: {_marks(best, notes)} fails; if it held, {best.epsilon:.4g}")
        elif best is not None:
            credited = ", channel counted" if best.channel_credited else ""
            how = f"{best.accountant}{credited} {_marks(best, notes)}".strip()
            cells = (best.unit, f"{best.epsilon:.4g}", f"{best.delta:.3g}", how)
        printed = "; ".join(
            f"{claim.epsilon:.4g} per {claim.scope}, "
            + (f"δ = {claim.delta:.3g}" if claim.order is None else f"Rényi order {claim.order:g}")
            + f" {_marks(claim, notes)}".rstrip()
            for claim in published
        )
        spent = (_epsilon_of_a_round(one.claims),) if per_round else ()
        rows.append((short_setting(plan, one.point), (*cells[:3], *spent, cells[3], printed)))
    of_round = (OF_A_ROUND,) if per_round else ()
    heads = ("setting", "neighbours differ in one", "proved ε", "δ", *of_round, "proof", "published ε")
    left = ("setting", "neighbours differ in one", "proof", "published ε")
    wrapped = ("setting", "proof", "published ε")
    return Table(columns=heads, rows=tuple(in_groups(rows)), left=left, wrapped=wrapped), tuple(notes)


def _epsilon_of_a_round(claims: Sequence[Claim]) -> str:
    """The smallest proved epsilon of the worst round."""
    held = [one for one in claims if one.accountant != "paper" and one.scope == "round" and one.standing == "proved"]
    best = min(held, key=_rank, default=None)
    return "" if best is None else "∞" if math.isinf(best.epsilon) else f"{best.epsilon:.4g}"


def _marks(claim: Claim, notes: list[str]) -> str:
    """The footnotes of a claim, `[1] [2]`; assumptions not yet among `notes` are added there."""
    for sentence in claim.assumptions:
        if sentence not in notes:
            notes.append(sentence)
    return " ".join(f"[{notes.index(sentence) + 1}]" for sentence in claim.assumptions)


def claim_cells(claim: Claim, *, notes: list[str]) -> tuple[str, ...]:
    """One claim in the columns of `HEADS`; assumptions not yet among `notes` are added there."""
    marks, broken = _marks(claim, notes), claim.standing == "not proved"
    return (
        f"{claim.scope}, sampled" if claim.sampling_credited else claim.scope,
        "none" if math.isinf(claim.epsilon) else f"{claim.epsilon:.4g}",
        f"{claim.delta:.3g}" if claim.order is None else f"Rényi order {claim.order:g}",
        f"{claim.delta_evidence:.3g}" if claim.delta_evidence else "",
        claim.accountant,
        f"{claim.unit}, {claim.relation}",
        "credited" if claim.channel_credited else "not credited",
        f"not proved: {marks} fails" if broken else ", given ".join(filter(None, (claim.standing, marks))),
        claim.source,
    )


LEAD = (
    "For the worst device of all trials. “As published” is the figure of the paper. “Proved” follows from the releases "
    "of every round under the numbered assumptions. “Credited”: errors or noise of the channel count towards privacy "
    "up to their lower confidence limit, and δ includes the probability that this limit is wrong. The table has the "
    "smallest ε of the accountants exact, PLD and Rényi. For another accountant, δ or neighbour relation: "
)


def strongest_claims(store: Store, plan: Plan) -> tuple[tuple[PointClaims, ...], str]:
    """Return the strongest claims of every sweep point that released something protected, and why there are none."""
    if not _protected(store, plan):
        return (), ""
    accountants: tuple[Accountant, ...] = ("exact", "pld", "renyi") if _few_ledgers(store, plan) else ("renyi",)
    try:
        found = gather_claims(store, plan, accountants=accountants)
        return tuple(replace(one, claims=strongest(one.claims)) for one in found), ""
    except PrivacyError as error:
        return (), str(error)


def _few_ledgers(store: Store, plan: Plan) -> bool:
    """Tell if the sweep points have few different ledgers: equal ones are accounted once."""
    if len(plan.points) <= MOST_POINTS:
        return True
    known: set[bytes] = set()
    for ids in plan.task_ids:
        known.add(pickle.dumps([*store.read_accounts(ids).values()]))
        if len(known) > MOST_POINTS:
            return False
    return True


def claimed_and_proved(found: Sequence[PointClaims], plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what the papers claim, and what of it is proved for whole runs, each in a sentence."""
    published: dict[str, list[float]] = {}
    proved: list[float] = []
    for one in found:
        for claim in one.claims:
            if claim.accountant == "paper":
                published.setdefault(claim.scope, []).append(claim.epsilon)
        held = [c for c in one.claims if c.accountant != "paper" and c.scope == "run" and c.standing == "proved"]
        proved.append(min((claim.epsilon for claim in held), default=math.inf))
    for scope, epsilons in published.items():
        yield (
            "Claimed privacy",
            f"ε {_span(epsilons)} per {scope}, as published ({plural(len(epsilons), 'sweep point')}).",
        )
    finite = [epsilon for epsilon in proved if math.isfinite(epsilon)]
    if finite:
        by = {claim.accountant for one in found for claim in one.claims} - {"paper"}
        many = len(plan.points) > MOST_POINTS and by == {"renyi"}
        fast = ", by the Rényi accountant; another may prove a smaller ε" if many else ""
        yield "Proved privacy", f"ε {_span(finite)} for the whole run ({plural(len(finite), 'sweep point')}){fast}."
    if len(proved) > len(finite):
        yield (
            "Not proved",
            f"no finite ε holds for the whole run at {plural(len(proved) - len(finite), 'sweep point')}.",
        )


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return f"= {low}" if low == high else f"from {low} to {high}"


def claim_parts(found: tuple[PointClaims, ...], why: str, plan: Plan, *, folder: Path) -> list[Part]:
    """The strongest claims with their footnotes, or the sentence `why` there are none; nothing without either."""
    if not found and not why:
        return []
    lead = Part(soft=f"{LEAD}`phyloop privacy {shlex.quote(str(folder))}`.")
    if why:
        return [lead, Part(text=why)]
    if len(plan.points) > MOST_POINTS:
        return [lead, Part(text=f"Too many sweep points to list here: {len(plan.points)}.")]
    table, footnotes = claim_table(plan, found, named=True)
    asked = any(point.scenario.mechanism is not None for point in plan.points)
    published = any(claim.accountant == "paper" for one in found for claim in one.claims)
    fold = f"{len(table.rows)} claims" if len(table.rows) > MOST_ROWS or not (asked or published) else ""
    return [lead, Part(table=table, fold=fold), Part(items=[("", note) for note in footnotes], numbered=True)]


def _protected(store: Store, plan: Plan) -> bool:
    """Tell if any point has noise or a claim; one trial of each tells."""
    first = (account for ids in plan.task_ids for account in store.read_accounts(ids[:1]).values())
    return any(account.published or account.ledger.kind != "unprotected" for account in first)
