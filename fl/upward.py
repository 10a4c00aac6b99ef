"""From what devices would send to what the server makes of it: numbers through a codec, averaged.

`Upward` is the seam that a round of federated averaging sends its updates through; schemes that make bits of their own
have theirs in `fl.one_bit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.aggregation import weighted_mean
from fl.config import Binary32Config, CodecConfig
from fl.exchange import Exchange
from fl.slots import Slots
from fl.tasks.base import LearningError
from phy.channels import UplinkContext
from phy.link import Reception


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What the server has after one round.

    - `result` float32 `[M]`: what it takes for the mean of what was sent;
    - `heard`: the radio's account, by seat; `spent`: latency [s] and energy [J] of the round;
    - `observed`: numbers by seat worth keeping; `num_heard`: devices of which anything arrived.
    """

    result: NDArray[np.float32]
    heard: Reception
    spent: Mapping[str, float]
    observed: Mapping[str, NDArray[Any]]
    num_heard: int


class Upward(Protocol):
    """Carries one vector of every sender to the server and makes one of them."""

    @property
    def upload_bits(self) -> int:
        """Bits that each device sends per round, before channel coding."""
        ...

    def collect(
        self,
        numbers: NDArray[np.float32],
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Collected:
        """Send `numbers` `[S, M]` of `senders` `[S]` with weights q `[S]`; `otherwise` `[M]` where nothing arrives."""
        ...


class AveragedValues:
    """Numbers through the codec; sum_n q_n w_n over what arrived, Li et al. 2025 (4)."""

    def __init__(self, exchange: Exchange, *, slots: Slots, codec: CodecConfig) -> None:
        self._exchange, self._slots, self._codec = exchange, slots, codec

    @property
    def upload_bits(self) -> int:
        """See `Upward.upload_bits`."""
        return self._exchange.pipe.air_bits

    def collect(
        self,
        numbers: NDArray[np.float32],
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Collected:
        """See `Upward.collect`. Raises LearningError where too many numbers lie beyond the codec."""
        seat = self._slots.seat(senders)
        upload = self._exchange.carry(
            self._slots.spread(numbers, seat), devices=self._slots.owners(senders), context=context
        )
        share = upload.observed["clipped_values"][seat] / numbers.shape[1]
        check_range(share, senders, codec=self._codec, key="codec")
        known = None if upload.known is None else np.broadcast_to(upload.known, upload.values.shape)[seat]
        return Collected(
            result=weighted_mean(upload.values[seat], weights=weights, known=known, otherwise=otherwise),
            heard=upload.heard,
            spent=self._exchange.pipe.spent(upload.heard, seat),
            observed=upload.observed,
            num_heard=len(senders) if known is None else int(known.any(axis=1).sum()),
        )


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
