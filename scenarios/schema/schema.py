"""Scenario: link, learning, privacy, measurement, sweep and report."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from fl.config import FlmcConfig, LearningConfig
from phy.config import Frozen, LinkConfig
from privacy.config import AnyPrivacyConfig
from scenarios.schema.measure import MeasureConfig

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
    code: dict[str, Digest] = Field(
        default_factory=dict, description="SHA-256 of the file of each module of own models; written by phyloop run"
    )
    sweep: SweepBlock | list[SweepBlock] = Field(default_factory=dict)
    report: ReportConfig = ReportConfig()
