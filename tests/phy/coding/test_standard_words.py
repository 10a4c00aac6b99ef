"""Polar, turbo and convolutional codes by the standard: words of other programs, slow readers, and free distances."""

from __future__ import annotations

import heapq
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.ts36212_turbo import transport_block
from oracles.ts38212_polar import control_information
from radio import ERRORS_OF_A_CHECK, noisy_llrs, random_bits

from phy.coding.convolutional import POLYNOMIALS, SIONNA_POLYNOMIALS
from phy.coding.plan import plan_packet
from phy.coding.polar import sizes as polar_sizes
from phy.coding.polar.code import PolarCode
from phy.coding.polar.construction import plan_polar
from phy.coding.polar.transport import PolarTransport
from phy.coding.turbo import sizes as turbo_sizes
from phy.coding.turbo.transport import TurboTransport
from phy.config import CodingConfig
from scenarios.studies.verify.code_words import ENCODERS, CodedWord, read_words

WORDS = [word for table in ENCODERS for word in read_words(table)]

FREE_DISTANCES = {(2, 3): 5, (2, 4): 6, (2, 5): 7, (2, 6): 8, (2, 7): 10, (2, 8): 10}
FREE_DISTANCES |= {(3, 3): 8, (3, 4): 10, (3, 5): 12, (3, 6): 13, (3, 7): 15, (3, 8): 16}
"""By (outputs, constraint length): K. J. Larsen, IEEE Trans. Inf. Theory 19, 1973."""


def name(word: CodedWord) -> str:
    return "-".join([word.table, *map(str, word.settings.values())])


@pytest.mark.parametrize("word", WORDS, ids=name)
def test_words_are_those_of_another_program(word: CodedWord) -> None:
    assert word.differing_bits == 0


def test_sionnas_conventions_give_other_words_where_they_depart_from_the_standard() -> None:
    """A good guess gets these wrong, so that the words above can tell."""
    wrong = 0
    for word in read_words("polar"):
        protected = len(word.message)
        block_bits = protected - (6 if protected <= 25 else 11)
        sionna = PolarCode(block_bits, len(word.word), 1, "sionna").encode_protected(word.message[None])
        wrong += not np.array_equal(sionna[0], word.word)
    assert wrong >= 20


# --- slow readers -------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_polar_words_are_those_that_the_standard_says(data: st.DataObject) -> None:
    block_bits = data.draw(st.one_of(st.integers(12, 40), st.integers(12, 1706)))
    rate = Fraction(1, data.draw(st.integers(2, 16)))
    least = polar_sizes.coded_bits_of(block_bits, min(polar_sizes.LARGEST_RATE, 8 * rate))
    coded_bits = min(least + data.draw(st.integers(0, 300)), 8192)
    if polar_sizes.coded_bits_of(block_bits, Fraction(block_bits, coded_bits)) != coded_bits:
        return  # a bit more makes two blocks of it, which need more
    bits = random_bits(2, block_bits)
    coded = PolarTransport(block_bits, coded_bits, 1).encode(bits)
    assert [row.tolist() for row in coded] == [control_information(row.tolist(), coded_bits) for row in bits]


@settings(max_examples=40, deadline=None)
@given(
    block_bits=st.one_of(st.integers(1, 200), st.integers(6100, 6200), st.integers(12_200, 12_300)),
    rate=st.sampled_from([0.1, 1 / 3, 0.5, 0.8, 0.93]),
    bits_per_symbol=st.sampled_from([1, 2, 4, 6]),
    version=st.integers(0, 3),
)
def test_turbo_words_are_those_that_the_standard_says(
    block_bits: int, rate: float, bits_per_symbol: int, version: int
) -> None:
    fraction = Fraction(rate).limit_denominator(100)
    coded_bits = turbo_sizes.coded_bits_of(block_bits, fraction, bits_per_symbol)
    bits = random_bits(1, block_bits)
    coded = TurboTransport(block_bits, coded_bits, bits_per_symbol, 1, version).encode(bits)
    assert coded[0].tolist() == transport_block(bits[0].tolist(), coded_bits, bits_per_symbol, version)


def test_position_47_of_23_bits_in_96_carries_no_information() -> None:
    assert 47 not in plan_polar(34, 96, standard="3gpp").information
    assert 47 in plan_polar(34, 96, standard="sionna").information


@pytest.mark.parametrize(("block_bits", "lowest_weight"), [(12, 252), (15, 252), (16, 248), (19, 248)])
def test_one_parity_check_has_the_lowest_weight_beyond_189_added_bits(block_bits: int, lowest_weight: int) -> None:
    protected = block_bits + 6
    few, many = (plan_polar(protected, protected + more, standard="3gpp").parity for more in (189, 190))
    assert lowest_weight in many
    assert set(many) - {lowest_weight} < set(few)


# --- decoders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("list_size", [1, 2, 8, 16])
def test_without_noise_every_polar_block_comes_back(list_size: int) -> None:
    sizes = [(12, 21), (12, 8192), (13, 60), (19, 300), (359, 1088), (361, 1089), (1706, 2000), (100, 2500)]
    for block_bits, coded_bits in sizes:
        code = PolarTransport(block_bits, coded_bits, list_size)
        bits = random_bits(33, block_bits)
        assert np.array_equal(code.decode(16.0 * code.encode(bits) - np.float32(8.0)), bits)


@pytest.mark.parametrize("rate", ["0.01", "1/3", "0.5", "0.8", "0.93"])
def test_without_noise_every_turbo_block_comes_back_at_every_rate(rate: str) -> None:
    for block_bits in (1, 8, 39, 40, 41, 57, 100, 333, 600, 6145):
        coded_bits = turbo_sizes.coded_bits_of(block_bits, Fraction(rate), 2)
        if coded_bits < 30_000:
            code = TurboTransport(block_bits, coded_bits, 2, 8)
            bits = random_bits(40, block_bits)
            assert np.array_equal(code.decode(16.0 * code.encode(bits) - np.float32(8.0)), bits)


@pytest.mark.parametrize("list_size", [1, 8])
def test_parity_checks_are_used_by_the_decoder(list_size: int) -> None:
    """A decoder that takes them for frozen zeros, as Sionna's, loses many words of the standard's encoder."""
    code, unaware = (PolarCode(16, 64, list_size, standard) for standard in ("3gpp", "sionna"))
    bits = random_bits(3000, 16)
    llrs = noisy_llrs(code.encode(bits), 0.9)
    lost = (code.decode(llrs) != bits).any(axis=1).mean()
    assert lost < 0.1
    assert (unaware.decode(llrs) != bits).any(axis=1).mean() > 0.3


def test_a_list_with_parity_checks_comes_near_the_likeliest_word() -> None:
    """All 4096 words of 12 bits in 32 are compared; a list of 16 loses 1.8 times as many, successive cancellation 9."""
    code = PolarCode(12, 32, 16)
    book = (np.arange(4096)[:, None] >> np.arange(11, -1, -1) & 1).astype(np.uint8)
    words = code.encode(book)
    bits = random_bits(4000, 12)
    llrs = noisy_llrs(code.encode(bits), 0.95)
    best = book[np.argmax(llrs @ (2.0 * words.T - 1.0), axis=1)]
    ours, likeliest = ((found != bits).any(axis=1).mean() for found in (code.decode(llrs), best))
    error = np.sqrt(likeliest * (1.0 - likeliest) / len(bits))
    assert likeliest > 10.0 * error
    assert likeliest - ERRORS_OF_A_CHECK * error < ours < 1.8 * likeliest + ERRORS_OF_A_CHECK * error


@pytest.mark.parametrize("copies", [1, 4])
def test_repeated_turbo_bits_add_their_soft_values(copies: int) -> None:
    """Four copies at half the amplitude carry what one carries: all else equal, as many words are lost."""
    turn = 3 * 40 + 12
    code = TurboTransport(40, copies * turn, 1, 8)
    bits = random_bits(3000, 40)
    lost = (code.decode(noisy_llrs(code.encode(bits), 1.15 * np.sqrt(copies))) != bits).any(axis=1)
    once = TurboTransport(40, turn, 1, 8)
    expected = (once.decode(noisy_llrs(once.encode(bits), 1.15)) != bits).any(axis=1)
    error = np.sqrt(lost.mean() / len(lost) + expected.mean() / len(expected))
    assert expected.mean() > 0.02
    assert abs(lost.mean() - expected.mean()) < ERRORS_OF_A_CHECK * error


# --- polynomials --------------------------------------------------------------------------------------------------


def free_distance(polynomials: tuple[int, ...], constraint_length: int) -> int:
    """Least weight of a path that leaves the zero state and returns to it (Dijkstra)."""
    states = 1 << (constraint_length - 1)

    def weight(state: int, bit: int) -> int:
        register = bit << (constraint_length - 1) | state
        return sum((register & one).bit_count() % 2 for one in polynomials)

    queue, done = [(weight(0, 1), states >> 1)], set()
    while queue:
        distance, state = heapq.heappop(queue)
        if state == 0:
            return distance
        if state not in done:
            done.add(state)
            for bit in (0, 1):
                heapq.heappush(queue, (distance + weight(state, bit), (bit << (constraint_length - 1) | state) >> 1))
    raise AssertionError("no path returns")


def common_divisor(one: int, other: int) -> int:
    """Of two polynomials over GF(2); 1 unless a code of them is catastrophic (Massey and Sain, 1968)."""
    while other:
        while one.bit_length() >= other.bit_length():
            one ^= other << (one.bit_length() - other.bit_length())
        one, other = other, one
    return one


@pytest.mark.parametrize("key", FREE_DISTANCES, ids=str)
def test_polynomials_have_the_largest_free_distance_of_the_table(key: tuple[int, int]) -> None:
    assert free_distance(POLYNOMIALS[key], key[1]) == FREE_DISTANCES[key]


def test_no_polynomials_of_short_registers_have_a_larger_free_distance() -> None:
    for outputs, constraint_length in ((2, 3), (2, 4), (2, 5), (3, 3), (3, 4)):
        every = product(range(1 << (constraint_length - 1), 1 << constraint_length), repeat=outputs)
        best = max(free_distance(some, constraint_length) for some in every if reduce(common_divisor, some) == 1)
        assert best == FREE_DISTANCES[outputs, constraint_length]


def test_one_set_of_sionnas_polynomials_is_shorter() -> None:
    assert free_distance(SIONNA_POLYNOMIALS[3, 7], 7) == 14


# --- sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "coded"), [(12, 21), (19, 28), (20, 31), (359, 399), (1013, 1126)])
def test_a_polar_block_at_the_largest_rate_has_the_bits_that_the_standard_needs(bits: int, coded: int) -> None:
    assert polar_sizes.coded_bits_of(bits, Fraction(9, 10)) == coded


@pytest.mark.parametrize(
    ("bits", "coded", "blocks"),
    [(359, 8000, 1), (360, 1087, 1), (360, 1088, 2), (1012, 1087, 1), (1013, 1087, 2), (1706, 8000, 2)],
)
def test_control_information_is_cut_in_two_where_the_standard_cuts_it(bits: int, coded: int, blocks: int) -> None:
    assert polar_sizes.num_code_blocks(bits, coded) == blocks


def test_a_turbo_packet_is_one_transport_block_at_the_rate_asked_for() -> None:
    coding = CodingConfig(code="turbo", rate=0.75)
    plan = plan_packet(coding, payload_bits=20_000, bits_per_symbol=4, crc="crc24a")
    assert (plan.num_blocks, plan.coded_bits) == (1, 26_700)
    blocks = turbo_sizes.segment(20_024, 26_700, 4)
    assert sum(one.count for one in blocks) == 4
    assert sum(one.count * one.coded_bits for one in blocks) == 26_700
    assert sum(one.count * one.message_bits for one in blocks) == 20_024
