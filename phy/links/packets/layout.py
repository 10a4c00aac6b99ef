"""Packets of a payload, their rows in a chunk, and their random keys.

A payload of `num_bits` is split into packets of `packet_size_bytes`; the last packet has the rest. Packets of one
length form a `PacketBatch`, with code blocks of its own. A row of a chunk is a run of packets that share slots of
OFDM, most often one packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.fading.block_taps import UplinkContext
from phy.links.airtime import runs_of
from phy.numerics.random import Purpose, threefry
from phy.traces.clock import TraceClock, users_of

TURNS_OF_A_REALISATION = 4096.0
"""Doppler periods after which a moving channel is drawn anew: instants then step by at most 2^-11 of a period."""


def split_time(start_s: NDArray[np.float64], *, doppler_hz: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(number of earlier realisations, age of the present one [s]) at the time `start_s` since the first was drawn."""
    if doppler_hz == 0.0:
        return np.zeros(start_s.shape, np.int64), start_s
    epoch_s = TURNS_OF_A_REALISATION / doppler_hz
    epoch = np.floor(start_s / epoch_s)
    return epoch.astype(np.int64), np.asarray(start_s - epoch * epoch_s, float)


@dataclass(frozen=True, kw_only=True)
class PacketBatch:
    """`num_packets` packets of `payload_bits` each, the first of them packet number `first`, at byte `first_byte`.

    Runs of `shared` packets share slots, `num_runs` of them.
    """

    payload_bits: int
    num_packets: int
    first: int
    first_byte: int
    shared: int = 1

    @property
    def num_runs(self) -> int:
        """Runs of packets that share slots."""
        return self.num_packets // self.shared

    @property
    def num_bytes(self) -> int:
        """Bytes of one packet."""
        return -(-self.payload_bits // 8)


def cut_payload(num_bits: int, *, packet_size_bytes: int, shared: int = 1) -> tuple[PacketBatch, ...]:
    """Split `num_bits` bits into batches: runs of `shared` packets, a last run, the packet of the rest."""
    packet_bits = 8 * packet_size_bytes
    whole, rest = divmod(num_bits, packet_bits)
    runs, last = runs_of(whole, shared=shared)
    batches, first = [], 0
    for bits, count, run in ((packet_bits, runs * shared, shared), (packet_bits, last, last), (rest, min(rest, 1), 1)):
        if count:
            place = first * packet_size_bytes
            batches.append(PacketBatch(payload_bits=bits, num_packets=count, first=first, first_byte=place, shared=run))
            first += count
    return tuple(batches)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Trial, group of devices and number of the first packet of each row, `[rows]` each."""

    trial: NDArray[np.int64]
    group: NDArray[np.int64]
    packet: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.trial)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Return the rows at `index`."""
        return Rows(trial=self.trial[index], group=self.group[index], packet=self.packet[index])

    def devices(self, users: int) -> NDArray[np.int64]:
        """Device number of every user, `[rows, users]`."""
        return self.group[:, None] * users + np.arange(users)


def all_rows(num_trials: int, num_groups: int, batch: PacketBatch) -> Rows:
    """Rows of all runs of a batch, ordered by trial, group and packet."""
    first = batch.first + np.arange(0, batch.num_packets, batch.shared)
    trial, group, packet = np.meshgrid(np.arange(num_trials), np.arange(num_groups), first, indexing="ij")
    return Rows(trial=trial.ravel(), group=group.ravel(), packet=packet.ravel())


def fold(keys: NDArray[np.uint32], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Derive one key `[..., 2]` per pair of numbers below 2^32 `[...]` from keys `[..., 2]`."""
    words = threefry((keys[..., 0], keys[..., 1]), (first.astype(np.uint32), second.astype(np.uint32)))
    return np.stack(np.broadcast_arrays(*words), axis=-1)


def impairment_keys(context: UplinkContext, *, num_devices: int) -> NDArray[np.uint32]:
    """Key of the transmitter impairments of every device in this round, `[num_trials, num_devices, 2]`."""
    device = np.arange(num_devices)[None, :]
    return fold(context.keys(Purpose.IMPAIRMENTS)[:, None], device, np.zeros_like(device))


def runs_before(packet: Any, *, shared: int) -> Any:
    """Runs of `shared` packets before a packet that starts a run, those of its own length if it is the first."""
    return -(-packet // shared)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recorded channel of `num_devices`, each of which sends at most `num_runs` of packets in a round."""

    clock: TraceClock
    num_devices: int
    num_runs: int


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time and channel realisation of every packet.

    `coherence` as in `ChannelConfig`. A packet, or a run of `shared` packets, lasts `packet_s`, a round `round_s`. The
    packet of the rest, number `rest`, starts `saved_s` earlier: the run before it has another length. A retransmission
    follows one round later, over a new channel if the coherence is that of a packet.

    The channel takes time in single precision. A realisation with Doppler shift `doppler_hz` is therefore replaced by
    an independent one after `TURNS_OF_A_REALISATION` periods, at the start of a packet. Up to then the instants of a
    packet stay distinct, and no correlation is lost.

    Keys of a `recorded` channel are user and snapshot, and time is that since the snapshot.
    """

    coherence: str
    packet_s: float
    round_s: float
    doppler_hz: float = 0.0
    recorded: Recorded | None = None
    shared: int = 1
    rest: int = 0
    saved_s: float = 0.0

    @property
    def same_every_round(self) -> bool:
        """True if all rounds share their realisation."""
        return self.coherence in ("run", "doppler")

    def channel_keys(
        self, purpose: Purpose, rows: Rows, *, users: int, attempt: int, context: UplinkContext
    ) -> NDArray[np.uint32]:
        """Key of the realisation that each user of each row meets, `[rows, users, 2]`."""
        if self.recorded is not None and purpose is Purpose.CHANNEL:
            return self._of_trace(self.recorded, rows, users=users, attempt=attempt, context=context)[0]
        keys = context.keys(purpose, same_every_round=self.same_every_round)[rows.trial][:, None]
        per_packet = self.coherence in ("packet", "symbol")
        number = (rows.packet + 1 if per_packet else np.zeros_like(rows.packet))[:, None]
        keys = fold(keys, rows.devices(users), number)
        epoch = self._elapsed(rows, attempt=attempt, context=context)[0]
        if epoch.any():
            later = np.broadcast_to(epoch[:, None], keys.shape[:-1])
            keys = np.where((later > 0)[..., None], fold(keys, np.zeros_like(later), later), keys)
        if per_packet and attempt:
            keys = fold(keys, np.full(keys.shape[:-1], attempt), np.zeros(keys.shape[:-1], np.int64))
        return keys

    def start_s(self, rows: Rows, *, attempt: int, context: UplinkContext) -> NDArray[np.float32]:
        """Time since the realisation was drawn, at the first symbol of each row's packet [s]."""
        if self.recorded is not None:
            found = self._of_trace(self.recorded, rows, users=1, attempt=attempt, context=context)[1]
            return found.astype(np.float32)
        return self._elapsed(rows, attempt=attempt, context=context)[1].astype(np.float32)

    def _of_trace(
        self, recorded: Recorded, rows: Rows, *, users: int, attempt: int, context: UplinkContext
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """(user and snapshot `[rows, users, 2]`, time since the snapshot `[rows]` [s])."""
        channel, number = recorded.clock.channel, context.round_index
        turns = np.full(len(rows), 0 if self.coherence == "run" else number, np.int64)
        if self.coherence == "packet":
            turns = number * recorded.num_runs + runs_before(rows.packet, shared=self.shared) + attempt
        of_trial = users_of(channel, num_devices=recorded.num_devices, seed=context.seed, trials=tuple(context.trials))
        seconds = number * self.round_s + self._within_round_s(rows) + attempt * self.round_s
        return recorded.clock.keys(
            turns,
            of_trial[rows.trial[:, None], rows.devices(users)],
            seconds=np.asarray(seconds, float),
            seed=context.seed,
            trials=np.asarray(context.trials)[rows.trial],
        )

    def _within_round_s(self, rows: Rows) -> NDArray[np.float64]:
        start_s = np.asarray(runs_before(rows.packet, shared=self.shared) * self.packet_s, float)
        return start_s - self.saved_s * (rows.packet >= self.rest) if self.saved_s else start_s

    def _elapsed(
        self, rows: Rows, *, attempt: int, context: UplinkContext
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(number of earlier realisations, age of the present one [s]) of each row."""
        if self.coherence in ("packet", "symbol"):
            return np.zeros(len(rows), np.int64), np.zeros(len(rows))
        start = self._within_round_s(rows) + attempt * self.round_s
        if self.same_every_round:
            start = start + context.round_index * self.round_s
        return split_time(np.asarray(start, float), doppler_hz=self.doppler_hz)


def row_keys(purpose: Purpose, rows: Rows, *, attempt: int, context: UplinkContext) -> NDArray[np.uint32]:
    """A key for every row and attempt, `[rows, 2]`."""
    keys = fold(context.keys(purpose)[rows.trial], rows.packet, rows.group)
    return fold(keys, np.full(len(rows), attempt), np.zeros(len(rows), np.int64))


def device_keys(purpose: Purpose, rows: Rows, *, users: int, context: UplinkContext) -> NDArray[np.uint32]:
    """A key for every device in this round, the same for all its packets, `[rows, users, 2]`."""
    keys = context.keys(purpose)[rows.trial][:, None]
    return fold(keys, rows.devices(users), np.zeros((len(rows), 1), np.int64))
