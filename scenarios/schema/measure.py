"""The `measure:` part of a scenario: axis, values, number of devices and stopping rule of a link study."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from phy.config import Frozen
from phy.measure.monte_carlo import StopRule

Axis = Literal["ebno_db", "esno_db", "snr_db"]

MAX_VALUES = 1000
USUAL_PACKET_ERRORS = 100
"""Default target: an interval of about plus and minus 20 %, however errors lie within packets."""

# Beyond any radio, and far inside the range whose squares fit single precision.
Level = Annotated[float, Field(ge=-150, le=150, allow_inf_nan=False)]


class ValueRange(Frozen):
    """`start`, `start + step`, and so on up to and including `stop` [dB]."""

    start: Level
    stop: Level
    step: Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _goes_up(self) -> ValueRange:
        if self.stop < self.start:
            raise ValueError(f"stop {self.stop:g} is below start {self.start:g}; swap them")
        if self._count() > MAX_VALUES:
            raise ValueError(f"step {self.step:g} makes {self._count()} values, at most {MAX_VALUES}; widen it")
        return self

    def _count(self) -> int:
        # 0.1 is no binary fraction: round a ratio just below a whole number of steps up.
        return int((self.stop - self.start) / self.step + 1e-9) + 1

    def listed(self) -> tuple[float, ...]:
        """The values, rounded to 1e-9 dB so that 3 steps of 0.1 are 0.3."""
        return tuple(round(self.start + number * self.step, 9) for number in range(self._count()))


def _list_or_range(value: object) -> str:
    return "range" if isinstance(value, dict | ValueRange) else "list"


# The discriminator decides before validation: a mistake inside one form is then not reported as the other form.
Values = Annotated[
    Annotated[tuple[Level, ...], Field(min_length=1, max_length=MAX_VALUES), Tag("list")]
    | Annotated[ValueRange, Tag("range")],
    Discriminator(_list_or_range),
]


class StopConfig(Frozen):
    """When a point has been measured enough; asked after every batch.

    Every target that is given has to be reached: `bit_errors`, `packet_errors`, `relative_width` (width of the interval
    of the bit error rate over the rate); given none, `packet_errors: 100` is meant. `max_bits` (payload bits of all
    devices) and `max_seconds` (computing time of the point) end it earlier. After a point that saw no error among all
    of `max_bits`, and in at least 1000 independent packets, higher values on the same curve are skipped unless
    `skip_after_zero` is false.
    """

    bit_errors: Annotated[int, Field(ge=2, le=10_000_000, strict=True)] | None = None
    packet_errors: Annotated[int, Field(ge=2, le=10_000_000, strict=True)] | None = None
    relative_width: Annotated[float, Field(ge=0.001, le=10, allow_inf_nan=False)] | None = None
    max_bits: Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)] = 1e8
    max_seconds: Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)] = 60.0
    skip_after_zero: bool = True


class MeasureConfig(Frozen):
    """What `phyloop link` measures: bit and packet error rates over one axis, a curve per point of the sweep.

    - `esno_db`: mean received energy per data symbol at one antenna over the complex noise power 2 N0;
    - `ebno_db`: the same per payload bit, Es/N0 over (bits per symbol x code rate); pilots, prefixes, check sums and
      retransmissions are not charged;
    - `snr_db`: Es/N0 over all antennas together, Es/N0 x number of antennas.

    The level is set through `link.power.snr_max_db`, so that a device of the mean power gain under `policy: fixed`
    arrives at the value; under other policies the same power limit P0 holds, and the axis says what `fixed` would give.
    Under NOMA the power of a group counts as one. With `channel.cell` it is the value at the reference distance.
    """

    over: Axis = "ebno_db"
    values: Values
    num_devices: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    bits_per_batch: Literal["auto"] | Annotated[int, Field(ge=8, le=1 << 31, strict=True)] = Field(
        default="auto", description="payload bits per device in one batch, rounded up to whole packets"
    )
    stop: StopConfig = StopConfig()
    confidence: Annotated[float, Field(ge=0.5, le=0.9999)] = 0.95

    @field_validator("values")
    @classmethod
    def _once_each(cls, values: tuple[float, ...] | ValueRange) -> tuple[float, ...] | ValueRange:
        if isinstance(values, tuple):
            for number, value in enumerate(values):
                if value in values[:number]:
                    raise ValueError(f"{value:g} stands twice in the list; write each value once")
        return values

    @property
    def levels(self) -> tuple[float, ...]:
        """The values on the axis, in ascending order [dB]."""
        return tuple(sorted(self.values)) if isinstance(self.values, tuple) else self.values.listed()

    def rule(self) -> StopRule:
        """The stopping rule with its defaults filled in."""
        stop = self.stop
        asked = (stop.bit_errors, stop.packet_errors, stop.relative_width) != (None, None, None)
        return StopRule(
            bit_errors=stop.bit_errors,
            packet_errors=stop.packet_errors if asked else USUAL_PACKET_ERRORS,
            relative_width=stop.relative_width,
            max_bits=stop.max_bits,
            max_seconds=stop.max_seconds,
            confidence=self.confidence,
        )
