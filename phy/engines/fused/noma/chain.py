"""Packet chain of NOMA in fused kernels, on a CPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import CodingConfig
from phy.engines.fused.fading.fades import given_room
from phy.engines.fused.fading.rays import draw_rays, rays_of
from phy.engines.fused.noma.joint import detect_jointly
from phy.engines.fused.noma.layers import cancel_in_turn
from phy.engines.fused.noma.observe import GroupRows, observe
from phy.engines.fused.noma.observed import Observed
from phy.engines.fused.packets.bits import count_label_errors, fill_bytes, fill_decided, fill_labels
from phy.engines.fused.packets.channel import mean_powers
from phy.engines.fused.packets.codec import packet_codec
from phy.engines.fused.packets.plan import plan_waveform, recorded_lines_of
from phy.engines.fused.packets.soft import APP, HARD, MAXLOG
from phy.engines.fused.symbols import mapping
from phy.links.packets.chain import Arrival, ChainSpec, Departure, PacketChain
from phy.numerics.compiled import read_only
from phy.numerics.workers import available_threads, run_tasks

_VALUES_AT_ONCE = 1 << 22
"""Values of `Observed`, or numbers of waves, in one call: 16 MiB of each."""
_MOST_ROWS = 8192


class FusedNomaChain(PacketChain):
    """`PacketChain` of links under NOMA that are `LinkConfig.fusible_packets`, on `threads` threads, all if left out.

    All packets of a call are observed, then detected stage by stage. Detection by symbols is one stage of all users;
    cancellation of packets has a stage per user, which ends with decoding and encoding again.
    """

    def __init__(self, spec: ChainSpec, *, threads: int | None = None) -> None:
        config, users = spec.config, spec.users
        self.bits_per_symbol = config.bits_per_symbol
        self._codec = packet_codec(
            config.coding, payload_bits=spec.payload_bits, bits_per_symbol=self.bits_per_symbol, crc=spec.crc
        )
        self.coded_bits = self.soft_bits = self._codec.plan.coded_bits
        self._num_symbols = self.coded_bits // self.bits_per_symbol
        self._joint, self._by_packets = config.noma.detector == "ml", config.noma.detector == "sic-codeword"
        self._stages = [range(k, k + 1) for k in range(users)] if self._by_packets else [range(users)]
        # Behind a filter, both demappers agree where an axis has one bit.
        exact = isinstance(config.coding, CodingConfig) and config.coding.demapper == "app"
        if exact and (self._joint or self.bits_per_symbol > 2):
            self._soft = APP
        else:
            self._soft = MAXLOG if self._joint or self._codec.soft or spec.combine else HARD
        self._combine = spec.combine
        antennas = config.receiver.num_antennas
        self._rays = rays_of(config.channel, num_antennas=antennas)
        self._points = mapping(config.modulation)
        self._threads = threads or available_threads()
        self._plan, self.channel_uses, self.airtime_s = plan_waveform(
            config, num_symbols=self._num_symbols, num_devices=spec.num_devices
        )
        self._lines = recorded_lines_of(config, self._plan, threads=self._threads)
        waves = given_room(antennas) if self._rays else 0 if self._lines is None else self._lines.size
        each = max(Observed.lanes(users) * self._num_symbols, users * waves)
        self.rows = min(max(_VALUES_AT_ONCE // each, 1), _MOST_ROWS)

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        rows, users, num_bytes = payload.shape
        sent = np.empty((rows, users, self._num_symbols), np.uint8)
        self._fill_labels(payload.reshape(rows * users, -1), sent.reshape(rows * users, -1))
        observed, energies = self._observe(sent, departure)
        decided = np.empty_like(sent)
        llrs = np.empty((rows, users, self.coded_bits if self._soft != HARD else 0), np.float32)
        received = np.empty((rows, users, num_bytes), np.uint8)
        accepted, errors = np.empty((rows, users), bool), np.empty((rows, users, self.bits_per_symbol), np.int32)
        turn = np.argsort(-observed.power, axis=1, kind="stable")
        for stages in self._stages:
            self._detect(observed, turn, stages, decided, llrs)
            mine: Any = (np.arange(rows)[:, None], turn[:, stages]) if self._by_packets else np.s_[:, :]
            earlier = None if earlier_llrs is None else earlier_llrs[mine]
            received[mine], accepted[mine], errors[mine] = self._decode(decided[mine], llrs[mine], sent[mine], earlier)
            if stages.stop < users:
                again = np.empty((rows, 1, self._num_symbols), np.uint8)
                self._fill_labels(received[mine][:, 0], again[:, 0])
                decided[mine] = again
        return Arrival(received, accepted, errors, np.moveaxis(energies, 1, 0), llrs if self._combine else None)

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        rows, users, _ = channel_key.shape
        keys, start = read_only(channel_key.reshape(-1, 2)), read_only(np.repeat(start_s, users))
        given = read_only(self._given(channel_key, start_s))
        return mean_powers(keys, given, start, plan=self._plan, threads=self._threads).reshape(rows, users)

    def _given(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.float32]:
        """Waves of rays, or lines of a recorded channel, `[rows * users, n]`, of keys `[rows, users, 2]`."""
        if self._lines is not None:
            return self._lines.given(channel_key.reshape(-1, 2), np.repeat(start_s, channel_key.shape[1]))
        return draw_rays(self._rays, read_only(channel_key.reshape(-1, 2)), threads=self._threads)

    def _fill_labels(self, payload: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Payloads `[n, num_bytes]` to labels of their coded bits `[n, num_symbols]`."""
        coded = self._codec.encode(payload)

        def run(first: int, last: int) -> None:
            fill_labels(coded[first:last], bits_per_symbol=self.bits_per_symbol, out=out[first:last])

        run_tasks(run, num_tasks=len(out), threads=self._threads)

    def _observe(self, sent: NDArray[np.uint8], departure: Departure) -> tuple[Observed, NDArray[np.float64]]:
        """(observed, energies `[rows, 3, users]`) of labels `[rows, users, num_symbols]`."""
        rows, users, _ = sent.shape
        noise_key = np.repeat(departure.noise_key[:, None], users, axis=1)
        air = GroupRows(
            keys=read_only(np.concatenate([departure.channel_key, departure.csi_key, noise_key], axis=2)),
            given=read_only(self._given(departure.channel_key, departure.start_s).reshape(rows, users, -1)),
            amplitude=read_only(departure.amplitude),
            gain=read_only(departure.gain),
            start_s=read_only(departure.start_s),
        )
        observed, energies = Observed.room(rows, users, self._num_symbols), np.empty((rows, 3, users))

        def run(first: int, last: int) -> None:
            mine = slice(first, last)
            observe(
                air.part(mine),
                sent[mine],
                plan=self._plan,
                points=self._points,
                noise_power=np.float32(departure.noise_power),
                observed=observed.part(mine),
                energies=energies[mine],
            )

        run_tasks(run, num_tasks=rows, threads=self._threads)
        return observed, energies

    def _detect(
        self,
        observed: Observed,
        turn: NDArray[np.int64],
        stages: range,
        decided: NDArray[np.uint8],
        llrs: NDArray[np.float32],
    ) -> None:
        def run(first: int, last: int) -> None:
            mine = slice(first, last)
            part = observed.part(mine)
            if self._joint:
                detect_jointly(part, points=self._points, soft=self._soft, llrs=llrs[mine])
            else:
                cancel_in_turn(
                    part,
                    turn[mine],
                    points=self._points,
                    soft=self._soft,
                    stages=stages,
                    decided=decided[mine],
                    llrs=llrs[mine],
                )

        run_tasks(run, num_tasks=len(decided), threads=self._threads)

    def _decode(
        self,
        decided: NDArray[np.uint8],
        llrs: NDArray[np.float32],
        sent: NDArray[np.uint8],
        earlier: NDArray[np.float32] | None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int32]]:
        """(payload, accepted, errors by place in the label) of packets `[rows, users of a stage, ...]`."""
        shape, bits = decided.shape[:2], self.bits_per_symbol
        count = shape[0] * shape[1]
        labels, truth, soft = decided.reshape(count, -1), sent.reshape(count, -1), llrs.reshape(count, llrs.shape[2])
        added = soft if earlier is None else soft + earlier.reshape(count, -1)
        hard, errors = np.empty((count, -(-self.coded_bits // 8)), np.uint8), np.empty((count, bits), np.int32)

        def run(first: int, last: int) -> None:
            mine = slice(first, last)
            if self._joint or self._soft == APP:  # the likelier value of a bit is not always that of the nearest point
                fill_decided(soft[mine], bits, labels[mine])
            count_label_errors(truth[mine], labels[mine], errors[mine])
            if earlier is not None:
                fill_decided(added[mine], bits, labels[mine])
            fill_bytes(labels[mine], bits, self.coded_bits, hard[mine])

        run_tasks(run, num_tasks=count, threads=self._threads)
        payload, accepted = self._codec.decode(hard, self._codec.soft_values(added))
        return payload.reshape(*shape, -1), accepted.reshape(shape), errors.reshape(*shape, bits)


@lru_cache(maxsize=32)
def fused_noma_chain(spec: ChainSpec) -> FusedNomaChain:
    """Return the chain of a specification, built once."""
    return FusedNomaChain(spec)
