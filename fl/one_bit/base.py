"""The seam between updates and bits of a whole round: what every one-bit scheme does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError
from phy.channels import UplinkContext


@dataclass(frozen=True, kw_only=True)
class Senders:
    """Whose bits the server has, row by row of the payload.

    - `devices` `[K]`: their numbers; `context`: which round it is;
    - `weights` `[K]`: their shares, which sum to 1 over those heard;
    - `factor` `[K]`: what flips leave of the mean of a bit as +-1, 1 - 2 p in all, to divide by;
    - `known` `[K, num_bits]`: which bits arrived; None: all. Shares are divided anew among those who were heard, bit by
      bit.
    """

    devices: NDArray[np.int64]
    context: UplinkContext
    weights: NDArray[np.float64]
    factor: NDArray[np.float64]
    known: NDArray[np.bool_] | None = None


class Scheme(Protocol):
    """Updates of a round to bits, and the bits that arrived to one update.

    Randomized response and the channel act between the two, on the bits, and are no business of a scheme. A device is
    known by its number, never by its place in a list: what is drawn for it depends on the round and on that number.
    """

    @property
    def num_bits(self) -> int:
        """Bits really sent per device and round."""
        ...

    @property
    def flip_target(self) -> float | None:
        """Probability with which every bit must be wrong end to end, 1 / (1 + e^epsilon), or None: no need of flips."""
        ...

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """Packed bits `[1, K, ceil(num_bits / 8)]` uint8 of updates `[K, M]`, before randomized response.

        `devices` `[K]` int64 are the devices' numbers. Bits beyond `num_bits` are zero. Raises LearningError for NaN
        and infinity, naming the device.
        """
        ...

    def aggregate(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """The round's update `[M]` float32 from the bits that came, `[1, K, ceil(num_bits / 8)]` uint8.

        A number of which nothing arrived becomes zero.
        """
        ...


def checked_updates(
    updates: NDArray[np.floating[Any]], *, devices: NDArray[np.int64], num_values: int
) -> NDArray[np.float32]:
    """`updates` `[K, num_values]` as float32. Raises LearningError for another shape, NaN or infinity."""
    if updates.shape != (len(devices), num_values):
        raise LearningError(
            f"updates of shape {updates.shape} do not fit {len(devices)} devices of {num_values} numbers each"
        )
    good = np.isfinite(updates.sum(axis=1, dtype=np.float64))
    if not good.all():
        raise LearningError(
            f"the update of device {devices[int(np.argmin(good))]} has NaN or infinity in it; lower local.learning_rate"
        )
    return updates.astype(np.float32, copy=False)
