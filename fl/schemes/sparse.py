"""Sparsification with error feedback: top-k and rand-k, Stich, Cordonnier and Jaggi 2018.

    v = update + residual,   k = ceil(share M),   residual = v - what is sent of v

A device sends k of its M numbers, those of largest magnitude (top-k) or drawn at random (rand-k), and adds what it left
out to its next update. Each goes as a code of `bits` within +-`bound`, rounded to the nearest level: the rounding is in
the residual, too. Top-k sends the place of each number before the codes, ceil(log2 M) bits; those of rand-k follow from
the shared seed. A bit error in a place puts a number elsewhere, or beyond M, where the server ignores it. A device does
not learn whether its upload arrived: what was lost is not sent again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fl.base.arrays import F32, I64, U8, Bools
from fl.base.fields import PositiveFloat, whole
from fl.schemes.codecs.partwise import Uniform
from fl.schemes.coders.coder import Coder, Known, Senders, WholeRound, checked_updates
from fl.schemes.scheme import Scheme, schemes
from phy.numerics.draws import device_words
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.models.federated import Piece
    from phy.fading.block_taps import UplinkContext

Places = I64


@schemes.register
class SparseScheme(Scheme):
    """A share of the numbers, the largest (top-k) or random ones (rand-k); the rest is added to the next update."""

    name: Literal["top-k", "rand-k"]
    share: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.05, description="k / M, share of the numbers that are sent; 0.05: a twentieth"
    )
    bits: int = whole(8, "per number that is sent: 2^bits levels; 8: as codec uniform", most=16)
    bound: PositiveFloat = Field(
        default=0.5, description="numbers are clipped to +-bound, and the rest is sent later; 0.5: as codec uniform"
    )

    def kept(self, num_values: int) -> int:
        """Return k."""
        return math.ceil(self.share * num_values)

    def place_bits(self, num_values: int) -> int:
        """Return the bits of a place."""
        return (num_values - 1).bit_length() if self.name == "top-k" else 0

    def upload_bits(self, num_values: int) -> int:
        return self.kept(num_values) * (self.place_bits(num_values) + self.bits)

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> SparseCoder:
        return SparseCoder(self, num_values=sum(piece.size for piece in pieces))


class SparseCoder(Coder):
    """Keeps the residual `[M]` of every device that has sent."""

    def __init__(self, scheme: SparseScheme, *, num_values: int) -> None:
        self.num_values, self._kept = num_values, scheme.kept(num_values)
        self._place_bits, self._num_bits = scheme.place_bits(num_values), scheme.upload_bits(num_values)
        self._codec = Uniform(bits=scheme.bits, bound=scheme.bound, stochastic=False)
        self._residuals: dict[int, F32] = {}

    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        v = checked_updates(updates, devices=devices, num_values=self.num_values).copy()
        for row, device in enumerate(devices.tolist()):
            v[row] += self._residuals.get(device, np.float32(0.0))
        places = self._drawn(devices, context) if self._place_bits == 0 else self._largest(np.abs(v))
        encoded = self._codec.encode(np.take_along_axis(v, places, axis=1)[None], keys=np.zeros((1, 2), np.uint32))
        sent = self._codec.decode(encoded.payload, num_values=self._kept)[0]
        np.put_along_axis(v, places, np.take_along_axis(v, places, axis=1) - sent, axis=1)
        self._residuals.update(zip(devices.tolist(), v, strict=True))
        codes = np.unpackbits(encoded.payload[0], axis=1, count=self._kept * self._codec.bits)
        binary = places[..., None] >> np.arange(self._place_bits)[::-1] & 1
        bits = np.concatenate([binary.reshape(len(v), -1).astype(np.uint8), codes], axis=1)
        return np.packbits(bits, axis=1)[None]

    def gather(self, senders: Senders) -> WholeRound:
        """See `Coder.gather`: the weighted mean over the devices of which anything arrived."""

        def mean(payload: U8, known: Known) -> F32:
            rows, places, values, arrived = self._received(payload, known, senders)
            total = np.zeros(self.num_values)
            np.add.at(total, places, senders.weights[rows] * values)
            heard = np.cumsum(senders.weights * arrived)[-1]
            return (total / (heard or 1.0)).astype(np.float32)

        return WholeRound(mean, num_bits=self._num_bits)

    def read(self, payload: U8, senders: Senders) -> F32:
        """See `Coder.read`: the numbers at their places, 0 elsewhere."""
        out = np.zeros((len(senders.devices), self.num_values), np.float32)
        rows, places, values, _ = self._received(payload, senders.known, senders)
        np.add.at(out, (rows, places), values)
        return out

    def state(self) -> dict[str, Any]:
        """Return the residuals of the devices that have sent: a checkpoint keeps them."""
        residuals = [*self._residuals.values()]
        empty = np.zeros((0, self.num_values), np.float32)
        return {
            "devices": np.array([*self._residuals], np.int64),
            "residuals": np.stack(residuals) if residuals else empty,
        }

    def restore(self, state: Any) -> None:
        """Continue with the residuals of a state."""
        self._residuals = dict(zip(state["devices"].tolist(), np.array(state["residuals"]), strict=True))

    def _largest(self, sizes: F32) -> Places:
        """Return the places `[K, k]` of the largest of `sizes` `[K, M]`, ascending."""
        return np.sort(np.argpartition(-sizes, self._kept - 1, axis=1)[:, : self._kept], axis=1)

    def _drawn(self, devices: I64, context: UplinkContext) -> Places:
        """Return k places `[K, k]` that each device and the server draw from the shared seed, ascending."""
        words = device_words(context.keys(Purpose.CODEBOOK)[0], devices=devices, count=self.num_values)
        return np.sort(np.argpartition(words, self._kept - 1, axis=1)[:, : self._kept], axis=1)

    def _received(self, payload: U8, known: Known, senders: Senders) -> tuple[I64, Places, F32, Bools]:
        """Return rows, places and values of numbers that arrived whole, and of whom anything arrived, bool `[K]`."""
        count, head = len(senders.devices), self._kept * self._place_bits
        bits = np.unpackbits(payload[0], axis=1, count=self._num_bits)
        values = self._codec.decode(np.packbits(bits[:, head:], axis=1)[None], num_values=self._kept)[0]
        if self._place_bits:
            places = bits[:, :head].reshape(count, self._kept, -1) @ (1 << np.arange(self._place_bits)[::-1])
        else:
            places = self._drawn(senders.devices, senders.context)
        held = places < self.num_values
        if known is not None:
            held &= known[:, :head].reshape(*held.shape, -1).all(axis=-1)
            held &= known[:, head:].reshape(*held.shape, -1).all(axis=-1)
        arrived = np.asarray(np.ones(count, bool) if known is None else known.any(axis=1))
        return np.nonzero(held)[0].astype(np.int64), places[held], values[held].astype(np.float32), arrived
