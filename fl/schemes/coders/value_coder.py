"""The coder of schemes that send every number as a code, the scaling of tensors before it, and the law of a code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fl.base.arrays import F32, I64, U8, U32, Bools
from fl.models.federated import Piece
from fl.schemes.aggregation.estimates import by_columns, weighted_mean
from fl.schemes.coders.coder import Coder, Known, Senders, WholeRound, checked_updates
from fl.schemes.coders.law import Law, ReceivedGames, Scores
from phy.fading.block_taps import UplinkContext
from phy.numerics.draws import device_words
from phy.numerics.packing import pack, unpack
from phy.numerics.random import Purpose
from phy.numerics.workers import spans

if TYPE_CHECKING:
    from fl.schemes.coders.value_scheme import ValueScheme

_VALUES_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True)
class CodedPart:
    """All numbers of some devices: the random words that belong to them."""

    devices: I64
    context: UplinkContext

    def words(self, purpose: Purpose, *, count: int) -> U32:
        """One word for each of `count` numbers, `[K, count]`, from the round's stream of a purpose."""
        return device_words(self.context.keys(purpose)[0], devices=self.devices, count=count)


class TensorScaling:
    """x = (h - mean) / (3 std) for every tensor of a model, and back, as the CPA reference code has it.

    The server must know the scales `[2, K, num_tensors]`, mean and 3 std of every device, which no noise covers.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.places = [piece.place for piece in pieces]

    def scale(self, updates: F32) -> tuple[F32, F32]:
        """x `[K, M]` of updates, 0 where a tensor is constant, and the scales, by the std of a tensor's own numbers."""
        out, scales = np.empty_like(updates), np.empty((2, len(updates), len(self.places)), np.float32)
        for tensor, place in enumerate(self.places):
            part = updates[:, place]
            mean, spread = scales[:, :, tensor, None]
            mean[:, 0] = part.mean(axis=1)
            centred = part - mean
            spread[:, 0] = 3.0 * np.sqrt(np.einsum("km,km->k", centred, centred) / part.shape[1])
            out[:, place] = centred * np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)
        return out, scales

    def undo(self, x: F32, scales: F32) -> None:
        """h of x `[K, M]`, in place."""
        # A number whose bits were flipped may be as large as any.
        with np.errstate(over="ignore", invalid="ignore"):
            for tensor, place in enumerate(self.places):
                mean, spread = scales[:, :, tensor, None]
                x[:, place] *= spread
                x[:, place] += mean


class ValueCoder(Coder):
    """The coder of schemes that send every number as a code. Flips on the channel are not undone.

    `scaling` tells the server the mean and spread of every tensor beside the payload: assumed to arrive without error.
    `receiver_limit`: decoded numbers beyond it count as missing.
    """

    def __init__(
        self,
        code: ValueScheme,
        *,
        num_values: int,
        scaling: TensorScaling | None = None,
        receiver_limit: float | None = None,
    ) -> None:
        self.code, self._num_values, self._scaling = code, num_values, scaling
        self._limit = receiver_limit
        self._devices, self._scales = np.zeros(0, np.int64), np.zeros((2, 0, 0), np.float32)

    @property
    def num_bits(self) -> int:
        """Bits through the radio per device and round."""
        return self.code.upload_bits(self._num_values)

    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        """See `Coder.encode`; keeps this round's scales for `decode`."""
        updates = checked_updates(updates, devices=devices, num_values=self._num_values)
        payload = np.empty((len(devices), -(-self.num_bits // 8)), np.uint8)
        if self._scaling is not None:
            self._devices, self._scales = devices, np.empty((2, len(devices), len(self._scaling.places)), np.float32)
        for rows in self._rows(len(devices)):
            x = updates[rows].copy()
            if self._scaling is not None:
                x, self._scales[:, rows] = self._scaling.scale(x)
            if x.shape[1] % self.code.block:
                x = np.pad(x, ((0, 0), (0, self.code.block - x.shape[1] % self.code.block)))
            codes = self.code.to_codes(x, part=CodedPart(devices=devices[rows], context=context))
            payload[rows] = pack(codes, bits=self.code.bits_per_block)
        return payload[None]

    def decode(self, payload: U8, *, devices: I64, context: UplinkContext) -> F32:
        """Numbers `[K, M]` float32 as the server reads them, of the devices whose payload `[1, K, num_bytes]` it is.

        Those of the round that was encoded last.
        """
        out = np.empty((len(devices), self._num_values), np.float32)
        num_blocks = -(-self._num_values // self.code.block)
        for rows in self._rows(len(devices)):
            codes = unpack(payload[0, rows], bits=self.code.bits_per_block, num_values=num_blocks)
            part = CodedPart(devices=devices[rows], context=context)
            out[rows] = self.code.to_values(codes, part=part)[:, : self._num_values]
            if self._scaling is not None:
                self._scaling.undo(out[rows], self._scales_of(devices[rows]))
        return out

    def gather(self, senders: Senders) -> WholeRound:
        """See `Coder.gather`: the weighted mean of the decoded numbers; `factor` is not used."""

        def mean(payload: U8, known: Known) -> F32:
            out = np.zeros(self._num_values, np.float32)
            decoded = self.decode(payload, devices=senders.devices, context=senders.context)
            held = None if known is None else self._held(known)
            if self._limit is not None:
                with np.errstate(invalid="ignore"):
                    plausible = np.abs(decoded) <= self._limit  # False for NaN
                held = plausible if held is None else held & plausible
            return by_columns(weighted_mean, decoded, weights=senders.weights, known=held, otherwise=out)

        return WholeRound(mean, num_bits=self.num_bits)

    def read(self, payload: U8, senders: Senders) -> F32:
        """See `Coder.read`: the decoded numbers, 0 where one did not arrive whole."""
        values = self.decode(payload, devices=senders.devices, context=senders.context)
        known = senders.known
        return values if known is None else values * self._held(known)

    def _held(self, known: Bools) -> Bools:
        """Which numbers arrived whole, `[K, M]`, of bits that arrived `[K, num_bits]`."""
        whole = known.reshape(len(known), -1, self.code.bits_per_block).all(axis=-1)
        return np.repeat(whole, self.code.block, axis=1)[:, : self._num_values]

    def _scales_of(self, devices: I64) -> F32:
        if np.array_equal(devices, self._devices):
            return self._scales
        # Unused indices of the link belong to device 0, behind those that are taken: the first is the device's own.
        numbers, first = np.unique(self._devices, return_index=True)
        return self._scales[:, first[np.searchsorted(numbers, devices)]]

    def _rows(self, num_devices: int) -> Iterator[slice]:
        return spans(num_devices, step=1 << max((_VALUES_AT_ONCE // self._num_values).bit_length() - 1, 0))


@dataclass(frozen=True, kw_only=True)
class ValueLaw(Law):
    """Codes at either end of the range, told apart by `ValueScheme.log_ratio` at numbers +-`end`."""

    code: ValueScheme
    end: float = 1.0

    def score(self, received: ReceivedGames) -> Scores:
        """See `Law.score`; the features are the numbers as the server reads them."""
        code, places = self.code, received.places
        blocks = places.places // code.block
        rows = received.payload[places.audited]
        codes = unpack(rows, bits=code.bits_per_block, num_values=-(-places.num_values // code.block))
        part = CodedPart(devices=places.audited, context=received.context)
        read = code.to_values(codes, part=part).reshape(len(rows), -1, code.block)[:, blocks].reshape(-1, code.block)
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = code.log_ratio(
                codes[:, blocks].ravel().astype(np.int64), np.asarray(read, np.float64), end=self.end
            )
        arrived = (received.bits != 0).all(axis=1)
        features = np.nan_to_num(np.clip(read, -1e3, 1e3), nan=0.0).mean(axis=1)
        return np.where(arrived, np.nan_to_num(ratio), 0.0), np.where(arrived, features, 0.0)[:, None]
