"""Base class and bounded number types of all parts of a configuration."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

Access = Literal["auto", "orthogonal", "superposition", "noma"]
Modulation = Literal["auto", "bpsk", "qpsk", "16qam", "64qam", "256qam", "analog"]
ErrorModel = Literal["measured", "iid", "iid-mean", "analytic", "error_free"]

SPEED_OF_LIGHT_M_S = 299_792_458.0

BITS_PER_SYMBOL: dict[str, int] = {"bpsk": 1, "qpsk": 2, "16qam": 4, "64qam": 6, "256qam": 8}

# The limits are far beyond any radio and keep squares and ratios inside single precision.
AmplitudeGain = Annotated[float, Field(gt=1e-9, le=1e9, allow_inf_nan=False)]
Watts = Annotated[float, Field(gt=1e-30, le=1e12, allow_inf_nan=False)]
Decibels = Annotated[float, Field(ge=-300, le=300, allow_inf_nan=False)]


class Frozen(BaseModel):
    """Base of every section of a scenario: immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _read_fraction(value: Any) -> Any:
    """Convert a quotient such as `1/2` or `1.5/2` to a number; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        parts = [Fraction(part) for part in value.replace(" ", "").split("/")]
        return float(parts[0] / parts[1] if len(parts) == 2 else Fraction(value))
    except (ValueError, ZeroDivisionError, OverflowError):
        return value


_RATE_OR_FRACTION = {
    "anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*/\s*\d+(\.\d+)?\s*$"}]
}
CodeRate = Annotated[
    float,
    BeforeValidator(_read_fraction),
    Field(ge=0.001, le=1.0, allow_inf_nan=False),
    WithJsonSchema(_RATE_OR_FRACTION),
]
"""Information bits over coded bits; a fraction such as `1/2` may be written."""


def word_or_mapping(value: object) -> str:
    """Return the form in which a section is written: a word, or a mapping of keys."""
    return "word" if isinstance(value, str) else "mapping"
