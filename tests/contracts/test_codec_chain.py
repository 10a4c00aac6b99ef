"""Contract of every codec, over all codes: correct bits, whole symbols, CRC, independent rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from phy.coding.packet import PacketCodec, build_codec
from phy.coding.plan import Coding, plan_packet
from phy.config import CodingConfig

CODES: dict[str, Coding] = {
    "none": "none",
    "repetition": CodingConfig(code="repetition", rate=0.4, interleaver="random"),
    "convolutional": CodingConfig(code="convolutional", rate=1 / 3, constraint_length=7),
    "turbo": CodingConfig(code="turbo", rate=1 / 2, iterations=3, interleaver="random", standard="sionna"),
    # Its automatic block of 339 bits would be traced for 10 s; short ones are the same code.
    "polar5g": CodingConfig(code="polar5g", rate=0.4, list_size=4, block_length=60, standard="sionna"),
    "successive-cancellation": CodingConfig(code="polar5g", rate=0.7, list_size=1, block_length=50, standard="sionna"),
    "ldpc5g": CodingConfig(code="ldpc5g", rate=8 / 9, interleaver="random", standard="sionna"),
    "ldpc5g-minsum": CodingConfig(code="ldpc5g", rate=0.2, check_update="minsum", block_length=500, standard="sionna"),
    "ldpc5g-repeated": CodingConfig(
        code="ldpc5g", rate=120 / 1024, check_update="offset-minsum", block_length=400, standard="sionna"
    ),
    "fused-repetition": CodingConfig(code="repetition", rate=0.4, interleaver="random"),
    "fused-convolutional": CodingConfig(code="convolutional", rate=1 / 3, constraint_length=7),
    "fused-turbo": CodingConfig(code="turbo", rate=1 / 2, iterations=3, interleaver="random"),
    "fused-turbo-of-sionna": CodingConfig(code="turbo", rate=1 / 2, iterations=3, standard="sionna"),
    "fused-polar5g": CodingConfig(code="polar5g", rate=0.4, list_size=4),
    "fused-polar5g-of-sionna": CodingConfig(code="polar5g", rate=0.4, list_size=4, standard="sionna"),
    "fused-successive-cancellation": CodingConfig(code="polar5g", rate=0.7, list_size=1, block_length=50),
    "fused-ldpc5g": CodingConfig(code="ldpc5g", rate=8 / 9, interleaver="random"),
    "fused-ldpc5g-repeated": CodingConfig(code="ldpc5g", rate=120 / 1024),
}
PACKETS = ((1, 1, None), (7, 2, "crc6"), (100, 4, "crc24a"), (1000, 6, "crc16"))
LONG = (20_000, 8, "crc24a")
SIBLINGS = {"successive-cancellation", "ldpc5g-minsum", "ldpc5g-repeated"}
"""Their encoders meet packets of every length in `polar5g`, `ldpc5g` and `fused-ldpc5g-repeated`."""
# Noise at which a packet of 100 bits is a matter of luck.
NOISE = {
    "none": 0.4,
    "repetition": 0.6,
    "fused-repetition": 0.6,
    "ldpc5g": 0.45,
    "successive-cancellation": 0.6,
    "fused-successive-cancellation": 0.6,
    "ldpc5g-repeated": 2.0,
    "fused-ldpc5g": 0.45,
    "fused-ldpc5g-repeated": 2.2,
    "ldpc5g-minsum": 1.35,
}


@pytest.fixture(scope="module", params=CODES)
def name(request: pytest.FixtureRequest) -> str:
    """Of the module, so that all tests of a code follow each other and share what is traced."""
    return str(request.param)


def codec_of(name: str, packet: tuple[int, int, str | None]) -> PacketCodec:
    payload_bits, bits_per_symbol, crc = packet
    return build_codec(
        CODES[name],
        payload_bits=payload_bits,
        bits_per_symbol=bits_per_symbol,
        crc=crc,
        fused=name.startswith("fused"),
    )


@lru_cache
def traced(codec: PacketCodec) -> tuple[Any, Any]:
    """Encoder and decoder as graph functions, traced once for all tests."""
    return tf.function(codec.encode), tf.function(codec.decode)


def payloads(rows: int, payload_bits: int, *, seed: int = 3) -> NDArray[np.int32]:
    """Random packets, the first all zeros and the second all ones: the sums inside an encoder at their extremes."""
    bits = np.random.default_rng(seed).integers(0, 2, (rows, payload_bits), dtype=np.int32)
    bits[0], bits[1] = 0, 1
    return bits


def on_air(coded: Any, *, noise: float = 0.0, seed: int = 5) -> Any:
    """LLRs of BPSK with noise of standard deviation `noise`; without noise they are +-8."""
    signs = 2.0 * np.asarray(coded, np.float32) - 1.0
    if noise == 0.0:
        return tf.constant(8.0 * signs)
    received = signs + noise * np.random.default_rng(seed).standard_normal(signs.shape, np.float32)
    return tf.constant(2.0 * received / np.float32(noise**2))


def lengths() -> Iterator[Any]:
    """Codes and packets; of siblings only those of the packet that other tests have traced."""
    for name, packet in product(CODES, PACKETS):
        later = name in SIBLINGS and packet != PACKETS[2]
        yield pytest.param(name, packet, id=f"{name}-{packet[0]}-bits", marks=[pytest.mark.slow] if later else [])


@pytest.mark.parametrize(("name", "packet"), [*lengths()], scope="module")
def test_without_noise_every_packet_comes_back(name: str, packet: tuple[int, int, str | None]) -> None:
    codec = codec_of(name, packet)
    encode, decode = traced(codec)
    bits = payloads(3, codec.payload_bits)
    coded = encode(tf.constant(bits))
    assert coded.dtype == tf.int32
    assert coded.shape == (3, codec.coded_bits)
    decoded, accepted = decode(on_air(coded))
    assert (decoded.dtype, accepted.dtype) == (tf.int32, tf.bool)
    assert np.array_equal(decoded, bits)
    assert accepted.numpy().all()


def test_long_packets_come_back_under_xla_or_from_the_host(name: str) -> None:
    codec = codec_of(name, LONG)
    assert codec.xla != name.startswith("fused")
    bits = payloads(2, codec.payload_bits)
    coded = tf.function(codec.encode, jit_compile=codec.xla)(tf.constant(bits))
    decoded, accepted = tf.function(codec.decode, jit_compile=codec.xla)(on_air(coded))
    assert np.array_equal(decoded, bits)
    assert accepted.numpy().all()


def test_sizes_are_those_of_the_plan(name: str) -> None:
    for payload_bits, bits_per_symbol, crc in PACKETS:
        codec = codec_of(name, (payload_bits, bits_per_symbol, crc))
        plan = plan_packet(CODES[name], payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)
        assert (codec.plan, codec.coded_bits, codec.payload_bits) == (plan, plan.coded_bits, payload_bits)
        assert codec.decoder_floats_per_packet >= codec.coded_bits


def test_a_packet_is_accepted_only_if_it_is_right(name: str) -> None:
    encode, decode = traced(codec_of(name, PACKETS[2]))
    bits = payloads(64, 100)
    decoded, accepted = decode(on_air(encode(tf.constant(bits)), noise=NOISE.get(name, 1.0)))
    right = (decoded.numpy() == bits).all(axis=1)
    # Random errors pass 24 check bits once in 2^24; a right payload with a wrong check sum is still refused.
    assert not (accepted.numpy() & ~right).any()
    assert 0 < accepted.numpy().sum() < 64


def test_a_row_does_not_depend_on_its_batch(name: str) -> None:
    encode, decode = traced(codec_of(name, PACKETS[2]))
    bits = payloads(64, 100)
    coded = encode(tf.constant(bits))
    llrs = on_air(coded, noise=NOISE.get(name, 1.0))
    decoded, accepted = decode(llrs)
    rows = slice(30, 33)
    assert np.array_equal(encode(tf.constant(bits[rows])), coded[rows])
    alone, alone_accepted = decode(llrs[rows])
    assert np.array_equal(alone, decoded[rows])
    assert np.array_equal(alone_accepted, accepted[rows])


def test_a_codec_is_built_once() -> None:
    assert codec_of("ldpc5g", PACKETS[2]) is codec_of("ldpc5g", PACKETS[2])


def test_a_codec_may_be_built_while_a_function_is_traced() -> None:
    coding = CodingConfig(code="turbo", rate=1 / 3, iterations=2, standard="sionna")

    def there_and_back(bits: Any) -> Any:
        codec = build_codec(coding, payload_bits=44, bits_per_symbol=2, crc="crc16")
        return codec.decode(16.0 * tf.cast(codec.encode(bits), tf.float32) - 8.0)[0]

    bits = payloads(4, 44)
    # Two functions: what the first trace left behind must serve the second.
    for _ in range(2):
        assert np.array_equal(tf.function(there_and_back)(tf.constant(bits)), bits)
