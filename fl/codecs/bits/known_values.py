"""Which values the receiver holds when packets are missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError


def known_values(
    delivered: NDArray[np.bool_], *, packet_bits: int, bits_per_value: int, num_values: int, block_bits: int = 1
) -> NDArray[np.bool_]:
    """True where every packet that carries bits of a value was delivered, `[..., num_values]`.

    `delivered` `[..., num_packets]` as in `phy.links.link.Reception`; every packet carries `packet_bits` bits of the
    payload but the last, which carries the rest. Bits stand value by value, so that a value may lie across packets.
    `block_bits` stand or fall together, as in a block of a cipher: what is missing of one takes all of it, and the
    payload is filled up to whole blocks. Raises LearningError for another number of packets.
    """
    num_packets = -(-(-(-num_values * bits_per_value // block_bits) * block_bits) // packet_bits)
    if delivered.shape[-1] != num_packets:
        raise LearningError(
            f"{delivered.shape[-1]} packets were reported for {num_values} values of {bits_per_value} bits, which fill "
            f"{num_packets} packets of {packet_bits} bits; report every packet of the payload"
        )
    first_bits = np.arange(num_values, dtype=np.int64) * bits_per_value
    first = first_bits // block_bits * block_bits // packet_bits
    last = (((first_bits + bits_per_value - 1) // block_bits + 1) * block_bits - 1) // packet_bits
    known = np.repeat(delivered, np.bincount(first, minlength=num_packets), axis=-1)
    (across,) = np.nonzero(first != last)
    lost_before = np.zeros((*delivered.shape[:-1], num_packets + 1), np.int64)
    np.cumsum(~delivered, axis=-1, out=lost_before[..., 1:])
    known[..., across] = lost_before[..., last[across] + 1] == lost_before[..., first[across]]
    return known
