"""Scenario: link, learning, privacy, measurement, sweep and report."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from fl.algorithms.flmc.config import FlmcConfig
from fl.algorithms.learning import LearningConfig
from fl.uplink.mechanisms import mechanisms
from phy.config import Frozen, LinkConfig
from phy.config.conflict import ConflictError, Write, rounded
from phy.measure.monte_carlo import StopRule
from privacy.config import BudgetConfig, Mechanism

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
    Annotated[Literal["none"], Tag("word")] | Annotated[Mechanism, mechanisms, Tag("mapping")],
    Discriminator(_word_or_mapping),
]


Axis = Literal["ebno_db", "esno_db", "snr_db"]
Ebno = Literal["sent", "nominal"]

MAX_VALUES = 1000
USUAL_PACKET_ERRORS = 100
"""Default target: an interval of about plus and minus 20 %, however errors lie within packets."""

# Beyond any radio, and far inside the range whose squares fit single precision.
Level = Annotated[float, Field(ge=-150, le=150, allow_inf_nan=False)]


class ValueRange(Frozen):
    """`start`, `start + step`, and so on up to and including `stop` [dB]."""

    start: Level = Field(description="first value [dB]", examples=[0])
    stop: Level = Field(description="last value [dB]", examples=[20])
    step: Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)] = Field(
        default=1.0, description="distance of neighbouring values [dB]; 1 dB is usual"
    )

    @model_validator(mode="after")
    def _goes_up(self) -> ValueRange:
        if self.stop < self.start:
            turned = Write({"start": rounded(self.stop, 6), "stop": rounded(self.start, 6)})
            raise ConflictError("stop start", f"stop {self.stop:g} is below start {self.start:g}", turned)
        if self._count() > MAX_VALUES:
            widest = 1.01 * (self.stop - self.start) / (MAX_VALUES - 1)
            problem = f"step {self.step:g} makes {self._count()} values, at most {MAX_VALUES}"
            raise ConflictError("step", problem, Write({"step": rounded(widest, 3)}))
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


def _listed(values: tuple[float, ...] | ValueRange) -> tuple[float, ...]:
    return values if isinstance(values, tuple) else values.listed()


class StopConfig(Frozen):
    """End of the measurement of one point: after a batch with which every given target is reached, or at a limit."""

    bit_errors: Annotated[int, Field(ge=2, le=10_000_000, strict=True)] | None = Field(
        default=None, description="bit errors to count"
    )
    packet_errors: Annotated[int, Field(ge=2, le=10_000_000, strict=True)] | None = Field(
        default=None, description="packet errors to count; with no target at all, 100"
    )
    relative_width: Annotated[float, Field(ge=0.001, le=10, allow_inf_nan=False)] | None = Field(
        default=None, description="width of the interval of the bit error rate over the rate"
    )
    max_bits: Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)] = Field(
        default=1e8,
        description="payload bits of all devices after which a point ends anyway [bit]; 1e8: 100 bit errors at a "
        "rate of 1e-6",
    )
    max_seconds: Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)] = Field(
        default=60.0,
        description="computing time after which a point ends anyway [s]; 60: a curve of 10 points takes about 10 "
        "minutes at most",
    )
    skip_after_zero: bool = Field(
        default=True,
        description="skip higher values after a point without errors in max_bits and 1000 independent packets; "
        "true: they have fewer errors still",
    )


class TrialStopConfig(Frozen):
    """End of the trials of a sweep point: when the 95 % interval of the mean of a metric is narrow enough.

    The interval is looked at after `min_trials`, then after half as many trials more each time, up to `trials`.
    """

    metric: Word = Field(description="metric of a whole trial", examples=["test_accuracy"])
    half_width: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="half the width of the 95 % interval at which a sweep point ends, in the unit of the metric",
        examples=[0.01],
    )
    min_trials: Annotated[int, Field(ge=3, le=10_000_000, strict=True)] = Field(
        default=5,
        description="trials before the first look; 5: intervals of normal metrics then cover the mean in 92 to 95 % of "
        "studies",
    )


class MeasureConfig(Frozen):
    """What `phyloop link` measures: bit and packet error rates over one axis, a curve per point of the sweep.

    - `esno_db`: mean received energy per data symbol at one antenna over the complex noise power 2 N0;
    - `ebno_db`: the same per payload bit, Es/N0 over (bits per symbol x rate). The rate is that of `ebno`; pilots,
      prefixes and retransmissions are not charged;
    - `snr_db`: Es/N0 over all antennas together, Es/N0 x number of antennas.

    The level is set through `link.power.snr_max_db`, so that a device of the mean power gain under `policy: fixed`
    arrives at the value; under other policies the same power limit P0 holds, and the axis says what `fixed` would give.
    Under NOMA the power of a group counts as one. With `channel.cell` it is the value at the reference distance.
    """

    over: Axis = Field(
        default="ebno_db",
        description="quantity on the x axis [dB]: Eb/N0, Es/N0, or SNR over all antennas; Eb/N0 compares modulations "
        "and code rates at equal energy per bit",
    )
    ebno: Ebno = Field(
        default="sent",
        description="rate that ebno_db charges: payload bits over bits on the air (sent), with check sums, tails, "
        "filler and padding, or the code rate of link.coding (nominal); sent compares codes at equal energy",
    )
    values: Values = Field(description="values of the axis [dB], a list or {start, stop, step}")
    num_devices: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=1, description="devices that send at once; 1: a plain bit error curve"
    )
    bits_per_batch: Literal["auto"] | Annotated[int, Field(ge=8, le=1 << 31, strict=True)] = Field(
        default="auto",
        description="payload bits per device in one batch, rounded up to whole packets; auto: as many as a few "
        "hundred MB hold",
    )
    stop: StopConfig = Field(default=StopConfig(), description="end of the measurement of one point")
    confidence: Annotated[float, Field(ge=0.5, le=0.9999)] = Field(
        default=0.95, description="confidence level of the intervals; 0.95 is usual"
    )

    @field_validator("values")
    @classmethod
    def _once_each(cls, values: tuple[float, ...] | ValueRange) -> tuple[float, ...] | ValueRange:
        levels = _listed(values)
        for number, value in enumerate(levels):
            if value in levels[:number]:
                raise ConflictError("", f"{value:g} stands twice in the list", Write({"": [*dict.fromkeys(levels)]}))
        return values

    @property
    def levels(self) -> tuple[float, ...]:
        """The values on the axis, in ascending order [dB]."""
        return tuple(sorted(_listed(self.values)))

    def rule(self) -> StopRule:
        """The stopping rule with its defaults filled in."""
        given = self.stop.model_dump(exclude={"skip_after_zero"})
        if {given["bit_errors"], given["packet_errors"], given["relative_width"]} == {None}:
            given["packet_errors"] = USUAL_PACKET_ERRORS
        return StopRule(**given, confidence=self.confidence)


class FigureConfig(Frozen):
    """One figure: a metric `y` over a swept path `x`, a curve per value of `series`, a panel per `panels`.

    With `x` `round`, `channel_uses`, `elapsed_s`, `wall_s` or `spent_j` a curve goes along the run and `y` is a number
    per round; then `series` may name `device` beside swept paths. `where` keeps the points whose settings have a value
    (or one of a list); `beside` draws a second quantity, a theory's say, as a thin line through every curve's own
    settings.
    """

    x: Word = Field(
        description="swept path on the x axis, or round, channel_uses, elapsed_s, wall_s or spent_j", examples=["round"]
    )
    y: Word = Field(description="metric on the y axis")
    series: Word | tuple[Word, ...] = Field(
        default=(), description="swept path, or several: one curve per value; device: one curve per device"
    )
    panels: Word | None = Field(default=None, description="swept path: one panel per value")
    where: dict[str, Any] = Field(
        default_factory=dict, description="dotted path: value, or a list of values; only these sweep points are drawn"
    )
    beside: Word | None = Field(default=None, description="second quantity, such as a theory, as a thin line")
    x_scale: Literal["auto", "linear", "log"] = Field(
        default="auto", description="scale of the x axis; auto: by what the values span"
    )
    y_scale: Literal["auto", "linear", "log"] = Field(
        default="auto", description="scale of the y axis; auto: log for error rates, else by what the values span"
    )
    title: Line = Field(default="", description="title of the figure")
    budgets: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(
        default=(),
        description="amounts of an x along the run: the results have y at the last round within each",
        examples=[[10000]],
    )

    @property
    def series_paths(self) -> tuple[str, ...]:
        """`series` as a tuple."""
        return (self.series,) if isinstance(self.series, str) else self.series


Number = Annotated[float, Field(allow_inf_nan=False)]


class PublishedConfig(Frozen):
    """Numbers that a paper prints at the settings `at`; where one of these is a list, `values` walk along it."""

    at: dict[str, Any] = Field(default_factory=dict, description="dotted path: value, or a list of values")
    values: Number | tuple[Number, ...] = Field(
        description="the printed number, or a number for each entry of the list in at"
    )

    @property
    def numbers(self) -> tuple[float, ...]:
        """The printed numbers, one or several."""
        return self.values if isinstance(self.values, tuple) else (self.values,)


class TableConfig(Frozen):
    """Published numbers beside ours: a row per number, found by the settings it belongs to, never by its order.

    `at` holds for all of them. `comparable: false` shows both without a difference and a verdict, and `note` says why.
    """

    metric: Word = Field(description="metric that is compared", examples=["test_accuracy"])
    source: Annotated[str, Field(min_length=1, max_length=1000)] = Field(description="paper, with table or figure")
    published: tuple[PublishedConfig, ...] = Field(description="printed numbers with their settings")
    at: dict[str, Any] = Field(
        default_factory=dict, description="dotted path: value; settings of all numbers of the table"
    )
    unit: Literal["as-measured", "percent"] = Field(
        default="as-measured",
        description="percent: printed numbers are percentages, ours are shares; as-measured: both have one unit",
    )
    rounded_to: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="step of the last digit printed, 1 where 85 stands for 84.5 to 85.5"
    )
    comparable: bool = Field(
        default=True, description="false: no difference and no verdict, because the settings differ; note says how"
    )
    title: Line = Field(default="", description="title of the table")
    note: Prose = Field(default="", description="a paragraph below the table")


class ReportConfig(Frozen):
    """What the run ends with."""

    figures: Annotated[tuple[FigureConfig, ...], Field(max_length=100)] = Field(
        default=(), description="figures of the page"
    )
    tables: Annotated[tuple[TableConfig, ...], Field(max_length=100)] = Field(
        default=(), description="tables of published numbers beside ours"
    )
    notes: Prose = Field(default="", description="a paragraph shown on the report page")


class HalvingConfig(Frozen):
    """Successive halving: all candidates for few rounds, and the best part of them for `factor` times as many.

    It ends at `learning.rounds`, or where one candidate is left (Jamieson and Talwalkar, AISTATS 2016).
    """

    factor: Annotated[int, Field(ge=2, le=100, strict=True)] = Field(
        default=3, description="1 / factor of the candidates go on, for factor times as many rounds; 3 is usual"
    )
    start: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        description="rounds of all candidates", examples=[10]
    )


class TuneConfig(Frozen):
    """A search for the values of keys, by `phyloop tune`, on validation data and on random numbers of its own."""

    keys: Annotated[dict[str, Any], Field(min_length=1, max_length=20)] = Field(
        description="dotted paths with lists of candidates, or {start, stop, steps, scale: linear or log}; each "
        "combination is a candidate",
        examples=[{"learning.local.learning_rate": [0.01, 0.1, 1.0]}],
    )
    per: Word | tuple[Word, ...] | None = Field(
        default=None,
        description="swept paths: a choice for each combination of their values, by the mean over all other sweep "
        "points; left out: every swept path",
    )
    metric: Word | None = Field(
        default=None,
        description="metric by which candidates are compared; an accuracy on test images stands for the accuracy on "
        "validation images; left out: y of the first figure, else the first metric of the algorithm",
    )
    better: Literal["larger", "smaller"] | None = Field(
        default=None, description="larger or smaller; left out: as the metric says"
    )
    trials: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        default=3,
        description="trials of each candidate, but a link study measures until measure.stop; 3: the fewest that give "
        "an interval",
    )
    halving: HalvingConfig | None = Field(
        default=None, description="successive halving; left out: a grid, all candidates for all rounds"
    )

    @property
    def per_paths(self) -> tuple[str, ...] | None:
        """`per` as a tuple, None for every swept path."""
        return (self.per,) if isinstance(self.per, str) else self.per


class Scenario(Frozen):
    """A scenario file, or one point of its sweep (then `sweep` is empty)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")] = Field(
        description="name of the study, of its default folder and of its page", examples=["my-study"]
    )
    description: Prose = Field(
        default="", description="quantity under study, and the figure or table of a paper that it repeats"
    )
    label: Word = Field(default="", description="text to tell sweep points apart; changes no number", examples=["A"])
    seed: Annotated[int, Field(ge=0, lt=1 << 64, strict=True)] = Field(
        default=0,
        description="seed of all random numbers; the same seed gives the same numbers; 0 is a convention, any seed "
        "will do",
    )
    trials: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        default=3,
        description="independent repetitions of each sweep point, from which intervals are computed; 3: the fewest "
        "that give an interval, so that a first run is short; of 100 it is +-0.2 standard deviations",
    )
    stop: TrialStopConfig | None = Field(
        default=None, description="end of a sweep point before all of its trials; left out: every point has all trials"
    )
    link: LinkConfig = Field(default=LinkConfig(), description="the radio link of the devices")
    learning: LearningConfig = Field(
        default=FlmcConfig(), description="the learning algorithm with data, model and codec"
    )
    privacy: Privacy = Field(
        default="none", description="none, or a privacy mechanism with its epsilon or its budget for the run"
    )
    measure: MeasureConfig | None = Field(default=None, description="error rates of the link alone: phyloop link")
    card: dict[str, Any] | None = Field(
        default=None, description="known answer of a reference check for phyloop verify; changes no number"
    )
    plugins: Annotated[tuple[Word, ...], Field(max_length=20)] = Field(
        default=(), description="own code that registers schemes, codecs, ...: files beside this one, or module names"
    )
    code: dict[str, Digest] = Field(default_factory=dict, description="SHA-256 of each plug-in; written by phyloop run")
    sweep: SweepBlock | list[SweepBlock] = Field(
        default_factory=dict,
        description="dotted paths with lists of values: each combination is a sweep point; zip: a mapping of paths "
        "whose lists step together, as in {zip: {learning.scheme: [analog, digital-orthogonal], link.coding: [none, "
        "{code: ldpc5g}]}}",
    )
    tune: TuneConfig | None = Field(default=None, description="search for the values of keys: phyloop tune")
    report: ReportConfig = Field(default=ReportConfig(), description="figures, tables and notes of the report page")

    @property
    def mechanism(self) -> Mechanism | None:
        """The privacy mechanism, None without one."""
        return None if self.privacy == "none" else self.privacy

    @property
    def budget(self) -> BudgetConfig | None:
        """The privacy budget for the whole run, None without one."""
        return None if self.privacy == "none" else self.privacy.budget


def validate_quickly(document: dict[str, Any]) -> Scenario:
    """Plain data as a Scenario; raises pydantic's ValidationError."""
    # JSON input makes pydantic's strict mode accept lists as tuples and 20 as 20.0, and still refuse "20", true as a
    # number and 20.0 as a count.
    return Scenario.model_validate_json(json.dumps(document), strict=True)


def num_errors(document: dict[str, Any]) -> int:
    """Return the number of errors of a document."""
    try:
        validate_quickly(document)
    except ValidationError as error:
        return int(error.error_count())
    return 0
