"""Channels of QuaDRiGa-lib: its HDF5 files, and its arrays as they were saved.

Coefficients have the phase of the whole path at the carrier, while delays are by default relative to the line of
sight; both are taken as they are, since delays of a recorded channel are relative to the first path of each link. What
came with it as real and imaginary part becomes complex. A path without power, as `add_fake_los_path` adds one, is none.
Source: https://quadriga-lib.org, version 0.12.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phy.traces.container import reading
from phy.traces.errors import TraceError
from phy.traces.matlab5 import Variable
from phy.traces.recording import Parts, Recording, rows, whole
from phy.traces.variables import load, open_variables

Ends = Literal["receivers", "transmitters"]

_RE, _IM, _COMPLEX, _DELAY = ("coeff_re", "re"), ("coeff_im", "im"), ("coeff", "coeffs"), ("delay", "delays")
_AXES = "[rx, tx, path], [rx, tx, path, snapshot] or [device, rx, tx, path, snapshot]"


def is_quadriga(path: Path) -> bool:
    """True for a file with the names that QuaDRiGa-lib gives."""
    names = _groups(path) or open_variables(path).keys()
    return "ChannelDims" in names or (_first(names, _DELAY) != "" and _first(names, (*_RE, *_COMPLEX)) != "")


def read_quadriga(path: Path, *, devices: Ends, facts: Mapping[str, float]) -> Recording:
    """Return the channels in a file, of which a part is in memory at a time.

    `devices` are the ends that are devices, of whose antennas the first one counts; `facts` are numbers that such
    files do not hold, `snapshot_s` and `carrier_frequency_hz`. TraceError for arrays that cannot be a channel.
    """
    found = _of_file(path, devices) if _groups(path) else _of_arrays(path, devices)
    known = {name: whole(np.float64(value)) for name, value in facts.items()}
    other = "transmit" if devices == "receivers" else "receive"
    assumed = (
        f"devices are the {devices}, of several antennas the first; the server has the {other} antennas",
        "coefficients have the phase of the absolute path, also where delays are relative",
    )
    return Recording(arrays={"software": whole("QuaDRiGa-lib"), **found, **known}, assumed=assumed)


def _groups(path: Path) -> list[str]:
    """Names in a file of `hdf5_write_channel`; none for another file."""
    import h5py

    with reading(path):
        if not h5py.is_hdf5(path):
            return []
        with h5py.File(path, "r") as file:
            return list(file) if "ChannelDims" in file else []


# --- files of hdf5_write_channel -------------------------------------------------------------------


def _of_file(path: Path, devices: Ends) -> dict[str, Parts]:
    """One channel of the file is one device; QuaDRiGa-lib's axes are in reverse: [path, tx, rx]."""
    import h5py

    with reading(path), h5py.File(path, "r") as file:
        names = sorted((one for one in file if one.startswith("channel_")), key=lambda one: int(one[8:]))
        if not names:
            raise TraceError(f"{path.name} has no channels", "write them with hdf5_write_channel")
        shapes = {name: _shape_of(file[name], devices) for name in names}
        snapshots, antennas, _ = shapes[names[0]]
        for name, shape in shapes.items():
            if shape[:2] != (snapshots, antennas):
                problem = f"{name} has {shape[0]} snapshots, {shape[1]} antennas; {names[0]} {snapshots} and {antennas}"
                raise TraceError(problem, "write channels of equal size")
        full = (snapshots, len(names), antennas, max(paths for _, _, paths in shapes.values()))
        labels = [file[name].attrs.get("Name", name) for name in names]
        carriers = {float(file[name].attrs.get("CenterFrequency", np.nan)) for name in names}
        end = "rx_position" if devices == "receivers" else "tx_position"
        places = [_places(file[name], end, snapshots) for name in names]
    make = partial(_snapshots, path, names, devices, full)
    found = {
        "a": Parts(shape=full, dtype=np.dtype(np.complex64), make=partial(make, ("coeff_re", "coeff_im"))),
        "tau_s": Parts(shape=full, dtype=np.dtype(np.float32), make=partial(make, ("delay",))),
        "names": whole([one.decode() if isinstance(one, bytes) else str(one) for one in labels]),
    }
    if len(carriers) == 1 and np.isfinite(list(carriers)).all():
        found["carrier_frequency_hz"] = whole(carriers.pop())
    if np.isfinite(position := np.stack(places, axis=1)).all():
        found["position_m"] = whole(position)
    return found


def _shape_of(channel: Any, devices: Ends) -> tuple[int, int, int]:
    """Snapshots, antennas of the server, and largest number of paths."""
    from h5py import h5d

    names = [name for name in channel if name.startswith("Snap_")]
    parts = [h5d.open(channel.id, f"{name}/coeff_re".encode()).shape for name in names]
    if not parts:
        raise TraceError(f"{channel.name[1:]} has no snapshots with coefficients", "write coeff and delay")
    return len(parts), parts[0][1 if devices == "receivers" else 2], max(shape[0] for shape in parts)


def _places(channel: Any, end: str, snapshots: int) -> NDArray[np.float32]:
    stored = channel[end][()] if end in channel else channel.attrs.get(end, np.full(3, np.nan))
    return np.broadcast_to(np.asarray(stored, np.float32).reshape(-1, 3), (snapshots, 3))


def _snapshots(
    path: Path, names: list[str], devices: Ends, shape: tuple[int, ...], arrays: tuple[str, ...]
) -> Iterator[NDArray[Any]]:
    """Each snapshot `[device, antenna, path]`, filled up with zeros."""
    import h5py

    with reading(path), h5py.File(path, "r") as file:
        for snapshot in range(shape[0]):
            found = np.zeros(shape[1:], np.complex64 if len(arrays) == 2 else np.float32)
            for device, name in enumerate(names):
                for half, array in zip((found.real, found.imag), arrays, strict=False):
                    values = _stored(file, f"{name}/Snap_{snapshot}/{array}")
                    values = values[:, :, 0] if devices == "receivers" else values[:, 0, :]
                    half[device, :, : len(values)] = values.T
            yield found if len(arrays) == 2 else _from_zero(found)


def _stored(file: Any, name: str) -> NDArray[np.float32]:
    """An array of a file, by the bare calls: there are thousands of small ones."""
    from h5py import h5d, h5s

    stored = h5d.open(file.id, name.encode())
    found = np.empty(stored.shape, np.float32)
    stored.read(h5s.ALL, h5s.ALL, found)
    return found


# --- arrays of get_channels_... ----------------------------------------------------------------------


def _of_arrays(path: Path, devices: Ends) -> dict[str, Parts]:
    variables = open_variables(path)
    delay = _variable(path, variables, _DELAY)
    split = _first(variables, _RE) != ""
    halves = [_variable(path, variables, names) for names in ((_RE, _IM) if split else (_COMPLEX,))]
    for one in (*halves, delay):
        if len(one.shape) not in (3, 4, 5) or 0 in one.shape or len(one.shape) != len(halves[0].shape):
            raise TraceError(f"an array has shape {one.shape}", f"write axes {_AXES}")
    if split is (halves[0].dtype.kind == "c") or delay.dtype.kind != "f":
        types = f"{halves[0].dtype} coefficients and {delay.dtype} delays"
        raise TraceError(f"{path.name} has {types}", "save coeff_re, coeff_im and delay, or complex coeff and delay")
    shapes = [_moved(np.broadcast_to(0, one.shape), devices).shape for one in (*halves, delay)]
    if any(one[0] != shapes[0][0] or one[1] != shapes[0][1] or one[3] != shapes[0][3] for one in shapes):
        raise TraceError(f"coefficients of shape {halves[0].shape}, delays of {delay.shape}", "save them alike")
    shape = shapes[0]
    return {
        "a": Parts(shape=shape, dtype=np.dtype(np.complex64), make=partial(_joined, path, halves, devices)),
        "tau_s": Parts(shape=shape, dtype=delay.dtype, make=partial(_delays, path, delay, devices, shape)),
    }


def _moved(values: NDArray[Any], devices: Ends) -> NDArray[Any]:
    """The array as `[snapshot, device, antenna, path]`, the first antenna of each device."""
    full = values[None] if values.ndim < 5 else values
    full = full[..., None] if full.ndim < 5 else full
    return np.moveaxis(full[:, 0] if devices == "receivers" else full[:, :, 0], 3, 0)


def _joined(path: Path, halves: list[Variable], devices: Ends) -> Iterator[NDArray[Any]]:
    if len(halves) == 1:
        found = load(path, halves[0])
    else:
        found = np.empty(halves[0].shape, np.complex64, order="F")
        found.real = load(path, halves[0])
        found.imag = load(path, halves[1])
    moved = _moved(found, devices)
    for part in rows(len(moved), int(np.prod(moved.shape[1:]))):
        yield moved[part]


def _delays(path: Path, delay: Variable, devices: Ends, shape: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    moved = np.broadcast_to(_moved(load(path, delay), devices), shape)
    for part in rows(len(moved), int(np.prod(shape[1:]))):
        yield _from_zero(moved[part])


def _from_zero(delays: NDArray[Any]) -> NDArray[Any]:
    """Delays `[snapshot, device, antenna, path]` or less, of which no link has negative ones.

    Relative delays are those to the middle of an array: its nearer half hears the line of sight before 0.
    """
    return np.asarray(delays - np.minimum(delays.min(axis=(-2, -1), keepdims=True), 0.0))


def _first(names: Any, wanted: tuple[str, ...]) -> str:
    return next((one for one in wanted if one in names), "")


def _variable(path: Path, variables: Mapping[str, Variable], wanted: tuple[str, ...]) -> Variable:
    if not (name := _first(variables, wanted)):
        raise TraceError(f"{path.name} has no {wanted[0]}", "save coeff_re, coeff_im and delay")
    return variables[name]
