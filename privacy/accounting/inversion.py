"""Invert a privacy profile: the smallest epsilon of an event at a delta, never too small."""

from __future__ import annotations

import math

import numpy as np

from privacy.events.events import Event

_LADDER = np.concatenate([[0.0], np.geomspace(1e-12, 1e15, 136)])
_FRACTIONS = np.linspace(0.0, 1.0, 33)


def epsilon_of_event(event: Event, *, delta: float) -> float:
    """The smallest epsilon >= 0 with event.delta(epsilon) <= delta, to 1e-12 relative and from above.

    math.inf if no epsilon up to 1e15 is enough. The profile falls in epsilon; it is evaluated for many at once.
    """
    largest = event.pure_epsilon()
    ladder = np.append(_LADDER[largest > _LADDER], largest) if math.isfinite(largest) else _LADDER
    kept = event.delta(ladder) <= delta
    if not kept.any():
        return largest
    last = int(np.argmax(kept))
    if last == 0:
        return 0.0
    low, high = float(ladder[last - 1]), float(ladder[last])
    while high - low > 1e-12 * high:
        between = low + (high - low) * _FRACTIONS
        # The upper end is known to keep delta, whatever rounding says of it here.
        inside = int(np.argmax(np.append(event.delta(between[1:-1]) <= delta, True))) + 1
        if between[inside] - between[inside - 1] >= high - low:
            break
        low, high = float(between[inside - 1]), float(between[inside])
    return high
