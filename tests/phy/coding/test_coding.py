"""Codes against Sionna's own chains bit for bit, closed forms and bounds; planted faults must show."""

from __future__ import annotations

import contextlib
import io
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK
from scipy.special import ndtr

from phy.coding.crc import PacketCrc
from phy.coding.packet import PacketCodec, build_codec
from phy.coding.polar.graph import PolarGraph
from phy.coding.trellis import TrellisEncoder
from phy.config import CRC_BITS, CodingConfig


def random_bits(rows: int, length: int, *, seed: int = 11) -> NDArray[np.int32]:
    return np.random.default_rng(seed).integers(0, 2, (rows, length), dtype=np.int32)


def noisy_llrs(coded: Any, noise: float, *, seed: int = 12) -> Any:
    """LLRs of unit BPSK in noise of standard deviation `noise`: 2 y / noise^2."""
    signs = 2.0 * np.asarray(coded, np.float32) - 1.0
    received = signs + noise * np.random.default_rng(seed).standard_normal(signs.shape, np.float32)
    return tf.constant(2.0 * received / np.float32(noise**2))


def upper_tail(x: Any) -> Any:
    """Q(x) of the Gaussian."""
    return ndtr(-np.asarray(x, float))


@lru_cache
def compiled_decoder(codec: PacketCodec) -> Any:
    return tf.function(codec.decode, jit_compile=True)


def decoded_with(coding: CodingConfig, bits: NDArray[np.int32], llrs: Any) -> NDArray[np.bool_]:
    """Mask of the packets of `bits` that are decoded correctly."""
    codec = build_codec(coding, payload_bits=bits.shape[1], bits_per_symbol=2, crc=None)
    return (compiled_decoder(codec)(llrs)[0].numpy() == bits).all(axis=1)


def encoded_with(coding: CodingConfig, bits: NDArray[np.int32]) -> Any:
    codec = build_codec(coding, payload_bits=bits.shape[1], bits_per_symbol=2, crc=None)
    return tf.function(codec.encode)(tf.constant(bits))


# --- check sums -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CRC_BITS)
@pytest.mark.parametrize("length", [1, 100, 4096, 4097, 20_000])
def test_check_sums_of_any_length_are_sionnas(name: str, length: int) -> None:
    from sionna.phy.fec.crc import CRCEncoder

    message = tf.constant(random_bits(3, length), tf.float32)
    plain = CRCEncoder(name.upper())(message).numpy()
    plain[:, length:] = 1.0 - plain[:, length:]
    assert np.array_equal(PacketCrc(name, message_bits=length).append(message), plain)


@pytest.mark.parametrize("name", CRC_BITS)
def test_silence_does_not_pass_for_a_packet(name: str) -> None:
    crc = PacketCrc(name, message_bits=60)
    assert not crc.holds(tf.zeros([1, 60 + CRC_BITS[name]])).numpy().any()


@pytest.mark.parametrize("name", CRC_BITS)
def test_every_burst_no_longer_than_the_check_sum_is_detected(name: str) -> None:
    crc = PacketCrc(name, message_bits=60)
    protected = crc.append(tf.constant(random_bits(1, 60), tf.float32)).numpy()
    length = protected.shape[1]
    bursts = []
    for seed, start in enumerate(range(length - CRC_BITS[name] + 1)):
        burst = np.zeros(length)
        burst[start : start + CRC_BITS[name]] = np.random.default_rng(seed).integers(0, 2, CRC_BITS[name])
        burst[start] = 1
        bursts.append(burst)
    # g(x) has a constant term, so no burst of at most its degree is a multiple of it.
    assert not crc.holds(tf.constant(np.abs(protected - np.array(bursts)), tf.float32)).numpy().any()
    assert crc.holds(tf.constant(protected)).numpy().all()


def test_random_words_pass_six_check_bits_once_in_sixty_four() -> None:
    words = random_bits(20_000, 46)
    passed = PacketCrc("crc6", message_bits=40).holds(tf.constant(words, tf.float32)).numpy()
    error = np.sqrt(63 / 64**2 / len(words))
    assert abs(passed.mean() - 1 / 64) < ERRORS_OF_A_CHECK * error


# --- encoders and decoders against Sionna ---------------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("polynomials", [("101", "111"), ("1011", "1101"), ("10101", "11011", "11111")])
def test_shift_registers_are_sionnas(polynomials: tuple[str, ...], recursive: bool) -> None:
    from sionna.phy.fec.conv import ConvEncoder

    bits = tf.constant(random_bits(5, 40), tf.float32)
    oracle = tf.function(ConvEncoder(gen_poly=polynomials, rsc=recursive, terminate=True).__call__)
    ours = TrellisEncoder(polynomials, recursive=recursive)(bits)
    assert np.array_equal(tf.reshape(ours, [5, -1]), oracle(bits))


@pytest.mark.parametrize(
    ("rate", "block_bits", "noise"), [(1 / 2, 61, 0.95), pytest.param(1 / 3, 61, 1.2, marks=pytest.mark.slow)]
)
def test_turbo_words_and_decisions_are_sionnas(rate: float, block_bits: int, noise: float) -> None:
    from sionna.phy.fec.turbo import TurboDecoder, TurboEncoder

    coding = CodingConfig(code="turbo", rate=rate, iterations=3, standard="sionna")
    encoder = TurboEncoder(rate=rate, constraint_length=4, terminate=True)
    bits = random_bits(64, block_bits)
    coded = encoded_with(coding, bits).numpy()
    expected = tf.function(encoder.__call__)(tf.constant(bits, tf.float32)).numpy()
    sent = expected.shape[1]
    assert np.array_equal(coded[:, :sent], expected)
    llrs = noisy_llrs(coded, noise)
    with contextlib.redirect_stdout(io.StringIO()):
        oracle = tf.function(TurboDecoder(encoder, num_iter=3).__call__, jit_compile=True)(llrs[:, :sent]).numpy()
    right = decoded_with(coding, bits, llrs)
    assert 0 < right.sum() < 64
    assert np.array_equal(right, (oracle == bits).all(axis=1))


@pytest.mark.parametrize(("check_update", "noise"), [("boxplus-phi", 0.87), ("minsum", 0.77)])
def test_ldpc_words_and_decisions_are_sionnas(check_update: str, noise: float) -> None:
    from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder

    coding = CodingConfig.model_validate(
        {"code": "ldpc5g", "rate": 0.5, "iterations": 8, "check_update": check_update, "standard": "sionna"}
    )
    encoder = LDPC5GEncoder(200, 400, num_bits_per_symbol=2)
    decoder = LDPC5GDecoder(encoder, cn_update=check_update, num_iter=8)
    bits = random_bits(100, 200)
    coded = encoded_with(coding, bits)
    assert np.array_equal(coded, encoder(tf.constant(bits, tf.float32)))
    llrs = noisy_llrs(coded, noise)
    right = decoded_with(coding, bits, llrs)
    assert 10 < right.sum() < 90
    oracle = tf.function(decoder.__call__, jit_compile=True)(llrs)
    assert np.array_equal(right, (oracle.numpy() == bits).all(axis=1))


@pytest.mark.slow
def test_no_ldpc_bit_is_lost_where_the_whole_code_word_is_sent() -> None:
    # Rate 1/5 with ten full columns: nothing is punctured, and Sionna's pruning would leave an empty graph.
    coding = CodingConfig(code="ldpc5g", rate=1 / 5, block_length=2080, iterations=10, standard="sionna")
    bits = random_bits(2, 2080)
    coded = encoded_with(coding, bits)
    assert coded.shape == (2, 10_400)
    # Es/N0 of -4.4 dB, 2.6 dB above the limit of a rate 1/5 code on this channel.
    assert decoded_with(coding, bits, noisy_llrs(coded, 1.17)).all()


@pytest.mark.parametrize(
    ("block_bits", "coded_bits", "noise"),
    [
        pytest.param(16, 36, 0.85, id="shortened", marks=pytest.mark.slow),
        pytest.param(12, 50, 1.1, id="punctured"),
        pytest.param(24, 70, 1.0, id="repeated", marks=pytest.mark.slow),
    ],
)
def test_polar_decisions_are_sionnas(block_bits: int, coded_bits: int, noise: float) -> None:
    from sionna.phy.fec.polar import Polar5GDecoder, Polar5GEncoder

    with contextlib.redirect_stdout(io.StringIO()):
        encoder = Polar5GEncoder(block_bits, coded_bits)
    oracle = Polar5GDecoder(encoder, "SCL", list_size=4)
    ours = PolarGraph(block_bits, coded_bits, list_size=4, joint_bits=1)
    joint = PolarGraph(block_bits, coded_bits, list_size=4)
    bits = tf.constant(random_bits(500, block_bits), tf.float32)
    coded = encoder(bits)
    assert np.array_equal(coded, ours.encode(bits))
    llrs = noisy_llrs(coded, noise)
    expected, found, better = (tf.function(d)(llrs).numpy() for d in (oracle.__call__, ours.decode, joint.decode))
    right = (expected == bits.numpy()).all(axis=1)
    assert 50 < right.sum() < 500
    # Metrics that agree to float32 rounding may still be ordered the other way round.
    assert (found != expected).any(axis=1).sum() <= 2
    # Small sub-codes decided at once lose no path: of discordant packets at most a chance majority is worse.
    also_right = (better == bits.numpy()).all(axis=1)
    lost, won = (right & ~also_right).sum(), (~right & also_right).sum()
    assert lost - won <= ERRORS_OF_A_CHECK * np.sqrt(lost + won + 1)


# --- error rates ----------------------------------------------------------------------------------------------------


def test_repetition_has_the_error_rate_of_its_copies() -> None:
    # 2.5 copies: of 2000 bits the first half is sent three times, the others twice.
    coding = CodingConfig(code="repetition", rate=0.4)
    bits, noise = random_bits(50, 2000), 1.2
    codec = build_codec(coding, payload_bits=2000, bits_per_symbol=2, crc=None)
    wrong = codec.decode(noisy_llrs(codec.encode(tf.constant(bits)), noise))[0].numpy() != bits
    for half, copies in ((wrong[:, :1000], 3), (wrong[:, 1000:], 2)):
        expected = upper_tail(np.sqrt(copies) / noise)
        error = np.sqrt(expected * (1 - expected) / half.size)
        assert abs(half.mean() - expected) < ERRORS_OF_A_CHECK * error


def convolutional_bounds(noise: float) -> tuple[float, float]:
    """Bit error rate of the (5, 7) code: genie-aided lower bound, and union bound with T = D^5 N / (1 - 2 D N)."""
    distances = np.arange(5, 40)
    pairwise = upper_tail(np.sqrt(distances) / noise)
    return float(pairwise[0]), float((pairwise * (distances - 4) * 2.0 ** (distances - 5)).sum())


@pytest.mark.parametrize("soft", [True, False])
def test_the_convolutional_code_keeps_its_union_bound_only_on_soft_values(soft: bool) -> None:
    noise = 0.62
    coding = CodingConfig(code="convolutional", rate=0.5, constraint_length=3)
    bits = random_bits(300, 1000)
    llrs = noisy_llrs(encoded_with(coding, bits), noise)
    codec = build_codec(coding, payload_bits=1000, bits_per_symbol=2, crc=None)
    decoded, _ = tf.function(codec.decode, jit_compile=True)(llrs if soft else tf.sign(llrs))
    rates = (decoded.numpy() != bits).mean(axis=1)
    lower, upper = convolutional_bounds(noise)
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    if soft:
        assert lower - ERRORS_OF_A_CHECK * error < rates.mean() < upper + ERRORS_OF_A_CHECK * error
    else:
        # The planted fault: hard decisions lose 2 dB and leave the bound.
        assert rates.mean() > upper + ERRORS_OF_A_CHECK * error


@pytest.mark.parametrize(
    ("code", "noise", "few", "more"), [("ldpc5g", 0.86, 7, 8), ("turbo", 0.9, 1, 2)], ids=("ldpc5g", "turbo")
)
def test_one_iteration_less_is_detected(code: str, noise: float, few: int, more: int) -> None:
    shorter, longer = (
        CodingConfig(code=code, rate=0.5, iterations=iterations, standard="sionna") for iterations in (few, more)
    )
    bits = random_bits(300, 300)
    llrs = noisy_llrs(encoded_with(longer, bits), noise)
    after_few, after_more = decoded_with(shorter, bits, llrs), decoded_with(longer, bits, llrs)
    won, lost = (after_more & ~after_few).sum(), (after_few & ~after_more).sum()
    # Sign test on the packets that differ (McNemar).
    assert won - lost > ERRORS_OF_A_CHECK * np.sqrt(won + lost)


@pytest.mark.slow
def test_a_longer_list_is_detected() -> None:
    bits = random_bits(400, 40)
    single, listed = (CodingConfig(code="polar5g", rate=0.5, list_size=size, standard="sionna") for size in (1, 8))
    llrs = noisy_llrs(encoded_with(single, bits), 0.8)
    alone, with_list = decoded_with(single, bits, llrs), decoded_with(listed, bits, llrs)
    won, lost = (with_list & ~alone).sum(), (alone & ~with_list).sum()
    assert won - lost > ERRORS_OF_A_CHECK * np.sqrt(won + lost)


@pytest.mark.parametrize(
    "code",
    ["ldpc5g", "convolutional", *(pytest.param(code, marks=pytest.mark.slow) for code in ("polar5g", "turbo"))],
)
def test_half_a_decibel_is_detected(code: str) -> None:
    coding = CodingConfig(code=code, rate=0.5, block_length=60, standard="sionna")
    bits = random_bits(600, 60)
    noise = {"convolutional": 0.72}.get(code, 0.8)
    coded = encoded_with(coding, bits)
    clear, noisier = (decoded_with(coding, bits, noisy_llrs(coded, s)) for s in (noise, noise * 10 ** (0.5 / 20)))
    won, lost = (clear & ~noisier).sum(), (noisier & ~clear).sum()
    assert won - lost > ERRORS_OF_A_CHECK * np.sqrt(won + lost)


# --- interleaver ----------------------------------------------------------------------------------------------------


def test_the_random_interleaver_is_one_permutation_that_spreads_neighbours() -> None:
    plain, mixed = (
        CodingConfig(code="repetition", rate=1.0, interleaver=interleaver) for interleaver in ("none", "random")
    )
    identity = np.eye(200, dtype=np.int32)
    assert np.array_equal(encoded_with(plain, identity), identity)
    permutation = encoded_with(mixed, identity).numpy()
    assert (permutation.sum(axis=0) == 1).all()
    assert (permutation.sum(axis=1) == 1).all()
    distance = np.abs(np.diff(permutation.argmax(axis=1)))
    # Two random places of 200 are 67 apart on average, with standard deviation 47.
    assert abs(distance.mean() - 67) < ERRORS_OF_A_CHECK * 47 / np.sqrt(199)
