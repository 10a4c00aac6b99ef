"""The trellis codes in kernels: Sionna's code words, its decisions on the same soft values, and closed forms."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, noisy_llrs, random_bits

from phy.coding.convolutional import SIONNA_POLYNOMIALS, ConvolutionalCode
from phy.coding.kernel_codes import KernelCode
from phy.coding.turbo import bcjr
from phy.coding.turbo.code import TurboCode, punctured_code

RATES = {2: 1 / 2, 3: 1 / 3}


@pytest.mark.parametrize(("outputs", "constraint_length"), SIONNA_POLYNOMIALS)
def test_convolutional_words_and_decisions_are_sionnas(outputs: int, constraint_length: int) -> None:
    from sionna.phy.fec.conv import ConvEncoder, ViterbiDecoder

    encoder = ConvEncoder(rate=RATES[outputs], constraint_length=constraint_length, terminate=True)
    code = ConvolutionalCode(43, outputs, constraint_length, "sionna")
    bits = random_bits(70, 43)
    coded = code.encode(bits)
    assert np.array_equal(coded, tf.function(encoder.__call__)(tf.constant(bits, tf.float32)))
    llrs = noisy_llrs(coded, 0.8 if outputs == 2 else 1.1)
    decoder = tf.function(ViterbiDecoder(encoder=encoder, method="soft_llr").__call__, jit_compile=True)
    theirs, ours = decoder(llrs).numpy(), code.decode(llrs)
    assert 0 < (theirs != bits).any(axis=1).sum() < 70
    # Every LLR is rounded by half a step of 1/16 at most, which moves its term 2 c LLR by a whole one.
    chosen, best = code.encode(ours), code.encode(theirs.astype(np.uint8))
    lost = 2.0 * ((best - chosen.astype(np.float64)) * llrs).sum(axis=1)
    assert (lost <= (chosen != best).sum(axis=1) / 16.0).all()
    assert (ours != theirs).any(axis=1).sum() <= 5


@pytest.mark.parametrize(("outputs", "constraint_length"), [(2, 3), (2, 7), (3, 8)])
def test_a_viterbi_decision_is_the_nearest_of_all_words(outputs: int, constraint_length: int) -> None:
    code = ConvolutionalCode(8, outputs, constraint_length)
    book = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    words = code.encode(book)
    llrs = np.round(noisy_llrs(words, 1.5) * 16.0) / 16.0  # whole steps: nothing is rounded
    correlation = llrs @ (2.0 * words.T - 1.0)
    chosen = np.packbits(code.decode(llrs.astype(np.float32)), axis=1)[:, 0]
    assert np.array_equal(
        np.take_along_axis(correlation, chosen[:, None].astype(int), axis=1)[:, 0], correlation.max(axis=1)
    )


def test_metrics_that_wrap_around_decide_right() -> None:
    code = ConvolutionalCode(20_000, 3, 8)
    bits = random_bits(2, 20_000)
    coded = code.encode(bits)
    # 60,000 values of 512 steps each: the metric of the path passes 2^15 nearly a thousand times.
    llrs = (1000.0 * (2.0 * coded - 1.0)).astype(np.float32)
    wrong = np.random.default_rng(1).choice(llrs.shape[1], 100, replace=False)
    llrs[:, wrong] *= -1.0
    assert np.array_equal(code.decode(llrs), bits)


def test_the_convolutional_code_keeps_its_union_bound() -> None:
    noise = 0.62
    code = ConvolutionalCode(1000, 2, 3)
    bits = random_bits(600, 1000)
    wrong = (code.decode(noisy_llrs(code.encode(bits), noise)) != bits).mean(axis=1)
    distances = np.arange(5, 40)
    pairwise = np.array([0.5 * float(tf.math.erfc(np.sqrt(d) / noise / np.sqrt(2.0))) for d in distances])
    lower, upper = pairwise[0], (pairwise * (distances - 4) * 2.0 ** (distances - 5)).sum()
    error = wrong.std(ddof=1) / np.sqrt(len(wrong))
    assert lower - ERRORS_OF_A_CHECK * error < wrong.mean() < upper + ERRORS_OF_A_CHECK * error


def sionna_turbo(outputs: int, iterations: int) -> tuple[Any, Any]:
    from sionna.phy.fec.turbo import TurboDecoder, TurboEncoder

    encoder = TurboEncoder(rate=RATES[outputs], constraint_length=4, terminate=True)
    return encoder, TurboDecoder(encoder, num_iter=iterations, algorithm="map")


@pytest.mark.parametrize(("outputs", "block_bits"), [(3, 40), (2, 41), (3, 1000), (2, 6144)])
def test_turbo_words_are_sionnas(outputs: int, block_bits: int) -> None:
    encoder, _ = sionna_turbo(outputs, 1)
    bits = random_bits(11, block_bits)
    expected = tf.function(encoder.__call__)(tf.constant(bits, tf.float32))
    coded = punctured_code(block_bits, outputs, 1).encode(bits)
    sent = expected.shape[1]
    assert np.array_equal(coded[:, :sent], expected)


@pytest.mark.parametrize(("outputs", "noise"), [(3, 1.15), (2, 0.9)])
def test_turbo_decisions_lose_no_more_words_than_sionnas(outputs: int, noise: float) -> None:
    code = punctured_code(60, outputs, 4)
    bits = random_bits(1500, 60)
    llrs = noisy_llrs(code.encode(bits), noise)
    encoder, decoder = sionna_turbo(outputs, 4)
    tf.function(encoder.__call__)(tf.constant(bits[:1], tf.float32))
    with contextlib.redirect_stdout(io.StringIO()):
        run = tf.function(decoder.__call__, jit_compile=True)
        theirs = (run(np.clip(llrs[:, : 64 * outputs], -20.0, 20.0)).numpy() != bits).any(axis=1)
    ours = (code.decode(llrs) != bits).any(axis=1)
    assert 50 < theirs.sum() < 1000
    # Sign test on the words that one of the two loses.
    only_ours, only_theirs = (ours & ~theirs).sum(), (theirs & ~ours).sum()
    assert only_ours - only_theirs < ERRORS_OF_A_CHECK * np.sqrt(only_ours + only_theirs + 1)
    assert only_ours + only_theirs < 0.05 * theirs.sum() + 10


def lost_words(code: TurboCode, *, noise: float) -> NDArray[np.bool_]:
    bits = random_bits(1500, code.block_bits)
    return (code.decode(noisy_llrs(code.encode(bits), noise)) != bits).any(axis=1)


def test_a_decoder_with_one_iteration_less_loses_more_words() -> None:
    longer = punctured_code(200, 3, 3)
    few, more = lost_words(replace(longer, iterations=2), noise=1.1), lost_words(longer, noise=1.1)
    won, lost = (few & ~more).sum(), (more & ~few).sum()
    assert won - lost > ERRORS_OF_A_CHECK * np.sqrt(won + lost)


def test_the_correction_of_max_star_is_right_within_four_hundredths() -> None:
    step = float(bcjr._STEPS)
    difference = np.arange(0, 400)
    near = np.maximum(int(bcjr._NEAR) - difference, 0) >> 2
    correction = (((near * near) >> 5) * near >> 8) / step
    assert np.abs(correction - np.log1p(np.exp(-difference / step))).max() < 0.04


@pytest.mark.parametrize(
    "code", [ConvolutionalCode(50, 2, 5), punctured_code(50, 3, 6)], ids=["convolutional", "turbo"]
)
def test_a_word_is_decided_alike_beside_any_others(code: KernelCode) -> None:
    bits = random_bits(80, 50)
    llrs = noisy_llrs(code.encode(bits), 1.1)
    together = code.decode(llrs)
    assert np.array_equal(np.concatenate([code.decode(llrs[i : i + 7]) for i in range(0, 80, 7)]), together)
