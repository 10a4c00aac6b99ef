"""What every codec is: how numbers become bits on the air, and back."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fl.base.arrays import I64, U8, U32, Reals
from fl.base.fields import Frozen, Probability
from phy.config.registry import Registry

if TYPE_CHECKING:
    from fl.schemes.codecs.partwise import FixedPoint

Bound = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]
ClippedLimit = Annotated[
    Probability,
    Field(description="share of values beyond the bound that ends the trial; more means that the bound is too small"),
]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Numbers of all devices as bits.

    - `payload` `[num_trials, num_devices, ceil(num_values * bits_per_value / 8)]` uint8, most significant bit first;
      bits beyond the last value are zero;
    - `clipped` `[num_trials, num_devices]` int64: values that lay outside the range of the codec.
    """

    payload: U8
    clipped: I64


class Codec(Frozen):
    """Real numbers to bits and back, value by value: `learning.codec` of a scenario.

    A codec is a class in the registry `codecs`.
    """

    name: str

    @property
    @abstractmethod
    def bits_per_value(self) -> int:
        """Bits on the air per number."""

    @property
    def value_range(self) -> float | None:
        """Values are clipped to +- this; None: they are not bounded, and a bit error may change one without limit."""
        return None

    @property
    def clipped_limit(self) -> float | None:
        """Share of values beyond the range that ends the trial; None: none does."""
        return getattr(self, "max_clipped", None)

    def as_fractions(self) -> FixedPoint | None:
        """Return the codec if it sends fraction bits alone, whose flips Li et al. 2025 describe; else None."""
        return None

    @abstractmethod
    def encode(self, values: Reals, *, keys: U32) -> Encoded:
        """Return the bits of `values` `[num_trials, num_devices, num_values]`, float32 or float64.

        `keys` `[num_trials, 2]` uint32 are the round's keys of the stream to draw from; codecs that round to the
        nearest number draw nothing. Raises LearningError for NaN and infinity.
        """

    @abstractmethod
    def decode(self, payload: U8, *, num_values: int) -> Reals:
        """Return values `[num_trials, num_devices, num_values]` of packed bits, whatever the radio made of them."""


codecs: Registry[Codec] = Registry("codec", Codec, package="fl.schemes.codecs")
"""All codecs, by the word in `learning.codec.name`."""

CodecConfig = Annotated[Codec, codecs]
