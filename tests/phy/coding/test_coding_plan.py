"""Packets cut into code blocks: sizes that add up, limits said in a sentence, no TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from phy.coding.plan import Coding, coding_problem, ldpc_mother_bits, plan_packet
from phy.config import BITS_PER_SYMBOL, CRC_BITS, CodingConfig, LinkConfig, mcs_entry

RATES = (0.117, 0.2, 0.25, 0.3, 1 / 3, 0.5, 2 / 3, 0.75, 8 / 9, 948 / 1024)

codings: st.SearchStrategy[Coding] = st.one_of(
    st.just("none"),
    st.builds(CodingConfig, code=st.just("repetition"), rate=st.sampled_from(RATES)),
    st.builds(
        CodingConfig,
        code=st.sampled_from(("convolutional", "turbo")),
        rate=st.sampled_from((1 / 2, 1 / 3)),
        block_length=st.sampled_from(("auto", 40, 1000)),
        standard=st.just("sionna"),
    ),
    st.builds(
        CodingConfig,
        code=st.just("turbo"),
        rate=st.sampled_from(RATES),
        block_length=st.sampled_from(("auto", 40, 1000)),
    ),
    st.builds(
        CodingConfig,
        code=st.just("polar5g"),
        rate=st.sampled_from(RATES[1:9]),
        block_length=st.sampled_from(("auto", 12, 100)),
        standard=st.sampled_from(("3gpp", "sionna")),
    ),
    st.builds(
        CodingConfig,
        code=st.just("ldpc5g"),
        rate=st.sampled_from(RATES),
        block_length=st.sampled_from(("auto", 12, 293, 3824)),
        standard=st.just("sionna"),
    ),
    st.builds(CodingConfig, code=st.just("ldpc5g"), rate=st.sampled_from(RATES)),
)

packets = st.fixed_dictionaries(
    {
        "payload_bits": st.integers(1, 100_000),
        "bits_per_symbol": st.sampled_from(sorted(BITS_PER_SYMBOL.values())),
        "crc": st.sampled_from((None, *CRC_BITS)),
    }
)


@settings(max_examples=300, deadline=None)
@given(coding=codings, packet=packets)
def test_every_bit_of_a_packet_has_its_place(coding: Coding, packet: dict[str, Any]) -> None:
    plan = plan_packet(coding, **packet)
    assert plan.crc_bits == (0 if packet["crc"] is None else CRC_BITS[packet["crc"]])
    information = plan.payload_bits + plan.stuffing_bits + plan.crc_bits
    assert information + plan.filler_bits == plan.num_blocks * plan.block_bits
    assert plan.num_blocks * plan.coded_block_bits + plan.padding_bits == plan.coded_bits
    assert plan.coded_bits % packet["bits_per_symbol"] == 0
    assert 0 <= plan.padding_bits < packet["bits_per_symbol"]
    assert plan.filler_bits >= 0


@settings(max_examples=300, deadline=None)
@given(coding=codings, packet=packets)
def test_blocks_have_the_rate_that_was_asked_for(coding: Coding, packet: dict[str, Any]) -> None:
    plan = plan_packet(coding, **packet)
    if coding == "none":
        assert plan.coded_block_bits == plan.block_bits
        return
    asked = plan.block_bits / coding.rate
    tailed = coding.code == "convolutional" or (coding.code == "turbo" and coding.standard == "sionna")
    tail = 4 / coding.rate if tailed else 0.0
    # Rounding up to a bit, to a symbol (LDPC, turbo); short polar blocks hold their CRC, short LDPC blocks stop at 8/9.
    bits = packet["bits_per_symbol"]
    # Of a transport block up to 292 bits and its CRC, at the largest rate 948/1024.
    stopped = (9 / 8 - 1024 / 948) * (292 + 24)
    slack = {"ldpc5g": bits + stopped, "turbo": bits, "polar5g": 1 + 18 + 11}.get(coding.code, 1.0)
    # Symbols that end beyond the base graph are left out: at most one symbol short.
    short = packet["bits_per_symbol"] if coding.code == "ldpc5g" else 1e-6
    assert asked + tail - short <= plan.coded_block_bits <= asked + tail + slack


@settings(max_examples=200, deadline=None)
@given(rate=st.sampled_from(RATES), block_bits=st.integers(12, 3824), bits_per_symbol=st.sampled_from((1, 2, 4, 6, 8)))
def test_ldpc_code_words_stay_within_sionnas_rates(rate: float, block_bits: int, bits_per_symbol: int) -> None:
    coding = CodingConfig(code="ldpc5g", rate=rate, standard="sionna")
    plan = plan_packet(coding, payload_bits=block_bits, bits_per_symbol=bits_per_symbol, crc=None)
    mother = ldpc_mother_bits(plan.block_bits, plan.coded_block_bits, bits_per_symbol)
    assert 1 / 5 <= plan.block_bits / mother <= 948 / 1024
    assert mother % bits_per_symbol == 0


@pytest.mark.parametrize(
    ("coding", "payload_bits", "num_blocks", "block_bits"),
    [
        (CodingConfig(code="ldpc5g", standard="sionna"), 8448, 1, 8448),
        (CodingConfig(code="ldpc5g", standard="sionna"), 8449, 2, 4225),
        (CodingConfig(code="ldpc5g", rate=0.3, standard="sionna"), 3825, 2, 1913),
        (CodingConfig(code="ldpc5g", block_length=100, standard="sionna"), 250, 3, 100),
        (CodingConfig(code="turbo", rate=1 / 3, standard="sionna"), 6145, 2, 3073),
        (CodingConfig(code="turbo", rate=1 / 3, standard="sionna"), 1, 1, 40),
        (CodingConfig(code="turbo", rate=1 / 3), 6145, 1, 6145),
        (CodingConfig(code="turbo", rate=1 / 3), 1, 1, 1),
        (CodingConfig(code="turbo", block_length=1000), 2001, 3, 1000),
        (CodingConfig(code="polar5g", standard="sionna"), 545, 2, 273),
        (CodingConfig(code="polar5g"), 1706, 1, 1706),
        (CodingConfig(code="polar5g"), 1707, 2, 854),
        (CodingConfig(code="polar5g"), 1, 1, 12),
        (CodingConfig(code="convolutional"), 1025, 2, 513),
        (CodingConfig(code="repetition"), 100_000, 1, 100_000),
    ],
)
def test_automatic_blocks_are_as_few_and_equal_as_the_code_allows(
    coding: CodingConfig, payload_bits: int, num_blocks: int, block_bits: int
) -> None:
    plan = plan_packet(coding, payload_bits=payload_bits, bits_per_symbol=2, crc=None)
    assert (plan.num_blocks, plan.block_bits) == (num_blocks, block_bits)


@pytest.mark.parametrize("coding", ["none", {"code": "ldpc5g"}])
def test_a_link_with_an_mcs_is_read_again_with_every_default_written_out(coding: object) -> None:
    link = LinkConfig.model_validate({"coding": coding, "mcs": 5})
    assert LinkConfig.model_validate(link.model_dump()) == link


@pytest.mark.parametrize("index", range(29))
def test_every_mcs_of_the_table_can_be_coded(index: int) -> None:
    modulation, rate = mcs_entry(index)
    coding = CodingConfig(code="ldpc5g", rate=rate)
    plan = plan_packet(coding, payload_bits=18_496, bits_per_symbol=BITS_PER_SYMBOL[modulation], crc="crc24a")
    # CRC, filler and whole symbols of three to five blocks of thousands of bits: less than one per cent.
    assert plan.rate == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"code": "convolutional", "rate": 0.75}, ("0.75", "1/2 and 1/3", "ldpc5g")),
        ({"code": "turbo", "rate": 0.25, "standard": "sionna"}, ("0.25", "1/2 and 1/3", "ldpc5g")),
        ({"code": "turbo", "rate": 0.94}, ("0.94", "0.93", "TS 36.213")),
        ({"code": "polar5g", "rate": 0.95}, ("0.95", "9/10", "ldpc5g")),
        ({"code": "polar5g", "rate": 0.1, "standard": "sionna"}, ("0.1", "1/8", "ldpc5g")),
        ({"code": "polar5g", "rate": 0.001}, ("0.001", "3/2048", "ldpc5g")),
        ({"code": "ldpc5g", "rate": 0.95}, ("0.95", "948/1024", "8/9")),
        ({"code": "ldpc5g", "block_length": 8, "standard": "sionna"}, ("8", "12", "8448", "auto")),
        ({"code": "ldpc5g", "rate": 0.25, "block_length": 4000, "standard": "sionna"}, ("4000", "3824", "auto")),
        ({"code": "polar5g", "block_length": 545, "standard": "sionna"}, ("545", "544", "auto")),
        ({"code": "polar5g", "block_length": 1707}, ("1707", "1706", "auto")),
        ({"code": "turbo", "block_length": 39, "standard": "sionna"}, ("39", "40", "6144", "auto")),
        ({"code": "turbo", "block_length": 6145}, ("6145", "6144", "auto")),
    ],
)
def test_unsupported_block_sizes_have_a_limit_and_a_remedy(config: dict[str, Any], words: tuple[str, ...]) -> None:
    coding = CodingConfig(**config)
    found = coding_problem(coding, payload_bits=1000, bits_per_symbol=2, crc=None)
    assert found is not None
    assert all(word in str(found) for word in words)
    with pytest.raises(ValueError, match=coding.code):
        plan_packet(coding, payload_bits=1000, bits_per_symbol=2, crc=None)


def test_empty_packets_and_unknown_check_sums_are_refused() -> None:
    assert coding_problem("none", payload_bits=0, bits_per_symbol=2, crc=None) is not None
    found = coding_problem("none", payload_bits=8, bits_per_symbol=2, crc="crc32")
    assert found is not None
    assert "crc16" in found.remedy


@pytest.mark.parametrize(
    "config",
    [
        {"code": "ldpc5g", "list_size": 4},
        {"code": "ldpc5g", "constraint_length": 7},
        {"code": "turbo", "check_update": "minsum"},
        {"code": "polar5g", "iterations": 5},
        {"code": "repetition", "iterations": 5},
        {"code": "repetition", "standard": "sionna"},
        {"code": "polar5g", "redundancy_version": 2},
    ],
)
def test_keys_of_another_code_are_refused(config: dict[str, Any]) -> None:
    key = next(key for key in config if key != "code")
    with pytest.raises(ValidationError, match=f"{key}.*the code is {config['code']}; leave {key} out"):
        CodingConfig(**config)


def test_keys_of_another_code_may_stand_with_their_default() -> None:
    assert CodingConfig(code="ldpc5g", list_size=8).list_size == 8


def test_planning_needs_no_tensorflow() -> None:
    program = (
        "import sys; from phy.coding.plan import plan_packet; from phy.config import CodingConfig; "
        "plan_packet(CodingConfig(code='ldpc5g'), payload_bits=100, bits_per_symbol=2, crc=None); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_long_list_of_the_standards_polar_code_is_refused() -> None:
    with pytest.raises(
        ValidationError, match=r"list_size 32 is of Sionna's decoder.*; write standard: sionna, or list"
    ):
        CodingConfig(code="polar5g", list_size=32)
    assert CodingConfig(code="polar5g", list_size=32, standard="sionna").list_size == 32
