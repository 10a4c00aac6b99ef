"""Quantities and their units: reading them from text, and writing them in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil, inf, isfinite, log, pi

_FACTORS = {
    "_m_s": {"m/s": 1.0, "mps": 1.0, "km/h": 1 / 3.6, "km_h": 1 / 3.6, "kmh": 1 / 3.6, "kmph": 1 / 3.6},
    "_s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "_hz": {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    "_j": {"j": 1.0, "mj": 1e-3, "uj": 1e-6, "µj": 1e-6, "kj": 1e3},
    "_deg": {"deg": 1.0, "rad": 180 / pi},
    "_m": {"m": 1.0, "km": 1e3},
    "_db": {"db": 1.0},
    "seconds": {"s": 1.0, "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0},
    "_bytes": {"bytes": 1.0, "b": 1.0, "bits": 0.125, "kb": 1e3},
    "": {"%": 0.01, "percent": 0.01},
}
"""Endings of keys that are units, and the units in which a user may write such a key."""

_DECIBELS = {"gain": 20.0, "power": 10.0}
"""Last parts of keys that are linear, and the decibels of a factor of 10: `gain` is an amplitude."""

_RANGE = re.compile(r"\s*(-?[\d.]*\d)\s*(?:\.\.|:)\s*(?:(-?[\d.]*\d)\s*:\s*)?(-?[\d.]*\d)\s*")
_CALL = re.compile(r"\w*range\((-?[\d.]*\d), *(-?[\d.]*\d)(?:, *([\d.]*\d))?\)")

_SPELT = {"khz": "kHz", "mhz": "MHz", "ghz": "GHz"}


def unit_of(key: str) -> str:
    """Return ` m/s` for `speed_m_s`: the unit that the name of a key ends in; empty for others."""
    ending = _ending(key)
    unit = next(iter(_FACTORS[ending]))
    return " " + {"hz": "Hz", "db": "dB", "j": "J"}.get(unit, unit) if ending else ""


def without_unit(key: str) -> str:
    """Return `doppler` for `doppler_hz`: a key without the unit that it ends in."""
    return key.removesuffix(_ending(key)) or key


def _ending(key: str) -> str:
    """The ending of a key that is its unit; empty for a key without one, such as the shape m of a Nakagami law."""
    return "" if key == "nakagami_m" else next(one for one in _FACTORS if key.endswith(one))


def in_unit_of(key: str, value: object, *, own: str = "") -> str | None:
    """Return `value` in the unit of `key`; None if `value` has no unit, or one of another quantity.

    The unit is written in the value, as in `3.5 GHz`, or in the user's `own` key, as in `speed_kmh`.
    """
    ending = _ending(key)
    rest = "_".join(part for part in own.lower().split("_") if part not in key.split("_"))
    match = re.fullmatch(r"([-+]?[\d.]+(?:e[-+]?\d+)?) *([a-zµ%/]*)", str(value).lower())
    unit = (match[2] or rest) if match else ""
    ends = ("_".join(unit.split("_")[-number:]) for number in (3, 2, 1))  # velocity_kmh, velocity_km_h
    unit = next((end for end in ends if end in _FACTORS[ending]), unit)
    factor, decibels = _FACTORS[ending].get(unit), _DECIBELS.get(key.rpartition("_")[2])
    try:
        if match is not None and decibels is not None and unit in ("db", "dbm"):
            number = 10.0 ** ((float(match[1]) - 30.0 * (unit == "dbm")) / decibels)
        else:
            number = float(match[1]) * factor if match is not None and factor is not None else inf
    except (ValueError, OverflowError):
        return None
    return f"{number:.6g}".replace("e+0", "e") if isfinite(number) else None


def range_in(value: object) -> dict[str, int | float] | None:
    """Return start, stop and step of `0..20`, `0:5:20`, with the step in the middle, or Python's `range(0, 20, 5)`."""
    written = value if isinstance(value, str) else ""
    if match := _RANGE.fullmatch(written):
        start, step, stop = match.groups()
    elif match := _CALL.fullmatch(written):
        start, stop, step = match.groups()
        if (width := float(step or 1)) == 0.0:
            return None
        stop = float(start) + width * (ceil((float(stop) - float(start)) / width) - 1)  # Python leaves the end out
    else:
        return None
    numbers = {"start": float(start), "stop": float(stop), "step": float(step or 1)}
    return {key: int(number) if number.is_integer() else number for key, number in numbers.items()}


def likely_unit(key: str, value: object, *, holds: Callable[[float], bool], usual: float | None) -> str | None:
    """Return `0.2 for 20 %`: `value` in the unit of `key`, where it was likeliest written in another one.

    `holds` is the limit that `value` breaks. The likeliest unit brings the value nearest to the `usual` one, at least
    100 times as near. A percentage means a share, whose limit lies below 2.
    """
    if not isinstance(value, int | float) or value <= 0:
        return None
    ending = _ending(key)
    likely = {
        unit: value * factor
        for unit, factor in _FACTORS[ending].items()
        if factor != 1.0 and holds(value * factor) and (ending or value < 100)  # nobody means a share of 100 %
    }
    if not likely or (not usual if ending else value < 2.0 or holds(2.0)):
        return None
    far = {unit: abs(log(one / usual)) if usual else 0.0 for unit, one in likely.items()}
    unit = min(far, key=far.__getitem__)
    if usual and (far[unit] > log(1e3) or abs(log(value / usual)) - far[unit] < log(99)):
        return None
    return f"{likely[unit]:.6g} for {value:g} {_SPELT.get(unit, unit)}".replace("e+0", "e")


def duration(seconds: float) -> str:
    """Seconds in words: `80 s`, `5 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def time_left(seconds: float) -> str:
    """The time that a run still takes, in words: `about 5 min left`."""
    return "less than 1 s left" if seconds < 1.0 else f"about {duration(seconds)} left"


def byte_size(number: int) -> str:
    """Bytes in words: `1.2 GB`, `35 MB`, `4 kB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f} {unit}"
    return f"{-(-number // 1000)} kB"


def number_in(text: str) -> int | float | None:
    """Return the finite number that a text is, or the quotient of two numbers as in `30/3.6`; None for other texts."""
    above, slash, below = text.partition("/")
    try:
        number = float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        return None
    return int(number) if number.is_integer() else number if isfinite(number) else None


def numbers_in(value: object) -> list[int | float] | None:
    """Return the numbers of a text that separates several; None for other values."""
    words = re.split(r"[\s;,]+", value.strip(" ;,[]")) if isinstance(value, str) else []
    numbers = [number for word in words if (number := number_in(word)) is not None]
    return numbers if len(numbers) == len(words) > 1 else None
