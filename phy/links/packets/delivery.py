"""Delivery of packets: CRC checks, retransmissions, dropped packets and all counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

    `chain` sends the first attempt, `chain_of` any: chains of one packet that differ in the bits they send alone.
    `keep_wrong`: packets whose CRC fails are kept; `combine`: LLRs of all attempts are added; `symbol_s`: duration of
    one channel use [s].
    """

    chain: PacketChain
    chain_of: Callable[[int], PacketChain]
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
    """Rows of one batch, and the sums over attempts per row and user.

    Energies `[3, rows, users]`: sent, received, noise.
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

    def send_until_accepted(self, segment: NDArray[np.int64]) -> None:
        """Send the rows of a segment until accepted or out of attempts; a user with an accepted packet is silent."""
        levels, transmission, chain = self.levels, self.transmission, self.transmission.chain
        waiting = segment[(levels[segment] > 0).any(axis=1)]
        llrs: NDArray[np.float32] | None = None
        for attempt in range(transmission.attempts):
            if waiting.size == 0:
                return
            if transmission.combine and llrs is None:
                llrs = np.zeros((len(waiting), transmission.users, chain.soft_bits), np.float32)
            on_air = (levels[waiting] > 0) & ~self.accepted[waiting]
            for first in range(0, len(waiting), chain.rows):
                part = slice(first, first + chain.rows)
                now = np.where(on_air[part], levels[waiting[part]], 0.0)
                self._attempt(waiting[part], attempt, now, None if llrs is None else llrs[part])
            again = ((levels[waiting] > 0) & ~self.accepted[waiting]).any(axis=1)
            waiting = waiting[again]
            llrs = None if llrs is None else llrs[again]

    def _attempt(
        self, chosen: NDArray[np.int64], attempt: int, levels: NDArray[np.float64], llrs: NDArray[np.float32] | None
    ) -> None:
        """Call the chain once for at most `chain.rows` rows, and add the results up, LLRs into `llrs`."""
        transmission = self.transmission
        clock, context, users = transmission.clock, transmission.context, transmission.users
        mine = self.rows.take(chosen)
        channel_key, csi_key = (
            clock.channel_keys(purpose, mine, users=users, attempt=attempt, context=context)
            for purpose in (Purpose.CHANNEL, Purpose.CSI)
        )
        departure = Departure(
            amplitude=levels.astype(np.float32),
            gain=self.gain[chosen],
            channel_key=channel_key,
            csi_key=csi_key,
            impairment_key=device_keys(Purpose.IMPAIRMENTS, mine, users=users, context=context),
            noise_key=row_keys(transmission.noise_purpose, mine, attempt=attempt, context=context),
            start_s=clock.start_s(mine, attempt=attempt, context=context),
            noise_power=np.float32(transmission.noise_power),
            error_rate=None if self.error_rate is None else self.error_rate[chosen],
        )
        arrival = transmission.chain_of(attempt).send(self.sent[chosen], departure, llrs)
        on_air = levels > 0
        self.received[chosen] = np.where(on_air[..., None], arrival.received, self.received[chosen])
        self.accepted[chosen] |= on_air & arrival.accepted
        self.attempts[chosen] += on_air
        self.label_errors[chosen] += arrival.label_errors * on_air[..., None]
        self.energy[:, chosen] += arrival.energy * on_air
        if llrs is not None and arrival.llrs is not None:
            llrs += arrival.llrs * on_air[..., None]

    def account(self, *, shape: tuple[int, int]) -> Delivery:
        """Return the result of `shape` (trials, devices)."""
        transmission, batch, chain = self.transmission, self.transmission.batch, self.transmission.chain
        offered = self.levels > 0
        delivered = offered & (self.accepted | transmission.keep_wrong)
        wrong = np.bitwise_count(self.sent ^ self.received).sum(axis=-1, dtype=np.int64)

        def total(per_row: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(_by_device(per_row, shape=shape, packets=batch.num_packets).sum(axis=2))

        label_errors = total(self.label_errors)
        uses = total(self.attempts) * chain.channel_uses
        transmit, signal, noise = (total(energy) for energy in self.energy)
        counts = LinkCounts(
            bits=total(delivered) * batch.payload_bits,
            bit_errors=total(wrong * delivered),
            packets=total(offered),
            packet_errors=total(offered & (~delivered | (wrong > 0))),
            symbols=uses,
            transmit_energy=transmit,
            signal_energy=signal,
            noise_energy=noise,
            dropped=total(offered & ~delivered),
            retransmissions=total(np.maximum(self.attempts - 1, 0)),
            raw_bits=total(self.attempts) * chain.coded_bits,
            raw_bit_errors=label_errors.sum(axis=-1),
            airtime_s=total(self.attempts) * chain.airtime_s,
            energy_j=transmit * transmission.symbol_s,
        )
        payload = _by_device(self.received, shape=shape, packets=batch.num_packets)
        return Delivery(
            payload=payload.reshape(*shape, -1),
            delivered=_by_device(delivered, shape=shape, packets=batch.num_packets),
            counts=counts,
            label_bits=np.repeat(
                (total(self.attempts) * (chain.coded_bits // chain.bits_per_symbol))[..., None],
                chain.bits_per_symbol,
                axis=-1,
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
    rows = all_rows(trials, devices // users, batch)
    # [trials, devices, packets, bytes] -> one row per (trial, group, packet), users side by side.
    sent = _by_row(payload.reshape(trials, devices, batch.num_packets, batch.num_bytes), users)
    levels = _by_row(amplitude[..., None], users)[..., 0]
    sending = _Sending(
        transmission=transmission,
        rows=rows,
        sent=sent,
        levels=levels,
        gain=gain[rows.trial[:, None], rows.devices(users)],
        error_rate=None if error_rate is None else error_rate[rows.trial[:, None], rows.devices(users)],
        received=np.zeros_like(sent),
        accepted=np.zeros(levels.shape, bool),
        attempts=np.zeros(levels.shape, np.int64),
        label_errors=np.zeros((*levels.shape, transmission.chain.bits_per_symbol), np.int64),
        energy=np.zeros((3, *levels.shape)),
    )
    step = max(_SEGMENT_BITS // max(users * transmission.chain.soft_bits, 1) // transmission.chain.rows, 1)
    step *= transmission.chain.rows
    for first in range(0, len(rows), step):
        sending.send_until_accepted(np.arange(first, min(first + step, len(rows))))
    return sending.account(shape=(trials, devices))


def _by_row(array: NDArray[Any], users: int) -> NDArray[Any]:
    """`[trials, devices, packets, n]` to `[trials * groups * packets, users, n]`."""
    trials, devices, packets, width = array.shape
    split = array.reshape(trials, devices // users, users, packets, width)
    return np.ascontiguousarray(np.moveaxis(split, 2, 3)).reshape(-1, users, width)


def _by_device(array: NDArray[Any], *, shape: tuple[int, int], packets: int) -> NDArray[Any]:
    """`[rows, users, ...]` back to `[trials, devices, packets, ...]`."""
    trials, devices = shape
    users = array.shape[1]
    split = array.reshape(trials, devices // users, packets, users, *array.shape[2:])
    return np.moveaxis(split, 3, 2).reshape(trials, devices, packets, *array.shape[2:])
