"""One round of bit flipping: the flip probability of each device after a probe. Li et al. 2025, (11), Remark 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError
from privacy.evidence import credited_rate
from privacy.mechanisms.bit_flipping import aes_ciphertext_rate, aes_plaintext_rate, artificial_rate, composed_rate

ChannelCredit = Literal["native", "agnostic"]
CipherName = Literal["none", "stream", "aes"]

NO_CLAMP, CHANNEL_SUFFICES, HALF = 0, 1, 2
CLAMP_WORDS: Mapping[int, str] = {NO_CLAMP: "none", CHANNEL_SUFFICES: "channel alone suffices", HALF: "clamped to 1/2"}
"""Values of `FlipPlan.clamp`: the device adds flips; the channel alone is enough; the target is 1/2."""


@dataclass(frozen=True, kw_only=True)
class FlipPlan:
    """One round of K devices, every field `[K]`, rates float64.

    - `probed_bits`, `probed_errors` int64: known bits, and the number of wrong ones;
    - `probed_low`: lower confidence limit of the channel's rate, the most that counts towards privacy;
    - `flip_probability` p_A of every bit on the air (of the ciphertext, if there is one);
    - `target` p of Theorem 1: end to end, on the bits of the numbers;
    - `credited`: guaranteed rate on the bits of the numbers, from flips and counted channel errors together;
    - `expected`: the same with the point estimate of the channel (0 without a probe), for debiasing;
    - `clamp` int64: a key of `CLAMP_WORDS`.
    """

    probed_bits: NDArray[np.int64]
    probed_errors: NDArray[np.int64]
    probed_low: NDArray[np.float64]
    flip_probability: NDArray[np.float64]
    target: NDArray[np.float64]
    credited: NDArray[np.float64]
    expected: NDArray[np.float64]
    clamp: NDArray[np.int64]

    def series(self) -> dict[str, NDArray[Any]]:
        """Series to store for every round, by name, each `[K]`."""
        names = ("probed_bits", "probed_errors", "probed_low", "flip_probability", "target", "credited", "clamp")
        return {name: getattr(self, name) for name in names}


def plan_flips(
    *,
    probed_bits: NDArray[np.int64],
    probed_errors: NDArray[np.int64],
    target: ArrayLike,
    channel: ChannelCredit,
    confidence: float,
    cipher: CipherName = "none",
    errors_together: ArrayLike = 1,
) -> FlipPlan:
    """Flip probabilities of one round from counts `[K]` of probed bits, Li et al. 2025 (11) and Remark 3.

    `target` p, one or `[K]`, in [0, 1/2]. `native` counts `evidence.credited_rate` at `confidence`, for at most
    `errors_together` errors of one cause; `agnostic` counts no channel errors, which add to the flips. With `aes`,
    rates on the air are those of the ciphertext, 1 - (1 - 2 p)^(1/128) for p, for independent errors within a block.
    Raises PrivacyError for counts or rates out of range, or an unknown word.
    """
    if channel not in ("native", "agnostic"):
        raise PrivacyError(f"channel is {channel!r}, but it must be 'native' or 'agnostic'", "choose one")
    if cipher not in ("none", "stream", "aes"):
        raise PrivacyError(f"cipher is {cipher!r}, but it must be 'none', 'stream' or 'aes'", "choose one")
    bits, errors = np.asarray(probed_bits, dtype=np.int64), np.asarray(probed_errors, dtype=np.int64)
    if bits.shape != errors.shape or bits.ndim != 1:
        raise PrivacyError(
            f"probed counts have shapes {bits.shape} and {errors.shape}", "give one pair per device, [K]"
        )
    low = credited_rate(errors, bits, failure_probability=1.0 - confidence, design_effect=errors_together)
    wanted = np.broadcast_to(np.asarray(target, dtype=np.float64), bits.shape).copy()
    if np.any(wanted > 0.5):
        raise PrivacyError(f"target is {wanted.max()}, but it must be at most 1/2", "give at most 0.5")
    on_air = aes_ciphertext_rate(wanted) if cipher == "aes" else wanted
    credit = low if channel == "native" else np.zeros_like(low)
    added = artificial_rate(on_air, credit)
    estimate = errors / np.maximum(bits, 1)
    surely, likely = composed_rate(added, credit), composed_rate(added, estimate)
    if cipher == "aes":
        surely, likely = aes_plaintext_rate(surely), aes_plaintext_rate(likely)
    clamp = np.where(on_air >= 0.5, HALF, NO_CLAMP)
    clamp = np.where((credit >= on_air) & (credit > 0.0), CHANNEL_SUFFICES, clamp)
    return FlipPlan(
        probed_bits=bits,
        probed_errors=errors,
        probed_low=low,
        flip_probability=added,
        target=wanted,
        credited=surely,
        expected=likely,
        clamp=clamp.astype(np.int64),
    )
