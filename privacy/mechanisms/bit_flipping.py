"""Bit-flipping DP: the bit error rate end to end, and the share of it that a device adds. Li et al. 2025, IV-V.

Error rates in series compose by (10), p = p_A + p_C - 2 p_A p_C, which multiplies 1 - 2 p. Theorem 1 sets p end to end;
the channel contributes p_C, and the device adds p_A of (11).

Two rules keep the bound on a measured channel. Only the *lower* confidence limit of p_C counts, because the point
estimate is too high in half of all rounds. And only min(p_C, 1 - p_C) counts, because an observer can invert all bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive, require_probability

AES_BLOCK_BITS = 128

Theorem1Form = Literal["printed", "corrected"]
"""(38) of Li et al. 2025 as printed, or as the line before it gives it."""


@dataclass(frozen=True, kw_only=True)
class TargetRate:
    """Target of Theorem 1: bit error rate end to end, `rate` in [0, 1/2] and `unclamped` in [0, 1] before the clamp."""

    rate: float
    unclamped: float

    @property
    def clamped(self) -> bool:
        """Return True if the target is 1/2: received bits then carry no information."""
        return self.unclamped >= 0.5


def target_bit_error_rate(
    *, epsilon: float, order: float, num_rounds: int, kappa: float, form: Theorem1Form = "printed"
) -> TargetRate:
    """p = 1 / (1 + r^(1 / (lam - 1))) of Theorem 1 of Li et al. 2025, clamped to 1/2.

    With a = (lam - 1) eps / (K kappa), `printed` has r = a as (38), and `corrected` r = 1 + a. The line before (38)
    asks for kappa (((1 - p) / p)^(lam - 1) - 1) <= (lam - 1) eps / K, of which (38) drops the -1. The printed p is
    therefore larger, never smaller, and may exceed 1/2; the corrected p never does.

    epsilon (nats) is the (order, epsilon) Renyi DP of all `num_rounds` K together, kappa the expected bit-level
    distance (15). The clamp loses nothing: at 1/2 the received bits do not depend on the data. Raises PrivacyError for
    values out of range.
    """
    exponent = _check(order=order, num_rounds=num_rounds, kappa=kappa)
    require_positive(epsilon=epsilon)
    log_ratio = math.log(exponent) + math.log(epsilon) - math.log(num_rounds) - math.log(kappa)
    if form == "corrected":
        log_ratio = float(np.logaddexp(0.0, log_ratio))
    log_odds = log_ratio / exponent
    # The exponential of a negative number does not overflow.
    small = math.exp(-abs(log_odds))
    unclamped = small / (1.0 + small) if log_odds > 0.0 else 1.0 / (1.0 + small)
    return TargetRate(rate=min(unclamped, 0.5), unclamped=unclamped)


def epsilon_of(
    bit_error_rate: float, *, order: float, num_rounds: int, kappa: float, form: Theorem1Form = "printed"
) -> float:
    """eps = K kappa / (lam - 1) r with r = ((1 - p) / p)^(lam - 1), the inverse of Theorem 1; math.inf if it overflows.

    `corrected` has r - 1 in place of r. At p = 1/2, where received bits say nothing, it is 0, and the printed form is
    K kappa / (lam - 1); see `target_bit_error_rate`. Raises PrivacyError unless 0 < p < 1, and for `corrected` unless
    p <= 1/2.
    """
    exponent = _check(order=order, num_rounds=num_rounds, kappa=kappa)
    require_probability(bit_error_rate=bit_error_rate)
    if form == "corrected" and bit_error_rate > 0.5:
        raise PrivacyError(
            f"bit_error_rate is {bit_error_rate}, but no corrected target exceeds 0.5", "give at most 0.5"
        )
    log_ratio = exponent * (math.log1p(-bit_error_rate) - math.log(bit_error_rate))
    logarithm = log_ratio + math.log(num_rounds) + math.log(kappa) - math.log(exponent)
    if form == "corrected":
        share = -math.expm1(-log_ratio)
        return (math.exp(logarithm) if logarithm < 709.0 else math.inf) * share
    return math.exp(logarithm) if logarithm < 709.0 else math.inf


def _check(*, order: float, num_rounds: int, kappa: float) -> float:
    if not (math.isfinite(order) and order > 1.0):
        raise PrivacyError(f"order is {order}, but a Renyi order must be finite and above 1", "2 is usual")
    require_count(num_rounds=num_rounds)
    require_positive(kappa=kappa)
    return order - 1.0


def composed_rate(artificial: ArrayLike, channel: ArrayLike) -> NDArray[np.float64]:
    """p = p_A + p_C - 2 p_A p_C, the rate of two flips in a row; Li et al. 2025 (10). Rates in [0, 1], broadcast."""
    a, c = _rates(artificial=artificial, channel=channel)
    return np.asarray(a + c - 2.0 * a * c)


def artificial_rate(target: ArrayLike, channel: ArrayLike) -> NDArray[np.float64]:
    """p_A = (p - p_C) / (1 - 2 p_C) in [0, 1/2], what a device must add; Li et al. 2025 (11). Rates broadcast.

    A target above 1/2 counts as 1/2. The result is 0 if the channel alone reaches the target, or 1/2. Above 1/2, only
    1 - p_C counts, which `flip_plans.plan_flips` checks.
    """
    p, c = _rates(target=target, channel=channel)
    p = np.minimum(p, 0.5)
    enough = (c >= p) | (c >= 0.5)
    room = np.where(enough, 1.0, 1.0 - 2.0 * c)
    return np.asarray(np.where(enough, 0.0, np.clip((p - c) / room, 0.0, 0.5)))


def recovered_factor(bit_error_rate: ArrayLike) -> NDArray[np.float64]:
    """1 - 2 p: the mean of a recovered number over the number sent, Li et al. 2025, Lemma 1; divide by it to debias."""
    (p,) = _rates(bit_error_rate=bit_error_rate)
    return np.asarray(1.0 - 2.0 * p)


def aes_plaintext_rate(ciphertext_rate: ArrayLike, *, block_bits: int = AES_BLOCK_BITS) -> NDArray[np.float64]:
    """p = (1 - (1 - p_CT)^128) / 2 after decryption, in [0, 1/2]; Li et al. 2025 (17).

    Errors of the ciphertext must be independent. Bursts of the same rate garble fewer blocks and give a lower p.
    """
    require_count(block_bits=block_bits)
    (p,) = _rates(ciphertext_rate=ciphertext_rate)
    with np.errstate(divide="ignore"):
        return np.asarray(-0.5 * np.expm1(block_bits * np.log1p(-p)))


def aes_ciphertext_rate(plaintext_rate: ArrayLike, *, block_bits: int = AES_BLOCK_BITS) -> NDArray[np.float64]:
    """p_CT = 1 - (1 - 2 p)^(1/128), clamped to 1/2, which gives p after decryption; Li et al. 2025, after (17).

    The clamp matters only for p within 2^-(block_bits + 1) of 1/2. Raises PrivacyError above 1/2.
    """
    require_count(block_bits=block_bits)
    (p,) = _rates(plaintext_rate=plaintext_rate)
    if np.any(p > 0.5):
        raise PrivacyError(
            f"plaintext_rate is {p.max()}, but decryption garbles at most half of all bits", "give at most 0.5"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(-np.expm1(np.log1p(-2.0 * p) / block_bits), 0.5))


def blocks_touched(bits: int, *, block_bits: int = AES_BLOCK_BITS) -> int:
    """The most blocks that one of many consecutive numbers of `bits` bits each can overlap.

    A number starts at a multiple of gcd(`bits`, `block_bits`) within its block, at worst at the last.
    """
    require_count(bits=bits, block_bits=block_bits)
    return (block_bits - math.gcd(bits, block_bits) + bits - 1) // block_bits + 1


def _rates(**named: ArrayLike) -> list[NDArray[np.float64]]:
    values = []
    for name, given in named.items():
        rate = np.asarray(given, dtype=np.float64)
        inside = (rate >= 0.0) & (rate <= 1.0)
        if not inside.all():
            raise PrivacyError(
                f"{name} is {rate[~inside].flat[0]}, but a rate lies in [0, 1]", "give wrong bits per bit sent"
            )
        values.append(rate)
    return values
