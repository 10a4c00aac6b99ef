"""Codecs of one code per number, encoded and decoded in parts of bounded size: binary32, fixed-point and uniform."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.base.arrays import F32, U8, U32, Bools, Reals
from fl.base.errors import LearningError
from fl.base.fields import whole
from fl.schemes.codecs.codec import Bound, ClippedLimit, Codec, Encoded, codecs
from phy.numerics.draws import chosen
from phy.numerics.random import uniform_words
from phy.numerics.workers import spans

_VALUES_AT_ONCE = 1 << 18
_LARGEST = float(np.finfo(np.float32).max)
VALUES_PER_GROUP = 64
"""Parts hold a multiple of this many values: whole bytes at every width."""

Codes = NDArray[np.unsignedinteger[Any]] | Bools


class PartwiseCodec(Codec):
    """A codec that reads numbers as `dtype`, clips them to `limits`, and gives each a code below 2^bits_per_value."""

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        """Type of the numbers before and after."""
        return np.float32

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Least and largest number that has a code."""

    @abstractmethod
    def to_codes(self, part: Any, *, keys: U32, first: int) -> Codes:
        """Return codes of numbers `[num_trials, num_devices, n]` within the limits, from number `first` on."""

    @abstractmethod
    def to_values(self, codes: Any) -> Reals:
        """Return numbers of codes `[..., n]`."""

    def encode(self, values: Reals, *, keys: U32) -> Encoded:
        from phy.numerics.packing import pack  # numba takes a while to import

        bits, dtype = self.bits_per_value, self.dtype
        payload = np.empty((*values.shape[:2], -(-values.shape[-1] * bits // 8)), np.uint8)
        clipped = np.zeros(values.shape[:2], np.int64)
        low, high = (dtype(limit) for limit in self.limits)
        for columns, stored in _parts(values.shape, bits):
            part: Reals = values[..., columns]
            if part.dtype != dtype:
                with np.errstate(over="ignore"):
                    part = part.astype(dtype)
            if part.size and not (low <= part.min() and part.max() <= high):  # not for NaN either
                refuse_infinite_values(values[..., columns], first=columns.start)
                clipped += np.count_nonzero((part < low) | (part > high), axis=-1)
                part = np.clip(part, low, high)
            packed = pack(self.to_codes(part, keys=keys, first=columns.start), bits=bits)
            if packed.shape == payload.shape:  # all of it: nothing is copied
                payload = np.ascontiguousarray(packed)
            else:
                payload[..., stored] = packed
        return Encoded(payload=payload, clipped=clipped)

    def decode(self, payload: U8, *, num_values: int) -> Reals:
        from phy.numerics.packing import unpack

        out = np.empty((*payload.shape[:-1], num_values), self.dtype)
        for columns, stored in _parts(out.shape, self.bits_per_value):
            count = columns.stop - columns.start
            out[..., columns] = self.to_values(unpack(payload[..., stored], bits=self.bits_per_value, num_values=count))
        return out


def _parts(shape: tuple[int, ...], bits: int) -> Iterator[tuple[slice, slice]]:
    """Columns of the values and of the bytes that hold them."""
    num_rows, num_values = math.prod(shape[:-1]), shape[-1]
    width = max(_VALUES_AT_ONCE // max(num_rows, 1) // VALUES_PER_GROUP, 1) * VALUES_PER_GROUP
    for part in spans(num_values, step=width):
        yield part, slice(part.start * bits // 8, -(-part.stop * bits // 8))


def refuse_infinite_values(part: Reals, *, first: int = 0) -> None:
    """Raises LearningError for the first number that is not finite, counted from `first`."""
    lost = np.argwhere(~np.isfinite(part))
    if len(lost):
        trial, device, column = lost[0]
        raise LearningError(
            f"entry {first + column} of device {device} (row {trial} of the batch of trials) is "
            f"{part[trial, device, column]} and has no bits",
            "training diverged: lower the learning rate or clip",
        )


@codecs.register
class Binary32(PartwiseCodec):
    """Sign, exponent, fraction of binary32, all 32 bits exposed: decoding is exact while no bit is wrong.

    A wrong exponent bit changes a value by powers of two, up to infinity and NaN: `decode` returns whatever the bits
    say. Values beyond the largest number of binary32 (3.4e38) are clipped to it.
    """

    name: Literal["binary32"] = "binary32"
    bits_per_value: ClassVar[int] = 32
    limits: ClassVar[tuple[float, float]] = (-_LARGEST, _LARGEST)

    def to_codes(self, part: F32, *, keys: U32, first: int) -> Codes:
        return np.ascontiguousarray(part).view(np.uint32)

    def to_values(self, codes: U32) -> F32:
        return codes.view(np.float32)


@codecs.register
class FixedPoint(PartwiseCodec):
    """Fraction bits of w + 3 B, B = `value_range` = 2^(e-126), e the binary32 exponent field of nu_inf = `bound`.

    For w in [-B, B) the sum lies in [2 B, 4 B): its sign and exponent are the same for all w and are not sent. The
    receiver puts them back and subtracts 3 B. What can be sent is the grid w = n s with n = -2^(f-1) .. 2^(f-1) - 1,
    f = `fraction_bits` and step s = 2 B 2^-f, and the fraction is n + 2^(f-1). Values off the grid are rounded as
    IEEE 754 addition rounds the sum (to the nearest, ties to even), but those just below B stay at the last point of
    the grid, since B itself would change the exponent. Values outside [-B, B) are clipped and counted.

    Values are read as float32 (float64 for 52 bits). A flip of bit i, counted from the most significant, moves the
    value by exactly B 2^-i.
    """

    name: Literal["fixed-point"] = "fixed-point"
    fraction_bits: Literal[10, 23, 52] = Field(
        default=23, description="of binary16, binary32, binary64; 23 as in Li et al. 2025"
    )
    bound: Bound = Field(
        default=0.5, description="nu_inf: values are clipped to the next power of two; 0.5: the CNN of Li et al. 2025"
    )
    max_clipped: ClippedLimit = 0.01

    @property
    def bits_per_value(self) -> int:
        return self.fraction_bits

    @property
    def value_range(self) -> float:
        """B, the next power of two above nu_inf: values are clipped to +- this."""
        return 2.0 ** (math.frexp(self.bound)[1])

    def as_fractions(self) -> FixedPoint:
        return self

    @property
    def step(self) -> float:
        """Distance of neighbours on the grid, 2 B 2^-f."""
        return 2.0 * self.value_range * 2.0**-self.fraction_bits

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        return np.float64 if self.fraction_bits > 23 else np.float32

    @property
    def limits(self) -> tuple[float, float]:
        return -self.value_range, float(np.nextafter(self.dtype(self.value_range), self.dtype(0.0)))

    def to_codes(self, part: Reals, *, keys: U32, first: int) -> Codes:
        half = 1 << (self.fraction_bits - 1)
        # Scaling by a power of two is exact, and n + 2^(f-1) is even where n is: one rounding, the one of the sum.
        scaled = part * part.dtype.type(1.0 / self.step)
        np.rint(scaled, out=scaled)
        np.minimum(scaled, part.dtype.type(half - 1), out=scaled)
        # |n| and n + 2^(f-1) are whole and small enough to be exact in the float; never negative from here on.
        scaled += half
        return np.asarray(scaled.astype(np.uint32 if self.fraction_bits <= 32 else np.uint64))

    def to_values(self, codes: NDArray[np.unsignedinteger[Any]]) -> Reals:
        numbers: Reals = codes.astype(self.dtype)
        numbers -= 1 << (self.fraction_bits - 1)
        numbers *= self.step
        return numbers


@codecs.register
class Uniform(PartwiseCodec):
    """2^bits levels l_i = B (2 i - n) / n, n = 2^bits - 1, i = 0 .. n, with B = `bound`; the code is i.

    `stochastic`: a value v between l_i and l_(i+1) goes up with probability (v - l_i) / (l_(i+1) - l_i), so that
    E[decoded] = v (the QSGD quantiser of Alistarh et al. 2017 with a fixed scale); else to the nearest level. Levels
    are float32, and a value that is a level stays where it is. Values beyond +-B are clipped and counted. Probabilities
    are those of float32 arithmetic, relative to the distance of two levels.
    """

    name: Literal["uniform"] = "uniform"
    bits: int = whole(8, "per number: 2^bits levels; 8: a quarter of binary32, steps of 1/255 within +-0.5", most=16)
    bound: Bound = Field(
        default=0.5,
        description="B: values are clipped to +-B; updates of five steps of 0.1 stay below 0.5, and wrong bits cost "
        "less the smaller B is",
    )
    stochastic: bool = Field(
        default=True,
        description="round at random, so that the mean is exact; otherwise to the nearest level; true: errors of "
        "devices average out",
    )
    max_clipped: ClippedLimit = 0.05

    @property
    def bits_per_value(self) -> int:
        return self.bits

    @property
    def value_range(self) -> float:
        """B: values are clipped to +- this."""
        return self.bound

    @cached_property
    def levels(self) -> F32:
        """What `decode` can give, `[2^bits]`, in the order of the codes."""
        n = (1 << self.bits) - 1
        return (self.bound * ((2.0 * np.arange(n + 1) - n) / n)).astype(np.float32)

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.levels[0]), float(self.levels[-1])

    def to_codes(self, part: F32, *, keys: U32, first: int) -> Codes:
        top = (1 << self.bits) - 1
        # Where values lie on the scale of the codes, 0 to 2^bits - 1, to the precision of float32.
        position = (part - self.levels[0]) * np.float32(top / (2.0 * self.bound))
        if not self.stochastic:
            return np.asarray(np.rint(np.clip(position, 0, top)).astype(np.uint32))
        words = uniform_words(keys, num_devices=part.shape[1], num_words=part.shape[2], first_pair=first // 2)
        if self.bits == 1:
            return chosen(words, share=(part - self.levels[0]) / (self.levels[1] - self.levels[0]))
        lower = np.clip(position, 0, top - 1).astype(np.uint32)
        # Distances to the very levels that decoding gives, or a level would not surely stay where it is.
        share = (part - self.levels[lower]) / np.diff(self.levels)[lower]
        return np.asarray(lower + chosen(words, share=share))

    def to_values(self, codes: NDArray[np.unsignedinteger[Any]]) -> F32:
        return np.asarray(self.levels[codes])
