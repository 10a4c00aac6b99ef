"""The seam between updates and bits of a whole round: what every one-bit scheme does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext


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


class Aggregator(Protocol):
    """Makes one update of the bits of a round, which arrive block after block of its senders."""

    def add(self, payload: NDArray[np.uint8], *, known: NDArray[np.bool_] | None) -> None:
        """Add bits `[1, D, ceil(num_bits / 8)]` of the next D senders; `known` `[D, num_bits]` as in `Senders`."""
        ...

    def update(self) -> NDArray[np.float32]:
        """Return the round's update `[M]`, once all have been added."""
        ...


class Scheme(Protocol):
    """Updates of a round to bits, and the bits that arrived to one update.

    Randomized response and the channel act between the two, on the bits, and a scheme does not see them. A device is
    known by its number, not by its place in a list: what is drawn for it depends on the round and on that number.
    """

    @property
    def num_bits(self) -> int:
        """Bits really sent per device and round."""
        ...

    @property
    def in_blocks(self) -> bool:
        """Whether updates may be encoded, and bits added, in blocks of senders; where not, all come at once."""
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

    def aggregator(self, senders: Senders) -> Aggregator:
        """Return what aggregates bits that come in blocks; `known` comes with them. Any blocks give the same update."""
        ...


def aggregated(scheme: Scheme, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
    """`Scheme.aggregate` of a scheme that takes blocks: all bits are one block."""
    aggregator = scheme.aggregator(senders)
    aggregator.add(payload, known=senders.known)
    return aggregator.update()


class WholeRound:
    """An `Aggregator` of a scheme that needs all bits at once."""

    def __init__(self, scheme: Scheme, senders: Senders) -> None:
        self._scheme, self._senders = scheme, senders
        self._parts: list[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]] = []

    def add(self, payload: NDArray[np.uint8], *, known: NDArray[np.bool_] | None) -> None:
        """See `Aggregator.add`."""
        self._parts.append((payload, known))

    def update(self) -> NDArray[np.float32]:
        """See `Aggregator.update`."""
        payload, known = joined_parts(self._parts, num_bits=self._scheme.num_bits)
        return self._scheme.aggregate(payload, replace(self._senders, known=known))


def joined_parts(
    parts: Sequence[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]], *, num_bits: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
    """Payloads `[1, D, num_bytes]`, and what is known of each, side by side."""
    if len(parts) == 1:
        return parts[0]
    payload = np.concatenate([part for part, _ in parts], axis=1)
    if all(known is None for _, known in parts):
        return payload, None
    full = [np.ones((part.shape[1], num_bits), bool) if known is None else known for part, known in parts]
    return payload, np.concatenate(full)


def checked_updates(
    updates: NDArray[np.floating[Any]], *, devices: NDArray[np.int64], num_values: int
) -> NDArray[np.float32]:
    """`updates` `[K, num_values]` as float32. Raises LearningError for another shape, NaN or infinity."""
    from fl.aggregation.update_kernels import look_at_rows

    single = shaped_updates(updates, devices=devices, num_values=num_values)
    refuse_infinite(~look_at_rows(single, limit=np.inf)[0], devices=devices)
    return single


def shaped_updates(
    updates: NDArray[np.floating[Any]], *, devices: NDArray[np.int64], num_values: int
) -> NDArray[np.float32]:
    """`updates` `[K, num_values]` as float32. Raises LearningError for another shape."""
    if updates.shape != (len(devices), num_values):
        raise LearningError(
            f"updates of shape {updates.shape} do not fit {len(devices)} devices of {num_values} numbers each"
        )
    return updates.astype(np.float32, copy=False)


def refuse_infinite(finite: NDArray[np.bool_], *, devices: NDArray[np.int64]) -> None:
    """Raises LearningError for the first device, of `[K]`, whose update is not `finite`."""
    if not finite.all():
        raise LearningError(
            f"the update of device {devices[int(np.argmin(finite))]} has NaN or infinity in it; "
            "lower local.learning_rate"
        )
