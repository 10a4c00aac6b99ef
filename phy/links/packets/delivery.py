"""Delivery of packets: CRC checks, retransmissions, dropped packets and all counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.fading.block_taps import UplinkContext
from phy.links.packets.chain import Departure, PacketChain
from phy.links.packets.layout import Clock, PacketBatch, Rows, all_rows, device_keys, row_keys
from phy.measure.counts import LinkCounts
from phy.numerics.random import Purpose

_SEGMENT_BITS = 1 << 23
"""Soft values that are kept for retransmissions at once: 32 MiB of LLRs."""


@dataclass(frozen=True, kw_only=True)
class Transmission:
    """Settings of one batch of packets in this round.

    `chain` sends the first attempt of whole runs, `chain_of` any attempt of so many packets of a run.
    `keep_wrong`: packets whose CRC fails are kept; `combine`: LLRs of all attempts are added; `symbol_s`: duration of
    one channel use [s].
    """

    chain: PacketChain
    chain_of: Callable[[int, int], PacketChain]
    batch: PacketBatch
    users: int
    clock: Clock
    context: UplinkContext
    noise_purpose: Purpose
    noise_power: float
    symbol_s: float
    keep_wrong: bool
    combine: bool
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Result of sending a batch of packets.

    - `payload` `[num_trials, num_devices, num_bytes]` uint8, arbitrary where not delivered;
    - `delivered` `[num_trials, num_devices, num_packets]` bool;
    - `counts`;
    - `label_bits`, `label_errors` `[num_trials, num_devices, bits_per_symbol]`: hard decisions before any decoder, and
      the wrong ones, by place in the symbol's label.
    """

    payload: NDArray[np.uint8]
    delivered: NDArray[np.bool_]
    counts: LinkCounts
    label_bits: NDArray[np.int64]
    label_errors: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Sending:
    """Rows of one batch, and the sums over attempts per row and user, or packet of these.

    - `sent`, `received` `[rows, users, packets, num_bytes]`, `accepted`, `attempts` `[rows, users, packets]`;
    - `levels`, `gain`, `error_rate` `[rows, users]`, the same for all packets of a row;
    - `energy` `[3, rows, users]`: sent, received, noise;
    - `runs`: how often a row was on the air with so many of its packets, `[rows, users]` each.

    Packets of a row that are sent again follow each other over shared slots, as at the first attempt.
    """

    transmission: Transmission
    rows: Rows
    sent: NDArray[np.uint8]
    levels: NDArray[np.float64]
    gain: NDArray[np.float32]
    error_rate: NDArray[np.float64] | None
    received: NDArray[np.uint8]
    accepted: NDArray[np.bool_]
    attempts: NDArray[np.int64]
    label_errors: NDArray[np.int64]
    energy: NDArray[np.float64]
    runs: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def send_until_accepted(self, segment: NDArray[np.int64]) -> None:
        """Send the rows of a segment until accepted or out of attempts; a user with an accepted packet is silent."""
        transmission = self.transmission
        waiting = segment[(self.levels[segment] > 0).any(axis=1)]
        llrs: NDArray[np.float32] | None = None
        if transmission.combine:
            llrs = np.zeros((*self.accepted[waiting].shape, transmission.chain.soft_bits), np.float32)
        for attempt in range(transmission.attempts):
            if waiting.size == 0:
                return
            wanted = np.asarray(self._wanted(waiting).any(axis=1))
            numbers = wanted.sum(axis=1)
            for packets in np.unique(numbers).tolist():
                chain = transmission.chain_of(attempt, packets)
                some = np.flatnonzero(numbers == packets)
                which = np.nonzero(wanted[some])[1].reshape(-1, packets)
                for first in range(0, len(some), chain.rows):
                    part = slice(first, first + chain.rows)
                    # A slice, where all rows send as many packets, takes soft values without a copy.
                    place = part if len(some) == len(waiting) else some[part]
                    self._attempt(waiting, place, which[part], attempt, chain, llrs)
            again = self._wanted(waiting).any(axis=(1, 2))
            waiting = waiting[again]
            llrs = None if llrs is None else llrs[again]

    def _wanted(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Packets that are still to be sent, `[rows, users, packets]`."""
        return np.greater(self.levels[rows], 0.0)[..., None] & ~self.accepted[rows]

    def _attempt(
        self,
        waiting: NDArray[np.int64],
        place: slice | NDArray[np.int64],
        which: NDArray[np.int64],
        attempt: int,
        chain: PacketChain,
        llrs: NDArray[np.float32] | None,
    ) -> None:
        """Send packets `which` `[n, packets]` of the rows `waiting[place]`, at most `chain.rows`; add up results.

        `llrs` `[waiting, users, packets, soft_bits]` are added up in place.
        """
        transmission, chosen = self.transmission, waiting[place]
        clock, context, users = transmission.clock, transmission.context, transmission.users
        of_user, of_packet = np.arange(users)[None, :, None], which[:, None, :]
        at = (chosen[:, None, None], of_user, of_packet)
        here: Any = place  # of soft values: whole rows, or some packets of them
        if which.shape[1] < self.accepted.shape[2]:
            here = (np.arange(len(waiting))[place, None, None], of_user, of_packet)
        on_air = self._wanted(chosen)[np.arange(len(chosen))[:, None, None], of_user, of_packet]
        sends, shape = np.asarray(on_air.any(axis=2)), (len(chosen), users, -1)
        mine = self.rows.take(chosen)
        channel_key, csi_key = (
            clock.channel_keys(purpose, mine, users=users, attempt=attempt, context=context)
            for purpose in (Purpose.CHANNEL, Purpose.CSI)
        )
        departure = Departure(
            amplitude=np.where(sends, self.levels[chosen], 0.0).astype(np.float32),
            gain=self.gain[chosen],
            channel_key=channel_key,
            csi_key=csi_key,
            impairment_key=device_keys(Purpose.IMPAIRMENTS, mine, users=users, context=context),
            noise_key=row_keys(transmission.noise_purpose, mine, attempt=attempt, context=context),
            start_s=clock.start_s(mine, attempt=attempt, context=context),
            noise_power=np.float32(transmission.noise_power),
            error_rate=None if self.error_rate is None else self.error_rate[chosen],
        )
        earlier = None if llrs is None else llrs[here].reshape(shape)
        arrival = chain.send(self.sent[at].reshape(shape), departure, earlier)
        received = arrival.received.reshape(*on_air.shape, -1)
        self.received[at] = np.where(on_air[..., None], received, self.received[at])
        self.accepted[at] |= on_air & arrival.accepted.reshape(on_air.shape)
        self.attempts[at] += on_air
        self.label_errors[chosen] += arrival.label_errors * sends[..., None]
        self.energy[:, chosen] += arrival.energy * sends
        self.runs.setdefault(which.shape[1], np.zeros(self.levels.shape, np.int64))[chosen] += sends
        if llrs is not None and arrival.llrs is not None:
            llrs[here] += arrival.llrs.reshape(*on_air.shape, -1) * on_air[..., None]

    def account(self, *, shape: tuple[int, int]) -> Delivery:
        """Return the result of `shape` (trials, devices)."""
        transmission, batch, chain = self.transmission, self.transmission.batch, self.transmission.chain
        offered = np.broadcast_to(self.levels[..., None] > 0.0, self.accepted.shape)
        delivered = offered & (self.accepted | transmission.keep_wrong)
        wrong = np.bitwise_count(self.sent ^ self.received).sum(axis=-1, dtype=np.int64)

        def by_device(per_row: NDArray[Any]) -> NDArray[Any]:
            return _by_device(per_row, shape=shape, runs=batch.num_runs)

        def total(per_row: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(by_device(per_row).sum(axis=2))

        def packets(per_packet: NDArray[Any]) -> NDArray[Any]:
            return total(per_packet.sum(axis=-1))

        label_errors, sent = total(self.label_errors), packets(self.attempts)
        on_air = [(total(times), transmission.chain_of(0, number)) for number, times in self.runs.items()]
        transmit, signal, noise = (total(energy) for energy in self.energy)
        counts = LinkCounts(
            bits=packets(delivered) * batch.payload_bits,
            bit_errors=packets(wrong * delivered),
            packets=packets(offered),
            packet_errors=packets(offered & (~delivered | (wrong > 0))),
            symbols=sum((times * one.channel_uses for times, one in on_air), np.zeros(shape, np.int64)),
            transmit_energy=transmit,
            signal_energy=signal,
            noise_energy=noise,
            dropped=packets(offered & ~delivered),
            retransmissions=packets(np.maximum(self.attempts - 1, 0)),
            raw_bits=sent * chain.coded_bits,
            raw_bit_errors=label_errors.sum(axis=-1),
            airtime_s=sum((times * one.airtime_s for times, one in on_air), np.zeros(shape)),
            energy_j=transmit * transmission.symbol_s,
        )
        return Delivery(
            payload=by_device(self.received).reshape(*shape, -1),
            delivered=by_device(delivered).reshape(*shape, -1),
            counts=counts,
            label_bits=np.repeat(
                (sent * (chain.coded_bits // chain.bits_per_symbol))[..., None], chain.bits_per_symbol, axis=-1
            ),
            label_errors=label_errors,
        )


def deliver(
    transmission: Transmission,
    payload: NDArray[np.uint8],
    *,
    gain: NDArray[np.float32],
    amplitude: NDArray[np.float64],
    error_rate: NDArray[np.float64] | None = None,
) -> Delivery:
    """Send every packet of a batch.

    `payload` `[num_trials, num_devices, num_packets * bytes per packet]`, `gain` and `error_rate` (for chains without
    a radio) `[num_trials, num_devices]`, `amplitude` `[num_trials, num_devices, num_packets]`, 0 for a packet that is
    not sent.
    """
    batch, users = transmission.batch, transmission.users
    trials, devices = gain.shape
    rows, packets = all_rows(trials, devices // users, batch), batch.shared
    # [trials, devices, packets, bytes] -> one row per (trial, group, run of packets), users side by side.
    sent = _by_row(payload.reshape(trials, devices, batch.num_runs, -1), users)
    sent = sent.reshape(len(rows), users, packets, batch.num_bytes)
    levels = _by_row(amplitude[..., ::packets, None], users)[..., 0]
    sending = _Sending(
        transmission=transmission,
        rows=rows,
        sent=sent,
        levels=levels,
        gain=gain[rows.trial[:, None], rows.devices(users)],
        error_rate=None if error_rate is None else error_rate[rows.trial[:, None], rows.devices(users)],
        received=np.zeros_like(sent),
        accepted=np.zeros(sent.shape[:-1], bool),
        attempts=np.zeros(sent.shape[:-1], np.int64),
        label_errors=np.zeros((*levels.shape, transmission.chain.bits_per_symbol), np.int64),
        energy=np.zeros((3, *levels.shape)),
    )
    step = max(_SEGMENT_BITS // max(users * packets * transmission.chain.soft_bits, 1) // transmission.chain.rows, 1)
    step *= transmission.chain.rows
    for first in range(0, len(rows), step):
        sending.send_until_accepted(np.arange(first, min(first + step, len(rows))))
    return sending.account(shape=(trials, devices))


def _by_row(array: NDArray[Any], users: int) -> NDArray[Any]:
    """`[trials, devices, runs, n]` to `[trials * groups * runs, users, n]`."""
    trials, devices, runs, width = array.shape
    split = array.reshape(trials, devices // users, users, runs, width)
    return np.ascontiguousarray(np.moveaxis(split, 2, 3)).reshape(-1, users, width)


def _by_device(array: NDArray[Any], *, shape: tuple[int, int], runs: int) -> NDArray[Any]:
    """`[rows, users, ...]` back to `[trials, devices, runs, ...]`."""
    trials, devices = shape
    users = array.shape[1]
    split = array.reshape(trials, devices // users, runs, users, *array.shape[2:])
    return np.moveaxis(split, 3, 2).reshape(trials, devices, runs, *array.shape[2:])
