"""Type-based aggregation: the server learns how many devices round a number to each level, and of none to which.

Over the air (type-based multiple access, Mergen and Tong 2006) a number takes one symbol per level, real or imaginary,
and a device sends on that of its own level alone. With L levels v_l, n_l devices at each, and a = sqrt(L / 2), which
keeps the mean power at 1, the server receives a n_l + z / A and decides for whole numbers:

    n^_l = max(0, round(y_l / (a A))),    theta^_i = sum_l n^_l v_l / sum_l n^_l

Every device counts once, whatever its weight. Under orthogonal access the levels are sent as bits, and theta^_i is
their weighted mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.base.arrays import F32, F64, I64
from fl.base.fields import PositiveFloat
from fl.schemes.coders.air import AirForm, Cover, Heard, SentAmplitudes, parts, unchanged
from fl.schemes.coders.coder import Senders, checked_updates
from fl.schemes.coders.value_scheme import ValueScheme
from fl.schemes.scheme import schemes
from phy.config.base import Modulation
from phy.numerics.draws import chosen
from phy.numerics.random import Purpose
from privacy.events.releases import Release

if TYPE_CHECKING:
    from fl.schemes.coders.value_coder import CodedPart


@schemes.register
class TypeBasedScheme(ValueScheme):
    """How many devices are at each of a few levels: one symbol per level over the air, else bits of the level.

    h is clipped to [-B, B], B = `bound`, and rounded at random to one of 2^`bits` levels: unbiased for |h| <= B.
    """

    label: ClassVar[str] = "type-based"
    unbiased: ClassVar[bool] = True  # for numbers within the bound
    air_modulations: ClassVar[tuple[Modulation, ...]] = ("analog",)

    name: Literal["type-based"]
    bits: Annotated[int, Field(ge=1, le=5, strict=True)] = Field(
        default=2,
        description="per number: 2^bits levels, and as many symbols in the air; 2: four levels, as many symbols as two "
        "devices need for 8 bits of qpsk",
    )
    bound: PositiveFloat = Field(
        default=0.05,
        description="B, limit of every number of an update; larger is more noise of rounding, smaller clips more; 0.05 "
        "as b of probit",
    )

    @property
    def bits_per_block(self) -> int:
        return self.bits

    @property
    def levels(self) -> F64:
        """v_l from -B to B, `[2^bits]`."""
        return np.linspace(-self.bound, self.bound, 1 << self.bits)

    def to_codes(self, x: F32, *, part: CodedPart) -> NDArray[Any]:
        top = np.float32((1 << self.bits) - 1)
        np.clip(x, -self.bound, self.bound, out=x)
        x *= top / np.float32(2.0 * self.bound)
        x += np.float32(0.5) * top
        lower = np.clip(x, 0, top - 1).astype(np.uint32)
        x -= lower
        return np.asarray(lower + chosen(part.words(Purpose.ROUNDING, count=x.shape[1]), share=x))

    def to_values(self, codes: NDArray[Any], *, part: CodedPart) -> F32:
        return np.asarray(self.levels.astype(np.float32)[codes])

    def log_ratio(self, codes: I64, read: F64, *, end: float) -> F64:
        """See `ValueScheme.log_ratio`: it grows with the level."""
        return np.asarray(read.mean(axis=1))

    def over_air(self, num_values: int) -> AirForm:
        return Histogram(self, num_values=num_values)

    def describe(self, num_values: int | None) -> list[str]:
        return []

    def release(self, num_values: int) -> Release:
        return self.unprotected("sends levels as they are, which nothing protects and no budget holds")


class Histogram(AirForm):
    """One symbol for each level of each number, on the real or the imaginary axis."""

    distance = math.sqrt(2.0)

    def __init__(self, scheme: TypeBasedScheme, *, num_values: int) -> None:
        self._scheme, self._levels, self._num_values = scheme, scheme.levels, num_values
        self.num_symbols = -(-num_values * len(self._levels) // 2)
        self._amplitude = np.sqrt(len(self._levels) / 2.0)

    def send(self, updates: F32, senders: Senders, *, cover: Cover = unchanged) -> SentAmplitudes:
        from fl.schemes.coders.value_coder import CodedPart

        updates = checked_updates(updates, devices=senders.devices, num_values=self._num_values)
        codes = self._scheme.to_codes(updates.copy(), part=CodedPart(devices=senders.devices, context=senders.context))
        payload = np.zeros((len(updates), 2 * self.num_symbols), np.float32)
        first = np.arange(self._num_values, dtype=np.int64) * len(self._levels)
        np.put_along_axis(payload, first + codes, self._amplitude, axis=1)
        return SentAmplitudes(payload=payload.view(np.complex64), read=self._read)

    def _read(self, heard: Heard) -> F32:
        received = parts(heard.total)[: self._num_values * len(self._levels)].reshape(self._num_values, -1)
        found = np.rint(received / self._amplitude).clip(0.0)
        devices = found.sum(axis=1)
        mean = found @ self._levels / np.maximum(devices, 1.0)
        return np.asarray(np.where(devices > 0.0, mean, 0.0), np.float32)
