"""Scenario: link, learning, privacy, measurement, sweep and report."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from fl.config import LearningConfig
from fl.learning.flmc import FlmcConfig
from phy.config import Frozen, LinkConfig
from phy.measure.monte_carlo import StopRule
from privacy.config import AnyPrivacyConfig, BudgetConfig

SCHEMA_VERSION = 2
"""Raised when the same YAML starts to give other numbers; part of every task's identity."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

Word = Annotated[str, Field(max_length=200)]
"""A word of a legend, a path or a column."""
Line = Annotated[str, Field(max_length=1000)]
Prose = Annotated[str, Field(max_length=20_000)]

SweepBlock = dict[str, Any]
"""Dotted path -> list of values (a product), and `zip:` -> paths that step together."""


def _word_or_mapping(value: object) -> str:
    return "word" if isinstance(value, str) else "mapping"


# The discriminator decides before validation: a mistake inside the mapping is then not reported as a wrong word.
Privacy = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[AnyPrivacyConfig, Tag("mapping")],
    Discriminator(_word_or_mapping),
]


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


class FigureConfig(Frozen):
    """One figure: a metric `y` over a swept path `x`, a curve per value of `series`, a panel per `panels`.

    With `x` `round`, `elapsed_s` or `spent_j` a curve goes along the run and `y` is a number per round; then `series`
    may name `device` beside swept paths. `where` keeps the points whose settings have a value (or one of a list);
    `beside` draws a second quantity, a theory's say, as a thin line through every curve's own settings.
    """

    x: Word
    y: Word
    series: Word | tuple[Word, ...] = ()
    panels: Word | None = None
    where: dict[str, Any] = Field(default_factory=dict)
    beside: Word | None = None
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    title: Line = ""

    @property
    def series_paths(self) -> tuple[str, ...]:
        """`series` as a tuple."""
        return (self.series,) if isinstance(self.series, str) else self.series


Number = Annotated[float, Field(allow_inf_nan=False)]


class PublishedConfig(Frozen):
    """Numbers that a paper prints at the settings `at`; where one of these is a list, `values` walk along it."""

    at: dict[str, Any] = Field(default_factory=dict, description="dotted path: value, or a list of values")
    values: Number | tuple[Number, ...]


class TableConfig(Frozen):
    """Published numbers beside ours: a row per number, found by the settings it belongs to, never by its order.

    `at` holds for all of them. `comparable: false` shows both without a difference and a verdict, and `note` says why.
    """

    metric: Word
    source: Annotated[str, Field(min_length=1, max_length=1000)]
    published: tuple[PublishedConfig, ...]
    at: dict[str, Any] = Field(default_factory=dict)
    unit: Literal["as-measured", "percent"] = "as-measured"
    rounded_to: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="step of the last digit printed, 1 where 85 stands for 84.5 to 85.5"
    )
    comparable: bool = True
    title: Line = ""
    note: Prose = ""


class ReportConfig(Frozen):
    """What the run ends with."""

    figures: Annotated[tuple[FigureConfig, ...], Field(max_length=100)] = ()
    tables: Annotated[tuple[TableConfig, ...], Field(max_length=100)] = ()
    notes: Prose = Field(default="", description="a paragraph shown on the report page")


class Scenario(Frozen):
    """A scenario file, or one point of its sweep (then `sweep` is empty)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    description: Prose = ""
    label: Word = Field(default="", description="free text to tell sweep points apart; changes no number")
    seed: Annotated[int, Field(ge=0, lt=1 << 64, strict=True)] = 0
    trials: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = 100
    link: LinkConfig = LinkConfig()
    learning: LearningConfig = FlmcConfig()
    privacy: Privacy = "none"
    measure: MeasureConfig | None = Field(default=None, description="error rates of the link alone: phyloop link")
    card: dict[str, Any] | None = Field(
        default=None, description="what phyloop verify expects of this scenario; changes no number"
    )
    plugins: Annotated[tuple[Word, ...], Field(max_length=20)] = Field(
        default=(), description="own code that registers schemes, codecs, ...: files beside this one, or module names"
    )
    code: dict[str, Digest] = Field(
        default_factory=dict, description="SHA-256 of each plug-in and of own models; written by phyloop run"
    )
    sweep: SweepBlock | list[SweepBlock] = Field(default_factory=dict)
    report: ReportConfig = ReportConfig()

    @property
    def mechanism(self) -> AnyPrivacyConfig | None:
        """The privacy mechanism, None without one."""
        return None if self.privacy == "none" else self.privacy

    @property
    def budget(self) -> BudgetConfig | None:
        """The privacy budget for the whole run, None without one."""
        return None if self.privacy == "none" else self.privacy.budget
