"""signSGD with randomized response, as the user writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fl.config.base import PositiveFloat
from fl.config.scheme import ChannelUse, EpsilonOrNone, Response, Scheme, belongs, flip_target, response_claims, schemes
from phy.config.conflict import Conflict

if TYPE_CHECKING:
    from fl.audit.law import Law
    from fl.learning.fedavg import FedAvgConfig
    from fl.models.federated import Piece
    from fl.schemes.coders.sign_bits import SignVote
    from privacy.events.claims import Claim


@schemes.register
class SignScheme(Scheme):
    """signSGD: one sign per number, randomized response, then the mean or the majority of the signs."""

    in_blocks: ClassVar[bool] = True
    label: ClassVar[str] = "signSGD"

    name: Literal["sign"]
    epsilon: EpsilonOrNone = Field(
        default=0.5, description="of randomized response, per number and round; none: no randomized response"
    )
    vote: Literal["mean", "majority"] = Field(
        default="majority", description="mean of the received signs, or their majority"
    )
    decode: Literal["coded", "unbiased"] = Field(
        default="coded", description="of the mean: as coded, without dividing by tanh(eps/2), or unbiased"
    )
    step: PositiveFloat = Field(default=1.0, description="change of a parameter for a mean sign of 1")
    channel: ChannelUse = Field(
        default="agnostic",
        description="measured bit errors: native counts them for privacy and undoes them, debias undoes them",
    )
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = Field(
        default=0.99, description="of the lower limit of the measured bit error rate"
    )

    def upload_bits(self, num_values: int) -> int:
        """See `Scheme.upload_bits`: one bit per number."""
        return num_values

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> SignVote:
        """See `Scheme.build`."""
        from fl.schemes.coders.sign_bits import SignVote

        return SignVote(
            num_values=sum(piece.size for piece in pieces),
            epsilon=self.epsilon,
            vote=self.vote,
            step=self.step,
            decode=self.decode,
        )

    @property
    def response(self) -> Response:
        """See `Scheme.response`."""
        return Response(flip_target(self.epsilon), self.channel, self.confidence)

    def conflicts(self, learning: FedAvgConfig, *, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        """See `Scheme.conflicts`."""
        if self.decode != "coded" and self.vote == "majority":
            yield belongs("decode", "vote mean", "the vote is majority")
        elif self.decode != "coded" and self.epsilon is None:
            yield belongs("decode", "randomized response", "and epsilon is none")

    def describe(self, num_values: int | None) -> list[str]:
        """See `Scheme.describe`."""
        target = self.response.flip_target
        return [
            f"{line}: every bit is wrong with probability {target or 0.0:.4g} end to end"
            for line in super().describe(num_values)
        ]

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`: a bit is more often +1 in the alternative."""
        from fl.audit.law import Law

        del num_values
        source = "Warner 1965, randomized response"
        return Law(epsilon=self.epsilon, source=source, channel_credited=self.channel == "native")

    @property
    def published(self) -> tuple[Claim, ...]:
        """See `Scheme.published`."""
        return response_claims(self, "Warner 1965")
