"""Channels that a class computes: impulse responses of all devices, snapshot by snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from phy.config.base import Frozen
from phy.config.registry import Registry, defines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ChannelSource(Frozen):
    """Channel computed by a class: `taps` of every snapshot, which links read as they read a recorded channel.

    The next snapshot comes at the next packet or round, or after `snapshot_s` under `coherence: doppler`, when the
    channel goes along a straight line between two. After the last one it begins anew.
    """

    num_devices: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=100, description="devices of which the class has a channel; a link has at most as many"
    )
    num_snapshots: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        default=200, description="snapshots after which the channel begins anew; 200 rounds meet each of them once"
    )
    snapshot_s: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = Field(
        default=1e-3, description="time from one snapshot to the next, which counts under coherence doppler [s]"
    )
    sample_rate_hz: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] = Field(
        default=100e6, description="rate of the taps, at least the width of the link's grid [Hz]"
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 64, strict=True)] = Field(
        default=0, description="seed of what the class draws, apart from the seed of the scenario"
    )

    if TYPE_CHECKING:  # a field of every subclass, with the word as its type
        name: str

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what a class must define and this one does not, for its registry."""
        return () if defines(cls, ChannelSource, "taps") else ("taps",)

    def taps(self, snapshot: int, *, devices: NDArray[np.int64], time_s: float) -> NDArray[Any]:
        """Return the impulse response of `devices` `[n]` at a snapshot, complex `[n, rx_antenna, tap]`, the same again.

        Tap l comes l / `sample_rate_hz` late. `time_s`: that of the snapshot, from 0 on [s]. A function of its
        arguments and parameters alone: what it draws comes from `numpy.random.default_rng((self.seed, snapshot, ...))`.
        """
        raise NotImplementedError


channel_sources: Registry[ChannelSource] = Registry("channel", ChannelSource, package="phy.traces.sources")
"""All channels that a class computes, by the word in `link.channel.source.name`."""
