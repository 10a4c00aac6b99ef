"""Bits of packets on the host against `phy.coding`, which says the same in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from phy.coding.crc import PacketCrc
from phy.coding.packet import build_codec
from phy.coding.transport.packed_crc import PackedCrc
from phy.config import CRC_BITS, CodingConfig
from phy.engines.fused.packets.bits import count_label_errors, fill_bytes, fill_decided, fill_labels
from phy.engines.fused.packets.codec import packet_codec

ROWS = 5
CODES: dict[str, Any] = {
    "none": "none",
    "half": CodingConfig(code="ldpc5g", rate=0.5),
    "interleaved": CodingConfig(code="ldpc5g", rate=0.75, interleaver="random", block_length=100, standard="sionna"),
    "repeated": CodingConfig(code="ldpc5g", rate=1 / 7),
}


def bits(num_bits: int, *, seed: int = 3) -> Any:
    return np.random.default_rng(seed).integers(0, 2, (ROWS, num_bits), dtype=np.uint8)


@pytest.mark.parametrize("num_bits", [8, 403, 5001])
@pytest.mark.parametrize("name", CRC_BITS)
def test_check_sums_are_those_of_the_packet_link(name: str, num_bits: int) -> None:
    message = bits(num_bits)
    expected = np.asarray(PacketCrc(name, message_bits=num_bits).append(tf.constant(message, tf.float32)))
    found = PackedCrc.named(name).append(np.packbits(message, axis=1), num_bits=num_bits)
    np.testing.assert_array_equal(found, np.packbits(expected.astype(np.uint8), axis=1))


@pytest.mark.parametrize("code", CODES)
def test_packets_go_on_the_air_and_come_back_as_in_the_packet_link(code: str) -> None:
    num_bits, name = 403, "crc16"
    ours = packet_codec(CODES[code], payload_bits=num_bits, bits_per_symbol=4, crc=name)
    theirs = build_codec(CODES[code], payload_bits=num_bits, bits_per_symbol=4, crc=name, fused=True)
    message = bits(num_bits)
    coded = np.asarray(theirs.encode(tf.constant(message, tf.int32))).astype(np.uint8)
    packed = ours.encode(np.packbits(message, axis=1))
    assert ours.plan.coded_bits == theirs.coded_bits
    np.testing.assert_array_equal(packed, np.packbits(coded, axis=1))
    llrs = (20.0 * coded - 10.0).astype(np.float32)
    spoilt = llrs.copy()
    spoilt[1] = -spoilt[1]
    for values, accepted in ((llrs, np.ones(ROWS, bool)), (spoilt, np.arange(ROWS) != 1)):
        received, holds = ours.decode(np.packbits(values > 0, axis=1), values)
        np.testing.assert_array_equal(holds, accepted)
        np.testing.assert_array_equal(received[accepted], np.packbits(message, axis=1)[accepted])


@pytest.mark.parametrize("bits_per_symbol", [1, 2, 4, 6, 8])
def test_labels_are_the_bits_in_their_order(bits_per_symbol: int) -> None:
    num_symbols = 37
    stream = bits(num_symbols * bits_per_symbol)
    weights = 1 << np.arange(bits_per_symbol)[::-1]
    labels = np.empty((ROWS, num_symbols), np.uint8)
    fill_labels(np.packbits(stream, axis=1), bits_per_symbol=bits_per_symbol, out=labels)
    np.testing.assert_array_equal(labels, stream.reshape(ROWS, num_symbols, bits_per_symbol) @ weights)
    for num_bits in (stream.shape[1], stream.shape[1] - 3):
        back = np.empty((ROWS, -(-num_bits // 8)), np.uint8)
        fill_bytes(labels, bits_per_symbol, num_bits, back)
        np.testing.assert_array_equal(back, np.packbits(stream[:, :num_bits], axis=1))


@pytest.mark.parametrize("bits_per_symbol", [1, 2, 4, 6, 8])
def test_labels_have_the_bits_that_llrs_are_for(bits_per_symbol: int) -> None:
    llrs = np.random.default_rng(4).normal(size=(ROWS, 38 * bits_per_symbol)).astype(np.float32)
    llrs[0, :5] = 0.0  # as likely 0 as 1
    labels, back = np.empty((ROWS, 37), np.uint8), np.empty((ROWS, -(-37 * bits_per_symbol // 8)), np.uint8)
    fill_decided(llrs, bits_per_symbol, labels)
    fill_bytes(labels, bits_per_symbol, 37 * bits_per_symbol, back)
    np.testing.assert_array_equal(back, np.packbits(llrs[:, : 37 * bits_per_symbol] > 0.0, axis=1))


@pytest.mark.parametrize("bits_per_symbol", [1, 2, 6])
def test_wrong_bits_are_counted_by_their_place_in_the_label(bits_per_symbol: int) -> None:
    one, other = (np.random.default_rng(n).integers(0, 1 << bits_per_symbol, (ROWS, 50), np.uint8) for n in (1, 2))
    places = np.arange(bits_per_symbol)[::-1]
    expected = ((one ^ other)[..., None] >> places & 1).sum(axis=1)
    found = np.empty((ROWS, bits_per_symbol), np.int32)
    count_label_errors(one, other, found)
    np.testing.assert_array_equal(found, expected)
