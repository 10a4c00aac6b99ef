"""A recorded channel: its axes, its snapshots, and the mean power of every link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.traces.container import KNOWN, Arrays, open_arrays
from phy.traces.errors import TraceError
from phy.traces.recording import PART, rows

_KEPT_SNAPSHOTS = 64
_MOST_IN_MEMORY = 1 << 22
"""Entries of a trace that is kept in memory, some 100 MB."""
_MISSING_DELAY = -1.0
_LONGEST_S = 1e-3
"""Delays beyond 300 km are in another unit."""
_LARGE_STEP_DB = 100.0


class Snapshot(NamedTuple):
    """Paths of all links at one time: `a` `[device, rx, path]` complex64, `tau_s` `[device, rx or 1, path]` float64.

    `doppler_hz` `[device, path]`, None if the file does not tell. Missing paths have amplitude 0 and delay 0. The first
    path of every link comes at delay 0: its device sends that much earlier.
    """

    a: NDArray[np.complex64]
    tau_s: NDArray[np.float64]
    doppler_hz: NDArray[np.float64] | None

    @property
    def power(self) -> NDArray[np.float64]:
        """Power of each link, the mean over antennas of the sum over paths of |a|^2, `[device]`."""
        return np.asarray((np.abs(self.a.astype(np.complex128)) ** 2).sum(axis=-1).mean(axis=-1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A file of a recorded channel.

    `times_s` `[num_snapshots]` float64 from 0 on, ascending; None if the file does not tell.
    """

    arrays: Arrays
    num_snapshots: int
    num_devices: int
    num_antennas: int
    num_paths: int
    sample_rate_hz: float | None
    carrier_frequency_hz: float | None
    times_s: NDArray[np.float64] | None
    names: tuple[str, ...]
    source: str
    kept: dict[int, Snapshot] = field(default_factory=dict, repr=False)

    @property
    def has_taps(self) -> bool:
        """True for taps on a grid of samples, False for paths with delays of their own."""
        return self.sample_rate_hz is not None

    @property
    def has_doppler(self) -> bool:
        """True if every path has a Doppler shift."""
        return "doppler_hz" in self.arrays.shapes

    @property
    def duration_s(self) -> float | None:
        """Time after which the trace begins anew: from the first snapshot to one step behind the last [s]."""
        if self.times_s is None or len(self.times_s) < 2:
            return None
        return float(self.times_s[-1] + np.median(np.diff(self.times_s)))

    def name_of(self, device: int) -> str:
        """Return the name of a device in the file, or its number."""
        return self.names[device] if device < len(self.names) else f"device {device}"

    def snapshot(self, index: int) -> Snapshot:
        """Return one snapshot; the last ones asked for stay in memory."""
        found = self.kept.get(index)
        if found is None:
            found = self.read_snapshot(index)
            while len(self.kept) >= _KEPT_SNAPSHOTS:
                del self.kept[next(iter(self.kept))]
            self.kept[index] = found
        return found

    def read_snapshot(self, index: int) -> Snapshot:
        """Return one snapshot, read from the file."""
        a, tau_s, doppler_hz = self.read_block(slice(index, index + 1), slice(0, self.num_devices))
        return Snapshot(a[0], tau_s[0], None if doppler_hz is None else doppler_hz[0])

    def read_block(self, snapshots: slice, devices: slice) -> Snapshot:
        """Return several snapshots of all devices, or some devices of one, with an axis of snapshots in front."""
        names = ("h",) if self.has_taps else ("a", "tau_s", *(("doppler_hz",) if self.has_doppler else ()))
        parts = {name: self.arrays.block(name, snapshots, devices) for name in names}
        if self.sample_rate_hz is not None:
            taps = parts["h"].astype(np.complex64)
            delays = np.arange(self.num_paths) / self.sample_rate_hz
            return Snapshot(taps, np.broadcast_to(delays, (*taps.shape[:2], 1, self.num_paths)), None)
        return _of_paths(parts["a"], parts["tau_s"], parts.get("doppler_hz"))

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield the snapshots and the devices of blocks of some MB that together are the trace."""
        width = self.num_antennas * self.num_paths
        if self.num_devices * width < PART:
            for snapshots in rows(self.num_snapshots, self.num_devices * width):
                yield snapshots, slice(0, self.num_devices)
        else:
            for snapshot in range(self.num_snapshots):
                for devices in rows(self.num_devices, width):
                    yield slice(snapshot, snapshot + 1), devices

    def links(
        self, snapshot: NDArray[np.int64], user: NDArray[np.int64], *, num_antennas: int
    ) -> tuple[NDArray[np.complexfloating], NDArray[np.float64], NDArray[np.float64] | None]:
        """Return amplitudes `[n, antennas, paths]`, delays `[n, antennas or 1, paths]` and Doppler shifts `[n, paths]`.

        Of users at snapshots, `[n]` each.
        """
        if (whole := self._whole) is not None:
            a, tau, doppler = whole
            turned = None if doppler is None else doppler[snapshot, user]
            return a[snapshot, user, :num_antennas], tau[snapshot, user, :num_antennas], turned
        parts = {int(one): self.snapshot(int(one)) for one in np.unique(snapshot)}
        places = [(parts[int(one)], int(who)) for one, who in zip(snapshot, user, strict=True)]
        a = np.stack([part.a[who, :num_antennas] for part, who in places])
        tau = np.stack([part.tau_s[who, :num_antennas] for part, who in places])
        shifts = [part.doppler_hz[who] for part, who in places if part.doppler_hz is not None]
        return a, tau, np.stack(shifts) if shifts else None

    @cached_property
    def _whole(self) -> Snapshot | None:
        """All snapshots one behind the other, of a trace that fits in memory; else None."""
        if self.num_snapshots * self.num_devices * self.num_antennas * self.num_paths > _MOST_IN_MEMORY:
            return None
        parts = [self.read_snapshot(index) for index in range(self.num_snapshots)]
        doppler = [part.doppler_hz for part in parts if part.doppler_hz is not None]
        return Snapshot(
            np.stack([part.a for part in parts]),
            np.stack([part.tau_s for part in parts]),
            np.stack(doppler) if doppler else None,
        )

    @cached_property
    def amplitudes(self) -> NDArray[np.float64]:
        """Root of the mean power of each link over all snapshots, `[device]`. The file is read once for it."""
        total = np.zeros(self.num_devices)
        for snapshots, devices in self.blocks():
            for power in self.read_block(snapshots, devices).power:  # one by one: the sum does not hang on the blocks
                total[devices] += power
        return np.sqrt(total / self.num_snapshots)

    @cached_property
    def delay_profile(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Delays [s] and powers of sum 1 over all links, in 64 bins up to the last path; each `[bins]`.

        Of at most 100 snapshots, evenly spread.
        """
        some = np.linspace(0, self.num_snapshots - 1, min(self.num_snapshots, 100))
        looked_at = [int(one) for one in np.unique(some.astype(int))]
        last = max((float(self.read_snapshot(i).tau_s.max()) for i in looked_at), default=0.0)
        edges = np.linspace(0.0, max(last, 1e-12) * (1.0 + 1e-9), 65)
        total = np.zeros(64)
        for index in looked_at:
            part = self.read_snapshot(index)
            weight = np.abs(part.a) ** 2 / np.maximum(self.amplitudes[:, None, None] ** 2, 1e-300)
            tau = np.broadcast_to(part.tau_s, weight.shape)
            total += np.histogram(tau.ravel(), edges, weights=weight.ravel())[0]
        filled = total > 0.0
        return edges[:-1][filled], total[filled] / total.sum()


def _of_paths(a: NDArray[Any], tau: NDArray[Any], doppler: NDArray[Any] | None) -> Snapshot:
    """The paths that are there, behind the first one of each link."""
    tau = tau if tau.ndim == a.ndim else tau[..., None, :]
    late = (tau >= 0.0) & (tau < np.inf)
    if not late.all():
        tau = np.where(late, tau, 0.0)
    if not (late.all() and np.isfinite(a).all()):
        a = np.where(np.isfinite(a) & late, a, np.complex64(0.0))
    a, tau = a.astype(np.complex64, copy=False), tau.astype(np.float64, copy=False)
    first = np.where(a != 0.0, tau, np.inf).min(axis=(-2, -1), keepdims=True)
    first = np.where(np.isfinite(first), first, 0.0)
    shifts = None if doppler is None else np.nan_to_num(doppler.astype(np.float64))
    return Snapshot(a, np.maximum(tau - first, 0.0), shifts)


def squared(a: NDArray[np.complexfloating]) -> NDArray[np.float64]:
    """Return |a|^2 in double precision, in a third of the time of `abs`."""
    found = np.square(a.real, dtype=np.float64)
    return np.asarray(found + np.square(a.imag, dtype=np.float64))


@lru_cache(maxsize=4)
def trace_of(file: str, digest: str | None) -> Trace:
    """Return the trace in a file, which `digest` tells apart from what lay there before. TraceError as `open_trace`."""
    del digest
    return open_trace(Path(file))


def open_trace(path: Path) -> Trace:
    """Return the trace in a file, of which no channel is read yet. TraceError for arrays that cannot be one."""
    arrays = open_arrays(path)
    shapes = arrays.shapes
    given = [name for name in ("h", "a") if name in shapes]
    if len(given) != 1:
        what = "both h and a" if given else f"neither h nor a, but {', '.join(sorted(shapes)[:8]) or 'nothing'}"
        remedy = "write taps h with sample_rate_hz, or paths a with tau_s"
        raise TraceError(f"{path.name} has {what}", remedy)
    name = given[0]
    shape, dtype = shapes[name]
    axes = f"[snapshot, device, rx_antenna, {'tap' if name == 'h' else 'path'}]"
    if dtype.kind != "c":
        two = " with two reals in the last axis" if dtype.kind == "f" and len(shape) == 5 and shape[-1] == 2 else ""
        raise TraceError(
            f"{name} is {dtype}{two}, no complex array",
            f"write {name}[..., 0] + 1j * {name}[..., 1]" if two else "write complex numbers",
        )
    if len(shape) != 4 or 0 in shape:
        raise TraceError(f"{name} has shape {shape}", f"write axes {axes}, of length 1 where there is only one")
    rate = arrays.number("sample_rate_hz")
    if name == "h" and (rate is None or rate <= 0.0):
        raise TraceError(f"taps h without sample_rate_hz{'' if rate is None else ' above 0'}", "add it [Hz]")
    if name == "a":
        _check_delays(arrays, shape)
        rate = None
    times = _times(arrays, shape[0])
    names = tuple(map(str, arrays.read("names").reshape(-1).tolist())) if "names" in shapes else ()
    return Trace(
        arrays=arrays,
        num_snapshots=shape[0],
        num_devices=shape[1],
        num_antennas=shape[2],
        num_paths=shape[3],
        sample_rate_hz=rate,
        carrier_frequency_hz=arrays.number("carrier_frequency_hz"),
        times_s=times,
        names=names,
        source=arrays.text("source"),
    )


def _check_delays(arrays: Arrays, shape: tuple[int, ...]) -> None:
    wanted = ((*shape[:2], shape[3]), shape)
    for name in ("tau_s", "doppler_hz", "azimuth_deg"):
        if name not in arrays.shapes:
            if name == "tau_s":
                raise TraceError("paths a without delays", "add tau_s [snapshot, device, path] [s]")
            continue
        found, dtype = arrays.shapes[name]
        if found not in (wanted if name == "tau_s" else wanted[:1]) or dtype.kind != "f":
            raise TraceError(
                f"{name} is {dtype} of shape {found}", f"write floats of shape {wanted[0]}, as a has {shape}"
            )


def _times(arrays: Arrays, num_snapshots: int) -> NDArray[np.float64] | None:
    if "time_s" not in arrays.shapes:
        step = arrays.number("snapshot_s")
        if step is not None and step <= 0.0:
            raise TraceError(f"snapshot_s is {step:g}", "write the time from one snapshot to the next, above 0 [s]")
        return None if step is None else np.arange(num_snapshots, dtype=np.float64) * np.float64(step)
    times = arrays.read("time_s").astype(np.float64).reshape(-1)
    if len(times) != num_snapshots or not np.isfinite(times).all():
        raise TraceError(f"time_s has {len(times)} times for {num_snapshots} snapshots", "write one time for each [s]")
    if (np.diff(times) <= 0.0).any():
        late = int(np.flatnonzero(np.diff(times) <= 0.0)[0]) + 1
        raise TraceError(f"time_s does not ascend at snapshot {late}", "sort the snapshots by time")
    return np.asarray(times - times[0])


def defects(trace: Trace) -> Iterator[tuple[bool, str]]:
    """Yield what is wrong or suspicious in a trace, a sentence each, and True where it cannot be simulated so."""
    unknown = sorted(set(trace.arrays.shapes) - set(KNOWN))
    if unknown:
        yield False, f"{', '.join(unknown[:5])}: no array that phyloop knows; it is not read"
    if trace.times_s is None and trace.num_snapshots > 1:
        yield False, "neither time_s nor snapshot_s: coherence doppler needs the time of snapshots"
    if trace.num_antennas > 64 >= trace.num_devices:
        yield False, f"{trace.num_antennas} receive antennas: the axes are [snapshot, device, rx_antenna, path]"
    power = np.zeros((trace.num_snapshots, trace.num_devices))
    longest_s, missing, negative = 0.0, 0, 0
    for snapshots, devices in trace.blocks():
        whole = trace.arrays.block("h" if trace.has_taps else "a", snapshots, devices)
        if trace.has_taps and not np.isfinite(whole).all():
            bad = np.argwhere(~np.isfinite(whole))[0] + (snapshots.start, devices.start, 0, 0)
            yield True, f"h[{', '.join(map(str, bad))}] is no finite number; a missing tap is 0"
            return
        if not trace.has_taps:
            tau = trace.arrays.block("tau_s", snapshots, devices)
            odd = (tau < 0.0) & (tau != _MISSING_DELAY)
            if odd.any():
                negative += int(odd.sum())
            missing += int((~np.isfinite(whole)).sum() + (tau == _MISSING_DELAY).sum())
            longest_s = max(longest_s, float(np.nanmax(np.where(tau >= 0.0, tau, 0.0), initial=0.0)))
            whole = _of_paths(whole, tau, None).a
        power[snapshots, devices] = squared(whole).sum(axis=-1).mean(axis=-1)
    both = (power[1:] > 0.0) & (power[:-1] > 0.0)
    steps = np.abs(10.0 * np.log10(power[1:][both] / power[:-1][both]))
    seen, empty, jump_db = power.sum(axis=0), int((power == 0.0).sum()), float(steps.max(initial=0.0))
    if negative:
        yield True, f"{negative} delays are negative and not -1, which stands for a missing path; write tau_s from 0 on"
    if longest_s > _LONGEST_S:
        yield True, f"a path is {longest_s:.3g} s late, or {longest_s * 3e5:.3g} km; write tau_s in seconds"
    for device in np.flatnonzero(seen == 0.0)[:5]:
        yield True, f"device {device} has no power in any snapshot; leave it out"
    if empty and (seen > 0.0).all():
        share = empty / (trace.num_snapshots * trace.num_devices)
        yield False, f"{share:.1%} of the snapshots of links have no power: their devices are not heard then"
    if jump_db > _LARGE_STEP_DB:
        yield False, f"the power of a link changes by {jump_db:.0f} dB from one snapshot to the next"
    if missing:
        yield False, f"{missing} entries of paths are missing (NaN, or delay -1), and are left out"
