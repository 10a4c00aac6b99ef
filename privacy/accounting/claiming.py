"""Claims from ledgers by every accountant: for one number, one upload and the run, with and without channel noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privacy.accounting.accountants import ACCOUNTANTS, SOURCES, account, unbounded
from privacy.accounting.spending import check_alike, combined, credits_sampling, rounds_sent, worst_release
from privacy.errors import PrivacyError, require_probability
from privacy.events.claims import Accountant, Claim, Scope
from privacy.events.events import Event, Ledger, NoRelease, Relation, Spending, Unprotected
from privacy.events.noise_events import GaussianNoise, PureEpsilon
from privacy.events.published import BROKEN

DRAWN_IN_SECRET = (
    "participants of a round are drawn at random, and a listener cannot identify them by sender index, code, channel "
    "or otherwise; the server, which selects them, can"
)

SCOPES: tuple[Scope, ...] = ("coordinate", "round", "run")


def claims(
    ledger: Ledger | Sequence[Ledger],
    *,
    delta: float,
    accountants: Sequence[Accountant] = ACCOUNTANTS,
    relation: Relation | None = None,
) -> list[Claim]:
    """Claims for the dominating device by every accountant that can treat its events; see `refusals`.

    Several ledgers describe parallel releases of one trial. If channel noise counts, each claim has a second version
    without it. If devices are `sampled`, the claim of the run has versions with and without amplification by sampling.
    Of `delta` in [0, 1), the evidence for channel noise takes `credit_failure` per round sent, and the mechanism gets
    the rest; `basic` needs no other delta. If nothing is left, epsilon is math.inf with a reason. `relation` None: that
    of the ledgers.

    Raises PrivacyError for ledgers of different neighbours, a delta outside [0, 1), delta 0 under approximate privacy,
    and a relation without a conversion.
    """
    return _account_all(ledger, delta=delta, accountants=accountants, relation=relation)[0]


def account_claims(
    ledger: Ledger | Sequence[Ledger], *, delta: float, accountant: Accountant, relation: Relation | None = None
) -> list[Claim]:
    """`claims` of one accountant; also raises PrivacyError if it can treat no scope."""
    made, refused = _account_all(ledger, delta=delta, accountants=(accountant,), relation=relation)
    if not made and refused:
        raise PrivacyError(next(iter(refused.values())))
    return made


def refusals(
    ledger: Ledger | Sequence[Ledger],
    *,
    delta: float,
    accountants: Sequence[Accountant] = ACCOUNTANTS,
    relation: Relation | None = None,
) -> dict[tuple[Accountant, Scope], str]:
    """Reasons, in a sentence each, for accountants and scopes without a claim."""
    return _account_all(ledger, delta=delta, accountants=accountants, relation=relation)[1]


def _account_all(
    given: Ledger | Sequence[Ledger], *, delta: float, accountants: Sequence[Accountant], relation: Relation | None
) -> tuple[list[Claim], dict[tuple[Accountant, Scope], str]]:
    ledgers = [given] if isinstance(given, Ledger) else list(given)
    check_alike(ledgers)
    if delta != 0.0:
        require_probability(delta=delta)
    wanted = relation or ledgers[0].relation
    made: list[Claim] = []
    refused: dict[tuple[Accountant, Scope], str] = {}
    separate = any(one.uncredited is not None for one in ledgers)
    about: list[tuple[Scope, bool]] = [(scope, False) for scope in SCOPES]
    if any(credits_sampling(one) for one in ledgers):
        about.append(("run", True))
    for credited in (True, False) if separate else (False,):
        for scope, sampling in about:
            given_parts = _parts(ledgers, scope, credited=credited, sampling=sampling)
            parts = [_converted(part, ledgers[0].relation, wanted) for part in given_parts]
            boundless = unbounded([one for part in parts for one in part])
            if delta == 0.0 and boundless is not None and not isinstance(boundless, Unprotected):
                raise PrivacyError(
                    f"delta is 0, but for {boundless!r} only approximate privacy can hold", "give a delta such as 1e-5"
                )
            evidence = _evidence(ledgers, scope, sampling=sampling) if credited else 0.0
            for accountant in accountants:
                try:
                    epsilon = max(_epsilon(part, delta=delta, evidence=evidence, by=accountant) for part in parts)
                except PrivacyError as reason:
                    refused[accountant, scope] = str(reason)
                    continue
                broken = any(set(BROKEN).intersection(one.assumptions) for one in ledgers)
                made.append(
                    Claim(
                        epsilon=epsilon,
                        delta=evidence if accountant == "basic" and evidence < max(delta, 1e-300) else delta,
                        accountant=accountant,
                        relation=wanted,
                        unit=ledgers[0].unit,
                        scope=scope,
                        standing="not proved" if broken else "proved",
                        source=SOURCES[accountant],
                        assumptions=_assumptions(
                            ledgers, credited=credited, sampling=sampling, delta=delta, evidence=evidence
                        ),
                        delta_evidence=evidence,
                        channel_credited=credited,
                        sampling_credited=sampling,
                    )
                )
    return made, refused


def _parts(ledgers: Sequence[Ledger], scope: Scope, *, credited: bool, sampling: bool) -> list[tuple[Spending, ...]]:
    """The spendings of one claim; for single numbers of several ledgers, one tuple each, of which the worst counts."""
    if scope == "run":
        return [combined(ledgers, credited=credited, sampling=sampling)]
    worst = [worst_release(one, credited=credited) for one in ledgers]
    if scope == "round":
        uploads = zip(worst, ledgers, strict=True)
        return [tuple(Spending(event=e, count=one.coordinates) for e, one in uploads if not isinstance(e, NoRelease))]
    return [(Spending(event=event, count=one.per_number),) for event, one in zip(worst, ledgers, strict=True)]


def _epsilon(spent: tuple[Spending, ...], *, delta: float, evidence: float, by: Accountant) -> float:
    if evidence > 0.0 and evidence >= delta:
        return math.inf
    return account(spent, delta=delta - evidence, accountant=by)


def _evidence(ledgers: Sequence[Ledger], scope: Scope, *, sampling: bool) -> float:
    """Probability of less channel noise than counted in any round, by the union bound."""
    return math.fsum(
        one.credit_failure * (rounds_sent(one, sampling=sampling) if scope == "run" else min(rounds_sent(one), 1))
        for one in ledgers
        if one.uncredited is not None
    )


def _assumptions(
    ledgers: Sequence[Ledger], *, credited: bool, sampling: bool, delta: float, evidence: float
) -> tuple[str, ...]:
    sentences = dict.fromkeys(sentence for one in ledgers for sentence in one.assumptions)
    if credited:
        sentences |= dict.fromkeys(sentence for one in ledgers for sentence in one.credit_assumptions)
    if sampling:
        sentences[DRAWN_IN_SECRET] = None
    if evidence > 0.0 and evidence >= delta:
        sentences[
            f"nothing is left of delta {delta:g}, because evidence of the channel's noise costs {evidence:g}: raise "
            "the confidence of the probe"
        ] = None
    return tuple(sentences)


def _converted(spent: Sequence[Spending], have: Relation, want: Relation) -> tuple[Spending, ...]:
    """Convert releases to another relation: to replace a unit is to remove one and to add another.

    By group privacy a pure epsilon doubles, and the distance for Gaussian noise doubles. Other events, and the other
    direction, have no valid rule.
    """
    if have == want:
        return tuple(spent)
    if want == "add-or-remove-one":
        raise PrivacyError(
            "the ledger is for replace-one, which implies nothing for add-or-remove-one, because "
            "the law without the unit is unknown",
            "account for replace-one",
        )
    return tuple(Spending(event=_twice(one.event), count=one.count) for one in spent)


def _twice(event: Event) -> Event:
    if isinstance(event, NoRelease | Unprotected):
        return event
    if isinstance(event, GaussianNoise):
        return GaussianNoise(noise_multiplier=event.noise_multiplier / 2.0)
    if math.isfinite(event.pure_epsilon()):
        return PureEpsilon(epsilon=2.0 * event.pure_epsilon())
    raise PrivacyError(
        f"the ledger is for add-or-remove-one, and {event!r} has no group privacy in closed form", "account for that"
    )
