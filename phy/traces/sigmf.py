"""Impulse responses of channel sounders, recorded as SigMF: a text of metadata (`.sigmf-meta`) beside the samples.

One impulse response is

- each annotation with a `core:sample_count`, if there are any; its `core:label` is the device;
- else each capture, of one device;
- with a number of taps: each run of so many samples in a capture, or the first ones of each annotation.

Channels of the recording are antennas of the server. Integers are scaled to -1 to 1. Sample n of the file is
`core:offset` + n; each `core:header_bytes` lies before its capture. Source: SigMF 1.2.6, https://sigmf.org.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.traces.container import reading
from phy.traces.errors import TraceError
from phy.traces.recording import PART, Parts, Recording, check_size, whole

META, DATA = ".sigmf-meta", ".sigmf-data"
_MOST_META_BYTES = 64 << 20
_MOST_TAPS = 1 << 14
"""Samples of an impulse response; a longer capture is taken for a stream that holds many."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Recorded:
    """The samples of a file: `starts` `[snapshot, device]` first byte of each impulse response."""

    data: Path
    component: np.dtype[Any]
    num_antennas: int
    num_taps: int
    starts: NDArray[np.int64]

    def parts(self) -> Iterator[NDArray[np.complex64]]:
        """Yield impulse responses `[n, antenna, tap]`; neighbours in the file are read at once."""
        count = 2 * self.num_antennas * self.num_taps
        size, starts = count * self.component.itemsize, self.starts.reshape(-1)
        most = max(PART // count, 1)
        with reading(self.data, "SigMF recording"), self.data.open("rb") as file:
            first = 0
            while first < len(starts):
                here = starts[first : first + most]
                apart = np.flatnonzero(np.diff(here) != size)
                run = int(apart[0]) + 1 if len(apart) else len(here)
                file.seek(int(here[0]))
                numbers = np.fromfile(file, self.component, run * count)
                yield self._scaled(numbers).reshape(run, self.num_taps, self.num_antennas).transpose(0, 2, 1)
                first += run

    def _scaled(self, numbers: NDArray[Any]) -> NDArray[np.complex64]:
        """Pairs of reals as complex numbers; integers by the largest one."""
        if self.component.kind in "iu":
            half = 2.0 ** (8 * self.component.itemsize - 1)
            numbers = (numbers - (half if self.component.kind == "u" else 0.0)) / half
        return np.ascontiguousarray(numbers, np.float32).view(np.complex64)


def is_sigmf(path: Path) -> bool:
    """True for either file of a recording."""
    return path.suffix.lower() in (META, DATA)


def read_sigmf(path: Path, *, num_taps: int | None) -> Recording:
    """Return the impulse responses of a recording, which are read as they are written.

    TraceError for a recording of which no impulse responses can be told apart, and one that is damaged.
    """
    path, data = path.with_suffix(META), path.with_suffix(DATA)
    with reading(path, "SigMF recording"):
        with path.open("rb") as file:
            meta = json.loads(file.read(_MOST_META_BYTES))
        common = meta["global"]
        captures = sorted(meta["captures"], key=lambda one: int(one["core:sample_start"]))
        notes = [one for one in meta.get("annotations") or () if one.get("core:sample_count")]
        antennas, component = int(common.get("core:num_channels", 1)), _component(str(common["core:datatype"]))
        rate, carriers = float(common.get("core:sample_rate", 0.0)), {one.get("core:frequency") for one in captures}
        if rate <= 0.0 or not captures or antennas < 1:
            raise TraceError(f"{path.name} has no sample rate or no capture", "add core:sample_rate and captures")
    if len(carriers) > 1:
        raise TraceError(f"captures at {len(carriers)} carrier frequencies", "import them one by one")
    with reading(data, "SigMF recording"):
        _check_digest(data, str(common.get("core:sha512", "")))
        size = data.stat().st_size - int(common.get("core:trailing_bytes", 0))
        frame, offset = 2 * component.itemsize * antennas, int(common.get("core:offset", 0))
        layout = _Layout.of(captures, offset=offset, frame=frame, size=size)
        devices, how = _annotated(notes) if notes else _captured(layout, num_taps)
        taps = _taps({length for one in devices.values() for _, length in one}, num_taps)
        starts = _starts(devices)
        found = _Recorded(
            data=data, component=component, num_antennas=antennas, num_taps=taps, starts=layout.places(starts, taps)
        )
        arrays = {
            "h": Parts(shape=(*starts.shape, antennas, taps), dtype=np.dtype(np.complex64), make=found.parts),
            "sample_rate_hz": whole(rate),
            "time_s": whole(_times(layout, captures, starts[:, 0], rate)),
            "names": whole(list(devices)),
            "source": whole(str(common.get("core:description") or common.get("core:hw") or path.stem)),
        }
    if (carrier := carriers.pop()) is not None:
        arrays["carrier_frequency_hz"] = whole(float(carrier))
    check_size("h", arrays["h"].shape, arrays["h"].dtype)
    return Recording(arrays=arrays, assumed=(how, "channels of the recording are antennas of the server"))


def _component(datatype: str) -> np.dtype[Any]:
    """The type of a real or imaginary part."""
    found = re.fullmatch(r"c(f32|f64|[iu](?:8|16|32))(_be|_le)?", datatype)
    if found is None:
        raise TraceError(f"samples are {datatype}", "impulse responses are complex: write cf32_le, or ci16_le")
    return np.dtype(f"{'>' if found[2] == '_be' else '<'}{found[1][0]}{int(found[1][1:]) // 8}")


def _check_digest(data: Path, digest: str) -> None:
    with data.open("rb") as file:
        if digest and hashlib.file_digest(file, "sha512").hexdigest() != digest.lower():
            raise TraceError(f"{data.name} has another SHA-512 than its metadata say", "copy both files again")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layout:
    """Sample numbers at which captures begin and end, and the first byte of each one's samples."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    byte: NDArray[np.int64]
    frame: int

    @classmethod
    def of(cls, captures: list[dict[str, Any]], *, offset: int, frame: int, size: int) -> _Layout:
        begin = np.array([int(one["core:sample_start"]) for one in captures], np.int64)
        headers = np.cumsum([int(one.get("core:header_bytes", 0)) for one in captures])
        total = offset + (size - int(headers[-1])) // frame
        if begin[0] < offset or begin[-1] > total:
            problem = f"captures begin at samples {begin[0]} to {begin[-1]}, the data hold {offset} to {total}"
            raise TraceError(problem, "copy both files again")
        return cls(begin=begin, end=np.append(begin[1:], total), byte=(begin - offset) * frame + headers, frame=frame)

    def capture(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the capture that each sample is in."""
        return np.asarray(np.maximum(np.searchsorted(self.begin, starts, side="right") - 1, 0))

    def places(self, starts: NDArray[np.int64], taps: int) -> NDArray[np.int64]:
        """Return the first byte of impulse responses. TraceError for one that is not inside one capture."""
        which = self.capture(starts)
        out = (starts < self.begin[which]) | (starts + taps > self.end[which])
        if out.any():
            first = int(starts[out][0])
            problem = f"the impulse response at sample {first} has {taps} samples, more than its capture"
            raise TraceError(problem, "copy both files again, or take fewer: --taps")
        return np.asarray(self.byte[which] + (starts - self.begin[which]) * self.frame)


def _annotated(notes: list[dict[str, Any]]) -> tuple[dict[str, list[tuple[int, int]]], str]:
    """Start and length of the annotations of each label."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one in sorted(notes, key=lambda one: int(one["core:sample_start"])):
        run = int(one["core:sample_start"]), int(one["core:sample_count"])
        found.setdefault(str(one.get("core:label", "device 0")), []).append(run)
    counts = {len(one) for one in found.values()}
    if len(counts) > 1:
        problem = f"labels with {min(counts)} to {max(counts)} annotations"
        raise TraceError(problem, "annotate as many impulse responses of every device")
    return found, "each annotation is an impulse response, its label the device"


def _captured(layout: _Layout, num_taps: int | None) -> tuple[dict[str, list[tuple[int, int]]], str]:
    """Start and length of captures, or of their runs of `num_taps` samples."""
    if num_taps is None:
        lengths = layout.end - layout.begin
        if (longest := int(lengths.max())) > _MOST_TAPS:
            problem = f"a capture of {longest} samples, and no annotations that tell impulse responses apart"
            raise TraceError(problem, "say how many samples one has, as in --taps 64")
        runs = list(zip(layout.begin.tolist(), lengths.tolist(), strict=True))
        return {"device 0": runs}, "each capture is an impulse response of one device"
    ends = zip(layout.begin.tolist(), layout.end.tolist(), strict=True)
    runs = [(at, num_taps) for begin, end in ends for at in range(begin, end - num_taps + 1, num_taps)]
    if not runs:
        raise TraceError(f"no capture has {num_taps} samples", "take fewer: --taps")
    return {"device 0": runs}, f"each {num_taps} samples of a capture are an impulse response of one device"


def _taps(lengths: set[int], num_taps: int | None) -> int:
    if len(lengths) > 1 and num_taps is None:
        problem = f"impulse responses of {min(lengths)} to {max(lengths)} samples"
        raise TraceError(problem, "say how many to take of each, as in --taps 64")
    return num_taps or lengths.pop()


def _starts(devices: dict[str, list[tuple[int, int]]]) -> NDArray[np.int64]:
    """First samples `[snapshot, device]`."""
    return np.array([[start for start, _ in one] for one in devices.values()], np.int64).T


def _times(
    layout: _Layout, captures: list[dict[str, Any]], starts: NDArray[np.int64], rate: float
) -> NDArray[np.float64]:
    """Times of samples [s]: by the clock of captures, else their global index, else as if nothing lay between them."""
    which = layout.capture(starts)
    inside = (starts - layout.begin[which]) / rate
    if all("core:datetime" in one for one in captures) and len(captures) > 1:
        clock = [datetime.fromisoformat(str(one["core:datetime"]).replace("Z", "+00:00")) for one in captures]
        return np.array([(one - clock[0]).total_seconds() for one in clock])[which] + inside
    if all("core:global_index" in one for one in captures):
        index = np.array([int(one["core:global_index"]) for one in captures])
        return np.asarray((index - index[0])[which] / rate + inside)
    return np.asarray((starts - starts[0]) / rate)
