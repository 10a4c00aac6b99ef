"""What trials side by side keep of their rounds, and what is the same in all rounds or all trials kept once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RoundSeries:
    """One array a round, `[num_trials, ...]` each; rounds of which nothing was noted hold zeros.

    While the very same array is noted again and again it is kept once, and may not be changed in place.
    """

    def __init__(self, num_rounds: int, *, rows: NDArray[Any] | None = None) -> None:
        self._num_rounds = num_rounds
        self._rows = rows
        self._same: NDArray[Any] | None = None
        self._count = 0

    def note(self, index: int, values: NDArray[Any]) -> None:
        """Round `index`."""
        if self._rows is None:
            if index == self._count and (self._same is None or values is self._same):
                self._same, self._count = values, index + 1
                return
            self._rows = self._written(values)
        self._rows[index] = values

    def first(self, rounds: int) -> NDArray[Any]:
        """Those up to a round, `[rounds, num_trials, ...]`, which may be a view that cannot be written to."""
        if self._rows is None and self._same is not None and rounds <= self._count:
            return np.broadcast_to(self._same, (rounds, *self._same.shape))
        if self._rows is None:
            assert self._same is not None  # of a name that was never noted there is no series
            self._rows = self._written(self._same)
        return self._rows[:rounds]

    def _written(self, like: NDArray[Any]) -> NDArray[Any]:
        rows = np.zeros((self._num_rounds, *like.shape), like.dtype)
        if self._same is not None:
            rows[: self._count] = self._same
        return rows


def running_total(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over rounds up to and including each, of `[num_rounds, num_trials]`."""
    if not all_alike(values):
        return np.cumsum(values, axis=0)
    return np.broadcast_to(np.cumsum(values[:, :1], axis=0), values.shape)


def all_alike(values: NDArray[Any]) -> bool:
    """Whether all trials have the same bytes in every round, of 8-byte numbers; the last round tells at once."""
    if values.size == 0:
        return False
    if values.strides[1] == 0:
        return True
    rows = values[:1] if values.strides[0] == 0 else values
    words = rows.reshape(*rows.shape[:2], -1).view(np.int64)
    return bool((words[-1:] == words[-1:, :1]).all() and (words == words[:, :1]).all())


def of_trials(arrays: Mapping[str, NDArray[Any]], *, ended: NDArray[np.int64]) -> list[dict[str, NDArray[Any]]]:
    """What each trial keeps of arrays `[num_rounds, num_trials, ...]`: its first `ended` `[num_trials]` rounds.

    Where all trials agree to the last bit they share one array, which is read-only: what nothing draws is then copied,
    packed and stored once.
    """
    lengths = ended.tolist()
    columns: list[list[NDArray[Any]]] = []
    for values in arrays.values():
        if len(lengths) > 1 and all_alike(values):
            shared = {rounds: values[:rounds, 0].copy() for rounds in set(lengths)}
            for array in shared.values():
                array.setflags(write=False)
            columns.append([shared[rounds] for rounds in lengths])
        else:
            # A trial's numbers side by side, or every one of them would be fetched from another line of memory.
            rows = np.ascontiguousarray(np.swapaxes(values, 0, 1))
            columns.append([row[:rounds].copy() for row, rounds in zip(rows, lengths, strict=True)])
    return [dict(zip(arrays, column, strict=True)) for column in zip(*columns, strict=True)] or [{} for _ in lengths]
