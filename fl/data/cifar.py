"""CIFAR-10 and CIFAR-100 as their author packed them for Python: a folder of pickles, or its .tar.gz.

A pickle is a program. It is read without running the code that it names: the reader runs only the instructions of text,
whole numbers, lists, dictionaries and arrays. Python's own reader written in Python runs them: the one written in C
takes the memory that a file claims to need.
"""

from __future__ import annotations

import gzip
import io
import pickle
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from pickle import UnpicklingError
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fl.arrays import U8
from fl.config.data import DataName, Pair
from fl.data.arrays import AGAIN, damaged, image_facts
from fl.tasks.base import LearningError

FOLDERS: dict[DataName, str] = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ARCHIVES: dict[DataName, str] = {"cifar10": "cifar-10-python.tar.gz", "cifar100": "cifar-100-python.tar.gz"}
FILES: dict[DataName, tuple[str, ...]] = {
    "cifar10": (*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"),
    "cifar100": ("train", "test"),
}
"""To train on, and the last to test on."""

_LABELS: dict[DataName, str] = {"cifar10": "labels", "cifar100": "fine_labels"}
_DAMAGE = (
    *(EOFError, ValueError, KeyError, OSError, OverflowError, MemoryError),
    *(UnpicklingError, tarfile.TarError, zlib.error),
)

_MAX_INSTRUCTIONS = 1 << 20
"""CIFAR-100's training file has some 300 000. One instruction takes at most about 100 bytes beyond the file's own."""

_ALLOWED = (
    pickle.PROTO + pickle.FRAME + pickle.STOP + pickle.MARK + pickle.POP,
    pickle.NONE + pickle.NEWTRUE + pickle.NEWFALSE + pickle.BININT + pickle.BININT1 + pickle.BININT2 + pickle.LONG1,
    pickle.BINSTRING + pickle.SHORT_BINSTRING,  # text of Python 2, in which CIFAR was written
    pickle.BINBYTES + pickle.SHORT_BINBYTES + pickle.BINBYTES8 + pickle.BYTEARRAY8,
    pickle.BINUNICODE + pickle.SHORT_BINUNICODE + pickle.BINUNICODE8,
    pickle.EMPTY_TUPLE + pickle.TUPLE1 + pickle.TUPLE2 + pickle.TUPLE3 + pickle.TUPLE,
    pickle.EMPTY_LIST + pickle.APPEND + pickle.APPENDS + pickle.EMPTY_DICT + pickle.SETITEM + pickle.SETITEMS,
    pickle.BINPUT + pickle.LONG_BINPUT + pickle.MEMOIZE + pickle.BINGET + pickle.LONG_BINGET,
    pickle.GLOBAL + pickle.STACK_GLOBAL + pickle.REDUCE + pickle.BUILD,
)
_NAMES = re.compile(
    r"numpy\.(dtype|ndarray)|numpy\._?core\.(multiarray\._reconstruct|numeric\._frombuffer)|_codecs\.encode"
)


def read_cifar(path: Path, *, name: DataName) -> tuple[Pair, Pair]:
    """The set in the folder or archive `path`, fine labels of CIFAR-100; LearningError, one sentence, if damaged."""
    parts: dict[str, tuple[U8, NDArray[Any]]] = {}
    where = str(path)
    try:
        for member, content in _members(path, wanted=FILES[name]):
            where = f"{path}, {member}"
            parts[member] = _part(content, name=name)
    except _DAMAGE as error:
        raise damaged(f"file of {name}", error, source=where) from error
    if absent := [member for member in FILES[name] if member not in parts]:
        raise LearningError(f"{path}: {absent[0]} is missing, {name} has {', '.join(FILES[name])}; {AGAIN}")
    *train, test = (parts[member] for member in FILES[name])
    return (np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train])), test


def _members(path: Path, *, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files; nothing is unpacked to disk."""
    if path.is_dir():
        yield from ((name, (path / name).read_bytes()) for name in wanted if (path / name).is_file())
        return
    with gzip.open(path, "rb") as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            if member.isfile() and (name := PurePosixPath(member.name).name) in wanted:
                packed = archive.extractfile(member)
                assert packed is not None  # a regular file
                yield name, packed.read()


def _part(content: bytes, *, name: DataName) -> tuple[U8, NDArray[Any]]:
    """Images `[N, 32, 32, 3]` and labels: rows in the file hold all red, then all green, then all blue pixels."""
    read = read_pickle(content)
    height, width, channels = image_facts(name).image_shape
    images, labels = read["data"], read[_LABELS[name]]
    if not isinstance(images, np.ndarray):
        raise ValueError("its data are not an array of unsigned bytes")
    if not isinstance(labels, list) or not all(type(label) is int and abs(label) < 1 << 31 for label in labels):
        raise ValueError("its labels are not a list of whole numbers")
    return images.reshape(-1, channels, height, width).transpose(0, 2, 3, 1), np.asarray(labels, np.int64)


def read_pickle(content: bytes) -> dict[str, Any]:
    """Return the dictionary in `content`: keys as str, arrays of bytes as uint8.

    Raises UnpicklingError for a damaged file, and for one that holds anything but text, bytes, whole numbers, lists,
    tuples, dictionaries and arrays of unsigned bytes.
    """
    try:
        items = _Reader(content).load().items()
        return {key if isinstance(key, str) else key.decode("latin1"): _array(value) for key, value in items}
    except (ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError, struct.error) as error:
        raise UnpicklingError("it is cut short or damaged") from error


class _Call:
    """A function that the file names, and what it gives to it: kept, not called, but for the encoding of text."""

    __slots__ = ("function", "given", "reader", "state")

    def __init__(self, reader: _Reader, function: str, given: tuple[Any, ...] = ()) -> None:
        self.reader, self.function, self.given = reader, function, given
        self.state: Any = None

    def __call__(self, *given: Any) -> Any:
        if len(given) > 4:  # each call keeps its arguments
            raise UnpicklingError("it calls something other than NumPy's arrays")
        if self.function == "_codecs.encode":
            return self.reader.encode(*given)
        return _Call(self.reader, self.function, given)

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _array(value: Any) -> Any:
    """The uint8 array that a call would make; any other value as it is."""
    if not isinstance(value, _Call):
        return value
    if value.function.endswith("_frombuffer"):  # NumPy's way since protocol 5
        buffer, dtype, shape, order = value.given
    else:
        _, shape, dtype, is_by_column, buffer = value.state
        order = "F" if is_by_column else "C"
    if dtype.function != "numpy.dtype" or dtype.given[0] not in ("u1", "|u1", "uint8", b"u1", b"|u1"):
        raise UnpicklingError("its array is not of unsigned bytes")
    return np.frombuffer(buffer, np.uint8).reshape(shape, order=order)


class _Reader(pickle._Unpickler):
    stack: list[Any]
    dispatch: ClassVar[Any]

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self.instructions, self.left_to_encode = 0, len(content)

    def find_class(self, module: str, name: str) -> _Call:
        full = f"{module}.{name}"
        if not _NAMES.fullmatch(full):
            raise UnpicklingError(f"it asks for {re.sub(r'[^A-Za-z0-9_.]', '?', full[:160])}")
        return _Call(self, full)

    def encode(self, text: str, encoding: Any) -> bytes:
        """Bytes as Python 3 writes them in protocol 2. A file may ask for copies of one text: not beyond its size."""
        self.left_to_encode -= len(text)
        if self.left_to_encode < 0 or encoding not in ("latin1", b"latin1"):
            raise UnpicklingError("it encodes more than it holds, or not bytes")
        return text.encode("latin1")


def _counted(code: int) -> Callable[[Any], None]:
    """Return an instruction of the standard reader that is counted, and takes only text for keys of dictionaries."""
    # For a bytearray the standard reader takes the memory that the file claims.
    run: Callable[[Any], None] = pickle._Unpickler.dispatch[
        pickle.BINBYTES8[0] if code == pickle.BYTEARRAY8[0] else code
    ]
    places = {pickle.SETITEM[0]: slice(-2, -1), pickle.SETITEMS[0]: slice(None, None, 2)}.get(code, slice(0))

    def step(reader: _Reader) -> None:
        reader.instructions += 1
        if reader.instructions > _MAX_INSTRUCTIONS:
            raise UnpicklingError(f"it has more than {_MAX_INSTRUCTIONS} instructions")
        if not all(isinstance(key, str | bytes) for key in reader.stack[places]):  # nested tuples hash for ever
            raise UnpicklingError("a key of it is not text")
        run(reader)

    return step


_Reader.dispatch = {code: _counted(code) for code in b"".join(_ALLOWED)}
