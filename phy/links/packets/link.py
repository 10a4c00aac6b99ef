"""`PacketLink`: orthogonal access and NOMA with coding, CRC, OFDM, several antennas and packet policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.coding.ldpc.segmentation import versions_until
from phy.config import CodingConfig, LinkConfig
from phy.config.levels import limits_db, power_shares, sent_watts, watts
from phy.fading.block_taps import UplinkContext
from phy.fading.gains import arrival_gains, check_gains
from phy.links.airtime import packets_of_a_run
from phy.links.link import LinkError, Reception, check_part, round_airtime
from phy.links.packets.chain import ChainSpec, PacketChain, SeesCarriers, compiled_part
from phy.links.packets.closed_loop import PowerLoop
from phy.links.packets.delivery import Delivery, Transmission, deliver
from phy.links.packets.layout import Clock, PacketBatch, Recorded, all_rows, cut_payload, runs_before
from phy.links.packets.power import gains_of_packets
from phy.links.power import AmplitudeDecision, decide_amplitude
from phy.measure.burstiness import measure_bursts
from phy.measure.counts import LinkCounts, empty_counts, mask_padding
from phy.numerics.random import Purpose, random_bits
from phy.traces.clock import TraceClock, trace_in

ChainOver = Callable[[PacketChain, ChainSpec], PacketChain]
"""Returns the chain that flips bits in place of a radio's chain."""

_Flips = tuple[NDArray[np.float64], ChainOver]


@dataclass(frozen=True, kw_only=True)
class _Levels:
    """Power control of one round: the decision, and the transmit amplitude of every packet."""

    decision: AmplitudeDecision
    amplitude: NDArray[np.float64]
    """`[num_trials, num_devices, num_packets]`, 0 for a silent packet."""
    power_db: NDArray[np.float64] | None


class PacketLink:
    """Packets of all devices through coding, front-end and receiver; see `DigitalUplink`.

    `num_bits` is the payload of one device in one round. Devices are grouped under NOMA in the order of their numbers.
    `chain_of` returns the chain of an engine for a specification; `round_s`: interval of rounds, the time that they
    take if left out. Raises LinkError for a number of devices that is no multiple of the group size, and ValueError for
    a device without a gain.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        num_devices: int,
        num_bits: int,
        chain_of: Callable[[ChainSpec], PacketChain],
        round_s: float | None = None,
    ) -> None:
        self.config = config.resolve_mcs()
        self._chain_of, self._round_s = chain_of, round_s
        self.parted = False
        self.num_devices = num_devices
        self.num_bits = num_bits
        self.num_bytes = -(-num_bits // 8)
        self._users = config.noma.group_size if config.access == "noma" else 1
        if num_devices % self._users:
            raise LinkError(f"{num_devices} devices cannot form NOMA groups of {self._users}", "use a multiple of that")
        check_gains(config, num_devices=num_devices)
        self._payload = _cut(self.config, num_bits)
        self._loop: tuple[tuple[int, tuple[int, ...]], PowerLoop] | None = None
        self._last_gains: tuple[tuple[object, ...], dict[tuple[PacketBatch, ...], NDArray[np.float64]]] | None = None

    def decide(self, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> AmplitudeDecision:
        """Power control of this round's packets."""
        return self._levels(context, caps, self._payload).decision

    def send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        first_device: int | None = None,
    ) -> Reception:
        """See `DigitalUplink.send`. Raises LinkError for a payload of another shape."""
        check_part(payload, first_device=first_device, uplink=self, num_trials=len(context.trials))
        return self._send(payload, context=context, caps=caps)

    def send_of(
        self,
        payload: NDArray[np.uint8],
        *,
        mine: NDArray[np.bool_],
        scrambling: NDArray[np.uint8],
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
    ) -> Reception:
        """Send as `send` does what the devices `mine` `[num_trials, num_devices]` have; of others all is zero.

        `scrambling` is what `draw_scrambling` returns: one drawing serves several links.
        """
        return self._send(payload, context=context, caps=caps, mine=mine, scrambling=scrambling)

    def draw_scrambling(self, context: UplinkContext) -> NDArray[np.uint8]:
        """Return the random bits of a round under which payloads are sent, as packed payloads."""
        return random_bits(context.keys(Purpose.SCRAMBLING), num_devices=self.num_devices, num_bits=self.num_bits)

    def send_flipped(
        self,
        payload: NDArray[np.uint8],
        *,
        error_rate: NDArray[np.float64],
        chain_over: ChainOver,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
    ) -> Reception:
        """Send as `send` does, but flip bits independently at `error_rate` `[num_trials, num_devices]`.

        `chain_over` returns the chain that flips bits with the sizes and durations of a radio's chain. Check sums,
        attempts, airtime, power and counts are those of `send`; every attempt has new flips at the same rate.
        """
        return self._send(payload, context=context, caps=caps, flips=(error_rate, chain_over))

    def _send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        flips: _Flips | None = None,
        mine: NDArray[np.bool_] | None = None,
        scrambling: NDArray[np.uint8] | None = None,
    ) -> Reception:
        levels = self._levels(context, caps, self._payload)
        scrambling = self.draw_scrambling(context) if scrambling is None else scrambling
        sent = mask_padding(payload, self.num_bits) ^ scrambling
        delivery = self._carry(
            sent,
            self._payload,
            Purpose.NOISE if flips is None else Purpose.BIT_FLIPS,
            context,
            levels.amplitude if mine is None else levels.amplitude * mine[..., None],
            policy=self.config.packets.policy,
            flips=flips,
        )
        if self._loop is not None:
            self._loop[1].update(context.round_index, delivery.counts)
        held = np.repeat(delivery.delivered, self.config.packet_size_bytes, axis=-1)[..., : self.num_bytes]
        descrambled = (delivery.payload ^ scrambling) * held.astype(np.uint8)
        return Reception(
            payload=mask_padding(descrambled, self.num_bits),
            counts=delivery.counts,
            decision=levels.decision,
            delivered=delivery.delivered,
            power_db=levels.power_db,
            bursts=measure_bursts(
                sent,
                delivery.payload,
                num_bits=self.num_bits,
                packet_bits=8 * self.config.packet_size_bytes,
                bits_per_symbol=self.config.bits_per_symbol,
                present=delivery.delivered,
                label_counts=(delivery.label_bits, delivery.label_errors),
            ),
            round_airtime_s=self._round_airtime(delivery.counts.airtime_s),
        )

    def state(self) -> Mapping[str, Any]:
        """See `DigitalUplink.state`: the powers of the closed loop and their trials."""
        if self._loop is None:
            return {"loop": None}
        (seed, trials), loop = self._loop
        return {"loop": {"seed": str(seed), "trials": np.array(trials, np.int64), "powers": loop.state()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `DigitalUplink.restore`."""
        kept = state["loop"]
        if kept is None:
            self._loop = None
            return
        if not self.config.control.closed_loop:
            raise LinkError("the state has powers of a closed loop, the link has none", "restore it into its own link")
        which = (int(kept["seed"]), tuple(int(trial) for trial in kept["trials"]))
        loop = self._new_loop(num_trials=len(which[1]))
        loop.restore(kept["powers"])
        self._loop = (which, loop)

    def _round_airtime(self, airtime_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Latency of the round: NOMA groups take turns, each lasts as long as its longest device."""
        if self.config.multiplexing == "ofdma":
            return round_airtime(airtime_s, one_after_another=False)
        of_group = airtime_s.reshape(len(airtime_s), -1, self._users).max(axis=-1)
        return round_airtime(of_group, one_after_another=True)

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """See `DigitalUplink.probe`: channel and power of the payload, separate noise, every packet accepted.

        The probe has whole packets as long as those of the payload, enough for `num_bits`, in runs as in the payload:
        another length has another code and another error rate.
        """
        del again  # every probe is a new measurement
        like = self._payload[0]
        probe = replace(like, num_packets=-(-num_bits // (like.shared * like.payload_bits)) * like.shared)
        whole = 8 * like.num_bytes * probe.num_packets
        payload = random_bits(context.keys(Purpose.PROBE_BITS), num_devices=self.num_devices, num_bits=whole)
        padding = np.uint8(0xFF << (8 * like.num_bytes - like.payload_bits) & 0xFF)
        payload[..., like.num_bytes - 1 :: like.num_bytes] &= padding
        levels = self._levels(context, caps, (probe,))
        return self._carry(payload, (probe,), Purpose.PROBE_NOISE, context, levels.amplitude, policy="accept").counts

    def carrier_powers(
        self, context: UplinkContext, reduce: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return `reduce` of g^2 |h|^2 on the carriers of the first packet of each device, `[num_trials, devices, n]`.

        `reduce` takes `[rows, samples]` in portions, antennas summed, to `[rows, n]`; see `SeesCarriers`. Raises
        LinkError for an engine that does not tell them.
        """
        batch = replace(self._payload[0], num_packets=1)
        chain, clock, gains = self._chain(self._payload[0]), self._clock(), self._gains(context).astype(np.float64)
        if not isinstance(chain, SeesCarriers):
            raise LinkError(f"engine {self.config.engine} does not tell the carriers of a channel", "use engine fused")
        rows = all_rows(len(context.trials), self.num_devices, batch)
        keys = clock.channel_keys(Purpose.CHANNEL, rows, users=1, attempt=0, context=context)
        start_s = clock.start_s(rows, attempt=0, context=context)
        squares, found = gains.reshape(-1, 1) ** 2, []
        for first in range(0, len(rows), chain.rows):
            part = slice(first, first + chain.rows)
            found.append(reduce(chain.carrier_powers(keys[part], start_s[part]) * squares[part]))
        return np.concatenate(found).reshape(*gains.shape, -1)

    def _chain(self, batch: PacketBatch) -> PacketChain:
        return self._chain_of(self._spec(batch, attempt=0, packets=batch.shared))

    def _sender(self, batch: PacketBatch, chain_over: ChainOver | None, attempt: int, packets: int) -> PacketChain:
        spec = self._spec(batch, attempt=attempt, packets=packets)
        chain = self._chain_of(spec)
        return chain if chain_over is None else chain_over(chain, spec)

    def _spec(self, batch: PacketBatch, *, attempt: int, packets: int) -> ChainSpec:
        link_layer, coding = self.config.packets, self.config.coding
        versions: tuple[int, ...] = ()
        if link_layer.combining == "incremental-redundancy" and isinstance(coding, CodingConfig):
            versions = versions_until(attempt, first=coding.redundancy_version)
        num_runs = sum(one.num_runs for one in self._payload if one.payload_bits == batch.payload_bits)
        return ChainSpec(
            config=compiled_part(self.config),
            users=self._users,
            num_devices=self.num_devices if self.config.multiplexing == "ofdma" else 1,
            payload_bits=batch.payload_bits,
            crc=link_layer.crc_name(batch.payload_bits),
            combine=link_layer.policy == "retransmit-combine",
            # Of the payload, for probes too; a power of two, so that payloads of about one length share their code.
            rows_per_trial=1 << (self.num_devices // self._users * num_runs - 1).bit_length(),
            versions=versions,
            packets=packets,
        )

    def _clock(self) -> Clock:
        each = [self._chain(batch).airtime_s for batch in self._payload]
        total = sum(one * batch.num_runs for one, batch in zip(each, self._payload, strict=True))
        before = sum(one * batch.num_runs for one, batch in zip(each[:-1], self._payload, strict=False))
        turns = self.num_devices // self._users if self.config.multiplexing == "tdma" else 1
        first, last = self._payload[0], self._payload[-1]
        return Clock(
            shared=first.shared,
            rest=last.first,
            saved_s=runs_before(last.first, shared=first.shared) * each[0] - before,
            coherence=self.config.channel.coherence,
            packet_s=each[0],
            round_s=total * turns if self._round_s is None else self._round_s,
            doppler_hz=self.config.channel.max_doppler_hz,
            recorded=self._recorded,
        )

    @cached_property
    def _recorded(self) -> Recorded | None:
        trace = trace_in(self.config.channel)
        if trace is None:
            return None
        return Recorded(
            clock=TraceClock(channel=self.config.channel, trace=trace),
            num_devices=self.num_devices,
            num_runs=1 + runs_before(self._payload[-1].first, shared=self._payload[0].shared),
        )

    def _gains(self, context: UplinkContext) -> NDArray[np.float32]:
        return arrival_gains(self.config, num_devices=self.num_devices, seed=context.seed, trials=context.trials)

    def _levels(
        self, context: UplinkContext, caps: Mapping[str, ArrayLike], batches: tuple[PacketBatch, ...]
    ) -> _Levels:
        """Power control over the packets of the payload, and the amplitude of the packets to send."""
        bounded = any(np.isfinite(np.asarray(cap, float)).any() for cap in caps.values())
        # At full power without a cap nothing depends on the fades; the reported amplitude is the mean one.
        measured = self.config.channel.fades and (bounded or self.config.control.kernel != "constant")
        mean_gain, weights = self._weights(context, self._payload, measured=measured)
        decision = decide_amplitude(
            gains_of_packets(mean_gain, weights, self._uses()),
            max_power=self.config.max_power,
            payload_power=1.0,
            caps=caps,
        )
        if batches != self._payload:
            _, weights = self._weights(context, batches, measured=measured)
        amplitude = decision.level[:, None, None] * weights
        amplitude[:, list(context.silent)] = 0.0
        if self._users > 1:
            shares = np.tile(np.sqrt(self.config.noma.power_shares), self.num_devices // self._users)
            amplitude = amplitude * shares[:, None]
        power_db = None
        if self.config.control.closed_loop:
            wanted_db = self._power_loop(context).snr_db(context.round_index)
            amplitude = amplitude * 10.0 ** ((wanted_db - limits_db(self.config, self.num_devices)) / 20.0)[..., None]
            # The power in use: caps and the NOMA ladder may limit it below the target of the loop.
            with np.errstate(divide="ignore"):
                power_db = 10.0 * np.log10(amplitude[..., 0] ** 2 / self.config.channel.noise_power)
            power_db += 10.0 * np.log10(power_shares(self.config, self.num_devices))
        return _Levels(decision=decision, amplitude=amplitude, power_db=power_db)

    def _uses(self) -> NDArray[np.float64]:
        """Channel uses of every packet of the payload, `[num_packets]`, its part of those of its run."""
        uses = ((batch.num_packets, self._chain(batch).channel_uses / batch.shared) for batch in self._payload)
        return np.concatenate([np.full(*each) for each in uses])

    def _weights(
        self, context: UplinkContext, batches: tuple[PacketBatch, ...], *, measured: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(mean gain, weight) of every packet, each `[num_trials, num_devices, num_packets]`."""
        gain = self._gains(context).astype(float)[..., None]
        if measured:
            mean_gain = gain * self._small_scale(context, batches)
        else:
            mean_gain = np.repeat(gain, sum(batch.num_packets for batch in batches), axis=-1)
        return mean_gain, self.config.control.amplitude(mean_gain, gain, np)

    def _in_watts(self, counts: LinkCounts) -> LinkCounts:
        sent, received = sent_watts(self.config, self.num_devices), watts(self.config)
        return replace(
            counts,
            transmit_energy=counts.transmit_energy * sent,
            signal_energy=counts.signal_energy * received,
            noise_energy=counts.noise_energy * received,
            energy_j=counts.energy_j * sent,
        )

    def _power_loop(self, context: UplinkContext) -> PowerLoop:
        which = (context.seed, context.trials)
        if self._loop is None or self._loop[0] != which:
            self._loop = (which, self._new_loop(num_trials=len(context.trials)))
        return self._loop[1]

    def _new_loop(self, *, num_trials: int) -> PowerLoop:
        most_db = limits_db(self.config, self.num_devices)
        return PowerLoop(self.config.power.loop, snr_max_db=most_db, shape=(num_trials, self.num_devices))

    def _small_scale(self, context: UplinkContext, batches: tuple[PacketBatch, ...]) -> NDArray[np.float64]:
        """Root of the mean |h|^2 of each packet's run at its first attempt, `[trials, devices, packets]`."""
        which = (context.seed, context.trials, context.round_index)
        if self._last_gains is None or self._last_gains[0] != which:
            self._last_gains = (which, {})
        found = self._last_gains[1]
        if batches not in found:
            found[batches] = self._measure_small_scale(context, batches)
        return found[batches]

    def _measure_small_scale(self, context: UplinkContext, batches: tuple[PacketBatch, ...]) -> NDArray[np.float64]:
        shape = (len(context.trials), self.num_devices)
        clock = self._clock()
        parts = []
        for batch in batches:
            chain = self._chain(batch)
            rows = all_rows(shape[0], self.num_devices // self._users, batch)
            keys = clock.channel_keys(Purpose.CHANNEL, rows, users=self._users, attempt=0, context=context)
            start_s = clock.start_s(rows, attempt=0, context=context)
            power = np.empty((len(rows), self._users))
            for first in range(0, len(rows), chain.rows):
                part = slice(first, first + chain.rows)
                power[part] = chain.mean_power(keys[part], start_s[part])
            grouped = power.reshape(shape[0], -1, batch.num_runs, self._users)
            of_runs = np.moveaxis(grouped, -1, 2).reshape(*shape, batch.num_runs)
            parts.append(np.repeat(of_runs, batch.shared, axis=-1))
        return np.sqrt(np.concatenate(parts, axis=-1))

    def _carry(
        self,
        payload: NDArray[np.uint8],
        batches: tuple[PacketBatch, ...],
        noise_purpose: Purpose,
        context: UplinkContext,
        amplitude: NDArray[np.float64],
        *,
        policy: str,
        flips: _Flips | None = None,
    ) -> Delivery:
        """Deliver all packets, batch by batch."""
        shape = (len(context.trials), self.num_devices)
        total = Delivery(
            payload=np.zeros_like(payload),
            delivered=np.zeros((*shape, 0), bool),
            counts=empty_counts(*shape),
            label_bits=np.zeros((*shape, self.config.bits_per_symbol), np.int64),
            label_errors=np.zeros((*shape, self.config.bits_per_symbol), np.int64),
        )
        clock = self._clock()
        attempts = 1 + (self.config.packets.max_retransmissions if policy.startswith("retransmit") else 0)
        error_rate, chain_over = (None, None) if flips is None else flips
        for batch in batches:
            chain_of = partial(self._sender, batch, chain_over)
            transmission = Transmission(
                chain=chain_of(0, batch.shared),
                chain_of=chain_of,
                batch=batch,
                users=self._users,
                clock=clock,
                context=context,
                noise_purpose=noise_purpose,
                noise_power=2.0 * self.config.channel.noise_power,
                symbol_s=self.config.symbol_s if self.config.ofdm == "none" else self.config.ofdm.sample_s,
                keep_wrong=policy == "accept",
                combine=policy == "retransmit-combine",
                attempts=attempts,
            )
            place = slice(batch.first_byte, batch.first_byte + batch.num_bytes * batch.num_packets)
            mine = slice(batch.first, batch.first + batch.num_packets)
            part = deliver(
                transmission,
                payload[..., place],
                gain=self._gains(context),
                amplitude=amplitude[..., mine],
                error_rate=error_rate,
            )
            total.payload[..., place] = part.payload
            total = replace(
                total,
                delivered=np.concatenate([total.delivered, part.delivered], axis=-1),
                counts=total.counts + self._in_watts(part.counts),
                label_bits=total.label_bits + part.label_bits,
                label_errors=total.label_errors + part.label_errors,
            )
        return total


def _cut(config: LinkConfig, num_bits: int) -> tuple[PacketBatch, ...]:
    size = config.packet_size_bytes
    shared = packets_of_a_run(config) if num_bits >= 8 * size else 1
    return cut_payload(num_bits, packet_size_bytes=size, shared=shared)
