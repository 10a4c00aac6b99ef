"""Proved privacy of flipped bits: every bit is randomized response, and bits count in which neighbours can differ.

A bit that is wrong with probability p, independent of the others, has a loss of at most eps0 = ln((1 - p) / p).
Neighbours that differ in n bits over all numbers and rounds face n such responses, whose sum is known exactly:
eps0 (n - 2 Binomial(n, p)). Everything depends on n, which has weak bounds:

- *One number, d steps of the code.* In the B-bit fixed-point code of Li et al. 2025 (7), one step can change all B
  bits: from 01..1 to 10..0. The average over codes is two bits, but a guarantee holds for the worst.
- *An l2 sensitivity before rounding to the nearest* gives no bound: every number may lie at a rounding threshold, where
  the least shift is a step of its code. All B M bits count.
- *A sensitivity in steps of the codes* bounds the numbers: each that differs costs at least one step, so that an l1
  distance D allows D of them, and an l2 distance D allows D^2, each with all its B bits.

At the rates of the paper the sum is many orders of magnitude above the epsilon of Theorem 1. The account is right: with
millions of independent flips, an observer who knows both candidates can distinguish them. Theorem 1
(`privacy.mechanisms.bit_flipping`) weighs bits by significance and averages over neighbours: it describes the typical
change of a value, which is no guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from privacy.errors import PrivacyError, require_count, require_positive, require_probability
from privacy.events.claims import Claim, Scope, Standing
from privacy.events.published import WEIGHED_BITS, theorem_1_claim
from privacy.mechanisms.bit_flipping import aes_plaintext_rate, blocks_touched, epsilon_of

Norm = Literal["l1", "l2", "linf"]

_MOST_BITS = 52


@dataclass(frozen=True, kw_only=True)
class StatedSensitivity:
    """Stated distance of neighbouring uploads: `steps` of the code in `norm`.

    `on_grid`: the distance is that of the codes, for updates that are clipped and rounded first; otherwise that of the
    numbers before rounding to the nearest. Raises PrivacyError for steps below 0 or an unknown norm.
    """

    steps: float
    norm: Norm
    on_grid: bool

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid distance."""
        if not (math.isfinite(self.steps) and self.steps >= 0.0):
            raise PrivacyError(
                f"steps is {self.steps}, but a distance is finite and at least 0", "give steps of the code"
            )
        if self.norm not in ("l1", "l2", "linf"):
            raise PrivacyError(f"norm is {self.norm!r}, but it must be 'l1', 'l2' or 'linf'", "choose one")

    @classmethod
    def of(cls, distance: float, *, value_range: float, bits: int, norm: Norm, on_grid: bool) -> StatedSensitivity:
        """From a distance of values in [-r, r), where one step is 2 r 2^-bits."""
        require_positive(value_range=value_range)
        return cls(steps=distance / (2.0 * value_range) * 2.0 ** _bits(bits), norm=norm, on_grid=on_grid)

    def numbers(self, num_numbers: int) -> int:
        """The most of `num_numbers` codes that can differ: each differs by whole steps."""
        require_count(num_numbers=num_numbers)
        if self.steps == 0.0:
            return 0
        if not self.on_grid:
            return num_numbers
        # Rounding must not reduce a whole number of steps.
        steps = self.steps * (1.0 + 1e-9)
        if self.norm == "linf":
            return num_numbers if steps >= 1.0 else 0
        return int(min(steps if self.norm == "l1" else steps * steps, num_numbers))

    def words(self) -> str:
        """The assumption that a claim with this distance must name."""
        of = "their codes" if self.on_grid else "their numbers before rounding"
        return f"uploads of neighbours are at most {self.steps:.4g} steps of the code apart in {self.norm}, as {of}"


def reachable_bits(sensitivity: StatedSensitivity, *, num_numbers: int, bits: int) -> int:
    """The most bits of one upload in which neighbours differ: all B of every number that can differ."""
    return sensitivity.numbers(num_numbers) * _bits(bits)


def composed_epsilon(flip_probability: float, *, num_bits: int, delta: float) -> float:
    """The smallest eps for which `num_bits` bits, each wrong with p independently, are (eps, delta) DP; exact.

    0 for p = 1/2 or no bit, math.inf for p = 0 or 1. Beyond the number of bits that are summed exactly it is num_bits
    eps0, which holds with delta 0. Raises PrivacyError for values out of range.
    """
    from privacy.accounting.inversion import epsilon_of_event
    from privacy.events.noise_events import FlippedBit

    require_probability(delta=delta)
    if num_bits != int(num_bits) or num_bits < 0:
        raise PrivacyError(f"num_bits is {num_bits}, but bits are counted", "give a whole number of at least 0")
    each = bit_epsilon(flip_probability)
    if num_bits == 0 or each in (0.0, math.inf):
        return each if num_bits else 0.0
    event = FlippedBit(flip_probability=flip_probability).repeated(int(num_bits))
    return epsilon_of_event(event, delta=delta) if event is not None else num_bits * each


def bit_epsilon(flip_probability: float) -> float:
    """|ln((1 - p) / p)| of one bit, delta 0; math.inf at 0 and 1. Raises PrivacyError outside [0, 1]."""
    if not 0.0 <= flip_probability <= 1.0:
        raise PrivacyError(f"flip_probability is {flip_probability}, but it is a probability", "give one in [0, 1]")
    if flip_probability in (0.0, 1.0):
        return math.inf
    return abs(math.log1p(-flip_probability) - math.log(flip_probability))


def epsilon_from_renyi(*, order: float, epsilon: float, delta: float) -> float:
    """eps' = eps + [ln(1 / delta) - ln(lam - 1) + lam ln(1 - 1 / lam)] / (lam - 1), at least 0.

    (lam, eps) Renyi DP as (eps', delta) DP: `gaussian_mechanism.delta_from_renyi` the other way round. Raises
    PrivacyError for values out of range.
    """
    if not (math.isfinite(order) and order > 1.0):
        raise PrivacyError(f"order is {order}, but a Renyi order must be finite and above 1", "2 is usual")
    require_probability(delta=delta)
    more = -math.log(delta) - math.log(order - 1.0) + order * math.log1p(-1.0 / order)
    return max(epsilon + more / (order - 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class AccountRow:
    """One row of the table: the subject, the claim, and its worth in one plain sentence."""

    what: str
    claim: Claim
    worth: str


def bit_flipping_rows(
    *,
    flip_probability: float,
    order: float,
    num_rounds: int,
    kappa: float,
    num_numbers: int,
    bits: int,
    sensitivity: StatedSensitivity,
    delta: float,
    delta_evidence: float = 0.0,
    channel_credited: bool = False,
    block_bits: int = 1,
) -> tuple[AccountRow, ...]:
    """Theorem 1 beside the proved claims of flips with probability p, for K rounds of `num_numbers` numbers.

    `flip_probability` is p; each number has `bits` bits. `block_bits` > 1: a block cipher encrypts the bits before they
    are flipped. An observer with the key, such as the server, knows the two ciphertexts of neighbours, which can differ
    in all bits of every block with a changed bit. Flips of the ciphertext then count, and a bit, a number or an upload
    counts with its whole blocks. The rate of Theorem 1 is that after decryption.

    - Theorem 1, (order, eps) Renyi DP, and the same as (eps, delta) DP: for a typical neighbour, no guarantee;
    - one bit, and one number with all its bits: proved, for that scope only;
    - the whole run with every bit of every number: proved without assumptions on the learning;
    - the whole run at the stated sensitivity: proved if that holds, and no better than the previous row if it bounds
      numbers before rounding.

    `delta` belongs to the claims of the run; `delta_evidence` < delta is its part for measured noise. Raises
    PrivacyError for values out of range.
    """
    from privacy.events.noise_events import LARGEST_COUNT

    require_count(num_rounds=num_rounds, num_numbers=num_numbers)
    require_probability(delta=delta)
    if not 0.0 <= delta_evidence < delta:
        raise PrivacyError(
            f"evidence costs {delta_evidence}, which must be below delta {delta}",
            "give a larger delta, or stronger evidence",
        )

    def proved(epsilon: float, *, scope: Scope, spent: float, exact: bool, assumptions: tuple[str, ...] = ()) -> Claim:
        standing: Standing = "proved"
        return Claim(
            epsilon=epsilon,
            delta=spent,
            accountant="exact" if exact else "basic",
            relation="replace-one",
            unit="sample",
            scope=scope,
            standing=standing,
            source="randomized response per bit, composed",
            assumptions=(INDEPENDENT, *assumptions),
            delta_evidence=delta_evidence if spent else 0.0,
            channel_credited=channel_credited,
        )

    def of_run(per_upload: int, *, assumptions: tuple[str, ...] = ()) -> Claim:
        count = per_upload * num_rounds
        epsilon = composed_epsilon(flip_probability, num_bits=count, delta=delta - delta_evidence)
        return proved(epsilon, scope="run", spent=delta, exact=count <= LARGEST_COUNT, assumptions=assumptions)

    inside = 0.0 < flip_probability < 1.0
    weighed = flip_probability
    if block_bits > 1:
        weighed = float(aes_plaintext_rate(flip_probability, block_bits=block_bits))
    printed = epsilon_of(weighed, order=order, num_rounds=num_rounds, kappa=kappa) if inside else math.inf
    theorem = theorem_1_claim(epsilon=printed, order=order, credited=channel_credited)
    converted = Claim(
        epsilon=epsilon_from_renyi(order=order, epsilon=printed, delta=delta),
        delta=delta,
        accountant="paper",
        relation=theorem.relation,
        unit=theorem.unit,
        scope=theorem.scope,
        standing=theorem.standing,
        source=f"{theorem.source}, converted as in VII-B",
        assumptions=(WEIGHED_BITS,),
        channel_credited=channel_credited,
    )
    each, every = bit_epsilon(flip_probability), -(-num_numbers * bits // block_bits) * block_bits
    of_number, stated = bits, reachable_bits(sensitivity, num_numbers=num_numbers, bits=bits)
    if block_bits > 1:
        of_number = block_bits * blocks_touched(bits, block_bits=block_bits)
        stated = min(sensitivity.numbers(num_numbers) * of_number, every)
    return (
        AccountRow(what=f"Theorem 1, Renyi order {order:g}", claim=theorem, worth=TYPICAL),
        AccountRow(what="Theorem 1 as (epsilon, delta)", claim=converted, worth=TYPICAL),
        AccountRow(
            what="one bit" if block_bits == 1 else f"one bit, in a block of {block_bits}",
            claim=proved(
                block_bits * each, scope="coordinate", spent=0.0, exact=block_bits == 1, assumptions=(ONE_BIT,)
            ),
            worth="Holds for any one bit, and for no change of two bits."
            if block_bits == 1
            else "One changed bit changes its whole block of ciphertext, up to all of its bits.",
        ),
        AccountRow(
            what=f"one number of {bits} bits",
            claim=proved(min(of_number, every) * each, scope="coordinate", spent=0.0, exact=False),
            worth="Holds for any one number in one round: one step of the code can change all its bits."
            if block_bits == 1
            else f"Holds for any one number in one round: the blocks around it have {min(of_number, every)} bits.",
        ),
        AccountRow(
            what=f"every bit of {num_numbers:,} numbers, {num_rounds} round{'s' * (num_rounds != 1)}",
            claim=of_run(every),
            worth="A guarantee for all data of a device, without assumptions on the learning.",
        ),
        AccountRow(
            what=f"{stated:,} bits that can differ, {num_rounds} round{'s' * (num_rounds != 1)}",
            claim=of_run(stated, assumptions=(sensitivity.words(),)),
            worth=_worth_of(stated, every),
        ),
    )


INDEPENDENT = "every bit is wrong with at least this probability, independently of all others"
ONE_BIT = "one bit alone, all others equal"
TYPICAL = "No guarantee: bits are weighed by significance and neighbours averaged, so that the worst pair loses more."


def _worth_of(stated: int, every: int) -> str:
    if stated == every:
        return "The stated sensitivity excludes no bit: the same as the row above."
    if stated == 0:
        return "By the stated sensitivity nothing differs, and there is no loss."
    return f"A guarantee if the stated sensitivity holds, which allows {stated / every:.2g} of all bits to differ."


def _bits(bits: int) -> int:
    if bits != int(bits) or not 1 <= bits <= _MOST_BITS:
        raise PrivacyError(f"bits is {bits}, but must be 1..{_MOST_BITS}", "23 is that of binary32")
    return int(bits)
