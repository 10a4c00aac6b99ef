"""signSGD: one sign per number, their mean or majority. Bernstein et al. 2018, and as a baseline Lang et al. 2023.

    c_i = sign(delta_i)
    mean:     theta^_i = eta sum_k w_k c_ki a / f_k
    majority: theta^_i = eta sign(sum_k w_k c_ki)
    in the air, majority: theta^_i = eta sign(Re y_i), Zhu, Du, Gunduz and Huang 2021

Randomized response with 1 / (1 + e^eps) comes after, as `Scheme.response` asks, and the channel after that:
f_k = 1 - 2 p_k is what both leave of a sign. An update of 0 has no sign, and one bit no third value: a fair coin stands
for it, drawn for the device, so that it adds nothing in the mean. Votes that balance leave a number as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.base.arrays import F32, F64, I64, U8
from fl.base.fields import PositiveFloat
from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.coders.air import AirForm, Votes
from fl.schemes.coders.coder import Coder, Senders, checked_updates
from fl.schemes.coders.stochastic_bits import SignSums, received_signs, stochastic_bits
from fl.schemes.scheme import ChannelUse, Confidence, EpsilonOrNone, Response, Scheme, belongs, keep_factor, schemes
from phy.config.base import Modulation
from phy.config.conflict import Conflict
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.models.federated import Piece
    from fl.schemes.coders.law import Law


@schemes.register
class SignScheme(Scheme):
    """signSGD: one sign per number, randomized response, then the mean or the majority of the signs."""

    in_blocks: ClassVar[bool] = True
    label: ClassVar[str] = "signSGD"
    epsilon_source: ClassVar[str] = "Warner 1965"
    step_key: ClassVar[str] = "aggregation.step"
    air_modulations: ClassVar[tuple[Modulation, ...]] = ("bpsk", "qpsk")

    name: Literal["sign"]
    epsilon: EpsilonOrNone = Field(
        default=None,
        description="of randomized response, per number and round; none: no response, as in Bernstein et al. 2018",
    )
    vote: Literal["mean", "majority"] = Field(
        default="majority",
        description="mean of the received signs, or their majority; majority as in Bernstein et al. 2018",
    )
    decode: Literal["coded", "unbiased"] = Field(
        default="coded",
        description="of the mean: as coded, without dividing by tanh(eps/2), or unbiased; coded: the baseline of "
        "Lang et al. 2023",
    )
    step: PositiveFloat = Field(
        default=0.01, description="change of a parameter for a mean sign of 1; 0.01 is near one number of an update"
    )
    channel: ChannelUse = "agnostic"
    confidence: Confidence = "auto"

    @classmethod
    def variant(cls, settings: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        if settings.get("epsilon") in (None, "none"):
            return settings["name"], ("epsilon",)
        return "signSGD + RR", ()

    def upload_bits(self, num_values: int) -> int:
        return num_values

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> SignVote:
        return SignVote(self, num_values=sum(piece.size for piece in pieces))

    def over_air(self, num_values: int) -> AirForm:
        return Votes(SignVote(self, num_values=num_values), num_values=num_values)

    @property
    def response(self) -> Response:
        return Response.at(self.epsilon, channel=self.channel, confidence=self.confidence)

    @property
    def joint(self) -> bool:
        return self.vote == "majority"

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        if self.decode != "coded" and self.vote == "majority":
            yield belongs("decode", "vote mean", "the vote is majority")
        elif self.decode != "coded" and self.epsilon is None:
            yield belongs("decode", "randomized response", "and epsilon is none")

    def describe(self, num_values: int | None) -> list[str]:
        wrong = f"every bit is wrong with probability {self.response.flip_target or 0.0:.4g} end to end"
        return [f"{line}: {wrong}" for line in super().describe(num_values)]

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`: a bit is more often +1 in the alternative."""
        from fl.schemes.coders.law import Law

        source = "Warner 1965, randomized response"
        return Law(epsilon=self.epsilon, source=source, channel_credited=self.channel == "native")


@dataclass(frozen=True)
class SignVote(Coder):
    """The bit 1 stands for +1. `step` of the scheme is eta.

    - `vote` `mean`, `decode` `coded`: a = tanh(eps/2), the raw mean of +-1 as the CPA reference has it, in which
      randomized response is not undone, though the channel is; `unbiased`: a = 1, E[theta^_i] = eta sum_k w_k c_ki;
    - `vote` `majority`: every device has its share of the votes, however often its bits come wrong.
    """

    scheme: SignScheme
    num_values: int

    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        """See `Coder.encode`; coins for zeros are drawn from `Purpose.ROUNDING`."""
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        return stochastic_bits(updates, slope=None, key=context.keys(Purpose.ROUNDING)[0], devices=devices)[None]

    def gather(self, senders: Senders) -> SignSums:
        """See `Coder.gather`; a majority ignores `factor`, a mean limits it as CPA does."""
        return SignSums(
            num_values=self.num_values, weights=senders.weights, worth=self._worth(senders), update_of=self._update_of
        )

    def of_votes(self, mean: F64, senders: Senders, *, noise_power: float) -> F32:
        """See `Coder.of_votes`: one-bit broadband digital aggregation, Zhu et al. 2021, where `vote` is `majority`."""
        return self._update_of(mean * float(self._worth(senders).mean()))

    def _worth(self, senders: Senders) -> F64:
        if self.scheme.vote == "majority":
            return np.ones_like(senders.factor)
        kept = keep_factor(self.scheme.epsilon)
        divisor = np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR * kept)
        return np.asarray((kept if self.scheme.decode == "coded" else 1.0) / divisor)

    def _update_of(self, mean: F64) -> F32:
        signs = np.sign(mean) if self.scheme.vote == "majority" else mean
        return np.asarray(self.scheme.step * signs, np.float32)

    def read(self, payload: U8, senders: Senders) -> F32:
        """See `Coder.read`: signs times the step."""
        signs = received_signs(payload, senders, num_bits=self.num_values)
        return np.asarray(signs * self.scheme.step, np.float32)
