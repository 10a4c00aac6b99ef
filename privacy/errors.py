"""PrivacyError, and checks of arguments."""

from __future__ import annotations

import math


class PrivacyError(ValueError):
    """An argument without a privacy statement; the sentence names value, limit and remedy."""


def require_positive(**values: float) -> None:
    """Raise PrivacyError unless every named value is a finite number above zero."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise PrivacyError(f"{name} is {value}, but it must be finite and above 0; give a positive {name}.")


def require_count(**values: int) -> None:
    """Raise PrivacyError unless every named value is a whole number of at least 1."""
    for name, value in values.items():
        if value != int(value) or value < 1:
            raise PrivacyError(f"{name} is {value}, but it must be a whole number >= 1; give at least 1.")


def require_probability(**values: float) -> None:
    """Raise PrivacyError unless every named value lies strictly between 0 and 1."""
    for name, value in values.items():
        if not 0 < value < 1:
            raise PrivacyError(f"{name} is {value}, but it must lie strictly between 0 and 1; give one such as 0.01.")


def require_amplitude(amplitude: float) -> None:
    """Raise PrivacyError unless the amplitude is finite and not negative."""
    if not (math.isfinite(amplitude) and amplitude >= 0):
        raise PrivacyError(
            f"amplitude is {amplitude}, but it must be finite and >= 0; "
            "give the received amplitude A, without its sign."
        )
