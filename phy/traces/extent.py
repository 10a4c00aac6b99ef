"""How far a recorded channel reaches: its last path, and its fastest."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from phy.traces.trace import Trace


class Extent(NamedTuple):
    """Delay of the last path behind the first of its link [s], and largest Doppler shift, 0 if none is known [Hz]."""

    last_path_s: float
    doppler_hz: float


@lru_cache(maxsize=8)
def extent_of(trace: Trace) -> Extent:
    """Return the extent of a trace, whose file is read once for it."""
    last_s, fastest_hz = 0.0, 0.0
    for index in range(trace.num_snapshots):
        a, tau_s, doppler_hz = trace.snapshot(index)
        there = np.abs(a) > 0.0
        last_s = max(last_s, float(np.max(np.broadcast_to(tau_s, a.shape), initial=0.0, where=there)))
        if doppler_hz is not None:
            shifts = np.broadcast_to(np.abs(doppler_hz)[:, None], a.shape)
            fastest_hz = max(fastest_hz, float(np.max(shifts, initial=0.0, where=there)))
    return Extent(last_s, fastest_hz)
