"""A scheme whose devices send every number (or pair of them) as a code of its own, which the server reads one by one.

What codes there are is a `ValueCode`: Laplace noise, JoPEQ and MVU differ in that alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.robust import aggregate_in_parts
from fl.codecs.packing import VALUES_PER_GROUP, pack, unpack
from fl.config.scheme import AggregatorConfig
from fl.draws import LANES, device_words
from fl.schemes.base import Aggregator, Senders, WholeRound, checked_updates
from fl.schemes.values.scaling import SideInformation, TensorScaling
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

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


class ValueScheme:
    """See `fl.schemes.base.Scheme`. Flips on the channel are not undone: these schemes know nothing of it.

    `scaling`, where there is one, tells the server the mean and spread of every tensor beside the payload: assumed to
    arrive without error, and counted in `side_bits`. `receiver_limit`: decoded numbers beyond it count as missing.
    Raises LearningError for a model without numbers.
    """

    flip_target: float | None = None
    in_blocks = False

    def __init__(
        self,
        code: ValueCode,
        *,
        num_values: int,
        scaling: TensorScaling | None = None,
        aggregator: AggregatorConfig | None = None,
        receiver_limit: float | None = None,
    ) -> None:
        if num_values < 1:
            raise LearningError(f"a model of {num_values} numbers has nothing to send; give it at least one weight")
        self.code, self._num_values, self._scaling = code, num_values, scaling
        self._aggregator = aggregator or AggregatorConfig()
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
        """See `Scheme.encode`; remembers this round's side information for `decode`."""
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

    def aggregate(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Scheme.aggregate`: the aggregator's choice of the decoded numbers; their factor is not used."""
        known = senders.known

        def read(columns: slice) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
            values = self.decode(payload, devices=senders.devices, context=senders.context, columns=columns)
            held = None if known is None else self._held(known, columns)
            if self._limit is not None:
                with np.errstate(invalid="ignore"):
                    plausible = np.abs(values) <= self._limit  # False for NaN
                held = plausible if held is None else held & plausible
            return values, held

        return aggregate_in_parts(
            self._aggregator,
            read,
            num_values=self._num_values,
            parts=self._columns(len(senders.devices)),
            weights=senders.weights,
            otherwise=np.zeros(self._num_values, np.float32),
        )

    def aggregator(self, senders: Senders) -> Aggregator:
        """See `Scheme.aggregator`."""
        return WholeRound(self, senders)

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


def _joined(sides: list[SideInformation | None], devices: NDArray[np.int64]) -> SideInformation:
    real = [side for side in sides if side is not None]
    empty = np.zeros((0, 0), np.float32)
    return SideInformation(
        devices=devices,
        mean=np.concatenate([side.mean for side in real]) if real else empty,
        spread=np.concatenate([side.spread for side in real]) if real else empty,
    )
