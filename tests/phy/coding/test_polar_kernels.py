"""The polar code in kernels: Sionna's positions, words and decisions under `sionna`; lists and sizes of both standards.

Words of TS 38.212 are in `test_standard_words`.
"""

from __future__ import annotations

import contextlib
import io
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, noisy_llrs, random_bits

from phy.coding.polar import parts
from phy.coding.polar.code import PolarCode
from phy.coding.polar.construction import plan_polar
from phy.coding.polar.graph import PolarGraph
from phy.coding.polar.schedule import selecting_pairs
from phy.coding.polar.sizes import crc_bits, parity_check_bits


def sizes() -> list[tuple[int, int]]:
    """Lengths across all exponents and borders of rate matching, each with its smallest, middle and largest block."""
    found = []
    for coded_bits in (21, 31, 33, 36, 37, 63, 72, 73, 130, 144, 145, 255, 300, 400, 512, 576, 577, 700, 1023, 1088):
        needed = {k: k + crc_bits(k) + parity_check_bits(k + crc_bits(k)) for k in range(12, 1013)}
        fits = [k for k in needed if needed[k] <= coded_bits <= 8 * k]
        # On both sides of the rates 7/16 and 9/16 with the CRC.
        near = [k for share in (7, 9) if (k := share * coded_bits // 16 - 11) in fits]
        found += [(k, coded_bits) for k in {fits[0], fits[-1], *near, *(k + 1 for k in near)} if k in fits]
    return sorted(found)


def test_positions_are_sionnas_at_every_kind_of_rate_matching() -> None:
    from sionna.phy.fec.polar import Polar5GEncoder

    kinds = set()
    for block_bits, coded_bits in sizes():
        encoder = Polar5GEncoder.__new__(Polar5GEncoder)  # its positions without its tensors, which take a second each
        encoder._channel_type, encoder._verbose = "uplink", False
        with contextlib.redirect_stdout(io.StringIO()):
            _, length, frozen, sent, _ = encoder._init_rate_match(block_bits, coded_bits)
        plan = plan_polar(block_bits + crc_bits(block_bits), coded_bits, standard="sionna")
        kinds.add((plan.shortened, np.sign(coded_bits - length)))
        assert plan.length == length
        assert np.array_equal(plan.information, np.setdiff1d(np.arange(length), frozen))
        assert np.array_equal(plan.sent, sent)
    assert {(True, -1), (False, -1), (False, 1)} <= kinds


@pytest.mark.parametrize(("block_bits", "coded_bits"), [(12, 18), (19, 90), (60, 150), (135, 1088), (1000, 1088)])
def test_words_are_sionnas(block_bits: int, coded_bits: int) -> None:
    from sionna.phy.fec.polar import Polar5GEncoder

    with contextlib.redirect_stdout(io.StringIO()):
        encoder = Polar5GEncoder(block_bits, coded_bits)
    bits = random_bits(45, block_bits)
    coded = PolarCode(block_bits, coded_bits, 1, "sionna").encode(bits)
    assert np.array_equal(coded, encoder(tf.constant(bits, tf.float32)))


@pytest.mark.parametrize(
    ("block_bits", "coded_bits", "list_size", "noise"),
    [
        pytest.param(16, 36, 1, 0.75, id="shortened"),
        pytest.param(20, 80, 4, 1.2, id="punctured"),
        pytest.param(24, 70, 2, 1.0, id="repeated"),
    ],
)
def test_as_few_words_are_lost_as_with_exact_check_nodes(
    block_bits: int, coded_bits: int, list_size: int, noise: float
) -> None:
    code = PolarCode(block_bits, coded_bits, list_size, "sionna")
    bits = random_bits(4000, block_bits)
    llrs = noisy_llrs(code.encode(bits), noise)
    # With one joint bit its decisions are those of Sionna's decoder, `test_polar_decisions_are_sionnas`.
    exact = PolarGraph(block_bits, coded_bits, list_size=list_size, joint_bits=1)
    theirs = (tf.function(exact.decode, jit_compile=True)(llrs).numpy() != bits).any(axis=1)
    ours = (code.decode(llrs) != bits).any(axis=1)
    assert 200 < theirs.sum() < 3000
    # Sign test on the words that one of the two loses; rounding decides few.
    only_ours, only_theirs = (ours & ~theirs).sum(), (theirs & ~ours).sum()
    assert only_ours - only_theirs < ERRORS_OF_A_CHECK * np.sqrt(only_ours + only_theirs + 1)
    assert only_ours + only_theirs < 0.03 * theirs.sum() + 10


def lost_words(list_size: int) -> NDArray[np.bool_]:
    code = PolarCode(200, 400, list_size)
    bits = random_bits(2000, code.block_bits)
    return (code.decode(noisy_llrs(code.encode(bits), 0.8)) != bits).any(axis=1)


def test_every_longer_list_loses_fewer_words() -> None:
    lost = [lost_words(list_size) for list_size in (1, 2, 4, 8, 16)]
    for shorter, longer in pairwise(lost):
        won, worse = (shorter & ~longer).sum(), (longer & ~shorter).sum()
        assert won - worse > 2.0 * np.sqrt(won + worse)


@pytest.mark.parametrize("list_size", [1, 4])
def test_without_noise_blocks_of_every_size_come_back(list_size: int) -> None:
    # At (13, 33) and (14, 35) shortening freezes last bits of nodes with another free bit.
    for block_bits, coded_bits in [*sizes(), (13, 33), (14, 35)]:
        code = PolarCode(block_bits, coded_bits, list_size)
        bits = random_bits(40, block_bits)
        assert np.array_equal(code.decode(16.0 * code.encode(bits) - np.float32(8.0)), bits)


@pytest.mark.parametrize("list_size", [1, 16])
def test_llrs_beyond_every_bound_decide_right(list_size: int) -> None:
    code = PolarCode(500, 1000, list_size)
    bits = random_bits(3, 500)
    assert np.array_equal(code.decode((1e6 * (2.0 * code.encode(bits) - 1.0)).astype(np.float32)), bits)


@pytest.mark.parametrize("list_size", [1, 8])
def test_a_word_is_decided_alike_beside_any_others(list_size: int) -> None:
    code = PolarCode(50, 110, list_size)
    bits = random_bits(80, 50)
    llrs = noisy_llrs(code.encode(bits), 0.9)
    together = code.decode(llrs)
    assert np.array_equal(np.concatenate([code.decode(llrs[i : i + 7]) for i in range(0, 80, 7)]), together)


@pytest.mark.parametrize("list_size", [1, 2, 4, 8, 16])
def test_the_pairs_leave_the_smaller_half_with_the_smallest_at_one_end(list_size: int) -> None:
    numbers = np.random.default_rng(list_size).permuted(np.tile(np.arange(2 * list_size), (500, 1)), axis=1)
    for first, second in selecting_pairs(list_size):
        pair = numbers[:, [first, second]]
        numbers[:, first], numbers[:, second] = pair.min(axis=1), pair.max(axis=1)
    assert np.array_equal(np.sort(numbers[:, :list_size], axis=1), np.tile(np.arange(list_size), (500, 1)))
    assert (numbers[:, [0, list_size - 1]].min(axis=1) == 0).all()


def test_the_correction_of_a_check_node_is_right_within_two_hundredths() -> None:
    distance = np.arange(0, 600)
    correction = np.array([parts.correction(np.int16(steps)) for steps in distance])
    assert np.abs(correction / parts.STEPS - np.log1p(np.exp(-distance / parts.STEPS))).max() < 0.02 + 1 / parts.STEPS
