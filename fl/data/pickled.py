"""The Python pickles of CIFAR, read by rules of our own: Python's reader of pickles runs what a file asks for.

A pickle is a program for a small machine with a stack. Of its instructions those are carried out here that make text,
bytes, whole numbers, lists, tuples and dictionaries, and of the functions that it may name those four by which NumPy
writes an array of bytes. Any other instruction or name ends the reading. What is read cannot become larger than the
file: nothing is allocated by what the file claims, memory is numbered by what was kept, and keys are text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class PickleError(ValueError):
    """The file asks for something that no file of CIFAR needs, or is damaged."""


class _Name(NamedTuple):
    """A function or class that the file names."""

    module: str
    name: str


class _Dtype:
    """Stands for `numpy.dtype`: its name is kept, byte order and whatever else is set are not."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name


class _Array:
    """Stands for `numpy.ndarray`: NumPy's own code never sees the state in the file."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        pass


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """NumPy's own way since protocol 5."""
    if not isinstance(buffer, bytes):
        raise PickleError("its array has no bytes")
    array = _Array()
    array.state = (1, shape, dtype, order == "F", buffer)
    return array


def _encode(text: Any, encoding: Any) -> bytes:
    """How Python 3 writes bytes in protocol 2."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise PickleError("it encodes something else than bytes")
    return text.encode("latin1")


_ALLOWED: dict[_Name, Callable[..., Any]] = {
    _Name("_codecs", "encode"): _encode,
    _Name("numpy", "dtype"): _Dtype,
    _Name("numpy", "ndarray"): _Array,
    **{_Name(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{_Name(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}
_MARK = object()


def read_pickle(content: bytes) -> dict[str, Any]:
    """The dictionary in `content`; keys as str, arrays of bytes as uint8.

    Whole numbers, text, bytes, lists and dictionaries pass, and arrays of unsigned bytes. PickleError, a ValueError,
    for anything else, before it is made, and for a damaged file.
    """
    try:
        read = _Machine(content).run()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise PickleError("it is cut short or damaged") from error
    if not isinstance(read, dict):
        raise PickleError(f"it holds a {type(read).__name__}, not a dictionary")
    return {_text(key): _array(value) if isinstance(value, _Array) else value for key, value in read.items()}


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _array(pickled: _Array) -> NDArray[np.uint8]:
    """The uint8 array of what stood for it; ValueError for another."""
    state = pickled.state
    if not isinstance(state, tuple) or len(state) != 5:
        raise PickleError("its array has no content")
    _, shape, dtype, by_column, content = state
    if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", "|u1", "uint8"):
        raise PickleError("its array is not of unsigned bytes")
    if not isinstance(shape, tuple) or not all(type(axis) is int for axis in shape) or not isinstance(content, bytes):
        raise PickleError("its array has no content")
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_column else "C")


class _Machine:
    """The stack, what was kept by number, and the place in the file."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0
        self._stack: list[Any] = []
        self._kept: dict[int, Any] = {}
        self._encoded = 0

    def run(self) -> Any:
        """What is left when the file says that it is at its end."""
        while (code := self._take(1)) != b".":
            step = _STEPS.get(code)
            if step is None:
                raise PickleError(f"it has the instruction {code!r}, which no array or list needs")
            step(self)
        return self._pop()

    def _take(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise PickleError("it is cut short")
        self._at += count
        return found

    def _number(self, kind: str) -> int:
        return int(struct.unpack(kind, self._take(struct.calcsize(kind)))[0])

    def _line(self) -> str:
        line = self._take(self._content.find(b"\n", self._at, self._at + 200) - self._at)
        self._at += 1
        return line.decode("ascii", "replace")

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise PickleError("a value is missing")
        return value

    def _to_mark(self) -> list[Any]:
        found: list[Any] = []
        while (value := self._stack.pop()) is not _MARK:
            found.append(value)
        return found[::-1]

    def _top(self, kind: type) -> Any:
        top = self._stack[-1]
        if not isinstance(top, kind):
            raise PickleError(f"something other than a {kind.__name__} is filled")
        return top

    # --- instructions ---------------------------------------------------------------------------

    def _bytes(self, kind: str) -> None:
        self._push(self._take(self._number(kind)))

    def _unicode(self, kind: str) -> None:
        self._push(self._take(self._number(kind)).decode("utf-8", "surrogatepass"))

    def _whole(self, kind: str) -> None:
        self._push(self._number(kind))

    def _long(self) -> None:
        size = self._number("<B")
        if size > 8:
            raise PickleError("it has a number of more than 8 bytes")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _tuple_of(self, count: int) -> None:
        self._push(tuple(reversed([self._pop() for _ in range(count)])))

    def _append(self, items: list[Any]) -> None:
        self._top(list).extend(items)

    def _set(self, items: list[Any]) -> None:
        held = self._top(dict)
        if len(items) % 2 or not all(isinstance(key, str | bytes) for key in items[::2]):
            raise PickleError("a key of it is no text")
        held.update(zip(items[::2], items[1::2], strict=True))

    def _keep(self, number: int) -> None:
        if self._stack[-1] is _MARK:
            raise PickleError("a value is missing")
        self._kept[number] = self._stack[-1]

    def _get(self, number: int) -> None:
        if number not in self._kept:
            raise PickleError("it refers to what it did not keep")
        self._push(self._kept[number])

    def _name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str | bytes) or not isinstance(name, str | bytes):
            raise PickleError("it asks for something without a name")
        found = _Name(_text(module), _text(name))
        if found not in _ALLOWED:
            asked = re.sub(r"[^A-Za-z0-9_.]", "?", f"{found.module[:80]}.{found.name[:80]}")
            raise PickleError(f"it asks for {asked}")
        self._push(found)

    def _named_on_stack(self) -> None:
        name, module = self._pop(), self._pop()
        self._name(module, name)

    def _reduce(self) -> None:
        given, function = self._pop(), self._pop()
        if not isinstance(function, _Name) or not isinstance(given, tuple) or len(given) > 4:
            raise PickleError("it calls something else than NumPy's arrays")
        if function.name == "encode" and given and isinstance(given[0], str):
            # Of a text that was kept, a few bytes of file would make a copy each.
            self._encoded += len(given[0])
            if self._encoded > len(self._content):
                raise PickleError("it encodes more than it holds")
        try:
            self._push(_ALLOWED[function](*given))
        except (TypeError, UnicodeEncodeError) as error:
            raise PickleError("its array makes no sense") from error

    def _build(self) -> None:
        state = self._pop()
        top = self._top(object)
        if isinstance(top, _Array):
            top.state = state
        elif not isinstance(top, _Dtype):
            raise PickleError("it fills something else than NumPy's arrays")


_STEPS: dict[bytes, Callable[[_Machine], object]] = {
    b"\x80": lambda m: m._take(1),  # protocol
    b"\x95": lambda m: m._take(8),  # frame
    b"(": lambda m: m._push(_MARK),
    b"0": lambda m: m._pop(),
    b"}": lambda m: m._push({}),
    b"]": lambda m: m._push([]),
    b")": lambda m: m._push(()),
    b"N": lambda m: m._push(None),
    b"\x88": lambda m: m._push(True),
    b"\x89": lambda m: m._push(False),
    b"J": lambda m: m._whole("<i"),
    b"K": lambda m: m._whole("<B"),
    b"M": lambda m: m._whole("<H"),
    b"\x8a": _Machine._long,
    b"U": lambda m: m._bytes("<B"),  # text of Python 2, in which CIFAR was packed
    b"T": lambda m: m._bytes("<I"),
    b"C": lambda m: m._bytes("<B"),
    b"B": lambda m: m._bytes("<I"),
    b"\x8e": lambda m: m._bytes("<Q"),
    b"\x96": lambda m: m._bytes("<Q"),
    b"X": lambda m: m._unicode("<I"),
    b"\x8c": lambda m: m._unicode("<B"),
    b"\x8d": lambda m: m._unicode("<Q"),
    b"\x85": lambda m: m._tuple_of(1),
    b"\x86": lambda m: m._tuple_of(2),
    b"\x87": lambda m: m._tuple_of(3),
    b"t": lambda m: m._push(tuple(m._to_mark())),
    b"a": lambda m: m._append([m._pop()]),
    b"e": lambda m: m._append(m._to_mark()),
    b"s": lambda m: m._set([m._pop(), m._pop()][::-1]),
    b"u": lambda m: m._set(m._to_mark()),
    b"q": lambda m: m._keep(m._number("<B")),
    b"r": lambda m: m._keep(m._number("<I")),
    b"\x94": lambda m: m._keep(len(m._kept)),
    b"h": lambda m: m._get(m._number("<B")),
    b"j": lambda m: m._get(m._number("<I")),
    b"c": lambda m: m._name(m._line(), m._line()),
    b"\x93": _Machine._named_on_stack,
    b"R": _Machine._reduce,
    b"b": _Machine._build,
}
