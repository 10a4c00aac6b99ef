"""Channels that a class computes, behind the interface of recorded ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config.channel_source import ChannelSource
from phy.traces.container import Arrays
from phy.traces.errors import TraceError
from phy.traces.trace import Trace


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputedArrays(Arrays):
    """Taps `h` of a source, computed snapshot by snapshot as they are asked for."""

    source: ChannelSource

    def read(self, name: str, index: Any = ...) -> NDArray[Any]:
        """Return the taps of one snapshot `[device, rx_antenna, tap]`, or of all."""
        assert name == "h"
        if index is ...:
            return np.stack([self.read(name, one) for one in range(self.source.num_snapshots)])
        return computed_taps(self.source, int(index), shape=self.shapes["h"][0][1:])

    def block(self, name: str, snapshots: slice, devices: slice) -> NDArray[Any]:
        """Return several snapshots of all devices, or some devices of one snapshot."""
        return np.stack([self.read(name, one) for one in range(snapshots.start, snapshots.stop)])[:, devices]


def computed_taps(source: ChannelSource, snapshot: int, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """Return taps of all devices at one snapshot, of a `shape` if it is known. TraceError for what are no taps."""
    devices = np.arange(source.num_devices)
    found = np.asarray(source.taps(snapshot, devices=devices, time_s=snapshot * source.snapshot_s))
    problem = None
    if found.ndim != 3 or found.dtype.kind != "c" or len(found) != len(devices) or 0 in found.shape:
        problem = f"{found.dtype} of shape {found.shape}, no complex [{len(devices)}, rx_antenna, tap]"
    elif shape is not None and found.shape != shape:
        problem = f"taps of shape {found.shape}, and of {shape} at the first one"
    elif not np.isfinite(found).all():
        problem = "a tap that is no finite number"
    if problem is not None:
        problem = f"taps of channel source {source.name} gives at snapshot {snapshot} {problem}"
        raise TraceError(problem, "phyloop check-plugin tests the plug-ins")
    return found


@lru_cache(maxsize=4)
def computed_trace(source: ChannelSource) -> Trace:
    """Return the channel of a source. TraceError for what are no taps."""
    shape = (source.num_snapshots, *computed_taps(source, 0).shape)
    shapes = {"h": (shape, np.dtype(np.complex64))}
    return Trace(
        arrays=ComputedArrays(path=Path(source.name), shapes=shapes, source=source),
        num_snapshots=shape[0],
        num_devices=shape[1],
        num_antennas=shape[2],
        num_paths=shape[3],
        sample_rate_hz=source.sample_rate_hz,
        carrier_frequency_hz=None,
        times_s=np.arange(shape[0]) * np.float64(source.snapshot_s),
        names=(),
        source=source.name,
    )
