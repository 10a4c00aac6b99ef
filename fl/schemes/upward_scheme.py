"""One-bit schemes on the way up: encode, randomized response, radio, aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import State
from fl.schemes.base import Senders
from fl.schemes.rounds import SchemeRounds
from fl.uplink.exchange import BitPipe
from fl.uplink.numbers import BitAttack, Collected, Sending
from fl.uplink.protection import RoundPlan
from fl.uplink.senders import Slots
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception

_TINY = np.finfo(np.float64).tiny


class SchemeUpward:
    """A `fl.uplink.numbers.Upward` for schemes with bits of their own.

    The protection of `pipe` is the randomized response that the scheme asks for; what it leaves of the mean of a bit,
    `RoundPlan.factor`, is handed to the scheme to divide by.
    """

    def __init__(self, scheme: SchemeRounds, *, pipe: BitPipe, slots: Slots, attack: BitAttack) -> None:
        self._scheme, self._pipe, self._slots, self._attack = scheme, pipe, slots, attack

    @property
    def upload_bits(self) -> int:
        """See `fl.uplink.numbers.Upward`."""
        return self._pipe.air_bits

    @property
    def facts(self) -> Mapping[str, float]:
        """See `fl.uplink.numbers.Upward`."""
        return self._scheme.facts

    @property
    def in_blocks(self) -> bool:
        """See `fl.uplink.numbers.Upward`."""
        return self._scheme.in_blocks

    def begin(
        self,
        *,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> Sending:
        """See `fl.uplink.numbers.Upward`. `add` raises LearningError for NaN or infinity among the numbers."""
        plan = self._pipe.begin(context)
        credited = plan.observed.get("probed_low", np.zeros(self._slots.count))
        self._scheme.begin(context, credited=credited[self._slots.seat(senders)])
        return _Round(
            self._scheme,
            pipe=self._pipe,
            slots=self._slots,
            attack=self._attack,
            plan=plan,
            senders=senders,
            weights=weights,
            otherwise=otherwise,
            context=context,
        )

    def state(self) -> State:
        """See `fl.uplink.numbers.Upward`."""
        return {"scheme": self._scheme.state(), "pipe": self._pipe.state()}

    def restore(self, state: State) -> None:
        """See `fl.uplink.numbers.Upward`."""
        self._scheme.restore(state["scheme"])
        self._pipe.restore(state["pipe"])


class _Round:
    """A `fl.uplink.numbers.Sending`: every block goes over the radio as it comes, where the link has it in parts."""

    def __init__(
        self,
        scheme: SchemeRounds,
        *,
        pipe: BitPipe,
        slots: Slots,
        attack: BitAttack,
        plan: RoundPlan,
        senders: NDArray[np.int64],
        weights: NDArray[np.float64],
        otherwise: NDArray[np.float32],
        context: UplinkContext,
    ) -> None:
        self._scheme, self._pipe, self._attack, self._plan = scheme, pipe, attack, plan
        self._senders, self._otherwise, self._context = senders, otherwise, context
        self._seat, self._owners, self._seats = slots.seat(senders), slots.owners(senders), slots.count
        factor = np.ones(slots.count) if plan.factor is None else plan.factor
        self._gathering = scheme.gather(
            Senders(
                devices=senders, context=context, weights=weights / max(weights.sum(), _TINY), factor=factor[self._seat]
            )
        )
        self._encoded = self._sent = self._next_seat = self._num_heard = 0
        self._waiting: list[NDArray[np.uint8]] = []
        self._heard: list[Reception] = []

    def add(self, numbers: NDArray[np.float32]) -> None:
        """See `fl.uplink.numbers.Sending.add`."""
        if not len(numbers):
            return
        rows = slice(self._encoded, self._encoded + len(numbers))
        bits = self._scheme.encode_rows(numbers, rows=rows, devices=self._senders[rows], context=self._context)
        self._waiting.append(bits)
        self._encoded = rows.stop
        if self._pipe.in_parts and self._encoded < len(self._senders):
            self._send(self._seat[rows.stop])

    def collected(self) -> Collected:
        """See `fl.uplink.numbers.Sending.collected`."""
        self._send(self._seats)
        heard = self._pipe.joined(self._heard)
        observed: dict[str, NDArray[Any]] = dict(self._plan.observed)
        return Collected(
            result=self._gathering.update() if self._num_heard else self._otherwise,
            heard=heard,
            spent=self._pipe.spent(heard, self._seat),
            observed=observed,
            num_heard=self._num_heard,
            told=self._scheme.told(),
        )

    def _send(self, last_seat: int) -> None:
        """What waits, and nothing on the seats between, goes on the air: seats up to `last_seat`."""
        first, pipe, context = self._next_seat, self._pipe, self._context
        rows = slice(self._sent, self._encoded)
        place = self._seat[rows] - first
        payload = np.zeros((1, last_seat - first, -(-self._scheme.num_bits // 8)), np.uint8)
        if self._waiting:
            payload[:, place] = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting, axis=1)
        self._waiting = []
        owners = self._owners[first:last_seat]

        def tamper(bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
            return self._attack(bits, owners, context)

        if pipe.in_parts:
            received, heard = pipe.carry_part(
                payload, first_device=first, plan=self._plan, context=context, tamper=tamper
            )
        else:
            received, heard = pipe.carry(payload, plan=self._plan, context=context, tamper=tamper)
        known = pipe.known(heard, bits_per_value=1)
        own = None if known is None else np.broadcast_to(known, (len(known), self._scheme.num_bits))[place]
        self._num_heard += len(place) if own is None else int(own.any(axis=1).sum())
        self._gathering.add(received[:, place], known=own)
        self._heard.append(replace(heard, payload=heard.payload[:, :0]))
        self._sent, self._next_seat = rows.stop, last_seat
