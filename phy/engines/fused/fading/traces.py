"""Recorded channels for kernels: the response of every carrier at the instants of a packet, one row per packet.

    H[A, c](t) = sum_p a[A, p] exp(-2 pi i f_c tau[p]),    f_c from the carrier on

of a snapshot, divided by the root of the mean power of its link. Between two snapshots H goes along a straight line; if
paths have Doppler shifts, each turns by exp(2 pi i doppler t) from its snapshot on instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig
from phy.numerics.compiled import lean_kernel, read_only
from phy.numerics.workers import run_tasks
from phy.traces.clock import trace_in
from phy.traces.trace import Trace

_TURN = -2.0 * np.pi


@lean_kernel
def _respond(
    real: Any, imag: Any, tau_s: Any, start_hz: Any, step_hz: Any, out: Any, first: Any, last: Any, scratch: Any
) -> None:
    """Lines `first` to `last`: paths `[lines, paths]` to carriers at regular frequencies, `out` `[lines, 2, width]`."""
    paths, width = real.shape[1], out.shape[2]
    for n in range(first, last):
        for p in range(paths):
            angle, step = _TURN * start_hz * tau_s[n, p], _TURN * step_hz * tau_s[n, p]
            cosine, sine = np.cos(angle), np.sin(angle)
            scratch[0, p] = real[n, p] * cosine - imag[n, p] * sine
            scratch[1, p] = real[n, p] * sine + imag[n, p] * cosine
            scratch[2, p], scratch[3, p] = np.cos(step), np.sin(step)
        for c in range(width):
            x, y = 0.0, 0.0
            for p in range(paths):
                a, b = scratch[0, p], scratch[1, p]
                x += a
                y += b
                scratch[0, p] = a * scratch[2, p] - b * scratch[3, p]
                scratch[1, p] = a * scratch[3, p] + b * scratch[2, p]
            out[n, 0, c] = x
            out[n, 1, c] = y


def respond(
    a: NDArray[np.complexfloating], tau_s: NDArray[np.floating], frequencies_hz: NDArray[np.floating], *, threads: int
) -> NDArray[np.float32]:
    """Return the response `[n, 2, width]` of paths `[n, paths]` at evenly spaced frequencies `[width]`."""
    step = float(frequencies_hz[1] - frequencies_hz[0]) if len(frequencies_hz) > 1 else 0.0
    out = np.empty((len(a), 2, len(frequencies_hz)), np.float32)
    real, imag = (read_only(np.asarray(part, np.float64)) for part in (a.real, a.imag))
    delays = read_only(np.asarray(np.broadcast_to(tau_s, a.shape), np.float64))
    run_tasks(
        lambda first, last: _respond(
            real, imag, delays, float(frequencies_hz[0]), step, out, first, last, np.empty((4, a.shape[1]))
        ),
        num_tasks=len(a),
        threads=threads,
    )
    return out


@lean_kernel
def _go_between(lines: Any, before: Any, after: Any, share: Any, out: Any, first: Any, last: Any) -> None:
    """Rows `first` to `last` of `out`: `share` of the way from one line to another."""
    for n in range(first, last):
        one, two, part = lines[before[n]], lines[after[n]], share[n]
        row = out[n]
        for i in range(len(row)):
            row[i] = one[i] + part * (two[i] - one[i])


class _Times(NamedTuple):
    """Instants of users, `[n]` each: the snapshots around, time since the first, and share of the way to the second."""

    user: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    since_s: NDArray[np.float64]
    share: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceLines:
    """What kernels take of a trace: lines of carriers `frequencies_hz` `[width]` at `offsets_s` `[instants]`.

    One instant stands for a whole packet where nothing moves.
    """

    trace: Trace
    frequencies_hz: NDArray[np.float64]
    offsets_s: NDArray[np.float64]
    moves: bool
    num_antennas: int
    threads: int

    @property
    def size(self) -> int:
        """Numbers of a row: real and imaginary parts of every carrier, antenna and instant."""
        return 2 * len(self.offsets_s) * self.num_antennas * len(self.frequencies_hz)

    def given(self, keys: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return `[rows, size]` for keys `[rows, 2]`, user and snapshot, at `start_s` `[rows]` after it."""
        if not self.moves:
            user, snapshot = keys.astype(np.int64).T
            lines, back = self._lines_of_pairs(user, snapshot)
            return lines if len(lines) == len(back) and (back == np.arange(len(back))).all() else lines[back]
        now = self._times(keys, start_s, self.offsets_s)
        if self.trace.has_doppler:
            return self._lines(now.user, now.before, now.since_s).reshape(len(keys), -1)
        pairs = np.tile(now.user, 2), np.concatenate([now.before, now.after])
        lines, back = self._lines_of_pairs(*pairs)
        out = np.empty((len(now.user), lines.shape[1]), np.float32)
        first, second = read_only(back[: len(now.user)]), read_only(back[len(now.user) :])
        share = read_only(now.share.astype(np.float32))
        run_tasks(
            lambda start, stop: _go_between(lines, first, second, share, out, start, stop),
            num_tasks=len(now.user),
            threads=self.threads,
        )
        return out.reshape(len(keys), -1)

    def paths(
        self, keys: NDArray[np.uint32], start_s: NDArray[np.float32], offsets_s: NDArray[np.float64]
    ) -> tuple[NDArray[np.complexfloating], NDArray[np.float64]]:
        """Return amplitudes and delays [s] `[rows, instants, antennas, paths]` whose responses are those of `given`.

        One instant where nothing moves. Along a straight line there are the paths of both snapshots.
        """
        if not self.moves:
            user, snapshot = keys.astype(np.int64).T
            a, tau = self._paths(user, snapshot)
            return a[:, None], tau[:, None]
        now = self._times(keys, start_s, offsets_s)
        a, tau = self._paths(now.user, now.before, now.since_s)
        if not self.trace.has_doppler:
            share = now.share[:, None, None]
            later, tau_later = self._paths(now.user, now.after)
            a, tau = np.concatenate([(1.0 - share) * a, share * later], 2), np.concatenate([tau, tau_later], 2)
        shape = (len(keys), -1, *a.shape[1:])
        return a.reshape(shape), tau.reshape(shape)

    def _times(self, keys: NDArray[np.uint32], start_s: NDArray[np.float32], offsets_s: NDArray[np.float64]) -> _Times:
        """Snapshots around all instants of all rows, one row after the other."""
        user, snapshot = keys.astype(np.int64).T
        times, duration_s = self.trace.times_s, self.trace.duration_s
        assert times is not None
        assert duration_s is not None
        now = np.mod((times[snapshot] + start_s.astype(float))[:, None] + offsets_s, duration_s).ravel()
        before = np.searchsorted(times, now, side="right") - 1
        after = (before + 1) % len(times)
        gap_s = np.where(after > 0, times[after] - times[before], duration_s - times[before])
        since_s = now - times[before]
        return _Times(np.repeat(user, len(offsets_s)), before, after, since_s, since_s / gap_s)

    def _lines_of_pairs(
        self, user: NDArray[np.int64], snapshot: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """(lines `[n, antennas * 2 * width]` of the n different pairs, the line of each pair)."""
        which, back = np.unique(snapshot * self.trace.num_devices + user, return_inverse=True)
        return self._lines(which % self.trace.num_devices, which // self.trace.num_devices), back.reshape(-1)

    def _lines(
        self, user: NDArray[np.int64], snapshot: NDArray[np.int64], since_s: NDArray[np.float64] | None = None
    ) -> NDArray[np.float32]:
        """Lines `[n, antennas * 2 * width]` of users at snapshots `[n]`, or `since_s` `[n]` later by Doppler shifts."""
        a, tau = self._paths(user, snapshot, since_s)
        paths = self.trace.num_paths
        flat = respond(a.reshape(-1, paths), tau.reshape(-1, paths), self.frequencies_hz, threads=self.threads)
        return flat.reshape(len(user), -1)

    def _paths(
        self, user: NDArray[np.int64], snapshot: NDArray[np.int64], since_s: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.complexfloating], NDArray[np.float64]]:
        """Amplitudes at mean power 1 of the link and delays [s], `[n, antennas, paths]`, as `_lines` has them."""
        a, tau, doppler = self.trace.links(snapshot, user, num_antennas=self.num_antennas)
        a = a / np.maximum(self.trace.amplitudes[user], 1e-300)[:, None, None]
        if since_s is not None and doppler is not None:
            a = a * np.exp(2j * np.pi * doppler * since_s[:, None])[:, None]
        return a, np.broadcast_to(tau, a.shape)


def lines_of(
    channel: ChannelConfig,
    *,
    frequencies_hz: NDArray[np.float64],
    offsets_s: NDArray[np.float64],
    moves: bool,
    num_antennas: int,
    threads: int,
) -> TraceLines | None:
    """Return the lines of a recorded channel for kernels; None for other models."""
    trace = trace_in(channel)
    if trace is None:
        return None
    return TraceLines(
        trace=trace,
        frequencies_hz=frequencies_hz,
        offsets_s=offsets_s,
        moves=moves,
        num_antennas=num_antennas,
        threads=threads,
    )
