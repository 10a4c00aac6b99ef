"""Schemes that send every number, or block of numbers, as a code: Laplace noise, JoPEQ and MVU."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64
from fl.schemes.scheme import Scheme
from privacy.events.published import CLEAR_SCALES
from privacy.events.releases import Release

if TYPE_CHECKING:
    from fl.models.federated import Piece
    from fl.schemes.coders.law import Law
    from fl.schemes.coders.value_coder import CodedPart, ValueCoder


class ValueScheme(Scheme):
    """Numbers to codes of `bits_per_block` bits, `block` numbers in each, and back.

    With `sends_scales` the numbers are x = (h - mean) / (3 std) per tensor; then epsilon needs x clipped to [-1, 1],
    which a field `as_coded` leaves out.
    """

    @property
    def block(self) -> int:
        """Numbers per code, L."""
        return 1

    @property
    @abstractmethod
    def bits_per_block(self) -> int:
        """Bits per code."""

    @abstractmethod
    def to_codes(self, x: F32, *, part: CodedPart) -> NDArray[Any]:
        """Return codes `[K, n / block]`, bool or unsigned, of `x` `[K, n]`, which may be written over."""

    @abstractmethod
    def to_values(self, codes: NDArray[Any], *, part: CodedPart) -> F32:
        """Return numbers `[K, n]` of codes `[K, n / block]`, whatever the radio made of them."""

    @abstractmethod
    def log_ratio(self, codes: I64, read: F64, *, end: float) -> F64:
        """Return ln Pr(code | end) / Pr(code | -end) `[n]`, or what grows with it, of codes `[n]` at every number.

        `read` `[n, block]`: the numbers of the codes, as `to_values` reads them.
        """

    def upload_bits(self, num_values: int) -> int:
        return -(-num_values // self.block) * self.bits_per_block

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> ValueCoder:
        from fl.schemes.coders.value_coder import TensorScaling, ValueCoder

        num_values, scaling = sum(piece.size for piece in pieces), TensorScaling(pieces) if self.sends_scales else None
        return ValueCoder(self, num_values=num_values, scaling=scaling, receiver_limit=receiver_limit)

    @property
    def as_published(self) -> bool:
        """See `Scheme.as_published`: the reference code does not clip, so that no epsilon holds."""
        return getattr(self, "as_coded", False)

    def describe(self, num_values: int | None) -> list[str]:
        block = "parameter" if self.block == 1 else "block of 2 parameters"
        unproved = ": as published and not proved, because numbers beyond three standard deviations are not clipped"
        return [f"epsilon {self.own_epsilon:g} for every {block} in each round{unproved if self.as_published else ''}"]

    def scaled_law(self, **promise: Any) -> Law:
        """Return the law of scaled numbers; `promise`: fields of the law.

        Every 16th number is a game, so that it is clipped. An unclipped one among 63 zeros is sqrt(64) / 3.
        """
        from fl.schemes.coders.value_coder import ValueLaw

        return ValueLaw(
            code=self,
            epsilon=self.own_epsilon,
            block=self.block,
            bits_per_value=32,
            spacing=64 if self.as_published else 16 * self.block,
            end=8.0 / 3.0 if self.as_published else 1.0,
            assumptions=("mean and spread of every tensor, sent beside, tell nothing",),
            **promise,
        )

    def scaled_release(self, *, assumptions: tuple[str, ...] = (), **fields: Any) -> Release:
        """Return the release of scaled numbers by `fields` of `Release`; unprotected without a clip."""
        if self.as_published:
            return self.unprotected(
                "as_coded does not clip numbers to the range that its noise is for, so that no budget holds",
                ("as_coded",),
                assumptions=("numbers beyond [-1, 1] are not clipped: no epsilon holds for them",),
            )
        return Release(unit="device", assumptions=(CLEAR_SCALES, *assumptions), **fields)
