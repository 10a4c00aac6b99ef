"""Packet chain in Sionna's blocks under XLA: encode, map, send, detect, decode, for a fixed number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.coding.modulation import modulator, pack_bits, unpack_bits
from phy.coding.packet import build_codec
from phy.config import BITS_PER_SYMBOL
from phy.engines.choice import engine_of
from phy.frontends.build import build_frontend
from phy.links.packets.chain import Arrival, ChainSpec, Departure, PacketChain
from phy.numerics.streaming import pad_rows
from phy.receivers.build import build_receiver, label_errors
from phy.receivers.detectors import DetectorSpec, equalise
from phy.stages import ChannelCodec, Decoded, Frontend, Launch, Observation, Watched

_UNCODED_SYMBOLS = 1 << 16
_CODED_SYMBOLS = 1 << 14
_DECODER_FLOATS = 1 << 24
_TRIALS_AT_ONCE = 16


@dataclass(kw_only=True)
class _CompiledCodec:
    """Codec whose methods are separate compiled calls, so that none is repeated per use."""

    payload_bits: int
    coded_bits: int
    encode: Any
    decode: Any


class SionnaPacketChain(PacketChain):
    """`PacketChain` of `rows` packets of `users` devices per call.

    Fewer rows are padded, so that nothing is compiled again. `traced(payload, launch,
    earlier_llrs)` is the compiled call itself, of the fields of `Launch` after `symbols`; it returns received packed
    bits, accepted, label errors, transmit, signal and noise energies, and LLRs (empty where attempts are not combined).
    """

    def __init__(self, spec: ChainSpec) -> None:
        config = spec.config
        self.bits_per_symbol = BITS_PER_SYMBOL[config.modulation]
        fused = engine_of(config) == "fused"
        raw = build_codec(
            config.coding,
            payload_bits=spec.payload_bits,
            bits_per_symbol=self.bits_per_symbol,
            crc=spec.crc,
            fused=fused,
        )
        self.coded_bits = self.soft_bits = raw.coded_bits
        packets = spec.packets
        self.num_symbols = packets * raw.coded_bits // self.bits_per_symbol
        self.frontend: Frontend = build_frontend(
            config, num_users=spec.users, num_symbols=self.num_symbols, num_devices=spec.num_devices
        )
        # Messages of fused decoders stay in the cache for any number of rows.
        most_symbols = _UNCODED_SYMBOLS if fused or config.coding == "none" else _CODED_SYMBOLS
        per_row = spec.users * config.receiver.num_antennas * self.frontend.num_symbols
        self.rows = max(
            min(
                most_symbols // max(per_row, 1),
                _DECODER_FLOATS // max(spec.users * packets * raw.decoder_floats_per_packet, 1),
                # A large chunk of a small round is mostly padding. The size of the batch is not used: the numbers of
                # a trial must not depend on the other trials.
                _TRIALS_AT_ONCE * spec.rows_per_trial,
            ),
            1,
        )
        self.num_bytes = -(-spec.payload_bits // 8)
        self._spec = spec
        self._modem = modulator(config.modulation)
        self._receiver = build_receiver(config, num_users=spec.users)
        self._codec: ChannelCodec = _CompiledCodec(
            payload_bits=packets * raw.payload_bits,
            coded_bits=packets * raw.coded_bits,
            encode=_side_by_side(raw.encode, packets, xla=raw.xla),
            decode=_side_by_side(raw.decode, packets, xla=raw.xla),
        )
        self._padding = 8 * self.num_bytes - spec.payload_bits  # 0 where packets share slots
        self.channel_uses = self.frontend.channel_uses
        self.airtime_s = self.frontend.airtime_s
        self.traced = tf.function(self._send, autograph=False)
        self._traced_power = tf.function(self.frontend.mean_power, autograph=False)
        self._watched = tf.function(self._watch, autograph=False)

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        count = len(payload)
        launch = (*(pad_rows(array, self.rows) for array in departure.arrays), departure.noise_power)
        earlier = None if earlier_llrs is None else pad_rows(earlier_llrs, self.rows)
        found = self.traced(pad_rows(payload, self.rows), launch, earlier)
        received, accepted, errors, transmit, signal, noise, llrs = (np.asarray(value)[:count] for value in found)
        energy = np.stack([transmit, signal, np.broadcast_to(noise[:, None], signal.shape)])
        return Arrival(received, accepted, errors, energy, llrs if self._spec.combine else None)

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        found = self._traced_power(pad_rows(channel_key, self.rows), pad_rows(start_s, self.rows))
        return np.asarray(found)[: len(channel_key)]

    def watch(self, payload: NDArray[np.uint8], departure: Departure) -> Watched:
        """Symbols and channel of at most `rows` packets at their first attempt; arguments as in `send`."""
        count = len(payload)
        launch = (*(pad_rows(array, self.rows) for array in departure.arrays), departure.noise_power)
        found = self._watched(pad_rows(payload, self.rows), launch)
        return Watched(*(np.asarray(value)[:count] for value in found))

    @cached_property
    def _knowing(self) -> Frontend:
        """The front-end of a receiver that knows the channel."""
        spec, config = self._spec, self._spec.config.model_copy(update={"csi": "perfect"})
        return build_frontend(config, num_users=spec.users, num_symbols=self.num_symbols, num_devices=spec.num_devices)

    def _watch(self, payload: Any, launch: Any) -> Any:
        config = self._spec.config
        coded, sent, observation, decoded = self._carry(payload, launch, None)
        detector, shape = config.noma.detector, decoded.llrs.shape
        hard = tf.cast(decoded.llrs > 0.0, tf.int32)
        if detector == "sic-codeword":
            flat = tf.reshape(decoded.bits, [-1, self._spec.payload_bits])
            hard = tf.reshape(self._codec.encode(flat), shape)
        spec = DetectorSpec(
            modulation=config.modulation,
            demapper="",
            equalizer=config.receiver.equalizer,
            num_users=self._spec.users,
        )
        equalised = equalise(observation, spec=spec, detector=detector, decided=self._modem.modulate_bits(hard))
        arrival = tf.cast(sent.amplitude * sent.gain, tf.complex64)[:, :, None]
        on_air = tf.abs(arrival) > 0.0
        return (
            sent.symbols,
            tf.where(on_air, equalised, np.complex64(complex(np.nan, np.nan))),
            ((decoded.llrs > 0.0) != (tf.reshape(coded, shape) > 0)) & on_air,
            self._knowing.observe(sent).channel / arrival[..., None],
            observation.channel / arrival[..., None],
        )

    def _carry(self, payload: Any, launch: Any, earlier_llrs: Any) -> tuple[Any, Launch, Observation, Decoded]:
        """(coded bits, launch with its symbols, observation, decoded) of packed payloads."""
        spec, rows = self._spec, self.rows

        @tf.function(jit_compile=True, autograph=False)
        def unpack(packed: Any) -> Any:
            bits = unpack_bits(packed)[..., : self._codec.payload_bits]
            return tf.reshape(bits, [rows * spec.users, self._codec.payload_bits])

        @tf.function(jit_compile=True, autograph=False)
        def modulate(coded: Any) -> Any:
            symbols = self._modem.modulate_bits(coded)
            return tf.reshape(symbols, [rows, spec.users, self.num_symbols])

        coded = self._codec.encode(unpack(payload))
        sent = Launch(modulate(coded), *launch)
        observation = self.frontend.observe(sent)
        return (
            coded,
            sent,
            observation,
            self._receiver.receive(observation, codec=self._codec, earlier_llrs=earlier_llrs),
        )

    def _send(self, payload: Any, launch: Any, earlier_llrs: Any) -> Any:
        spec, rows = self._spec, self.rows

        @tf.function(jit_compile=True, autograph=False)
        def compare(llrs: Any, coded: Any) -> Any:
            sent = tf.reshape(coded, [rows, spec.users, self._codec.coded_bits])
            return label_errors(llrs, sent, bits_per_symbol=self.bits_per_symbol)

        @tf.function(jit_compile=True, autograph=False)
        def pack(bits: Any) -> Any:
            padded = tf.pad(bits, [[0, 0], [0, 0], [0, self._padding]])
            return pack_bits(padded)

        coded, _, observation, decoded = self._carry(payload, launch, earlier_llrs)
        return (
            pack(decoded.bits),
            decoded.accepted,
            compare(decoded.llrs, coded),
            observation.transmit_energy,
            observation.signal_energy,
            observation.noise_energy,
            decoded.llrs if spec.combine else tf.zeros([rows, 0]),
        )


def _side_by_side(convert: Any, packets: int, *, xla: bool) -> Any:
    """`encode` or `decode` of a packet, for rows `[n, packets * bits]` of packets that share slots."""
    compiled = tf.function(convert, jit_compile=xla, autograph=False)
    if packets == 1:
        return compiled

    def of_rows(values: Any) -> Any:
        rows = values.shape[0]
        found = compiled(tf.reshape(values, [rows * packets, -1]))
        return tf.nest.map_structure(lambda part: tf.reshape(part, [rows, -1]), found)

    return of_rows


@lru_cache(maxsize=32)
def compiled_chain(spec: ChainSpec) -> SionnaPacketChain:
    """Return Sionna's chain of a specification, built once and traced at its first call."""
    return SionnaPacketChain(spec)
