"""Claims of the papers about their own schemes, labelled `as published`.

If a claim has a proof for the scheme as built here, the accountants derive it again from the events.
"""

from __future__ import annotations

import math

from privacy.events.claims import Claim

WEIGHED_BITS = (
    "Theorem 1 weighs the divergence of every bit by its significance and averages over neighbours: no worst case"
)
CLEAR_SCALES = (
    "the claim covers the scaled numbers only: mean and spread of every tensor are sent beside them without noise"
)
ONE_STEP = "the sensitivity (13) holds for one local step, but the run takes several steps at different models"
BROKEN = (ONE_STEP,)
"""Assumptions that are written down only where the run breaks them."""


FLMC_SOURCES = {
    ("digital", "cancelled"): "Zhang et al. 2022, (15) with the other devices' symbols cancelled",
    ("digital", "printed"): "Zhang et al. 2022, (16)",
    ("analog", "corrected"): "Zhang et al. 2022, (20)-(21) with the factor 1/2",
    ("analog", "printed"): "Zhang et al. 2022, (20)-(21) as printed",
}


def flmc_claim(*, epsilon: float, delta: float, analog: bool, form: str) -> Claim:
    """Pr(|loss| > epsilon) = delta in the worst round of one device, by a `form` of `FLMC_SOURCES`."""
    return Claim(
        epsilon=epsilon,
        delta=delta,
        accountant="paper",
        relation="replace-one",
        unit="device",
        scope="round",
        standing="as published",
        source=FLMC_SOURCES["analog" if analog else "digital", form],
        channel_credited=True,
    )


def theorem_1_claim(*, epsilon: float, order: float, credited: bool) -> Claim:
    """(order, epsilon) Renyi DP of the whole run; Li et al. 2025, Theorem 1."""
    return Claim(
        epsilon=epsilon,
        delta=0.0,
        accountant="paper",
        relation="replace-one",
        unit="sample",
        scope="run",
        standing="as published",
        source="Li et al. 2025, Theorem 1",
        assumptions=(WEIGHED_BITS,),
        order=order,
        channel_credited=credited,
    )


def gaussian_claim(*, epsilon: float, delta: float, printed: bool, assumptions: tuple[str, ...]) -> Claim:
    """(epsilon, delta) of all rounds, with sigma as printed after (23) or calibrated; Li et al. 2025."""
    return Claim(
        epsilon=epsilon,
        delta=delta,
        accountant="paper" if printed else "exact",
        relation="replace-one",
        unit="sample",
        scope="run",
        standing="as published" if printed else "proved",
        source="Li et al. 2025, after (23)" if printed else "calibrated by dp-accounting",
        assumptions=assumptions,
    )


def local_claim(
    *, epsilon: float | None, per_upload: bool, source: str, credited: bool = False, assumptions: tuple[str, ...] = ()
) -> Claim:
    """epsilon-DP of one number, or of one upload, of a device in one round; None: no claim."""
    return Claim(
        epsilon=math.inf if epsilon is None else epsilon,
        delta=0.0,
        accountant="paper",
        relation="replace-one",
        unit="device",
        scope="round" if per_upload else "coordinate",
        standing="as published",
        source=source,
        assumptions=assumptions,
        channel_credited=credited,
    )
