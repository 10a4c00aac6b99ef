"""Check sums, Gold sequences, symbols, MCS entries and transport block sizes against other programs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from phy.coding.plan import plan_packet
from phy.coding.transport.block_size import smallest_allocation, transport_block_size
from phy.coding.transport.packed_crc import PackedCrc
from phy.coding.transport.scrambling import gold_sequence, uplink_initial
from phy.config import BITS_PER_SYMBOL, CodingConfig
from phy.config.coding import CRC_POLYNOMIALS, ScramblingConfig
from phy.config.mcs import TABLES, Table
from phy.engines.fused.packets.codec import packet_codec

# By py3gpp 0.6.0, nrCRCEncode: generator, bits, message, check bits, as hex with the first bit highest.
CHECK_SUMS = (
    ("crc6", 12, "0540", "98"),
    ("crc6", 40, "ea8f109d41", "b8"),
    ("crc6", 129, "f0ea35beda12a2fa2793be82a90a8b9500", "7c"),
    ("crc11", 12, "31d0", "8ca0"),
    ("crc11", 40, "2b03a1f6fb", "8c00"),
    ("crc11", 129, "901eaa880b58a62eb3846646148e5b6600", "19a0"),
    ("crc16", 12, "b550", "d6aa"),
    ("crc16", 40, "ec79e98801", "bd95"),
    ("crc16", 129, "5d7c050e9205995716b8ad555938f23380", "ef04"),
    ("crc24a", 12, "14b0", "d23455"),
    ("crc24a", 40, "35f0650b98", "8b9d4c"),
    ("crc24a", 129, "b39fc5012eaed5d2ec703e13d16ea19c80", "110f3b"),
    ("crc24b", 12, "48e0", "812abd"),
    ("crc24b", 40, "73b3ffa1f7", "2dced0"),
    ("crc24b", 129, "0c274d1f2b18a4151202c4a553140cec80", "8becdb"),
)
# By py3gpp 0.6.0, nrPRBS: c_init and the first 128 bits.
SEQUENCES = (
    (1, "028303742b9afde2a6da2a985796534a"),
    (557059, "0248741223cd03e650ea3eeab1b7cedd"),
    (2147451887, "520ef9244406978642b6a2ab6b51a14a"),
    (2147483647, "fd0bf38e2e60578ecaba22549bd6ab4a"),
)
# By py3gpp 0.6.0, nrSymbolModulate: symbols of labels 0, step, 2 step, .. in units of the smallest amplitude.
SYMBOLS = {
    "qpsk": (1, "1+1j 1-1j -1+1j -1-1j"),
    "16qam": (1, "1+1j 1+3j 3+1j 3+3j 1-1j 1-3j 3-1j 3-3j -1+1j -1+3j -3+1j -3+3j -1-1j -1-3j -3-1j -3-3j"),
    "64qam": (5, "3+3j 3+7j 7+3j 7+7j 3-5j 5-1j 7-5j -1+1j -5+3j -5+7j -1-3j -1-7j -5-5j"),
    "256qam": (
        17,
        "5+5j 5+9j 9+5j 9+9j 5-3j 5-15j 9-3j 9-15j -3+5j -3+9j -15+5j -15+9j -3-3j -3-15j -15-3j -15-15j",
    ),
}


@pytest.mark.parametrize(("name", "num_bits", "message", "parity"), CHECK_SUMS)
def test_a_check_sum_is_that_of_another_program(name: str, num_bits: int, message: str, parity: str) -> None:
    packed = np.frombuffer(bytes.fromhex(message), np.uint8)[None]
    sent = PackedCrc.named(name, inverted=False).append(packed, num_bits=num_bits)
    found = np.unpackbits(sent[0])[num_bits : num_bits + CRC_POLYNOMIALS[name][0]]
    assert np.packbits(found).tobytes().hex() == parity
    inverted = np.unpackbits(PackedCrc.named(name).append(packed, num_bits=num_bits)[0])
    assert np.array_equal(inverted[num_bits : num_bits + len(found)], 1 - found)


@pytest.mark.parametrize(("initial", "sequence"), SEQUENCES)
def test_a_gold_sequence_is_that_of_another_program(initial: int, sequence: str) -> None:
    assert np.packbits(gold_sequence(initial, 128)).tobytes().hex() == sequence


def test_a_gold_sequence_obeys_its_recursions_far_out() -> None:
    """A slow reading of TS 38.211 5.2.1, one number after the other."""
    initial, length = 0x1234567, 3000
    first, second = [1] + [0] * 30, [initial >> i & 1 for i in range(31)]
    for n in range(1600 + length):
        first.append(first[n + 3] ^ first[n])
        second.append(second[n + 3] ^ second[n + 2] ^ second[n + 1] ^ second[n])
    known = [first[n + 1600] ^ second[n + 1600] for n in range(length)]
    assert gold_sequence(initial, length).tolist() == known
    assert gold_sequence(initial, 29).tolist() == known[:29]


def test_a_start_beyond_31_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="2147483648 must be from 0"):
        gold_sequence(1 << 31, 8)


@pytest.mark.parametrize("modulation", SYMBOLS)
def test_symbols_are_those_of_another_program(modulation: str) -> None:
    from phy.coding.modulation import modulator

    step, known = SYMBOLS[modulation]
    width = BITS_PER_SYMBOL[modulation]
    labels = np.arange(0, 1 << width, step)
    bits = labels[:, None] >> np.arange(width)[::-1] & 1
    scale = np.sqrt((np.array([complex(one) for one in known.split()]).__abs__() ** 2).mean()) if step == 1 else 0.0
    scale = scale or np.sqrt({6: 42.0, 8: 170.0}[width])
    found = np.asarray(modulator(modulation).modulate_bits(bits.astype(np.int32).ravel()[None]))[0] * scale
    assert np.allclose(found, [complex(one) for one in known.split()], atol=1e-4)


def test_bpsk_is_that_of_the_standard_turned_by_45_degrees() -> None:
    from phy.coding.modulation import modulator

    found = np.asarray(modulator("bpsk").modulate_bits(np.array([[0, 1]], np.int32)))[0]
    # py3gpp 0.6.0: (1 + 1j) / sqrt(2), -(1 + 1j) / sqrt(2).
    assert np.allclose(found * np.exp(0.25j * np.pi), np.array([1 + 1j, -1 - 1j]) / np.sqrt(2.0), atol=1e-6)


def test_coded_bits_are_scrambled_by_the_sequence() -> None:
    sent = []
    for scrambling in ("none", ScramblingConfig(n_rnti=17, n_id=3)):
        coding = CodingConfig(code="ldpc5g", scrambling=scrambling)
        codec = packet_codec(coding, payload_bits=200, bits_per_symbol=4, crc="crc16")
        payload = np.arange(25, dtype=np.uint8)[None]
        sent.append(np.unpackbits(codec.encode(payload), axis=1, count=codec.plan.coded_bits))
        llrs = (8.0 * sent[-1] - 4.0).astype(np.float32)
        decided, accepted = codec.decode(np.packbits(sent[-1], axis=1), codec.soft_values(llrs))
        assert accepted.all()
        assert np.array_equal(decided, payload)
    assert uplink_initial(n_rnti=17, n_id=3) == 557059
    assert np.array_equal(sent[0][0] ^ sent[1][0], gold_sequence(557059, sent[0].shape[1]))


@pytest.mark.parametrize("table", [1, 2, 3])
def test_mcs_entries_are_those_of_another_program(table: Table) -> None:
    from sionna.phy.nr.utils import decode_mcs_index

    for index, modulation, ours in TABLES[table]:
        order, rate = decode_mcs_index(index, table_index=table, is_pusch=False)
        assert (BITS_PER_SYMBOL[modulation], ours) == (int(order), pytest.approx(float(rate), abs=1e-7))


@pytest.mark.parametrize(
    ("modulation_order", "rate"), [(2, "120/1024"), (2, "449/1024"), (4, "658/1024"), (6, "948/1024")]
)
def test_a_transport_block_size_is_that_of_another_program(modulation_order: int, rate: str) -> None:
    from sionna.phy.nr.utils import calculate_tb_size

    elements = [*range(12, 400, 7), *range(400, 30000, 997), 136 * 273]
    ours = [transport_block_size(one, rate=Fraction(rate), bits_per_symbol=modulation_order) for one in elements]
    theirs = [
        int(
            calculate_tb_size(
                target_tb_size=one * float(Fraction(rate)) * modulation_order,
                num_coded_bits=one * modulation_order,
                modulation_order=modulation_order,
                target_coderate=float(Fraction(rate)),
                verbose=False,
            )[0]
        )
        for one in elements
    ]
    assert ours == theirs


def test_a_packet_is_filled_up_to_a_transport_block_size() -> None:
    coding = CodingConfig(code="ldpc5g", rate=0.5, transport_block="ts38214")
    plan = plan_packet(coding, payload_bits=1000, bits_per_symbol=2, crc="crc16")
    elements, size = smallest_allocation(1000, rate=Fraction(1, 2), bits_per_symbol=2)
    assert transport_block_size(elements - 1, rate=Fraction(1, 2), bits_per_symbol=2) < 1000 <= size == 1032
    assert (plan.stuffing_bits, plan.coded_bits, plan.crc_bits) == (32, 2 * elements, 16)
    codec = packet_codec(coding, payload_bits=1000, bits_per_symbol=2, crc="crc16")
    payload = np.random.default_rng(4).integers(0, 256, (2, 125), dtype=np.uint8)
    coded = np.unpackbits(codec.encode(payload), axis=1, count=plan.coded_bits)
    decided, accepted = codec.decode(np.packbits(coded, axis=1), (8.0 * coded - 4.0).astype(np.float32))
    assert accepted.all()
    assert np.array_equal(decided, payload)


def test_sizes_of_the_standard_divide_into_equal_blocks() -> None:
    for payload in (4000, 9000, 20000, 70000):
        for rate in (0.2, 0.5, 0.9):
            coding = CodingConfig(code="ldpc5g", rate=rate, transport_block="ts38214")
            plan = plan_packet(coding, payload_bits=payload, bits_per_symbol=6, crc="crc24a")
            assert plan.segments is not None
            assert plan.segments.padding_bits == 0
