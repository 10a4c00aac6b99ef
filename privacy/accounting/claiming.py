"""From ledgers to claims: every accountant, over one number, one upload and the run, with and without the channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privacy.accounting.accountants import ACCOUNTANTS, SOURCES, account, unbounded
from privacy.accounting.spending import check_alike, combined, credits_sampling, rounds_sent, worst_release
from privacy.errors import PrivacyError, require_probability
from privacy.events.claims import Accountant, Claim, Scope
from privacy.events.events import Event, Ledger, NoRelease, Relation, Spending, Unprotected
from privacy.events.noise_events import GaussianNoise, PureEpsilon

DRAWN_IN_SECRET = (
    "who takes part in a round is drawn at random, and whoever listens cannot tell who did, by seat, code, channel or "
    "otherwise: not so the server that asks them"
)

SCOPES: tuple[Scope, ...] = ("coordinate", "round", "run")


def claims(
    ledger: Ledger | Sequence[Ledger],
    *,
    delta: float,
    accountants: Sequence[Accountant] = ACCOUNTANTS,
    relation: Relation | None = None,
) -> list[Claim]:
    """What is proved of the dominating device, by every accountant that can treat its events; see `refusals`.

    Several ledgers are what one trial released side by side. Where noise of the channel is credited, each claim comes
    a second time without it; where devices are `sampled`, that of the run comes with and without their being hidden
    among the others. Of `delta` in [0, 1), `credit_failure` for each round sent goes to the evidence for that
    noise, and the mechanism gets the rest; `basic` needs no delta beyond the evidence. Where nothing is left epsilon is
    math.inf, and says why. `relation` None: that of the ledgers.

    Raises PrivacyError for ledgers of different neighbours, a delta outside [0, 1), delta 0 where only approximate
    privacy can hold, and a relation to which losses do not carry over.
    """
    return _account_all(ledger, delta=delta, accountants=accountants, relation=relation)[0]


def account_claims(
    ledger: Ledger | Sequence[Ledger], *, delta: float, accountant: Accountant, relation: Relation | None = None
) -> list[Claim]:
    """`claims` of one accountant; raises PrivacyError as well where it can treat no scope at all."""
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
    """Why an accountant made no claim over a scope, in a sentence each; the counterpart of `claims`."""
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
                    f"delta is 0, but for {boundless!r} only approximate privacy can hold; give a delta such as 1e-5."
                )
            evidence = _evidence(ledgers, scope, sampling=sampling) if credited else 0.0
            for accountant in accountants:
                try:
                    epsilon = max(_epsilon(part, delta=delta, evidence=evidence, by=accountant) for part in parts)
                except PrivacyError as reason:
                    refused[accountant, scope] = str(reason)
                    continue
                made.append(
                    Claim(
                        epsilon=epsilon,
                        delta=evidence if accountant == "basic" and evidence < max(delta, 1e-300) else delta,
                        accountant=accountant,
                        relation=wanted,
                        unit=ledgers[0].unit,
                        scope=scope,
                        standing="proved",
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
    """What one claim is about; several of which the worst counts, for single numbers of several ledgers."""
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
    """Probability that credited noise was missing somewhere; by the union bound, whatever rounds have in common."""
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
            f"nothing is left of delta {delta:g}, for evidence of the channel's noise alone takes {evidence:g}: raise "
            "the confidence at which it is probed"
        ] = None
    return tuple(sentences)


def _converted(spent: Sequence[Spending], have: Relation, want: Relation) -> tuple[Spending, ...]:
    """The same releases for other neighbours: to replace one is to remove one and to add another.

    By group privacy a pure epsilon doubles and Gaussian noise has twice the distance; an event of neither kind, and the
    way back, have no sound rule.
    """
    if have == want:
        return tuple(spent)
    if want == "add-or-remove-one":
        raise PrivacyError(
            "the ledger is for replace-one, from which nothing follows for add-or-remove-one: the law without the unit "
            "is unknown; account for replace-one."
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
        f"the ledger is for add-or-remove-one, and {event!r} has no group privacy in closed form; account for that."
    )
