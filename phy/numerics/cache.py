"""Cache of a function of an object that rarely changes from round to round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class LastResult(Generic[Argument, Result]):
    """Function of one argument that caches its last result by the identity of the argument.

    Arguments must not change in place. The last argument is kept alive, so that no other object gets its identity.
    Arrays in the result are read-only, because all callers share them.
    """

    def __init__(self, function: Callable[[Argument], Result]) -> None:
        self._function = function
        self._last: tuple[Any, Result] | None = None

    def __call__(self, argument: Argument) -> Result:
        if self._last is None or self._last[0] is not argument:
            result = self._function(argument)
            for value in result.values() if isinstance(result, dict) else (result,):
                if isinstance(value, np.ndarray):
                    value.setflags(write=False)
            self._last = (argument, result)
        return self._last[1]


def constant(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values as a read-only array: a read-only array that owns its memory unchanged, anything else copied.

    The identity of such an array then stands for its values. It must be read-only before it is shared.
    """
    if isinstance(values, np.ndarray) and values.base is None and not values.flags.writeable and values.dtype == float:
        return values
    own = np.array(values, float)
    own.setflags(write=False)
    return own
