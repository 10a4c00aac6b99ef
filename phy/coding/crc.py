"""CRC of a packet of any length, by Sionna's `CRCEncoder` on segments of it.

`CRCEncoder` multiplies by a matrix as long as the packet; at a megabit XLA takes two minutes to swallow it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

_SEGMENT_BITS = 4096


class PacketCrc:
    """CRC of TS 38.212 5.1 by its name in `phy.config.CRC_BITS`, sent inverted.

    The plain remainder of the all-zero word is zero, and a decoder without a signal returns zeros: it accepts silence.
    Inverted check bits reject silence, and change nothing else.

    The remainder is linear: with segments m_j of S bits, m(x) = sum_j m_j(x) x^(S (J - 1 - j)), each segment's own
    remainder is moved by x^(S (J - 1 - j)) mod g(x) and they add up. Leading zeros change nothing.
    """

    def __init__(self, name: str, *, message_bits: int) -> None:
        from sionna.phy.fec.crc import CRCEncoder

        self._encoder = CRCEncoder(name.upper())
        self._degree = self._encoder.crc_length
        self._num_segments = -(-message_bits // _SEGMENT_BITS)
        self._front = self._num_segments * _SEGMENT_BITS - message_bits if self._num_segments > 1 else 0
        self._moves = _moves(self._encoder.crc_pol, num_segments=self._num_segments)

    def parity(self, message: Any) -> Any:
        """`[n, message_bits]` to `[n, degree]`, float32 in {0, 1}."""
        rows = message.shape[0]
        segments = tf.pad(message, [[0, 0], [self._front, 0]])
        segments = tf.reshape(segments, [rows * self._num_segments, -1])
        remainders = self._encoder(segments)[:, -self._degree :]
        if self._num_segments == 1:
            return remainders
        total = tf.matmul(tf.reshape(remainders, [rows, -1]), tf.constant(self._moves, tf.float32))
        return tf.cast(tf.bitwise.bitwise_and(tf.cast(total, tf.int32), 1), tf.float32)

    def append(self, message: Any) -> Any:
        """`[n, message_bits]` to `[n, message_bits + degree]`."""
        return tf.concat([message, 1.0 - self.parity(message)], axis=1)

    def holds(self, protected: Any) -> Any:
        """True for each row of `[n, message_bits + degree]` whose last bits are the CRC of the others, `[n]` bool."""
        expected = 1.0 - self.parity(protected[:, : -self._degree])
        return tf.reduce_all(tf.equal(expected, protected[:, -self._degree :]), axis=1)


def _moves(polynomial: NDArray[np.int64], *, num_segments: int) -> NDArray[np.int64]:
    """Row (j, i): the remainder of x^(degree - 1 - i) x^(S (J - 1 - j)), highest power first, `[J degree, degree]`."""
    degree = len(polynomial) - 1
    # Rows are the remainders of x times each power of x: shift left, and reduce what leaves the register.
    by_x = np.eye(degree, k=-1, dtype=np.int64)
    by_x[0] = polynomial[1:]
    by_segment = by_x
    for _ in range(_SEGMENT_BITS.bit_length() - 1):
        by_segment = by_segment @ by_segment % 2
    moves = [np.eye(degree, dtype=np.int64)]
    for _ in range(num_segments - 1):
        moves.append(moves[-1] @ by_segment % 2)
    return np.concatenate(moves[::-1])
