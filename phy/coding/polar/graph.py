"""5G polar code: Sionna's encoder, its rate recovery undone, and a list decoder that is fast enough to simulate with.

Sionna's list decoder copies its whole memory once per bit: at 128 bits it takes 10 s to trace and 5 ms per code word
(list of 8), at 1024 bits only its NumPy variant is left, 27 ms per code word where this one takes 1 ms. This one is
recursive over values instead: a sub-code receives the LLRs of all paths and hands back their code words, their
metrics and which path each grew from, so that nothing is copied that is not used again.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

_LLR_MAX = 30.0
"""Bound of the LLRs inside the decoder, as in Sionna's: e^-30 is below the resolution of float32."""
_KNOWN_LLR = 100.0
"""LLR of a shortened position, whose bit is known."""


class Paths(NamedTuple):
    """The list after a sub-code, tensors; P paths per code word, flattened with the code words.

    - `signs` `[n P, m]` float32: bits of the sub-code's word as +1 (0) and -1 (1);
    - `origin` `[n P]` int32: row that each path had on entry, None where all stayed in place;
    - `metric` `[n, P]` float32: -ln of the path's probability, up to a constant.
    """

    signs: Any
    origin: Any
    metric: Any


class PolarGraph:
    """Sionna's reading of TS 38.212 5.3.1 in the uplink, CRC-aided successive cancellation list decoding.

    The three parity-check bits of 12 to 19 information bits are left out; `phy.coding.polar.construction` tells all
    differences from the standard. `list_size` 1 is successive
    cancellation, which has no use for the CRC.
    """

    xla = True

    def __init__(self, block_bits: int, coded_bits: int, *, list_size: int, joint_bits: int = 4) -> None:
        from sionna.phy.fec.crc import CRCDecoder, CRCEncoder
        from sionna.phy.fec.polar import Polar5GEncoder

        # Below 20 bits Sionna prints that it has no parity-check bits; the docstring says it once.
        with contextlib.redirect_stdout(io.StringIO()):
            encoder = Polar5GEncoder(block_bits, coded_bits)
        encoder._check_input = False
        self.encode = tf.function(encoder.__call__)
        self._block_bits, self._length = block_bits, encoder.n_polar
        self._information = np.asarray(encoder.info_pos)
        self._channel_order = np.argsort(encoder.channel_interleaver(np.arange(coded_bits)))
        self._sub_block_order = np.argsort(encoder.subblock_interleaving(np.arange(self._length)))
        self._shortened = encoder.k_polar / coded_bits > 7 / 16
        self._check = CRCDecoder(CRCEncoder(encoder.enc_crc.crc_degree))
        self._list = SuccessiveCancellationList(encoder.frozen_pos, self._length, list_size, joint_bits=joint_bits)
        self.decode = tf.function(self._decode, autograph=False)
        self.decoder_floats = 4 * list_size * self._length

    def recover(self, llrs: Any) -> Any:
        """LLRs `[n, coded_bits]` to those of the mother code `[n, N]`, 0 where nothing was sent (5.4.1)."""
        sent = tf.gather(llrs, self._channel_order, axis=1)
        surplus = sent.shape[1] - self._length
        if surplus >= 0:
            again = tf.pad(sent[:, self._length :], [[0, 0], [0, self._length - surplus]])
            matched = sent[:, : self._length] + again
        elif self._shortened:
            matched = tf.pad(sent, [[0, 0], [0, -surplus]], constant_values=-_KNOWN_LLR)
        else:
            matched = tf.pad(sent, [[0, 0], [-surplus, 0]])
        return tf.gather(matched, self._sub_block_order, axis=1)

    def _decode(self, llrs: Any) -> Any:
        words, metric = self._list(-self.recover(llrs))
        candidates = tf.gather(words, self._information, axis=2)
        if candidates.shape[1] > 1:
            _, valid = self._check(candidates)
            # Any path with a valid CRC is better than all without.
            metric += tf.where(valid[:, :, 0], 0.0, _LLR_MAX * self._length)
        best = tf.gather(candidates, tf.argmin(metric, axis=1), axis=1, batch_dims=1)
        return best[:, : self._block_bits]


class SuccessiveCancellationList:
    """List decoder of a polar code of length N, LLR domain (Balatsoukas-Stimming et al., IEEE TSP 63, 2015).

    Path metric sum of ln(1 + exp(-(1 - 2 u) L)), their (10), with the exact check-node rule. A sub-code with at most
    `joint_bits` information bits is decided at once over all its words, which by the chain rule have the metric
    sum_i ln(1 + exp(-(1 - 2 c_i) L_i)) over code bits; with 1 these are frozen and repetition nodes, bit for bit the
    decisions of Sionna's `PolarSCLDecoder`, with more the list is never cut in between.
    """

    def __init__(self, frozen: NDArray[np.int64], length: int, list_size: int, *, joint_bits: int) -> None:
        self._free = np.ones(length, bool)
        self._free[frozen] = False
        self._list_size, self._joint_bits = list_size, joint_bits

    def __call__(self, llrs: Any) -> tuple[Any, Any]:
        """LLRs ln P(0)/P(1) `[n, N]` to (input words u `[n, L, N]` float32 in {0, 1}, metrics `[n, L]`)."""
        rows, length = llrs.shape
        paths = self._grow(llrs, tf.zeros([rows, 1]), self._free)
        words = transform(paths.signs)
        return tf.reshape((1.0 - words) / 2.0, [rows, -1, length]), paths.metric

    def _grow(self, llrs: Any, metric: Any, free: NDArray[np.bool_]) -> Paths:
        if free.sum() <= self._joint_bits:
            return self._choose(llrs, metric, free)
        half = free.size // 2
        upper, lower = llrs[:, :half], llrs[:, half:]
        left = self._grow(_check_node(upper, lower), metric, free[:half])
        if left.origin is not None:
            upper, lower = tf.split(tf.gather(llrs, left.origin), 2, axis=1)
        right = self._grow(left.signs * upper + lower, left.metric, free[half:])
        signs, origin = left.signs, left.origin
        if right.origin is not None:
            signs = tf.gather(signs, right.origin)
            origin = right.origin if origin is None else tf.gather(origin, right.origin)
        return Paths(tf.concat([signs * right.signs, right.signs], axis=1), origin, right.metric)

    def _choose(self, llrs: Any, metric: Any, free: NDArray[np.bool_]) -> Paths:
        rows, paths = metric.shape
        size = llrs.shape[1]
        bounded = tf.clip_by_value(llrs, -_LLR_MAX, _LLR_MAX)
        # ln(1 + e^-L) is the cost of a 0, and a 1 costs L more.
        all_zero = tf.reshape(tf.reduce_sum(tf.math.softplus(-bounded), axis=1), [rows, paths])
        book = _codebook(free)
        num_words = len(book)
        if num_words == 1:
            return Paths(tf.ones([rows * paths, size]), None, metric + all_zero)
        ones = tf.constant((1.0 - book) / 2.0, tf.float32)
        more = tf.reshape(tf.matmul(bounded, ones, transpose_b=True), [rows, paths, num_words])
        # Words outermost: of two equal metrics the list keeps the path with the smaller word, as Sionna's.
        candidates = tf.reshape(tf.transpose((metric + all_zero)[..., None] + more, [0, 2, 1]), [rows, -1])
        kept = min(self._list_size, num_words * paths)
        cost, index = tf.math.top_k(-candidates, k=kept)
        origin = tf.reshape(index % paths + paths * tf.range(rows)[:, None], [-1])
        signs = tf.gather(tf.constant(book, tf.float32), tf.reshape(index // paths, [-1]))
        return Paths(signs, origin, -cost)


def transform(signs: Any) -> Any:
    """x = u F, F the Kronecker power of [[1, 0], [1, 1]], on signs `[rows, N]`; its own inverse."""
    rows, length = signs.shape
    half = 1
    while half < length:
        pairs = tf.reshape(signs, [rows, length // (2 * half), 2, half])
        signs = tf.stack([pairs[:, :, 0] * pairs[:, :, 1], pairs[:, :, 1]], axis=2)
        half *= 2
    return tf.reshape(signs, [rows, length])


def _check_node(first: Any, second: Any) -> Any:
    """ln (1 + e^(a+b)) / (e^a + e^b), as the smaller magnitude and its correction."""
    a = tf.clip_by_value(first, -_LLR_MAX, _LLR_MAX)
    b = tf.clip_by_value(second, -_LLR_MAX, _LLR_MAX)
    total, difference = tf.abs(a + b), tf.abs(a - b)
    return 0.5 * (total - difference) + tf.math.log1p(tf.exp(-total)) - tf.math.log1p(tf.exp(-difference))


def _codebook(free: NDArray[np.bool_]) -> NDArray[np.float64]:
    """All words of a sub-code as signs `[2^k, m]`, the free bits counting up with the first bit highest."""
    positions = np.flatnonzero(free)
    words = np.zeros((2**positions.size, free.size), np.int64)
    words[:, positions] = np.arange(len(words))[:, None] >> np.arange(positions.size - 1, -1, -1) & 1
    half = 1
    while half < free.size:
        pairs = words.reshape(len(words), -1, 2, half)
        pairs[:, :, 0] ^= pairs[:, :, 1]
        half *= 2
    return 1.0 - 2.0 * words
