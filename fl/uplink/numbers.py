"""From what devices would send to what the server makes of it: numbers through a codec, averaged.

`Upward` is the seam that a round of federated averaging sends its updates through; schemes that make bits of their own
have theirs in `fl.one_bit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.robust import aggregate_values
from fl.checkpoints import State
from fl.config import AggregatorConfig, Binary32Config, CodecConfig
from fl.tasks.base import LearningError
from fl.uplink.exchange import Exchange
from fl.uplink.senders import Slots
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception

BitAttack = Callable[[NDArray[np.uint8], NDArray[np.int64], UplinkContext], NDArray[np.uint8]]
"""Packed bits `[1, K, num_bytes]` and the devices `[K]` they belong to, to what is sent in their place."""


def honest(payload: NDArray[np.uint8], devices: NDArray[np.int64], context: UplinkContext) -> NDArray[np.uint8]:
    """The do-nothing attack on bits."""
    del devices, context
    return payload


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What the server has after one round.

    - `result` float32 `[M]`: what it takes for the mean of what was sent;
    - `heard`: the radio's account, by seat; `spent`: latency [s] and energy [J] of the round;
    - `observed`: numbers by seat worth keeping, `told` numbers of the round; `num_heard`: devices of which anything
      arrived.
    """

    result: NDArray[np.float32]
    heard: Reception
    spent: Mapping[str, float]
    observed: Mapping[str, NDArray[Any]]
    num_heard: int
    told: Mapping[str, float] = field(default_factory=dict)


class Sending(Protocol):
    """A round on its way up, block after block of its senders."""

    def add(self, numbers: NDArray[np.float32]) -> None:
        """Numbers `[D, M]` of the next D senders."""
        ...

    def collected(self) -> Collected:
        """What the server has once all have been added."""
        ...


class Upward(Protocol):
    """Carries one vector of every sender to the server and makes one of them."""

    @property
    def in_blocks(self) -> bool:
        """Whether blocks of any size give what one gives; where not, `Sending.add` is to be called once at most."""
        ...

    @property
    def upload_bits(self) -> int:
        """Bits that each device sends per round, before channel coding."""
        ...

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers of what carries them that hold for every round."""
        ...

    def begin(
        self,
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Sending:
        """A round of `senders` `[S]` with weights q `[S]`; `otherwise` `[M]` where nothing arrives."""
        ...

    def state(self) -> State:
        """What rounds have taught the scheme and the radio, see `fl.checkpoints`."""
        ...

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError, LinkError for the state of another."""
        ...


class AggregatedValues:
    """Numbers through the codec; sum_n q_n w_n over what arrived, Li et al. 2025 (4), or what a robust aggregator says.

    `attack`: what attackers make of the bits, after privacy.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        slots: Slots,
        codec: CodecConfig,
        aggregator: AggregatorConfig,
        attack: BitAttack,
    ) -> None:
        self._exchange, self._slots, self._codec = exchange, slots, codec
        self._aggregator, self._attack = aggregator, attack

    in_blocks = False

    @property
    def upload_bits(self) -> int:
        """See `Upward.upload_bits`."""
        return self._exchange.pipe.air_bits

    @property
    def facts(self) -> Mapping[str, float]:
        """See `Upward.facts`."""
        return {}

    def begin(
        self,
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Sending:
        """See `Upward.begin`."""

        def collect(numbers: NDArray[np.float32]) -> Collected:
            return self.collect(numbers, senders=senders, weights=weights, otherwise=otherwise, context=context)

        return _AllAtOnce(collect, num_values=len(otherwise))

    def collect(
        self,
        numbers: NDArray[np.float32],
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Collected:
        """Send `numbers` `[S, M]` of all senders. Raises LearningError where too many lie beyond the codec."""
        seat = self._slots.seat(senders)
        owners = self._slots.owners(senders)

        def admit(clipped: NDArray[np.int64]) -> None:
            check_range(clipped[seat] / numbers.shape[1], senders, codec=self._codec, key="codec")

        upload = self._exchange.carry(
            self._slots.spread(numbers, seat),
            devices=owners,
            context=context,
            tamper=lambda bits: self._attack(bits, owners, context),
            admit=admit,
        )
        known = None if upload.known is None else np.broadcast_to(upload.known, upload.values.shape)[seat]
        return Collected(
            result=aggregate_values(
                self._aggregator, upload.values[seat], weights=weights, known=known, otherwise=otherwise
            ),
            heard=upload.heard,
            spent=self._exchange.pipe.spent(upload.heard, seat),
            observed=upload.observed,
            num_heard=len(senders) if known is None else int(known.any(axis=1).sum()),
        )

    def state(self) -> State:
        """See `Upward.state`."""
        return self._exchange.pipe.state()

    def restore(self, state: State) -> None:
        """See `Upward.restore`."""
        self._exchange.pipe.restore(state)


class _AllAtOnce:
    """A `Sending` that sends once all numbers are there."""

    def __init__(self, collect: Callable[[NDArray[np.float32]], Collected], *, num_values: int) -> None:
        self._collect, self._num_values = collect, num_values
        self._blocks: list[NDArray[np.float32]] = []

    def add(self, numbers: NDArray[np.float32]) -> None:
        """See `Sending.add`."""
        self._blocks.append(numbers)

    def collected(self) -> Collected:
        """See `Sending.collected`."""
        blocks = self._blocks or [np.zeros((0, self._num_values), np.float32)]
        return self._collect(blocks[0] if len(blocks) == 1 else np.concatenate(blocks))


def check_range(share: NDArray[np.float64], devices: NDArray[np.int64] | None, *, codec: CodecConfig, key: str) -> None:
    """Raise LearningError where the share of values that `devices`, or the server, had clipped exceeds the limit."""
    if isinstance(codec, Binary32Config) or not len(share):
        return
    worst = int(np.argmax(share))
    if share[worst] > codec.max_clipped:
        whose = "the server's model" if devices is None else f"device {devices[worst]}"
        raise LearningError(
            f"{share[worst]:.1%} of the values of {whose} lie beyond the codec's bound "
            f"{codec.bound:g}, more than learning.{key}.max_clipped = {codec.max_clipped:g}; raise the bound, or "
            "the limit"
        )
