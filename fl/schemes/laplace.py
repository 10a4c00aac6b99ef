"""The Laplace mechanism on scaled numbers, as the user writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fl.config.scheme import NOT_CLIPPED, UNLIMITED, UNPROVED, Epsilon, Scheme, schemes

if TYPE_CHECKING:
    from fl.audit.law import Law
    from fl.models.federated import Piece
    from fl.schemes.values.value_coder import ValueCoder
    from privacy.events.claims import Claim
    from privacy.events.releases import Release


@schemes.register
class LaplaceScheme(Scheme):
    """Laplace mechanism on x = (h - mean) / (3 std) per tensor, clipped to [-1, 1] (not so `as_coded`); binary32."""

    label: ClassVar[str] = "Laplace"
    binary32: ClassVar[bool] = True
    sends_scales: ClassVar[bool] = True

    name: Literal["laplace"]
    epsilon: Epsilon = Field(default=0.5, description="per number and round")
    as_coded: bool = Field(default=False, description="without clipping to [-1, 1]: no epsilon holds")

    def upload_bits(self, num_values: int) -> int:
        """See `Scheme.upload_bits`: binary32."""
        return 32 * num_values

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> ValueCoder:
        """See `Scheme.build`."""
        from fl.schemes.values.laplace import LaplaceCode
        from fl.schemes.values.scaling import TensorScaling
        from fl.schemes.values.value_coder import ValueCoder

        return ValueCoder(
            LaplaceCode(epsilon=self.epsilon, as_coded=self.as_coded),
            num_values=sum(piece.size for piece in pieces),
            scaling=TensorScaling(pieces),
            receiver_limit=receiver_limit,
        )

    @property
    def unbiased(self) -> bool:
        """See `Scheme.unbiased`: for numbers within three standard deviations."""
        return True

    @property
    def as_published(self) -> bool:
        """See `Scheme.as_published`: the reference code does not clip, so that no epsilon holds."""
        return self.as_coded

    def describe(self, num_values: int | None) -> list[str]:
        """See `Scheme.describe`."""
        return [f"{line}{UNPROVED if self.as_coded else ''}" for line in super().describe(num_values)]

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`."""
        from fl.schemes.values.laplace import LaplaceCode
        from fl.schemes.values.value_coder import scaled_law

        del num_values
        code = LaplaceCode(epsilon=self.epsilon, as_coded=self.as_coded)
        return scaled_law(
            code,
            unclipped=self.as_coded,
            epsilon=self.epsilon,
            source="Laplace noise 2 / eps",
            proved=not self.as_coded,
        )

    @property
    def published(self) -> tuple[Claim, ...]:
        """See `Scheme.published`."""
        from privacy.events.published import scaled_claims

        return scaled_claims(self.epsilon)

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: the noise of every number."""
        from privacy.events.published import CLEAR_SCALES
        from privacy.events.releases import Release

        if self.as_coded:
            return self.unprotected(NOT_CLIPPED, assumptions=(UNLIMITED,))
        return Release(
            kind="laplace",
            unit="device",
            coordinates=num_values,
            parameter=self.epsilon,
            assumptions=(CLEAR_SCALES,),
        )
