"""MATLAB files of channels: version 5 by SciPy, version 7.3, which is HDF5, by h5py.

Version 7.3 keeps axes in reverse and complex numbers as pairs `real` and `imag`; both are undone. Numbers of one entry
are single numbers, texts are texts. Axes of length one at the end of an array, which MATLAB drops, are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.traces.container import KNOWN, TraceError

_AXES = {"h": 4, "a": 4, "tau_s": 3, "doppler_hz": 3}
_NUMBERS = ("sample_rate_hz", "snapshot_s", "carrier_frequency_hz")


def read_matlab(path: Path, *, names: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a recorded channel in a `.mat` file.

    `names` gives the variable of an array where it has another name, as in `{"h": "H_ul"}`. TraceError for a file that
    cannot be read, and for a variable that is not there.
    """
    wanted = {name: names.get(name, name) for name in KNOWN}
    unknown = sorted(set(names) - set(KNOWN))
    if unknown:
        raise TraceError(f"{unknown[0]} is no array of a channel", f"name one of {', '.join(KNOWN)}")
    try:
        import h5py

        found = _of_73(path, wanted) if h5py.is_hdf5(path) else _of_5(path, wanted)
    except TraceError:
        raise
    except Exception as error:  # SciPy and h5py have no class in common
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise TraceError(f"{path.name} is no whole MATLAB file ({reason[:200]})", "save it anew") from error
    absent = [variable for name, variable in names.items() if name not in found]
    if absent:
        raise TraceError(f"{path.name} has no variable {absent[0]}", "name one that it has")
    return {name: _shaped(name, one) for name, one in found.items()}


def _of_5(path: Path, wanted: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    from scipy.io import loadmat

    variables = loadmat(path, variable_names=list(wanted.values()))
    return {name: variables[variable] for name, variable in wanted.items() if variable in variables}


def _of_73(path: Path, wanted: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    import h5py

    found = {}
    with h5py.File(path, "r") as file:
        for name, variable in wanted.items():
            if variable not in file:
                continue
            values = np.asarray(file[variable])
            if values.dtype.names is not None and set(values.dtype.names) >= {"real", "imag"}:
                values = values["real"] + 1j * values["imag"]
            if file[variable].attrs.get("MATLAB_class", b"") == b"char":
                values = np.array("".join(map(chr, values.T.ravel().tolist())))
            found[name] = values.T
    return found


def _shaped(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if name in _NUMBERS and values.size == 1:
        return values.reshape(())
    if name == "time_s":
        return values.reshape(-1)
    return values.reshape(*values.shape, *[1] * max(_AXES.get(name, 0) - values.ndim, 0))
