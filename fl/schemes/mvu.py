"""MVU, the minimum-variance unbiased mechanism, as the user writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fl.config.base import PositiveFloat
from fl.config.scheme import SCHEME_KEYS, Epsilon, Scheme, schemes
from phy.config.conflict import Conflict

if TYPE_CHECKING:
    from fl.audit.law import Law
    from fl.learning.fedavg import FedAvgConfig
    from fl.models.federated import Piece
    from fl.schemes.values.value_coder import ValueCoder
    from privacy.events.claims import Claim
    from privacy.events.releases import Release


@schemes.register
class MvuScheme(Scheme):
    """Minimum-variance unbiased mechanism: few bits per number through an optimised private table."""

    label: ClassVar[str] = "MVU"
    largest_epsilon: ClassVar[float] = 20.0

    name: Literal["mvu"]
    epsilon: Epsilon = Field(default=0.5, description="per number and round")
    clip: PositiveFloat = Field(default=0.05, description="limit of every number of an update")
    input_bits: Annotated[int, Field(ge=1, le=4, strict=True)] = Field(
        default=1, description="bits of the stochastic rounding"
    )
    output_bits: Annotated[int, Field(ge=1, le=4, strict=True)] = Field(
        default=1, description="bits of the symbol that is sent"
    )

    def upload_bits(self, num_values: int) -> int:
        """See `Scheme.upload_bits`: `output_bits` per number."""
        return num_values * self.output_bits

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> ValueCoder:
        """See `Scheme.build`."""
        from fl.schemes.values.mvu import MvuCode
        from fl.schemes.values.value_coder import ValueCoder

        code = MvuCode(epsilon=self.epsilon, clip=self.clip, input_bits=self.input_bits, output_bits=self.output_bits)
        num_values = sum(piece.size for piece in pieces)
        return ValueCoder(code, num_values=num_values, receiver_limit=receiver_limit)

    @property
    def unbiased(self) -> bool:
        """See `Scheme.unbiased`: for numbers within the clip."""
        return True

    def conflicts(self, learning: FedAvgConfig, *, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        """See `Scheme.conflicts`."""
        if self.epsilon > self.largest_epsilon:
            problem = (
                f"beyond epsilon {self.largest_epsilon:g} the table of mvu gives no noticeable privacy; "
                "write a smaller epsilon, or aggregation: mean with codec: uniform"
            )
            yield Conflict.of(f"learning.aggregation.epsilon {SCHEME_KEYS}", problem)

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`."""
        from fl.schemes.values.mvu import MvuCode
        from fl.schemes.values.value_coder import ValueLaw

        del num_values
        code = MvuCode(epsilon=self.epsilon, clip=self.clip, input_bits=self.input_bits, output_bits=self.output_bits)
        source = "the private table's own bound"
        return ValueLaw(code=code, bits_per_value=self.output_bits, epsilon=self.epsilon, source=source)

    @property
    def published(self) -> tuple[Claim, ...]:
        """See `Scheme.published`."""
        from privacy.events.published import local_claim

        return (local_claim(epsilon=self.epsilon, per_upload=False, source="MVU, P_ij <= e^eps P_i'j"),)

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: every number at epsilon."""
        from privacy.events.releases import Release

        return Release(kind="pure", unit="device", coordinates=num_values, parameter=self.epsilon)
