"""JoPEQ, joint privacy enhancement and quantization, as the user writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fl.config.scheme import NOT_CLIPPED, SCHEME_KEYS, UNLIMITED, UNPROVED, Epsilon, Scheme, schemes
from phy.config.conflict import Conflict

if TYPE_CHECKING:
    from fl.audit.law import Law
    from fl.learning.fedavg import FedAvgConfig
    from fl.models.federated import Piece
    from fl.schemes.values.jopeq import JopeqCode
    from fl.schemes.values.value_coder import ValueCoder
    from privacy.events.claims import Claim
    from privacy.events.releases import Release

DITHER_KNOWN = "the server knows the dither, so that only the noise added before it is counted"


@schemes.register
class JopeqScheme(Scheme):
    """JoPEQ: noise and subtractively dithered quantisation that together are Laplace (scalar) or t (lattice) noise.

    Of x = (h - mean) / (3 std) per tensor, clipped to [-1, 1] (not so `as_coded`).
    """

    label: ClassVar[str] = "JoPEQ"
    sends_scales: ClassVar[bool] = True

    name: Literal["jopeq"]
    epsilon: Epsilon = Field(default=0.5, description="per number (dimension 1) or block of two, and round")
    rate_bits: Annotated[int, Field(ge=1, le=6, strict=True)] = Field(
        default=1, description="R, bits per number of the quantiser"
    )
    dimension: Literal[1, 2] = Field(default=1, description="1: Laplace noise; 2: hexagonal lattice, t noise")
    as_coded: bool = Field(default=False, description="without clipping to [-1, 1]: no epsilon holds")

    def upload_bits(self, num_values: int) -> int:
        """See `Scheme.upload_bits`: ceil(log2 n) bits per block for the n points of the quantiser's ball."""
        from fl.schemes.coders.quantizers import build_quantizer

        # Any radius gives as many points.
        quantizer = build_quantizer(gamma=1.0, rate_bits=self.rate_bits, form="coded", dimension=self.dimension)
        return -(-num_values // self.dimension) * max(len(quantizer.points) - 1, 1).bit_length()

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> ValueCoder:
        """See `Scheme.build`."""
        from fl.schemes.values.scaling import TensorScaling
        from fl.schemes.values.value_coder import ValueCoder

        return ValueCoder(
            self.code(),
            num_values=sum(piece.size for piece in pieces),
            scaling=TensorScaling(pieces),
            receiver_limit=receiver_limit,
        )

    def code(self) -> JopeqCode:
        """Return the code of a block. Raises LearningError where the quantiser errs more than the noise asked for."""
        from fl.schemes.values.jopeq import JopeqCode

        return JopeqCode(
            epsilon=self.epsilon, rate_bits=self.rate_bits, dimension=self.dimension, clip=not self.as_coded
        )

    @property
    def as_published(self) -> bool:
        """See `Scheme.as_published`: the reference code does not clip, so that no epsilon holds."""
        return self.as_coded

    def conflicts(self, learning: FedAvgConfig, *, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        """See `Scheme.conflicts`."""
        from fl.tasks.base import LearningError
        from privacy.errors import PrivacyError

        try:
            self.code()
        except (LearningError, PrivacyError) as error:
            yield Conflict.of(f"learning.aggregation.epsilon {SCHEME_KEYS}", error)

    def describe(self, num_values: int | None) -> list[str]:
        """See `Scheme.describe`."""
        block = "parameter" if self.dimension == 1 else "block of 2 parameters"
        return [f"epsilon {self.epsilon:g} for every {block} in each round{UNPROVED if self.as_coded else ''}"]

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`: of pairs no likelihood ratio is known."""
        from fl.schemes.values.value_coder import scaled_law

        del num_values
        code = self.code()
        return scaled_law(
            code,
            unclipped=self.as_coded,
            epsilon=self.epsilon,
            source="Lang, Sofer, Shaked and Shlezinger 2023",
            proved=False,
            exact_epsilon=None if self.as_coded else code.sure_epsilon,
            known=self.dimension == 1,
        )

    @property
    def published(self) -> tuple[Claim, ...]:
        """See `Scheme.published`."""
        from privacy.events.published import scaled_claims

        return scaled_claims(self.epsilon)

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: the noise below the dither of every block, less than what the paper counts."""
        from privacy.events.published import CLEAR_SCALES
        from privacy.events.releases import Release

        if self.as_coded:
            return self.unprotected(NOT_CLIPPED, assumptions=(UNLIMITED,))
        return Release(
            kind="laplace" if self.dimension == 1 else "pure",
            unit="device",
            coordinates=-(-num_values // self.dimension),
            parameter=self.code().sure_epsilon,
            assumptions=(CLEAR_SCALES, DITHER_KNOWN),
        )

    def with_epsilon(self, epsilon: float, *, num_values: int | None) -> JopeqScheme:
        """See `Scheme.with_epsilon`."""
        from privacy.errors import PrivacyError

        raise PrivacyError(
            "the noise of jopeq follows from its quantiser as well as from its epsilon, which no budget is turned "
            "into; write budget.calibrate: false, or another aggregation."
        )
