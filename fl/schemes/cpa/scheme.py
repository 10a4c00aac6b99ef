"""CPA, compressed private aggregation, as the user writes it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Discriminator, Field, Tag

from fl.base.fields import PositiveFloat, whole
from fl.base.measured import Measured
from fl.base.words import plural
from fl.schemes.coders.quantizers import Quantizer, RateBits, build_quantizer
from fl.schemes.cpa.cpa_theory import Codebook, anonymity
from fl.schemes.scheme import SCHEME_KEYS, ChannelUse, Confidence, EpsilonOrNone, Response, Scheme, belongs, schemes
from phy.config.base import Modulation
from phy.config.conflict import Conflict, Say, Write
from privacy.events.releases import Release

if TYPE_CHECKING:
    from fl.models.federated import Piece
    from fl.schemes.coders.air import AirForm
    from fl.schemes.coders.law import Law
    from fl.schemes.cpa.cpa import Cpa

_MOST_POINTS = 512
"""Entries of the longest codeword."""


def _number_or_list(value: object) -> str:
    return "list" if isinstance(value, list | tuple) else "number"


# The form is chosen before it is read, so that an error in one form is not reported as the other.
StageRates = Annotated[
    Annotated[RateBits, Tag("number")] | Annotated[tuple[RateBits, ...], Tag("list")], Discriminator(_number_or_list)
]


@schemes.register
class CpaScheme(Scheme):
    """Compressed private aggregation, Lang et al. 2023: one bit per block, a histogram at the server."""

    in_blocks: ClassVar[bool] = True
    label: ClassVar[str] = "CPA"
    epsilon_source: ClassVar[str] = "Lang et al. 2023"
    joint: ClassVar[bool] = True  # a histogram
    measured: ClassVar[Measured] = Measured(per_trial=("k_anonymity", "anonymity", "anonymity_printed"))

    name: Literal["cpa"]
    epsilon: EpsilonOrNone = 0.5
    form: Literal["coded", "printed"] = Field(
        default="coded",
        description="coded: 2^R + 1 levels, codewords of (n-1)/2 entries -1; printed: 2^R levels, balanced "
        "codewords; coded, with gamma 0.05, reaches the accuracy of Lang et al. 2023, Table V, at 1000 "
        "devices",
    )
    decode: Literal["coded", "printed", "unbiased"] = Field(
        default="coded",
        description="as the authors coded it (no 1/(2p-1)), as printed, or exactly unbiased; coded: see form",
    )
    rate_bits: StageRates = Field(
        default=1,
        description="R, bits per number of the quantiser, or a list with the R of every stage; [1, 3] with stages 2 is "
        "nested CPA as printed, 1 as in Lang et al. 2023",
    )
    gamma: PositiveFloat = Field(
        default=0.02, description="radius of the quantiser; with 0.02 its noise lets 20 devices learn at epsilon 0.5"
    )
    radius: Literal["fixed", "scaled", "decaying"] = Field(
        default="fixed",
        description="fixed; scaled per tensor to gamma standard deviations; decaying by gamma_decay every round; "
        "fixed as the authors coded it",
    )
    gamma_decay: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0, description="factor of the radius from round to round; 1: no decay"
    )
    dimension: Literal[1, 2] = Field(
        default=1, description="L, numbers in a block of the lattice; 2: hexagonal; 1 as in Lang et al. 2023"
    )
    dither: bool = Field(
        default=False, description="subtractive dither from the shared seed; false as the authors coded it"
    )
    stages: int = whole(1, "1: CPA; 2: nested CPA; each further stage quantises the residual of the last", most=8)
    codewords: Literal["balanced", "independent"] = Field(
        default="balanced",
        description="balanced: fixed weight; independent: fair coins; balanced as in Lang et al. 2023",
    )
    negative_bins: Literal["keep", "zero"] = Field(
        default="keep",
        description="of the histogram, kept or set to zero at the server; keep: zeros would bias the histogram",
    )
    channel: ChannelUse = "native"
    confidence: Confidence = "auto"

    @classmethod
    def variant(cls, settings: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        stages = ("stages",) if settings.get("stages") == 2 else ()
        response = ("epsilon",) if settings.get("epsilon") == "none" else ()
        return f"{'nested ' if stages else ''}CPA{' without RR' if response else ''}", (*stages, *response)

    def upload_bits(self, num_values: int) -> int:
        """See `Scheme.upload_bits`: one bit per block of L numbers and stage."""
        return self.stages * -(-num_values // self.dimension)

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> Cpa:
        from fl.schemes.cpa.cpa import Cpa

        return Cpa(self, num_values=sum(piece.size for piece in pieces), pieces=pieces)

    def over_air(self, num_values: int) -> AirForm | None:
        """See `Scheme.over_air`: the mean of what each bit stands for; None where the server needs the histogram."""
        from fl.schemes.coders.air import DecodedAmplitudes
        from fl.schemes.cpa.cpa import Cpa

        if self.negative_bins == "zero" or self.radius == "scaled":
            return None
        coder = Cpa(self, num_values=num_values)
        return DecodedAmplitudes(coder, num_values=num_values, rows_at_once=coder.rows_at_once)

    @property
    def air_modulations(self) -> tuple[Modulation, ...]:
        return () if self.negative_bins == "zero" or self.radius == "scaled" else ("analog",)

    @property
    def rates(self) -> tuple[int, ...]:
        """R of every stage."""
        return (self.rate_bits,) * self.stages if isinstance(self.rate_bits, int) else self.rate_bits

    def quantizer(self, reach: float, *, rate_bits: int) -> Quantizer:
        """Return the quantiser of a stage that covers the ball of radius `reach`."""
        return build_quantizer(gamma=reach, rate_bits=rate_bits, form=self.form, dimension=self.dimension)

    def codebook(self, rate_bits: int) -> Codebook:
        """Return the codebook of a stage."""
        num_points = len(self.quantizer(1.0, rate_bits=rate_bits).points)
        return Codebook(num_points=num_points, balanced=self.codewords == "balanced")

    def gamma_in(self, round_index: int) -> float:
        """Return gamma in a round."""
        return self.gamma * (self.gamma_decay**round_index if self.radius == "decaying" else 1.0)

    @property
    def response(self) -> Response:
        return Response.at(self.epsilon, channel=self.channel, confidence=self.confidence)

    @property
    def unbiased(self) -> bool:
        """See `Scheme.unbiased`: dithered quantisation within the radius, decoded without bias."""
        return self.decode == "unbiased" and self.dither and self.negative_bins == "keep" and self.radius == "fixed"

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        keys = f"learning.aggregation.rate_bits learning.aggregation.dimension {SCHEME_KEYS}"
        last = self.gamma_in(num_rounds - 1)
        if np.float32(last) < np.finfo(np.float32).tiny:
            least = (2.0 * float(np.finfo(np.float32).tiny) / self.gamma) ** (1.0 / (num_rounds - 1))
            problem = f"gamma has come down to {last:g} in round {num_rounds}, which single precision does not hold"
            remedy = Write({"gamma_decay": math.ceil(1e4 * least) / 1e4}, note="or more")
            yield Conflict(f"learning.aggregation.gamma_decay {keys}", problem, remedy)
        if len(self.rates) != self.stages:
            problem = f"rate_bits lists {plural(len(self.rates), 'stage')}, stages is {self.stages}"
            as_many = Write({"stages": len(self.rates)}) if self.rates else Say("write one rate for every stage")
            yield Conflict(f"learning.aggregation.stages {keys}", problem, as_many)
            return
        if self.radius == "scaled" and (self.form, self.rates[0], self.dimension) == ("printed", 1, 1):
            problem = (
                "a scaled radius is found from how large quantised numbers are, and the printed form with rate_bits 1 "
                "has two levels of one size"
            )
            yield Conflict(
                f"learning.aggregation.radius {keys}", problem, Write({"form": "coded"}), Write({"rate_bits": 2})
            )
        most = max(self.rates)
        if (num_points := self.codebook(most).num_points) > _MOST_POINTS:
            problem = (
                f"a hexagonal lattice of rate_bits {most} has {num_points} points in its ball, and "
                f"codewords have at most {_MOST_POINTS} entries"
            )
            yield Conflict(keys, problem, Write({"rate_bits": 4}, note="or less"), Write({"dimension": 1}))
        if self.gamma_decay != 1.0 and self.radius != "decaying":
            yield belongs("gamma_decay", "radius decaying", f"the radius is {self.radius}")

    def describe(self, num_values: int | None) -> list[str]:
        """See `Scheme.describe`: k-anonymity by Lang et al. 2023, Proposition 2, and that of the actual codewords."""
        lines = []
        if self.epsilon is not None:
            block = "parameter" if self.dimension == 1 else "block of 2 parameters"
            stages = f", and for each of the {self.stages} stages" if self.stages > 1 else ""
            wrong = f"every bit is wrong with probability {self.response.flip_target:.4g} end to end"
            lines.append(f"epsilon {self.epsilon:g} for every {block} in each round{stages}: {wrong}")
        codebooks = [self.codebook(rate) for rate in self.rates]
        found = anonymity(codebooks)
        numbers = " and ".join(dict.fromkeys(str(one.num_points) for one in codebooks))
        text = f"{numbers} points per stage: k-anonymity of an unflipped bit is at least {found.least}, on average "
        return [*lines, f"{text}{found.expected:.4g} ({found.printed:.4g} as printed)"]

    def law(self, *, num_values: int | None) -> Law:
        from fl.schemes.cpa.cpa import CpaLaw

        return CpaLaw(
            epsilon=self.epsilon,
            source="Lang et al. 2023, randomized response",
            channel_credited=self.channel == "native",
            responses=self.stages,
            block=self.dimension,
            spacing=self.dimension,
            bits_per_value=self.stages,
        )

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: a number has a bit in every stage."""
        found = super().release(num_values)
        return found if self.epsilon is None else replace(found, per_number=self.stages)
