"""What follows from an object that mostly stays the same from round to round, worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Told = TypeVar("Told")
Found = TypeVar("Found")


class Remembered(Generic[Told, Found]):
    """A function of one argument that answers again what it last answered while it is told the very same object.

    For arguments that nobody changes in place; the last one is held on to, so that no other can take its identity. An
    array that is answered is read-only: whoever asked before holds it too.
    """

    def __init__(self, function: Callable[[Told], Found]) -> None:
        self._function = function
        self._last: tuple[Any, Found] | None = None

    def __call__(self, told: Told) -> Found:
        if self._last is None or self._last[0] is not told:
            found = self._function(told)
            for one in found.values() if isinstance(found, dict) else (found,):
                if isinstance(one, np.ndarray):
                    one.setflags(write=False)
            self._last = (told, found)
        return self._last[1]


def constant(values: ArrayLike) -> NDArray[np.float64]:
    """Numbers that nobody changes: an array that owns its memory and is read-only is answered itself, others copied.

    So who hands in such an array is known again by it; it must have been read-only before it was shown around.
    """
    if isinstance(values, np.ndarray) and values.base is None and not values.flags.writeable and values.dtype == float:
        return values
    own = np.array(values, float)
    own.setflags(write=False)
    return own
