"""PrivacyError, and checks of arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

PlainRemedy = Mapping[str, Any] | tuple[str, ...] | str
"""A remedy in plain data: lines to write by key, keys to leave out, or words."""


class PrivacyError(ValueError):
    """An argument without a privacy statement; the sentence names value, limit and remedy.

    Any one of the `remedies` is enough. `keys`: the settings at fault, separated by spaces, the likeliest first.
    """

    def __init__(self, problem: str, *remedies: PlainRemedy, keys: str = "") -> None:
        super().__init__(problem, *remedies)
        self.problem, self.remedies, self.keys = problem, remedies, keys

    def __str__(self) -> str:
        return f"{self.problem}; {', or '.join(map(_in_words, self.remedies))}." if self.remedies else self.problem


def _in_words(remedy: PlainRemedy) -> str:
    match remedy:
        case str():
            return remedy
        case Mapping():
            return f"write {' and '.join(f'{key}: {_in_yaml(value)}' for key, value in remedy.items())}"
    return f"leave {' and '.join(remedy)} out"


def _in_yaml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_in_yaml(item)}" for key, item in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def require_positive(**values: float) -> None:
    """Raise PrivacyError unless every named value is a finite number above zero."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise PrivacyError(f"{name} is {value}, but it must be finite and above 0", f"give a positive {name}")


def require_count(**values: int) -> None:
    """Raise PrivacyError unless every named value is a whole number of at least 1."""
    for name, value in values.items():
        if value != int(value) or value < 1:
            raise PrivacyError(f"{name} is {value}, but it must be a whole number >= 1", "give at least 1")


def require_probability(**values: float) -> None:
    """Raise PrivacyError unless every named value lies strictly between 0 and 1."""
    for name, value in values.items():
        if not 0 < value < 1:
            raise PrivacyError(f"{name} is {value}, but it must lie strictly between 0 and 1", "give one such as 0.01")


def require_amplitude(amplitude: float) -> None:
    """Raise PrivacyError unless the amplitude is finite and not negative."""
    if not (math.isfinite(amplitude) and amplitude >= 0):
        raise PrivacyError(
            f"amplitude is {amplitude}, but it must be finite and >= 0",
            "give the received amplitude A, without its sign",
        )
