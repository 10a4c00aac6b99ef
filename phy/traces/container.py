"""Files of recorded channels: `.npz` of NumPy or HDF5, with the same arrays.

Taps on a grid of samples, or paths with delays of their own:

- `h` `[snapshot, device, rx_antenna, tap]` complex, with `sample_rate_hz`: tap l comes l samples late;
- `a` `[snapshot, device, rx_antenna, path]` complex, with `tau_s` `[snapshot, device, path]`, or with an axis of
  antennas before the paths, and if known `doppler_hz` `[snapshot, device, path]`. A path that is missing has an
  amplitude of 0 or NaN, or a delay of -1 or NaN. Amplitudes have the phase at the carrier.

Also, if known: `time_s` `[snapshot]`, or `snapshot_s`, the time between two; `carrier_frequency_hz`; `azimuth_deg`
`[snapshot, device, path]`, from where a path comes to the server; `position_m` `[snapshot or 1, device, 2 or 3]`,
`server_m` `[2 or 3]`; `names` `[device]`; `source`, a text on where it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from phy.numerics.npz import offsets_in_npz, shapes_in_npz
from phy.traces.errors import MOST_BYTES, TraceError

SUFFIXES = (".npz", ".h5", ".hdf5")
KNOWN = (
    *("h", "sample_rate_hz", "a", "tau_s", "doppler_hz", "azimuth_deg", "time_s", "snapshot_s", "carrier_frequency_hz"),
    *("position_m", "server_m", "names", "source", "software", "normalized"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrays:
    """The arrays of a file: shape and type of each, and parts of them as they are asked for.

    `offsets`: where arrays of an `.npz` begin, of which single snapshots can be read [B].
    """

    path: Path
    shapes: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    offsets: Mapping[str, int] = field(default_factory=dict)

    def read(self, name: str, index: Any = ...) -> NDArray[Any]:
        """Return an array, or one snapshot of it."""
        if name in self.offsets and isinstance(index, int | np.integer):
            snapshots = slice(int(index), int(index) + 1)
            return np.asarray(self.block(name, snapshots, slice(0, self.shapes[name][0][1]))[0])
        if is_npz(self.path):
            return np.asarray(_of_npz(self.path, self.path.stat().st_mtime_ns, name)[index])
        with _hdf5(self.path) as file:
            return np.asarray(file[name][index])

    def block(self, name: str, snapshots: slice, devices: slice) -> NDArray[Any]:
        """Return several snapshots of all devices, or some devices of one snapshot."""
        if name not in self.offsets:
            return self.read(name, (snapshots, devices))
        shape, dtype = self.shapes[name]
        row, num_devices = int(np.prod(shape[2:])), devices.stop - devices.start
        count = (snapshots.stop - snapshots.start) * num_devices * row
        with reading(self.path), self.path.open("rb") as file:
            file.seek(self.offsets[name] + (snapshots.start * shape[1] + devices.start) * row * dtype.itemsize)
            return np.fromfile(file, dtype, count).reshape(-1, num_devices, *shape[2:])

    def text(self, name: str) -> str:
        """Return a text, empty if there is none."""
        if name not in self.shapes:
            return ""
        found = self.read(name).reshape(-1)[:1].tolist()
        return (
            found[0].decode("utf-8", "replace") if found and isinstance(found[0], bytes) else "".join(map(str, found))
        )

    def number(self, name: str) -> float | None:
        """Return a number, None if there is none. TraceError for anything else."""
        if name not in self.shapes:
            return None
        found = self.read(name)
        if found.size != 1 or found.dtype.kind not in "iuf" or not np.isfinite(found).all():
            raise TraceError(f"{name} is {found.dtype} of shape {found.shape}", f"write {name} as one number")
        return float(found.reshape(-1)[0])


_kept: dict[tuple[Path, int, str], NDArray[Any]] = {}


def _of_npz(path: Path, modified_ns: int, name: str) -> NDArray[Any]:
    """An array of a file, kept in memory until another file is read; nothing is unpickled."""
    key = path, modified_ns, name
    if key not in _kept:
        for other in [one for one in _kept if one[:2] != key[:2]]:
            del _kept[other]
        with reading(path), path.open("rb") as stream, NpzFile(stream) as file:
            _kept[key] = file[name]
    return _kept[key]


@contextmanager
def _hdf5(path: Path) -> Iterator[Any]:
    import h5py

    with reading(path), h5py.File(path, "r") as file:
        yield file


def is_npz(path: Path) -> bool:
    """True for a file of NumPy, by its name."""
    return path.suffix.lower() == ".npz"


@contextmanager
def reading(path: Path, kind: str = "file of arrays") -> Iterator[None]:
    """Raise TraceError, one sentence, where a file turns out to be damaged, or cannot be opened."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:  # zipfile, NumPy and h5py have no class in common
        if isinstance(error, OSError) and error.errno is not None:
            reason = os.strerror(error.errno).lower()
            raise TraceError(f"{path.name} cannot be read ({reason})", "correct the path") from error
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise TraceError(f"{path.name} is not a whole {kind} ({reason[:200]})", "write it anew") from error


def open_arrays(path: Path) -> Arrays:
    """Return the arrays of a file, of which nothing but headers is read. TraceError for a damaged file."""
    if path.suffix.lower() not in SUFFIXES:
        raise TraceError(f"{path.name} is of no known kind", "write .npz or .h5, or convert it: phyloop channel import")
    if not is_npz(path):
        with _hdf5(path) as file:
            return Arrays(
                path=path, shapes={name: (one.shape, one.dtype) for name, one in file.items() if hasattr(one, "shape")}
            )
    with reading(path):
        shapes, offsets = shapes_in_npz(path), offsets_in_npz(path)
    for name, (shape, dtype) in shapes.items():
        size = float(np.prod(shape, dtype=float)) * dtype.itemsize
        if size > MOST_BYTES:
            remedy = "write HDF5 (.h5), of which a run reads the snapshots that it needs"
            raise TraceError(f"array {name} takes {size / 2**30:.0f} GiB, of .npz at most {MOST_BYTES >> 30}", remedy)
        if dtype.hasobject:
            raise TraceError(f"array {name} holds Python objects, which are never opened", "write plain numbers")
    return Arrays(path=path, shapes=shapes, offsets=offsets)
