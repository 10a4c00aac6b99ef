"""Bit-flipping DP, Li et al. 2025."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field

from privacy.config.base import UNSETTLED, Calibrated, Confidence, Epsilon, RenyiOrder, Training, UploadMechanism
from privacy.errors import PlainRemedy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privacy.events.claims import Claim
    from privacy.events.releases import Release
    from privacy.mechanisms.bit_distance import KappaEstimate
    from privacy.mechanisms.bit_flipping import TargetRate

    Floats = NDArray[np.float64]


class FlippedBits(UploadMechanism):
    """The bits of every upload are flipped.

    `channel: native` counts bit errors of the channel towards privacy, namely the lower confidence limit of the probed
    rate; `agnostic` ignores them, so that they add to the flips. `cipher` acts before the flips, Remark 3.
    """

    protects = "bits"
    words = "bits flipped with probability"

    mechanism: Literal["bit-flipping"] = Field(
        description="bits of the uploads are flipped at random; Li et al. 2025, Theorem 1"
    )
    channel: Literal["native", "agnostic"] = Field(
        description="native: the channel's bit errors count as flips; agnostic: the devices flip all"
    )
    confidence: Confidence = Field(
        default="auto",
        description="confidence level of the lower limit of the bit error rate that a probe measures; auto: all rounds "
        "cost a tenth of the delta of the run, that of the budget or 1e-5, and 0.99 where no error counts",
    )
    debias: bool = Field(default=False, description="divide received numbers by 1 - 2 p; false as in Li et al. 2025")
    cipher: Literal["none", "stream", "aes"] = Field(
        default="none",
        description="encryption of the flipped bits; aes: any wrong bit spoils its block; none: flips alone protect",
    )

    @property
    def credited(self) -> float | None:
        """See `UploadMechanism.credited`."""
        return self.level if self.channel == "native" else None

    @property
    def level(self) -> float:
        """The confidence as a number."""
        return UNSETTLED if self.confidence == "auto" else self.confidence

    def settled(self, *, num_rounds: int, counts: bool) -> Self:
        """See `Mechanism.settled`."""
        if self.confidence != "auto":
            return self
        level = UNSETTLED
        if counts and self.channel == "native":
            from privacy.evidence import USUAL_DELTA, confidence_for

            delta = USUAL_DELTA if self.budget is None else self.budget.delta or USUAL_DELTA
            level = confidence_for(0.1 * delta, num_rounds=num_rounds)
        return self.model_copy(update={"confidence": level})

    @property
    def pairs(self) -> int | None:
        """Pairs of uploads to measure kappa on; None if kappa plays no part."""
        return None

    def release(self, num_values: int, training: Training, *, target: float | None = None) -> Release:
        """Return every bit on the air: of whole bytes for a cipher, and of whole blocks for AES.

        Neighbours may differ in every bit: any number near a rounding threshold changes all bits of its code, and with
        AES all bits of its blocks.
        """
        from privacy.ciphers import build_cipher
        from privacy.events.releases import Release
        from privacy.mechanisms.bit_flipping import AES_BLOCK_BITS, blocks_touched

        per_number = training.bits_per_value
        on_air = num_values * per_number
        if self.cipher != "none":
            on_air = 8 * build_cipher(self.cipher).payload_bytes(-(-on_air // 8))
        if self.cipher == "aes":
            per_number = AES_BLOCK_BITS * blocks_touched(per_number)
        return Release(
            kind="flipped-bits",
            unit="sample",
            coordinates=on_air,
            per_number=min(per_number, on_air),
            parameter=self._flips_on_air(training, target),
            confidence=self.credited,
        )

    def _flips_on_air(self, training: Training, target: float | None) -> float | None:
        return None

    @abstractmethod
    def target(
        self, training: Training, *, sensitivity: float, kappa: KappaEstimate | None, found: Floats | None
    ) -> tuple[float | Floats | None, dict[str, float]]:
        """Return the bit error rate p of the numbers' bits, one or `[num_rounds]`, and the numbers of the trial.

        None for a kappa that is to be measured and was not.
        `kappa` as measured by Li et al. 2025 (26); `found`: the rates of the rounds that a budget for the run leaves.
        """

    def conflicts(self, training: Training, *, lost: str | None) -> Iterator[tuple[str, str, *tuple[PlainRemedy, ...]]]:
        """See `UploadMechanism.conflicts`."""
        yield from super().conflicts(training, lost=lost)
        if not training.bounded:
            yield (
                "learning.codec.name learning.codec privacy.mechanism privacy",
                f"flipped exponent bits of {training.codec} make weights of up to 1e38",
                {"learning.codec": "fixed-point"},
                {"learning.codec": "uniform"},
            )
        if self.channel == "native" and lost is not None:
            yield (
                "link.packets.policy privacy.channel privacy.mechanism",
                f"channel native counts bit errors of the channel as flips, but packets.policy {lost} drops packets "
                "with errors or sends them again",
                {"link.packets.policy": "accept"},
                {"channel": "agnostic"},
            )


_SMALL_MEASURED_KAPPA = 1.0
"""Kappa by (15) and (26) of Li et al. 2025: 1 to 3 for their CNN, 15 to 33 for ResNet-18, as measured here."""


class BitFlippingConfig(FlippedBits):
    """Bit-flipping DP, Li et al. 2025: the bits of every upload are flipped with the probability of Theorem 1."""

    epsilon: Epsilon = Field(description="epsilon of Renyi DP of this order for the whole run [nats]")
    form: Literal["printed", "corrected"] = Field(
        default="printed",
        description="bit error rate of Theorem 1 as (38) prints it, or with the +1 that (38) drops, which is lower; "
        "printed: as in Li et al. 2025",
    )
    order: RenyiOrder = Field(default=2.0, description="order of Renyi DP, lambda of Li et al. 2025; 2 as there")
    kappa: Annotated[float, Field(gt=0.0, le=1e12, allow_inf_nan=False)] | Literal["measured"] = Field(
        examples=[0.02],
        description="expected bit-level distance of neighbouring uploads, Li et al. 2025 (15), or measured by (26)",
    )
    kappa_pairs: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=20, description="pairs of uploads on which kappa is measured; 20 as in bit-distance"
    )
    channel: Literal["native", "agnostic"] = Field(
        default="native",
        description="native: the channel's bit errors count as flips; agnostic: the devices flip all; native as in "
        "Li et al. 2025, but agnostic under privacy.budget, where evidence for native costs delta",
    )

    @property
    def pairs(self) -> int:
        """See `FlippedBits.pairs`."""
        return self.kappa_pairs

    def target(
        self, training: Training, *, sensitivity: float, kappa: KappaEstimate | None, found: Floats | None
    ) -> tuple[float | Floats | None, dict[str, float]]:
        """See `FlippedBits.target`."""
        numbers = {"sensitivity": sensitivity}
        if kappa is not None:
            numbers |= {"kappa_measured": kappa.mean, "kappa_standard_error": kappa.standard_error}
        distance = numbers.get("kappa_measured") if self.kappa == "measured" else self.kappa
        if distance is None:
            return None, numbers
        asked = self._target(training, distance)
        numbers |= {"kappa": distance, "target_bit_error_rate": asked.rate, "target_unclamped": asked.unclamped}
        return asked.rate, numbers

    def published(self, training: Training) -> tuple[Claim, ...]:
        """See `UploadMechanism.published`: Theorem 1."""
        from privacy.events.published import theorem_1_claim

        return (theorem_1_claim(epsilon=self.epsilon, order=self.order, credited=self.channel == "native"),)

    @property
    def asked(self) -> str:
        """See `Mechanism.asked`."""
        corrected = ", corrected" if self.form == "corrected" else ""
        return f"{self.epsilon:g}, Rényi of order {self.order:g} (Theorem 1{corrected})"

    def cells(self, training: Training, *, num_samples: int) -> tuple[str, str, str, str, str]:
        """See `UploadMechanism.cells`."""
        name = f"bit-flipping, {self.channel}" + (", debiased" if self.debias else "")
        whose = f"{self.epsilon:g} per run, Renyi order {self.order:g}"
        if self.kappa == "measured":
            return name, whose, "measured", "", ""
        target = self._target(training, self.kappa)
        clamped = " (clamped)" if target.clamped else ""
        return name, whose, f"{self.kappa:g}", f"{target.rate:.4g}{clamped}", ""

    def conflicts(self, training: Training, *, lost: str | None) -> Iterator[tuple[str, str, *tuple[PlainRemedy, ...]]]:
        """See `UploadMechanism.conflicts`."""
        yield from super().conflicts(training, lost=lost)
        if self.kappa == "measured" and training.bounded and not training.fractions:
            yield (
                "privacy.kappa learning.codec.name learning.codec privacy.mechanism privacy",
                f"kappa is measured on the fraction bits of codec fixed-point, the codec is {training.codec}",
                {"learning.codec": "fixed-point"},
            )

    def noise_std(self, training: Training, *, num_samples: int, value_range: float) -> float | None:
        """See `UploadMechanism.noise_std`: a wrong bit i moves a number by 2^-i of the range; squares sum to 4/3."""
        if self.kappa == "measured":
            return None
        return value_range * math.sqrt(4.0 / 3.0 * self._target(training, self.kappa).rate)

    def warnings(self, training: Training) -> Iterator[str]:
        """See `UploadMechanism.warnings`: as printed Theorem 1 asks for fair coins once K kappa >= (lambda - 1) eps."""
        if self.form == "corrected":
            yield from super().warnings(training)
            return
        if self.kappa == "measured":
            least = training.num_rounds * _SMALL_MEASURED_KAPPA / (self.order - 1.0)
            if self.epsilon <= least:
                yield (
                    f"privacy.kappa: measured kappa is at least about {_SMALL_MEASURED_KAPPA:g}, so that epsilon "
                    f"{self.epsilon:g} over {training.num_rounds} rounds asks for a bit error rate of one half, at "
                    f"which nothing can be learnt; raise epsilon far above {least:.4g}, or write kappa: 0.02, the "
                    "number of Li et al. 2025, whose epsilon no measurement supports"
                )
        else:
            least = training.num_rounds * self.kappa / (self.order - 1.0)
            if self.epsilon <= least:
                yield (
                    f"privacy.epsilon: {self.epsilon:g} over {training.num_rounds} rounds at kappa {self.kappa:g} asks "
                    "for a bit error rate of one half (Li et al. 2025, Theorem 1), at which nothing can be learnt; "
                    f"raise epsilon above {least:.4g}, or lower learning.rounds"
                )
        yield from super().warnings(training)

    def _target(self, training: Training, kappa: float) -> TargetRate:
        from privacy.mechanisms.bit_flipping import target_bit_error_rate

        return target_bit_error_rate(
            epsilon=self.epsilon, order=self.order, num_rounds=training.num_rounds, kappa=kappa, form=self.form
        )

    def _flips_on_air(self, training: Training, target: float | None) -> float | None:
        from privacy.mechanisms.bit_flipping import aes_ciphertext_rate

        rate = target
        if rate is None and self.kappa != "measured":
            rate = self._target(training, self.kappa).rate
        return rate if rate is None or self.cipher != "aes" else float(aes_ciphertext_rate(rate))


class BitFlippingBudget(Calibrated, FlippedBits):
    """Bit flipping from a budget for the whole run that counts every bit of every upload; see `BitFlippingConfig`.

    The evidence for `channel: native` costs delta: 1 - `confidence` for every round.
    """

    channel: Literal["native", "agnostic"] = Field(
        default="agnostic",
        description="native: the channel's bit errors count as flips; agnostic: the devices flip all; agnostic: "
        "evidence for native costs delta",
    )
    cipher: Literal["none", "stream"] = Field(default="none", description="encryption of the flipped bits")

    def target(
        self, training: Training, *, sensitivity: float, kappa: KappaEstimate | None, found: Floats | None
    ) -> tuple[float | Floats | None, dict[str, float]]:
        """See `FlippedBits.target`."""
        assert found is not None
        delta, worst = self.budget.delta, float(found.max())
        return found, {"sensitivity": sensitivity, "delta": delta, "target_bit_error_rate": worst}

    def warnings(self, training: Training) -> Iterator[str]:
        """Yield nothing: a budget counts bits, whatever the sensitivity."""
        yield from ()
