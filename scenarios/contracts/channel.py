"""The contract of channels that a class computes. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.config.channel_source import ChannelSource
from phy.traces.computed import computed_taps, computed_trace
from phy.traces.errors import TraceError


def _taps(source: ChannelSource, snapshot: int, devices: Any) -> Any:
    return np.asarray(source.taps(snapshot, devices=np.asarray(devices), time_s=snapshot * source.snapshot_s))


def _some(source: ChannelSource) -> list[int]:
    """Return at most five snapshots, the first and the last among them."""
    return [int(one) for one in np.unique(np.linspace(0, source.num_snapshots - 1, 5).astype(int))]


def every_device_has_taps(source: ChannelSource) -> None:
    """Every device has finite complex taps [device, rx_antenna, tap], of one shape at every snapshot."""
    try:
        shape = computed_trace(source).arrays.shapes["h"][0][1:]
        for snapshot in _some(source):
            computed_taps(source, snapshot, shape=shape)
    except TraceError as error:
        raise AssertionError(str(error)) from error


def a_snapshot_is_the_same_again(source: ChannelSource) -> None:
    """The same snapshot has the same taps, in whatever order snapshots are asked for."""
    devices, some = np.arange(source.num_devices), _some(source)
    first = {one: _taps(source, one, devices) for one in some}
    for one in reversed(some):
        again = _taps(source, one, devices)
        assert np.array_equal(first[one], again), f"snapshot {one} differs when it is computed again"


def a_device_has_the_same_taps_alone(source: ChannelSource) -> None:
    """A device has the same taps alone as among all devices."""
    devices, snapshot = np.arange(source.num_devices), _some(source)[-1]
    whole = _taps(source, snapshot, devices)
    for device in {0, source.num_devices - 1}:
        alone = _taps(source, snapshot, devices[device : device + 1])
        assert np.allclose(alone[0], whole[device], rtol=1e-6), f"device {device} has other taps alone"


def every_device_is_heard(source: ChannelSource) -> None:
    """Every device has power in some snapshot."""
    devices = np.arange(source.num_devices)
    power = sum((np.abs(_taps(source, one, devices)) ** 2).sum(axis=(1, 2)) for one in _some(source))
    silent = np.flatnonzero(np.asarray(power) == 0.0)
    assert not len(silent), f"device {silent[0]} has no power"


CHECKS = (
    every_device_has_taps,
    a_snapshot_is_the_same_again,
    a_device_has_the_same_taps_alone,
    every_device_is_heard,
)
