"""Uplinks of federated averaging: the seam, and the one that sends numbers through a codec and aggregates them.

Schemes that make bits of their own have theirs in `fl.uplink.scheme_uplink`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import Resumable, State
from fl.config.codec import Codec
from fl.config.scheme import Scheme
from fl.recorder import Recorder
from fl.tasks.base import LearningError
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import NumberTransport
from phy.fading.block_taps import UplinkContext


class DeviceAttack(Protocol):
    """What attackers make of bits on the air."""

    def __call__(
        self, payload: NDArray[np.uint8], devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """Return what is sent in place of packed bits `[1, K, num_bytes]` of `devices` `[K]`."""
        ...


class Uplink(Resumable, Protocol):
    """Sends one vector of every sender to the server, which makes one vector of them."""

    @property
    def in_blocks(self) -> bool:
        """Whether blocks of senders of any size give the same; where not, `send` needs all of them in one block."""
        ...

    @property
    def upload_bits(self) -> int:
        """Bits that each device sends per round, before channel coding."""
        ...

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers of the uplink that hold for every round."""
        ...

    def send(
        self,
        blocks: Iterable[NDArray[np.float32]],
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
        record: Recorder,
    ) -> NDArray[np.float32]:
        """Send the vectors of one round, and return what the server takes for their mean, float32 `[M]`.

        - `blocks`: vectors `[D, M]` of the `senders` `[S]`, block after block; each is asked for when it is needed;
        - `weights` `[S]`: weights q of the senders;
        - `otherwise` `[M]`: the result where nothing arrives;
        - `record`: receives the number of devices of which anything arrived, what the radio spent and counted, and
          what protection and scheme report, once all have sent.

        Raises LearningError for numbers that cannot be sent.
        """
        ...


class NumberUplink:
    """Numbers through the codec; sum_n q_n w_n over what arrived, Li et al. 2025 (4), or a robust aggregator.

    `attack`: what attackers make of the bits, after privacy.
    """

    def __init__(
        self,
        transport: NumberTransport,
        *,
        index: SenderIndex,
        codec: Codec,
        scheme: Scheme,
        attack: DeviceAttack,
    ) -> None:
        self._transport, self._index, self._codec = transport, index, codec
        self._scheme, self._attack = scheme, attack
        self.upload_bits = transport.bits.air_bits

    in_blocks = False
    facts: Mapping[str, float] = {}

    def send(
        self,
        blocks: Iterable[NDArray[np.float32]],
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
        record: Recorder,
    ) -> NDArray[np.float32]:
        """See `Uplink.send`. Raises LearningError where too many numbers lie beyond the codec."""
        (numbers,) = blocks
        at, owners = self._index.of(senders), self._index.owners(senders)
        values, known, reception, observed = self._transport.send(
            self._index.spread(numbers, at),
            devices=owners,
            context=context,
            attack=partial(self._attack, devices=owners, context=context),
            admit=lambda clipped: check_range(clipped[at] / numbers.shape[1], senders, codec=self._codec, key="codec"),
        )
        if known is not None:
            known = np.broadcast_to(known, values.shape)[at]
        num_active = len(senders) if known is None else int(known.any(axis=1).sum())
        self._index.report(
            record,
            reception,
            round_index=context.round_index,
            senders=senders,
            numbers={"num_active": float(num_active), **self._transport.bits.spent(reception, at)},
            observed=observed,
        )
        return self._scheme.aggregate(values[at], weights=weights, known=known, otherwise=otherwise)

    def state(self) -> State:
        """See `fl.checkpoints.Resumable`."""
        return self._transport.bits.link.state()

    def restore(self, state: State) -> None:
        """See `fl.checkpoints.Resumable`."""
        self._transport.bits.link.restore(state)


def check_range(share: NDArray[np.float64], devices: NDArray[np.int64] | None, *, codec: Codec, key: str) -> None:
    """Raise LearningError where the share of values that `devices`, or the server, had clipped exceeds the limit."""
    limit = codec.clipped_limit
    if limit is None or not len(share):
        return
    worst = int(np.argmax(share))
    if share[worst] > limit:
        bound = getattr(codec, "bound", codec.value_range)
        whose = "the server's model" if devices is None else f"device {devices[worst]}"
        raise LearningError(
            f"{share[worst]:.1%} of the values of {whose} lie beyond the codec's bound "
            f"{bound:g}, more than learning.{key}.max_clipped = {limit:g}; raise the bound, or the limit"
        )
