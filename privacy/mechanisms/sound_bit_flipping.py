"""What flipped bits prove: every bit is randomized response, and those count in which neighbours can differ.

A bit that is wrong with probability p, whatever the others do, has the loss ln((1 - p) / p) =: eps0 at most. Neighbours
that differ in n bits over all numbers and rounds are told apart by n such responses, whose sum is known exactly: eps0
(n - 2 Binomial(n, p)). All hangs on n, and what bounds n is less than one would hope:

- *One number, d steps of the code.* In the B-bit fixed-point code of Li et al. 2025 (7) one step is enough for all B
  bits: from 01..1 to 10..0 the carry runs through. On average over codes it flips two. A guarantee is for the worst.
- *An l2 sensitivity before rounding to the nearest* bounds nothing: every number may lie at a rounding threshold, and
  the least shift there is a step of its code. All B M bits count.
- *A sensitivity in steps of the codes themselves* bounds the numbers: each that differs costs a step at least, so that
  l1 distance D leaves D of them and l2 distance D leaves D^2, each with all its B bits.

At the rates of the paper the sum is many orders above Theorem 1's figure. That is no flaw of the account: with millions
of independent flips whoever knows both candidates tells them apart. Theorem 1 (see `bit_flipping`) weighs bits
by significance and averages over neighbours, which speaks of the typical change of a value and not of a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError, require_count, require_positive, require_probability
from privacy.events.claims import Claim, Scope, Standing
from privacy.events.published import WEIGHED_BITS, theorem_1_claim
from privacy.mechanisms.bit_flipping import aes_plaintext_rate, blocks_touched, epsilon_of

Norm = Literal["l1", "l2", "linf"]

_MOST_BITS = 52


def reachable_distance(steps: int, *, bits: int) -> int:
    """The most bits in which two B-bit codes differ that are at most `steps` apart: 0 for 0, else all B.

    Raises PrivacyError for numbers that are not whole, steps below 0, or bits outside 1..52.
    """
    return _bits(bits) if _steps(steps) else 0


def distance_law(steps: int, *, bits: int) -> NDArray[np.float64]:
    """Probability `[bits + 1]` that codes c and c + `steps` differ in 0, 1, .., B bits, c uniform where both exist.

    Exact: the 2^B - d pairs are counted from the last bit to the first, by carry and by bits that changed so far.
    Raises PrivacyError as `reachable_distance` does, and for steps that no two codes are apart.
    """
    width, apart = _bits(bits), _steps(steps)
    if apart >= 1 << width:
        raise PrivacyError(f"steps is {apart}, but codes of {width} bits are at most {2**width - 1} apart; give less.")
    counts = [[1] + [0] * width, [0] * (width + 1)]
    for place in range(width):
        added = (apart >> place) & 1
        following = [[0] * (width + 1), [0] * (width + 1)]
        for carry in (0, 1):
            changes = added ^ carry
            for one in (0, 1):
                into = following[(one + added + carry) >> 1]
                for changed in range(place + 1):
                    into[changed + changes] += counts[carry][changed]
        counts = following
    # A carry out of the first bit would be a code beyond the last.
    return np.array(counts[0], dtype=np.float64) / float((1 << width) - apart)


def mean_distance(steps: int, *, bits: int) -> float:
    """The mean of `distance_law`, about 2 for one step: what a typical code shows, and no guarantee."""
    law = distance_law(steps, bits=bits)
    return float(law @ np.arange(law.size))


@dataclass(frozen=True, kw_only=True)
class StatedSensitivity:
    """How far apart neighbouring uploads are, in steps of the code: `steps` in `norm`, as somebody states it.

    `on_grid`: the distance is that of the codes, as where updates are clipped and rounded before it is taken; else that
    of the numbers before they are rounded to the nearest. Raises PrivacyError for steps below 0 or an unknown norm.
    """

    steps: float
    norm: Norm
    on_grid: bool

    def __post_init__(self) -> None:
        """Refuse what is no distance."""
        if not (math.isfinite(self.steps) and self.steps >= 0.0):
            raise PrivacyError(
                f"steps is {self.steps}, but a distance is finite and at least 0; give steps of the code."
            )
        if self.norm not in ("l1", "l2", "linf"):
            raise PrivacyError(f"norm is {self.norm!r}, but it must be 'l1', 'l2' or 'linf'; choose one.")

    @classmethod
    def of(cls, distance: float, *, value_range: float, bits: int, norm: Norm, on_grid: bool) -> StatedSensitivity:
        """From a distance of values in [-r, r), one step of which is 2 r 2^-bits."""
        require_positive(value_range=value_range)
        return cls(steps=distance / (2.0 * value_range) * 2.0 ** _bits(bits), norm=norm, on_grid=on_grid)

    def numbers(self, num_numbers: int) -> int:
        """How many of `num_numbers` codes can differ at once: each differs by a whole step or not at all."""
        require_count(num_numbers=num_numbers)
        if self.steps == 0.0:
            return 0
        if not self.on_grid:
            return num_numbers
        # A distance meant as a whole number of steps must not lose one to rounding.
        steps = self.steps * (1.0 + 1e-9)
        if self.norm == "linf":
            return num_numbers if steps >= 1.0 else 0
        return int(min(steps if self.norm == "l1" else steps * steps, num_numbers))

    def words(self) -> str:
        """The assumption that a claim resting on it has to name."""
        of = "their codes" if self.on_grid else "their numbers before rounding"
        return f"uploads of neighbours are at most {self.steps:.4g} steps of the code apart in {self.norm}, as {of}"


def reachable_bits(sensitivity: StatedSensitivity, *, num_numbers: int, bits: int) -> int:
    """The most bits of one upload in which neighbours differ: all B of every number that can differ."""
    return sensitivity.numbers(num_numbers) * reachable_distance(1, bits=bits)


def composed_epsilon(flip_probability: float, *, num_bits: int, delta: float) -> float:
    """The smallest eps for which `num_bits` bits, each wrong with p independently, are (eps, delta) DP; exact.

    0 for p = 1/2 or no bit, math.inf for p = 0 or 1. Beyond the number of bits that are summed exactly it is num_bits
    eps0, which holds with delta 0. Raises PrivacyError for values out of range.
    """
    from privacy.accounting.inversion import epsilon_of_event
    from privacy.events.noise_events import FlippedBit

    require_probability(delta=delta)
    if num_bits != int(num_bits) or num_bits < 0:
        raise PrivacyError(f"num_bits is {num_bits}, but bits are counted; give a whole number of at least 0.")
    each = bit_epsilon(flip_probability)
    if num_bits == 0 or each in (0.0, math.inf):
        return each if num_bits else 0.0
    event = FlippedBit(flip_probability=flip_probability).repeated(int(num_bits))
    return epsilon_of_event(event, delta=delta) if event is not None else num_bits * each


def bit_epsilon(flip_probability: float) -> float:
    """|ln((1 - p) / p)| of one bit, delta 0; math.inf at 0 and 1. Raises PrivacyError outside [0, 1]."""
    if not 0.0 <= flip_probability <= 1.0:
        raise PrivacyError(f"flip_probability is {flip_probability}, but it is a probability; give one in [0, 1].")
    if flip_probability in (0.0, 1.0):
        return math.inf
    return abs(math.log1p(-flip_probability) - math.log(flip_probability))


def epsilon_from_renyi(*, order: float, epsilon: float, delta: float) -> float:
    """eps' = eps + [ln(1 / delta) - ln(lam - 1) + lam ln(1 - 1 / lam)] / (lam - 1), at least 0.

    (lam, eps) Renyi DP as (eps', delta) DP: `gaussian_mechanism.delta_from_renyi` the other way round. Raises
    PrivacyError for values out of range.
    """
    if not (math.isfinite(order) and order > 1.0):
        raise PrivacyError(f"order is {order}, but a Renyi order must be finite and above 1; 2 is usual.")
    require_probability(delta=delta)
    more = -math.log(delta) - math.log(order - 1.0) + order * math.log1p(-1.0 / order)
    return max(epsilon + more / (order - 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class AccountRow:
    """One line of the table: what is accounted for, the claim, and what it is worth in one plain sentence."""

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
    """Theorem 1 beside what flips at `flip_probability` p prove, for K rounds of `num_numbers` numbers of `bits` bits.

    `block_bits` > 1: bits go through a block cipher before they are flipped. Whoever has the key, the server first of
    all, knows which two ciphertexts neighbours make, and those differ in up to all bits of every block that a changed
    bit lies in: flips of the ciphertext count, and a bit, a number or an upload is worth its whole blocks. Theorem 1
    has its rate after decryption.

    - Theorem 1, (order, eps) Renyi DP, and the same as (eps, delta) DP: a figure for a typical neighbour, no guarantee;
    - one bit, and one number with all its bits: proved, of as little as they say;
    - the whole run with every bit of every number: proved without any assumption on the learning;
    - the whole run at the stated sensitivity: proved where that holds, and no better than the last where it bounds
      numbers before rounding.

    `delta` is that of the claims of the run, `delta_evidence` < delta what of it is spent on measured noise. Raises
    PrivacyError for values out of range.
    """
    from privacy.events.noise_events import LARGEST_COUNT

    require_count(num_rounds=num_rounds, num_numbers=num_numbers)
    require_probability(delta=delta)
    if not 0.0 <= delta_evidence < delta:
        raise PrivacyError(
            f"evidence takes {delta_evidence} of a delta of {delta}; ask for a larger delta, or for stronger evidence."
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
            worth="True of any one bit, and of nothing that shows in two."
            if block_bits == 1
            else "One changed bit changes its whole block of ciphertext: up to all of these are told.",
        ),
        AccountRow(
            what=f"one number of {bits} bits",
            claim=proved(min(of_number, every) * each, scope="coordinate", spent=0.0, exact=False),
            worth="True of any one number in one round: one step of the code can change all its bits."
            if block_bits == 1
            else f"True of any one number in one round: the blocks it lies in have {min(of_number, every)} bits.",
        ),
        AccountRow(
            what=f"every bit of {num_numbers:,} numbers, {num_rounds} rounds",
            claim=of_run(every),
            worth="A guarantee whatever the learning does, for all that a device holds.",
        ),
        AccountRow(
            what=f"{stated:,} bits that can differ, {num_rounds} rounds",
            claim=of_run(stated, assumptions=(sensitivity.words(),)),
            worth=_worth_of(stated, every),
        ),
    )


INDEPENDENT = "every bit is wrong with at least this probability, independently of all others"
ONE_BIT = "one bit alone, all others equal"
TYPICAL = "No guarantee: bits are weighed by significance and neighbours averaged, so that a worst pair leaks more."


def _worth_of(stated: int, every: int) -> str:
    if stated == every:
        return "The stated sensitivity spares no bit: the line above again."
    if stated == 0:
        return "Nothing can differ, as stated, and so nothing leaks."
    return f"A guarantee as far as the stated sensitivity holds, which leaves {stated / every:.2g} of all bits."


def _bits(bits: int) -> int:
    if bits != int(bits) or not 1 <= bits <= _MOST_BITS:
        raise PrivacyError(f"bits is {bits}, but must be 1..{_MOST_BITS}; 23 is that of binary32.")
    return int(bits)


def _steps(steps: int) -> int:
    if steps != int(steps) or steps < 0:
        raise PrivacyError(f"steps is {steps}, but codes are a whole number of steps apart; give 0 or more.")
    return int(steps)
