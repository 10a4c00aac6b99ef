"""One-bit schemes on the way up: encode, randomized response, radio, aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import State
from fl.exchange import BitPipe
from fl.one_bit.base import Senders
from fl.one_bit.rounds import SchemeRounds
from fl.slots import Slots
from fl.upward import BitAttack, Collected
from phy.channels import UplinkContext


class SchemeUpward:
    """A `fl.upward.Upward` for schemes with bits of their own.

    The protection of `pipe` is the randomized response that the scheme asks for; what it leaves of the mean of a bit,
    `RoundPlan.factor`, is handed to the scheme to divide by.
    """

    def __init__(self, scheme: SchemeRounds, *, pipe: BitPipe, slots: Slots, attack: BitAttack) -> None:
        self._scheme, self._pipe, self._slots, self._attack = scheme, pipe, slots, attack

    @property
    def upload_bits(self) -> int:
        """See `fl.upward.Upward`."""
        return self._pipe.air_bits

    @property
    def facts(self) -> Mapping[str, float]:
        """See `fl.upward.Upward`."""
        return self._scheme.facts

    def collect(
        self,
        numbers: NDArray[np.float32],
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Collected:
        """See `fl.upward.Upward`. Raises LearningError for NaN or infinity among the numbers."""
        seat = self._slots.seat(senders)
        payload = np.zeros((1, self._slots.count, -(-self._scheme.num_bits // 8)), np.uint8)
        plan = self._pipe.begin(context)
        credited = plan.observed.get("probed_low", np.zeros(self._slots.count))
        self._scheme.begin(context, credited=credited[seat])
        payload[:, seat] = self._scheme.encode(numbers, devices=senders, context=context)
        owners = self._slots.owners(senders)
        received, heard = self._pipe.carry(
            payload, plan=plan, context=context, tamper=lambda bits: self._attack(bits, owners, context)
        )
        known = self._pipe.known(heard, bits_per_value=1)
        num_heard = len(senders) if known is None else int(known[seat].any(axis=1).sum())
        factor = np.ones(self._slots.count) if plan.factor is None else plan.factor
        result = otherwise
        if num_heard:
            result = self._scheme.aggregate(
                received[:, seat],
                Senders(
                    devices=senders,
                    context=context,
                    weights=weights / weights.sum(),
                    factor=factor[seat],
                    known=None if known is None else np.broadcast_to(known, (len(known), self._scheme.num_bits))[seat],
                ),
            )
        observed: dict[str, NDArray[Any]] = dict(plan.observed)
        return Collected(
            result=result,
            heard=heard,
            spent=self._pipe.spent(heard, seat),
            observed=observed,
            num_heard=num_heard,
            told=self._scheme.told(),
        )

    def state(self) -> State:
        """See `fl.upward.Upward`."""
        return {"scheme": self._scheme.state(), "pipe": self._pipe.state()}

    def restore(self, state: State) -> None:
        """See `fl.upward.Upward`."""
        self._scheme.restore(state["scheme"])
        self._pipe.restore(state["pipe"])
