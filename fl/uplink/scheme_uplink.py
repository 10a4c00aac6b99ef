"""The uplink of schemes with bits of their own: encode, randomized response, radio, aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import State
from fl.recorder import Recorder
from fl.schemes.coders.coder import Coder, Senders
from fl.uplink.numbers import DeviceAttack
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import BitTransport
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception

_TINY = np.finfo(np.float64).tiny


class SchemeUplink:
    """A `fl.uplink.numbers.Uplink` for schemes with bits of their own.

    The protection of `transport` is the randomized response that the scheme asks for; what it leaves of the mean of a
    bit, `RoundPlan.factor`, is handed to the scheme to divide by.
    """

    def __init__(
        self, coder: Coder, *, transport: BitTransport, index: SenderIndex, attack: DeviceAttack, in_blocks: bool
    ) -> None:
        self._coder, self._transport, self._index, self._attack = coder, transport, index, attack
        self.upload_bits, self.in_blocks = transport.air_bits, in_blocks

    @property
    def facts(self) -> Mapping[str, float]:
        """See `fl.uplink.numbers.Uplink`."""
        return self._coder.facts

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
        """See `fl.uplink.numbers.Uplink.send`: every block goes on the air as it comes, where the link takes parts.

        Raises LearningError for NaN or infinity among the numbers.
        """
        coder, index, transport = self._coder, self._index, self._transport
        plan, at = transport.begin(context), index.of(senders)
        coder.begin(context, devices=senders, flip_rate=plan.observed.get("probed_low", np.zeros(index.count))[at])
        factor = np.ones(index.count) if plan.factor is None else plan.factor
        gathering = coder.gather(
            Senders(devices=senders, context=context, weights=weights / max(weights.sum(), _TINY), factor=factor[at])
        )
        owners, receptions, num_active = index.owners(senders), list[Reception](), 0
        for first, place, payload in self._parts(blocks, senders=senders, context=context):
            of_part = owners[first : first + payload.shape[1]]
            received, reception = transport.send(
                payload,
                plan=plan,
                context=context,
                attack=partial(self._attack, devices=of_part, context=context),
                first_device=first if transport.parted else None,
            )
            known = transport.known(reception, bits_per_value=1)
            own = None if known is None else np.broadcast_to(known, (len(known), transport.num_bits))[place]
            num_active += len(place) if own is None else int(own.any(axis=1).sum())
            gathering.add(received[:, place], known=own)
            receptions.append(replace(reception, payload=reception.payload[:, :0]))
        update, reception = gathering.update() if num_active else otherwise, transport.joined(receptions)
        index.report(
            record,
            reception,
            round_index=context.round_index,
            senders=senders,
            numbers={"num_active": float(num_active), **transport.spent(reception, at), **coder.metrics()},
            observed=plan.observed,
        )
        return update

    def _parts(
        self, blocks: Iterable[NDArray[np.float32]], *, senders: NDArray[np.int64], context: UplinkContext
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.uint8]]]:
        """Yield what goes on the air at a time: its first index, the places of senders behind that, and packed bits.

        Bits are `[1, indices, num_bytes]`, zero for an index without a sender.
        """
        coder, transport, at = self._coder, self._transport, self._index.of(senders)
        first = sent = encoded = 0
        waiting: list[NDArray[np.uint8]] = []

        def part(last: int) -> tuple[int, NDArray[np.int64], NDArray[np.uint8]]:
            place = at[sent:encoded] - first
            payload = np.zeros((1, last - first, -(-transport.num_bits // 8)), np.uint8)
            if waiting:
                payload[:, place] = waiting[0] if len(waiting) == 1 else np.concatenate(waiting, axis=1)
            return first, place, payload

        for numbers in blocks:
            if not len(numbers):
                continue
            rows = slice(encoded, encoded + len(numbers))
            waiting.append(coder.encode(numbers, devices=senders[rows], context=context))
            encoded = rows.stop
            if transport.parted and encoded < len(senders):
                yield part(at[encoded])
                first, sent, waiting = at[encoded], encoded, []
        yield part(self._index.count)

    def state(self) -> State:
        """See `fl.checkpoints.Resumable`."""
        return {"scheme": self._coder.state(), "link": self._transport.link.state()}

    def restore(self, state: State) -> None:
        """See `fl.checkpoints.Resumable`."""
        self._coder.restore(state["scheme"])
        self._transport.link.restore(state["link"])
