"""Packets whose bits flip independently at given rates, under a check sum: the error models of packet simulators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.packets.codec import packet_codec
from phy.links.packets.chain import Arrival, ChainSpec, Departure, PacketChain
from phy.numerics.bit_flips import flip_bits
from phy.numerics.packing import regroup


class FlippingChain(PacketChain):
    """`PacketChain` without a radio: the payload and its check sum, each bit flipped independently.

    At bit error rate p all n bits of a packet, check sum included, arrive intact with probability (1 - p)^n, so that
    the packet error rate is 1 - (1 - p)^n. A packet in error is accepted where its flips are a multiple of the check
    sum's polynomial, as on the air. Sizes on the air and durations are those of `radio`, the chain of `spec`.

    The rate is that of the bits the check sum sees. Behind a code they are decoded bits: bits on the air then have no
    counts (`coded_bits` is 0). Energy is the square of the amplitude in every channel use; there is no noise.
    """

    def __init__(self, radio: PacketChain, spec: ChainSpec) -> None:
        self._radio, self._packets = radio, spec.packets
        self._codec = packet_codec(
            "none", payload_bits=spec.payload_bits, bits_per_symbol=radio.bits_per_symbol, crc=spec.crc
        )
        self._num_bits = self._codec.plan.coded_bits
        self.bits_per_symbol = radio.bits_per_symbol
        self.coded_bits = self.soft_bits = self._num_bits if spec.config.coding == "none" else 0
        # Bits of a packed packet at each place of the label, `[bits_per_symbol, num_bytes]`.
        place = np.arange(self._num_bits) % self.bits_per_symbol
        self._masks = np.packbits(place == np.arange(self.bits_per_symbol)[:, None], axis=1)
        self.rows = radio.rows
        self.channel_uses = radio.channel_uses
        self.airtime_s = radio.airtime_s

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        """See `PacketChain.send`; flips are a function of the noise key, the user and the position in the packet."""
        if departure.error_rate is None or earlier_llrs is not None:
            raise ValueError("flips need an error rate and have no soft values; give a rate, and combine no attempts")
        rows, users = departure.amplitude.shape
        count, bits = rows * users * self._packets, self._num_bits
        sent = self._codec.encode(payload.reshape(count, -1))
        flipped = flip_bits(
            regroup(sent, rows=rows * users, num_bits=bits).reshape(rows, users, -1),
            probability=departure.error_rate,
            num_bits=bits * self._packets,
            keys=departure.noise_key,
        )
        flipped = regroup(flipped.reshape(rows * users, -1), rows=count, num_bits=bits * self._packets)
        received, accepted = self._codec.payload_of(flipped)
        energy = np.zeros((3, rows, users))
        energy[0] = departure.amplitude.astype(float) ** 2 * self.channel_uses
        return Arrival(
            received.reshape(payload.shape),
            accepted.reshape(rows, -1),
            self._label_errors(sent ^ flipped).reshape(rows, users, self._packets, -1).sum(axis=2, dtype=np.int32),
            energy,
            None,
        )

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        """See `PacketChain.mean_power`: that of the radio."""
        return self._radio.mean_power(channel_key, start_s)

    def _label_errors(self, wrong: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Flips of packed rows `[n, num_bytes]` by place in the symbol's label, `[n, bits_per_symbol]`."""
        places = self.bits_per_symbol
        if not self.coded_bits:
            return np.zeros((len(wrong), places), np.int32)
        return np.stack([np.bitwise_count(wrong & mask).sum(axis=1, dtype=np.int32) for mask in self._masks], axis=1)
