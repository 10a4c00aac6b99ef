"""Each tensor of an update less its mean, over three standard deviations, as the CPA reference code has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.models.federated import Piece
from fl.tasks.base import LearningError

STATISTIC_BITS = 2 * 32
"""Mean and spread of one tensor as binary32."""


@dataclass(frozen=True, kw_only=True)
class SideInformation:
    """What the server must know of every device to undo the scaling, `[K, num_tensors]` float32: mean, 3 std.

    It comes of the data and no noise covers it: an epsilon of what is sent beside it says nothing of it, here as in the
    reference code.
    """

    devices: NDArray[np.int64]
    mean: NDArray[np.float32]
    spread: NDArray[np.float32]

    def of(self, devices: NDArray[np.int64]) -> SideInformation:
        """That of some devices by number. Raises LearningError for one that sent nothing."""
        if np.array_equal(devices, self.devices):
            return self
        # Empty seats of the link are lent to device 0, behind those that are taken: the first is the device's own.
        numbers, first = np.unique(self.devices, return_index=True)
        place = np.minimum(np.searchsorted(numbers, devices), len(numbers) - 1)
        missing = numbers[place] != devices
        if missing.any():
            raise LearningError(
                f"device {devices[int(np.argmax(missing))]} sent no scale in this round; decode what was encoded"
            )
        rows = first[place]
        return SideInformation(devices=devices, mean=self.mean[rows], spread=self.spread[rows])


class TensorScaling:
    """x = (h - mean) / (3 std) for every tensor of a model, and back. `side_bits`: to tell the server, per device."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._places = [piece.place for piece in pieces]
        self.side_bits = STATISTIC_BITS * len(self._places)

    def measure(self, updates: NDArray[np.float32], *, devices: NDArray[np.int64]) -> SideInformation:
        """Mean and 3 std (of the tensor's own numbers, divided by their count) of updates `[K, M]`."""
        mean = np.empty((len(updates), len(self._places)), np.float32)
        spread = np.empty_like(mean)
        for tensor, place in enumerate(self._places):
            part = updates[:, place]
            mean[:, tensor] = part.mean(axis=1)
            centred = part - mean[:, tensor, None]
            spread[:, tensor] = 3.0 * np.sqrt(np.einsum("km,km->k", centred, centred) / part.shape[1])
        return SideInformation(devices=devices, mean=mean, spread=spread)

    def scale(self, part: NDArray[np.float32], side: SideInformation, *, first: int) -> NDArray[np.float32]:
        """x of numbers `first` .. of every device, `[K, n]`; 0 where a tensor is constant."""
        out = np.empty_like(part)
        for tensor, inside in self._tensors(first, part.shape[1]):
            spread = side.spread[:, tensor, None]
            inverse = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0).astype(np.float32)
            np.subtract(part[:, inside], side.mean[:, tensor, None], out=out[:, inside])
            out[:, inside] *= inverse
        return out

    def undo(self, part: NDArray[np.float32], side: SideInformation, *, first: int) -> None:
        """h of x `[K, n]`, in place."""
        # A number whose bits were flipped may be as large as any.
        with np.errstate(over="ignore", invalid="ignore"):
            for tensor, inside in self._tensors(first, part.shape[1]):
                part[:, inside] *= side.spread[:, tensor, None]
                part[:, inside] += side.mean[:, tensor, None]

    def _tensors(self, first: int, count: int) -> list[tuple[int, slice]]:
        """Tensors that lie within `count` numbers from `first` on, and where."""
        found = []
        for tensor, place in enumerate(self._places):
            start, stop = max(place.start - first, 0), min(place.stop - first, count)
            if start < stop:
                found.append((tensor, slice(start, stop)))
        return found
