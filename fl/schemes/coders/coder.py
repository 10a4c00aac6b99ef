"""Coder: the interface between updates and bits that every scheme with bits of its own implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl.base.arrays import F32, F64, I64, U8, Bools, Reals
from fl.base.checkpoints import Kept
from fl.base.errors import LearningError
from phy.fading.block_taps import UplinkContext

Known = Bools | None


@dataclass(frozen=True, kw_only=True)
class Senders:
    """Who sends in a round: whose bits the server has, row by row of the payload.

    - `devices` `[K]`: their numbers; `context`: which round it is;
    - `weights` `[K]`: their weights; a coder is given shares, which sum to 1 over those heard;
    - `factor` `[K]`: what flips leave of the mean of a bit as +-1, 1 - 2 p in all, to divide by;
    - `known` `[K, num_bits]`: which bits arrived; None: all. Bit by bit, shares are divided anew among those heard.
    """

    devices: I64
    context: UplinkContext
    weights: F64
    factor: F64
    known: Bools | None = None


class Gathering(ABC):
    """Makes one update of the bits of a round, which arrive block after block of its senders."""

    @abstractmethod
    def add(self, payload: U8, *, known: Bools | None) -> None:
        """Add bits `[1, D, ceil(num_bits / 8)]` of the next D senders; `known` `[D, num_bits]` as in `Senders`."""

    @abstractmethod
    def update(self) -> F32:
        """Return the round's update `[M]`, once all have been added. A number of which nothing arrived is zero."""


class WholeRound(Gathering):
    """Collects all bits of a round, and makes the update by `decide(payload, known)`."""

    def __init__(self, decide: Callable[[U8, Known], F32], *, num_bits: int) -> None:
        self._decide, self._num_bits = decide, num_bits
        self._parts: list[tuple[U8, Known]] = []

    def add(self, payload: U8, *, known: Known) -> None:
        self._parts.append((payload, known))

    def update(self) -> F32:
        return self._decide(*joined_parts(self._parts, num_bits=self._num_bits))


class Encoder(Kept, ABC):
    """Updates of a round to bits. Random draws depend on the round and on the number of a device, not on its place."""

    @abstractmethod
    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        """Return packed bits `[1, K, ceil(upload_bits / 8)]` of updates `[K, M]`, before randomized response.

        `devices` `[K]` are the numbers of some senders of the round. Bits beyond `Scheme.upload_bits` are zero. Raises
        LearningError for NaN and infinity, naming the device.
        """

    def begin(self, context: UplinkContext, *, devices: I64, flip_rate: F64) -> None:
        """Begin a round of `devices` `[S]`, ascending; `flip_rate` `[S]`: lower limits of their bit error rates."""


class Coder(Encoder):
    """An encoder, and the bits that arrived to one update; randomized response and the channel act between the two."""

    @abstractmethod
    def gather(self, senders: Senders) -> Gathering:
        """Return what receives the bits of a round, in blocks of any size, and makes one update of them."""

    def aggregate(self, payload: U8, senders: Senders) -> F32:
        """Return the update `[M]` of bits `[1, K, num_bytes]` that all come at once."""
        gathering = self.gather(senders)
        gathering.add(payload, known=senders.known)
        return gathering.update()

    def read(self, payload: U8, senders: Senders) -> F32 | None:
        """Return the updates `[K, M]` that an attacker reads from the bits of each device; None: not supported."""
        return None

    def of_votes(self, mean: F64, senders: Senders, *, noise_power: float) -> F32:
        """Return the update `[M]` of bits that added up in the air, for a scheme with `Scheme.air_modulations`.

        `mean` `[num_bits]`: of the bits as +-1, each device one vote, in noise of variance `noise_power`.
        """
        raise LearningError("a scheme that needs every device's own bits cannot add them up in the air")

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers that hold for every round."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """Return the numbers that the scheme reports of this round."""
        return {}


def joined_parts(parts: Sequence[tuple[U8, Known]], *, num_bits: int) -> tuple[U8, Known]:
    """Payloads `[1, D, num_bytes]`, and what is known of each, side by side."""
    if len(parts) == 1:
        return parts[0]
    payload = np.concatenate([part for part, _ in parts], axis=1)
    if all(known is None for _, known in parts):
        return payload, None
    full = [np.ones((part.shape[1], num_bits), bool) if known is None else known for part, known in parts]
    return payload, np.concatenate(full)


def checked_updates(updates: Reals, *, devices: I64, num_values: int) -> F32:
    """`updates` `[K, num_values]` as float32. Raises LearningError for another shape, NaN or infinity."""
    from fl.schemes.aggregation.update_kernels import look_at_rows

    if updates.shape != (len(devices), num_values):
        raise LearningError(
            f"updates of shape {updates.shape} do not fit {len(devices)} devices of {num_values} numbers each"
        )
    single = updates.astype(np.float32, copy=False)
    refuse_infinite(~look_at_rows(single, limit=np.inf)[0], devices=devices)
    return single


def refuse_infinite(finite: Bools, *, devices: I64) -> None:
    """Raises LearningError for the first device, of `[K]`, whose update is not `finite`."""
    if not finite.all():
        raise LearningError(
            f"the update of device {devices[int(np.argmin(finite))]} has NaN or infinity in it",
            "lower local.learning_rate",
        )
