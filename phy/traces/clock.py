"""Which user of a trace a device is, and which snapshot its packet meets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.config.channel import ChannelConfig
from phy.numerics.random import Purpose, round_keys, threefry
from phy.traces.computed import computed_trace
from phy.traces.errors import TraceError
from phy.traces.trace import Trace, trace_of

_USERS, _START, _DRAW = 1, 2, 3
"""Numbers of what a trial draws: users of devices, the first snapshot, a snapshot for every turn."""


def trace_in(channel: ChannelConfig) -> Trace | None:
    """Return the trace that a channel names; None for other models. TraceError for a file that holds none."""
    if channel.source is not None:
        return computed_trace(channel.source)
    return trace_of(channel.file, channel.sha256) if channel.model == "trace" and channel.file is not None else None


@lru_cache(maxsize=64)
def users_of(channel: ChannelConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the user of the trace that each device is, `[num_trials, num_devices]`.

    Its own number, or under `users: random` one drawn for the trial, no two devices the same.
    """
    trace = trace_in(channel)
    assert trace is not None
    if channel.users == "identity":
        return np.broadcast_to(np.arange(num_devices), (len(trials), num_devices))
    words = _words(seed, trials, _USERS, np.arange(trace.num_devices))
    return np.argsort(words, axis=1, kind="stable")[:, :num_devices]


def trace_gains(channel: ChannelConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]) -> NDArray[np.float32]:
    """Root of the mean power of every device's link, `[num_trials, num_devices]`, normalised as the channel says.

    `per-link`: 1 for all; `per-site`: relative to the mean power over all links of the file; `none`: as recorded.
    """
    trace = trace_in(channel)
    assert trace is not None
    own = trace.amplitudes[users_of(channel, num_devices=num_devices, seed=seed, trials=trials)]
    if channel.normalize == "per-link":
        own = np.ones_like(own)
    elif channel.normalize == "per-site":
        own = own / np.sqrt(np.mean(trace.amplitudes**2))
    return np.asarray(own, np.float32)


@dataclass(frozen=True, kw_only=True)
class TraceClock:
    """Snapshots of turns: of rounds, of packets, or of instants, by the coherence of a channel."""

    channel: ChannelConfig
    trace: Trace

    def keys(
        self,
        turns: NDArray[np.int64],
        users: NDArray[np.int64],
        *,
        seconds: NDArray[np.float64],
        seed: int,
        trials: NDArray[np.int64],
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """Return `[rows, users, 2]`, user and snapshot, and the time since that snapshot, `[rows]` [s].

        `turns` `[rows]` count rounds or packets, `users` `[rows, users]` are numbers in the file, `seconds` `[rows]`
        the time since the run began, `trials` `[rows]` the trial of each row. TraceError at the end of a trace that
        does not begin anew.
        """
        count, at = self.trace.num_snapshots, np.zeros(len(turns))
        if len(turns) and (problem := self.too_short(int(turns.max()), float(seconds.max()))):
            raise TraceError(problem, "write at_end: loop, or fewer rounds")
        start = self._start(seed, trials)
        if self.channel.coherence == "doppler":
            times, duration_s = self.trace.times_s, self.trace.duration_s
            assert times is not None  # conflicts
            assert duration_s is not None
            now = np.mod(seconds + times[start], duration_s)
            snapshot = np.searchsorted(times, now, side="right") - 1
            at = now - times[snapshot]
        elif self.channel.order == "random":
            which = np.unique(trials)
            words = np.stack([_words(seed, (int(one),), _DRAW, turns)[0] for one in which])
            snapshot = (words[np.searchsorted(which, trials), np.arange(len(turns))] % np.uint32(count)).astype(
                np.int64
            )
        else:
            snapshot = (start + turns) % count
        keys = np.stack(np.broadcast_arrays(users, snapshot[:, None]), axis=-1)
        return keys.astype(np.uint32), at

    def too_short(self, turn: int, second: float) -> str | None:
        """Return why the trace ends before a turn and a time since the run began; None if it does not."""
        if self.channel.at_end == "loop":
            return None
        times, count = self.trace.times_s, self.trace.num_snapshots
        if self.channel.coherence == "doppler":
            assert times is not None  # conflicts
            return f"the trace lasts {times[-1]:.4g} s, and {second:.4g} s are needed" if second > times[-1] else None
        each = "packet" if self.channel.coherence == "packet" else "round"
        told = f"the trace has {count:,} snapshots, and {turn + 1:,} are needed, one for every {each}"
        return told if turn >= count else None

    def _start(self, seed: int, trials: NDArray[np.int64]) -> NDArray[np.int64]:
        """First snapshot of each row's trial, anywhere in a trace that begins anew at its end."""
        if self.channel.at_end == "error":
            return np.zeros(len(trials), np.int64)
        which, back = np.unique(trials, return_inverse=True)
        words = _words(seed, tuple(which.tolist()), _START, np.zeros(1, np.int64))[:, 0]
        return (words % np.uint32(self.trace.num_snapshots)).astype(np.int64)[back]


def _words(seed: int, trials: tuple[int, ...], draw: int, positions: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Random words `[num_trials, positions]` of a draw, the same in every round."""
    keys = round_keys(seed, trials, Purpose.CHANNEL, 0)
    counters = positions.astype(np.uint32)[None], np.full((1, len(positions)), draw, np.uint32)
    return np.asarray(threefry((keys[:, :1], keys[:, 1:]), counters)[0])
