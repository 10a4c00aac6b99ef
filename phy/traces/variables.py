"""Variables of NumPy, HDF5 and MATLAB files, of which one array is in memory at a time.

MATLAB's version 7.3, which is HDF5, keeps axes in reverse and complex numbers as pairs `real` and `imag`; both are
undone. Numbers of one entry are single numbers, texts are texts. Axes of length one at the end of an array, which
MATLAB drops, are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.npz import shapes_in_npz
from phy.traces.container import KNOWN, is_npz, reading
from phy.traces.errors import TraceError
from phy.traces.matlab5 import Variable, variables_of_5
from phy.traces.recording import Parts, Recording, check_size, rows, whole

_AXES = {"h": 4, "a": 4, "tau_s": 3, "doppler_hz": 3, "azimuth_deg": 3}
_SCALARS = ("sample_rate_hz", "snapshot_s", "carrier_frequency_hz")


def read_variables(path: Path, *, names: Mapping[str, str], facts: Mapping[str, float]) -> Recording:
    """Return the recorded channel in a file, whose arrays are read one after the other.

    `names` gives the variable of an array where it has another name, as in `{"h": "H_ul"}`; `facts` are numbers that
    the file does not hold. TraceError for a file that cannot be read, and for a variable that is not there.
    """
    wanted = {name: names.get(name, name) for name in KNOWN}
    unknown = sorted(set(names) - set(KNOWN))
    if unknown:
        raise TraceError(f"{unknown[0]} is no array of a channel", f"name one of {', '.join(KNOWN)}")
    variables = open_variables(path)
    absent = [variable for variable in names.values() if variable not in variables]
    if absent:
        raise TraceError(f"{path.name} has no variable {absent[0]}", "name one that it has")
    found = {name: variables[variable] for name, variable in wanted.items() if variable in variables}
    if not found:
        held = ", ".join(sorted(variables)[:8]) or "no arrays"
        raise TraceError(f"{path.name} has {held}", "name the variable of an array, as in --name h=H")
    known = {name: whole(np.float64(value)) for name, value in facts.items()}
    return Recording(arrays={**{name: _shaped(path, name, one) for name, one in found.items()}, **known})


def open_variables(path: Path) -> dict[str, Variable]:
    """Return the variables of a file, of which no numbers are read yet. TraceError for a file that cannot be read."""
    import h5py

    with reading(path, _kind(path)):
        if is_npz(path):
            shapes = shapes_in_npz(path).items()
            return {n: Variable(shape=s, dtype=t, load=partial(_load_npz, path, n)) for n, (s, t) in shapes}
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                return {name: _of_hdf5(path, name, one) for name, one in file.items() if hasattr(one, "shape")}
        return variables_of_5(lambda: path.open("rb"))


def load(path: Path, one: Variable) -> NDArray[Any]:
    """Return the numbers of a variable. TraceError for a damaged file."""
    with reading(path, _kind(path)):
        return one.load()


def _kind(path: Path) -> str:
    return "MATLAB file" if path.suffix.lower() == ".mat" else "file of arrays"


def _load_npz(path: Path, name: str) -> NDArray[Any]:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        check_size(name, *shapes_in_npz(path)[name])
        return np.asarray(file[name])


def _of_hdf5(path: Path, name: str, stored: Any) -> Variable:
    pairs = stored.dtype.names is not None and set(stored.dtype.names) >= {"real", "imag"}
    reverse = path.suffix.lower() == ".mat"
    return Variable(
        shape=stored.shape[::-1] if reverse else stored.shape,
        dtype=np.dtype(np.complex64) if pairs else stored.dtype,
        load=partial(_load_hdf5, path, name, reverse=reverse),
        characters=stored.attrs.get("MATLAB_class", b"") == b"char",
    )


def _load_hdf5(path: Path, name: str, *, reverse: bool) -> NDArray[Any]:
    """The array, with its axes as in MATLAB; pairs of reals as complex64."""
    import h5py

    with h5py.File(path, "r") as file:
        stored = file[name]
        if stored.dtype.names is None:
            check_size(name, stored.shape, stored.dtype)
            found = np.asarray(stored[()])
        else:
            check_size(name, stored.shape, np.dtype(np.complex64))
            found = np.empty(stored.shape, np.complex64)
            for part in rows(len(stored), int(np.prod(stored.shape[1:]))):
                values = stored[part]
                found[part].real, found[part].imag = values["real"], values["imag"]
        return found.T if reverse else found


def _shaped(path: Path, name: str, one: Variable) -> Parts:
    if one.characters:
        return whole(np.array(["".join(map(chr, line)).rstrip() for line in np.atleast_2d(load(path, one)).tolist()]))
    if name in _SCALARS and np.prod(one.shape) == 1:
        return whole(load(path, one).reshape(()))
    if name == "time_s":
        return whole(load(path, one).reshape(-1))
    shape = (*one.shape, *[1] * max(_AXES.get(name, 0) - len(one.shape), 0))
    return Parts(shape=shape, dtype=one.dtype, make=partial(_in_rows, path, one, shape))


def _in_rows(path: Path, one: Variable, shape: tuple[int, ...]) -> Iterable[NDArray[Any]]:
    """The array in C order; one array of the file is in memory at a time."""
    found = load(path, one)
    found = found[(..., *[None] * (len(shape) - found.ndim))]
    if not shape:
        yield found
        return
    for part in rows(shape[0], int(np.prod(shape[1:]))):
        yield found[part]
