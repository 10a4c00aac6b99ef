"""Verdicts on cards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenarios.studies.verify.cards import Card
from scenarios.studies.verify.check import Check, broken
from scenarios.studies.verify.config import AmplitudeCaps, DopplerCorrelation, PowerDelayProfile, SumError
from scenarios.studies.verify.fading import measure_doppler, measure_profile
from scenarios.studies.verify.learning_cards import measure_caps, measure_sums
from scenarios.studies.verify.link_cards import measure_link

FAST = 2.0
"""Under --fast a check may resolve this many times less: a quarter of the errors, or fewer."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One check of one card, and the time since the one before it [s]."""

    card: Card
    check: Check
    seconds: float


def run_cards(cards: Sequence[Card], *, fast: bool = False, debug: bool = False) -> Iterator[Verdict]:
    """Yield verdicts as they come. A card that cannot be measured fails and the others go on, unless `debug`."""
    for card in cards:
        started = time.perf_counter()
        try:
            for check in _checks(card, fast=fast):
                now = time.perf_counter()
                yield Verdict(card=card, check=check, seconds=now - started)
                started = now
        except Exception as error:
            if debug:
                raise
            problem = " ".join(str(error).split()) or type(error).__name__
            yield Verdict(card=card, check=broken(problem), seconds=time.perf_counter() - started)


def _checks(card: Card, *, fast: bool) -> Iterator[Check]:
    resolves_db = card.config.resolves_db * (FAST if fast else 1.0)
    of_links = []
    for expected in card.config.expect:
        if isinstance(expected, SumError):
            yield from measure_sums(card.loaded, expected, resolves_db=resolves_db)
        elif isinstance(expected, PowerDelayProfile):
            yield from measure_profile(card.loaded, expected, resolves_db=resolves_db)
        elif isinstance(expected, DopplerCorrelation):
            yield from measure_doppler(card.loaded, expected, resolves_db=resolves_db)
        elif isinstance(expected, AmplitudeCaps):
            yield from measure_caps(card.loaded, expected)
        else:
            of_links.append(expected)
    if of_links:
        yield from measure_link(card.loaded, tuple(of_links), resolves_db=resolves_db)
