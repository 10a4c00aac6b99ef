"""The Python pickles of CIFAR, read without letting them run anything."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray


class _Dtype:
    """Stands for `numpy.dtype`: its name is kept, byte order and whatever else is set are not."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """Stands for `numpy.ndarray`: NumPy's own code never sees the state in the file."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """NumPy's own way since protocol 5."""
    if not isinstance(buffer, (bytes, bytearray)):
        raise pickle.UnpicklingError("its array has no bytes")
    array = _Array()
    array.state = (1, shape, dtype, order == "F", bytes(buffer))
    return array


def _encode(text: Any, encoding: Any) -> bytes:
    """How Python 3 writes bytes in protocol 2."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("it encodes something else than bytes")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_pickle(content: bytes) -> dict[str, Any]:
    """The dictionary in `content`; keys as str, arrays of bytes as uint8.

    Numbers, text, bytes, lists and dictionaries pass, and arrays of unsigned bytes; anything else that the file asks
    for is an UnpicklingError, before it is made. Malformed files raise what `pickle` raises.
    """
    read = _Reader(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(read, dict):
        raise pickle.UnpicklingError(f"it holds a {type(read).__name__}, not a dictionary")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): _array(value)
        if isinstance(value, _Array)
        else value
        for key, value in read.items()
    }


def _array(pickled: _Array) -> NDArray[np.uint8]:
    """The uint8 array of what stood for it; ValueError for another."""
    _, shape, dtype, by_column, content = pickled.state
    if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", "|u1", "uint8"):
        raise ValueError("its array is not of unsigned bytes")
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_column else "C")
