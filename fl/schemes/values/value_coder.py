"""A scheme whose devices send every number (or pair of them) as a code of its own, which the server reads one by one.

What codes there are is a `ValueCode`: Laplace noise, JoPEQ and MVU differ in that alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.robust import aggregate_values
from fl.audit.law import Law, Received, Scores
from fl.codecs.bits.packing import VALUES_PER_GROUP, pack, unpack
from fl.draws import LANES, device_words
from fl.schemes.coders.coder import Coder, Known, Senders, WholeRound, checked_updates
from fl.schemes.mean import MeanScheme
from fl.schemes.values.scaling import SideInformation, TensorScaling
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

_BEYOND_THREE_SIGMA = 16
_UNCLIPPED_SPACING = 64
_VALUES_AT_ONCE = 1 << 18
_BLOCKS_AT_ONCE = LANES * VALUES_PER_GROUP // 64
"""Parts hold a multiple of this many codes: whole bytes, whole groups of random words."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Numbers `first` .. of some devices: the random words that belong to them."""

    devices: NDArray[np.int64]
    first: int
    context: UplinkContext

    def words(self, purpose: Purpose, *, count: int) -> NDArray[np.uint32]:
        """One word for each of `count` numbers, `[K, count]`, from the round's stream of a purpose."""
        key = self.context.keys(purpose)[0]
        return device_words(key, devices=self.devices, count=count, first=self.first)


class ValueCode(Protocol):
    """Numbers to codes of `bits_per_block` bits, `block` numbers in each, and back."""

    @property
    def block(self) -> int:
        """Numbers per code, L."""
        ...

    @property
    def bits_per_block(self) -> int:
        """Bits per code."""
        ...

    def to_codes(self, x: NDArray[np.float32], *, part: Part) -> NDArray[Any]:
        """Codes `[K, n / block]`, bool or unsigned, of `x` `[K, n]`, which may be written over."""
        ...

    def to_values(self, codes: NDArray[Any], *, part: Part) -> NDArray[np.float32]:
        """Numbers `[K, n]` of codes `[K, n / block]`, whatever the radio made of them."""
        ...

    def log_ratio(self, codes: NDArray[np.int64], read: NDArray[np.float64], *, end: float) -> NDArray[np.float64]:
        """Return ln Pr(code | end) / Pr(code | -end) `[n]`, or what grows with it, of codes `[n]` at every number.

        `read` `[n, block]`: the numbers of the codes, as `to_values` reads them.
        """
        ...


class ValueCoder(Coder):
    """The coder of schemes that send every number as a code. Flips on the channel are not undone.

    `scaling`, where there is one, tells the server the mean and spread of every tensor beside the payload: assumed to
    arrive without error, and counted in `side_bits`. `receiver_limit`: decoded numbers beyond it count as missing.
    Raises LearningError for a model without numbers.
    """

    def __init__(
        self,
        code: ValueCode,
        *,
        num_values: int,
        scaling: TensorScaling | None = None,
        receiver_limit: float | None = None,
    ) -> None:
        if num_values < 1:
            raise LearningError(f"a model of {num_values} numbers has nothing to send; give it at least one weight")
        self.code, self._num_values, self._scaling = code, num_values, scaling
        self._limit = receiver_limit
        self._side: tuple[UplinkContext, SideInformation] | None = None

    @property
    def num_bits(self) -> int:
        """Bits through the radio per device and round."""
        return -(-self._num_values // self.code.block) * self.code.bits_per_block

    @property
    def side_bits(self) -> int:
        """Bits beside them per device and round, which arrive as they are."""
        return 0 if self._scaling is None else self._scaling.side_bits

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Coder.encode`; keeps this round's side information for `decode`."""
        updates = checked_updates(updates, devices=devices, num_values=self._num_values)
        payload = np.empty((len(devices), -(-self.num_bits // 8)), np.uint8)
        sides = []
        for rows in self._rows(len(devices)):
            side = None if self._scaling is None else self._scaling.measure(updates[rows], devices=devices[rows])
            for columns in self._columns(rows.stop - rows.start):
                some = updates[rows, columns]
                if self._scaling is None or side is None:
                    x = some.copy()
                else:
                    x = self._scaling.scale(some, side, first=columns.start)
                if x.shape[1] % self.code.block:
                    x = np.pad(x, ((0, 0), (0, self.code.block - x.shape[1] % self.code.block)))
                part = Part(devices=devices[rows], first=columns.start, context=context)
                codes = self.code.to_codes(x, part=part)
                payload[rows, self._stored(columns)] = pack(codes, bits=self.code.bits_per_block)
            sides.append(side)
        self._side = (context, _joined(sides, devices)) if self._scaling is not None else None
        return payload[None]

    def decode(
        self,
        payload: NDArray[np.uint8],
        *,
        devices: NDArray[np.int64],
        context: UplinkContext,
        columns: slice | None = None,
    ) -> NDArray[np.float32]:
        """Numbers `[K, M]` float32 as the server reads them, of the devices whose payload `[1, K, num_bytes]` it is.

        `columns`: only those, from a multiple of 64 L on. Raises LearningError for a payload that does not fit, and
        where the side information of another round is at hand.
        """
        expected = (1, len(devices), -(-self.num_bits // 8))
        if payload.shape != expected or payload.dtype != np.uint8:
            raise LearningError(f"a payload {payload.shape} of {payload.dtype} does not fit {expected} of uint8")
        side = self._side_of(devices, context)
        wanted = columns or slice(0, self._num_values)
        out = np.empty((len(devices), wanted.stop - wanted.start), np.float32)
        for some in self._columns(len(devices), within=wanted):
            num_blocks = -(-(some.stop - some.start) // self.code.block)
            codes = unpack(payload[0][:, self._stored(some)], bits=self.code.bits_per_block, num_values=num_blocks)
            part = Part(devices=devices, first=some.start, context=context)
            values = self.code.to_values(codes, part=part)[:, : some.stop - some.start]
            if self._scaling is not None and side is not None:
                self._scaling.undo(values, side, first=some.start)
            out[:, some.start - wanted.start : some.stop - wanted.start] = values
        return out

    def gather(self, senders: Senders) -> WholeRound:
        """See `Coder.gather`: the weighted mean of the decoded numbers; `factor` is not used."""
        zeros = np.zeros(self._num_values, np.float32)

        def mean(payload: NDArray[np.uint8], known: Known) -> NDArray[np.float32]:
            out = zeros.copy()
            for columns in self._columns(len(senders.devices)):
                values = self.decode(payload, devices=senders.devices, context=senders.context, columns=columns)
                held = None if known is None else self._held(known, columns)
                if self._limit is not None:
                    with np.errstate(invalid="ignore"):
                        plausible = np.abs(values) <= self._limit  # False for NaN
                    held = plausible if held is None else held & plausible
                out[columns] = aggregate_values(
                    MeanScheme(), values, weights=senders.weights, known=held, otherwise=zeros[columns]
                )
            return out

        return WholeRound(mean, num_bits=self.num_bits)

    def read(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Coder.read`: the decoded numbers, 0 where one did not arrive whole."""
        values = self.decode(payload, devices=senders.devices, context=senders.context)
        known = senders.known
        return values if known is None else values * self._held(known, slice(0, self._num_values))

    def _held(self, known: NDArray[np.bool_], columns: slice) -> NDArray[np.bool_]:
        """Which numbers arrived whole, `[K, n]`, of bits that arrived `[K, num_bits]`."""
        bits, block = self.code.bits_per_block, self.code.block
        first, last = columns.start // block, -(-columns.stop // block)
        whole = known[:, first * bits : last * bits].reshape(len(known), last - first, bits).all(axis=-1)
        return np.repeat(whole, block, axis=1)[:, : columns.stop - columns.start]

    def _side_of(self, devices: NDArray[np.int64], context: UplinkContext) -> SideInformation | None:
        if self._scaling is None:
            return None
        if self._side is None or self._side[0] != context:
            raise LearningError(
                f"round {context.round_index} was not encoded here, so its tensors' scales are not known; encode first"
            )
        return self._side[1].of(devices)

    def _rows(self, num_devices: int) -> Iterator[slice]:
        height = 1 << max((_VALUES_AT_ONCE // self._num_values).bit_length() - 1, 0)
        for first in range(0, num_devices, height):
            yield slice(first, min(first + height, num_devices))

    def _columns(self, num_rows: int, *, within: slice | None = None) -> Iterator[slice]:
        step = _BLOCKS_AT_ONCE * self.code.block
        width = max(_VALUES_AT_ONCE // max(num_rows, 1) // step, 1) * step
        start, stop = (within.start, within.stop) if within is not None else (0, self._num_values)
        for first in range(start, stop, width):
            yield slice(first, min(first + width, stop))

    def _stored(self, columns: slice) -> slice:
        """Bytes that hold the codes of some numbers."""
        bits, block = self.code.bits_per_block, self.code.block
        return slice(columns.start // block * bits // 8, -(-(-(-columns.stop // block) * bits) // 8))


@dataclass(frozen=True, kw_only=True)
class ValueLaw(Law):
    """Codes at either end of the range, told apart by `ValueCode.log_ratio` at numbers +-`end`."""

    code: ValueCode
    end: float = 1.0

    def score(self, received: Received) -> Scores:
        """See `Law.score`; the features are the numbers as the server reads them."""
        code, places = self.code, received.places
        blocks = places.places // code.block
        rows = received.payload[places.audited]
        codes = unpack(rows, bits=code.bits_per_block, num_values=-(-places.num_values // code.block))
        part = Part(devices=places.audited, first=0, context=received.context)
        read = code.to_values(codes, part=part).reshape(len(rows), -1, code.block)[:, blocks].reshape(-1, code.block)
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = code.log_ratio(
                codes[:, blocks].ravel().astype(np.int64), np.asarray(read, np.float64), end=self.end
            )
        arrived = (received.bits != 0).all(axis=1)
        features = np.nan_to_num(np.clip(read, -1e3, 1e3), nan=0.0).mean(axis=1)
        return np.where(arrived, np.nan_to_num(ratio), 0.0), np.where(arrived, features, 0.0)[:, None]


def scaled_law(code: ValueCode, *, unclipped: bool, **promise: Any) -> ValueLaw:
    """Return the law of numbers that the mean and spread of each tensor scale, clipped to [-1, 1] unless `unclipped`.

    Only every 16th number is a game, so that it lies beyond three standard deviations and is clipped to the end of the
    range. An unclipped number among 63 zeros is sqrt(64) / 3 once it is scaled. `promise`: fields of the law.
    """
    return ValueLaw(
        code=code,
        block=code.block,
        bits_per_value=32,
        spacing=_UNCLIPPED_SPACING if unclipped else _BEYOND_THREE_SIGMA * code.block,
        end=math.sqrt(_UNCLIPPED_SPACING) / 3.0 if unclipped else 1.0,
        assumptions=("mean and spread of every tensor, sent beside, tell nothing",),
        **promise,
    )


def _joined(sides: list[SideInformation | None], devices: NDArray[np.int64]) -> SideInformation:
    real = [side for side in sides if side is not None]
    empty = np.zeros((0, 0), np.float32)
    return SideInformation(
        devices=devices,
        mean=np.concatenate([side.mean for side in real]) if real else empty,
        spread=np.concatenate([side.spread for side in real]) if real else empty,
    )
