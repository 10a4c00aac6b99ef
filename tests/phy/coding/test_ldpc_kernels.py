"""The fused LDPC code is Sionna's bit for bit: plan and encoder over both base graphs, and its own parity checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import random_bits

from phy.coding.ldpc.encoder import LdpcEncoder
from phy.coding.ldpc.plan import LdpcPlan, plan_ldpc

# (block bits, coded bits, bits per symbol): both base graphs, every set of lifting sizes but those of 11 and 15 by
# itself, rates from 1/5 to above 8/9, filler from none to whole columns, lengths that end inside a column.
CODES = (
    (12, 60, 1),
    (20, 100, 4),
    (100, 112, 2),
    (193, 500, 2),
    (292, 876, 6),
    (600, 3000, 8),
    (1000, 1500, 4),
    (3824, 5720, 2),
    (293, 400, 2),
    (1056, 3168, 1),
    (4096, 8192, 2),
    (8448, 9504, 6),
)
FAST_TO_BUILD = CODES[:9]


def sionna_encoder(block_bits: int, coded_bits: int, bits_per_symbol: int) -> Any:
    from sionna.phy.fec.ldpc import LDPC5GEncoder

    return LDPC5GEncoder(block_bits, coded_bits, num_bits_per_symbol=bits_per_symbol)


def sionna_words(block_bits: int, coded_bits: int, bits_per_symbol: int, bits: NDArray[np.uint8]) -> Any:
    import tensorflow as tf

    return sionna_encoder(block_bits, coded_bits, bits_per_symbol)(tf.constant(bits, tf.float32)).numpy()


@pytest.mark.parametrize(("block_bits", "coded_bits", "bits_per_symbol"), CODES)
def test_words_are_sionnas(block_bits: int, coded_bits: int, bits_per_symbol: int) -> None:
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=bits_per_symbol)
    bits = random_bits(3, block_bits)
    assert np.array_equal(LdpcEncoder(plan).encode(bits), sionna_words(block_bits, coded_bits, bits_per_symbol, bits))


@pytest.mark.parametrize(("block_bits", "coded_bits", "bits_per_symbol"), FAST_TO_BUILD)
def test_base_graph_and_lifting_are_sionnas(block_bits: int, coded_bits: int, bits_per_symbol: int) -> None:
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=bits_per_symbol)
    theirs = sionna_encoder(block_bits, coded_bits, bits_per_symbol)
    assert (f"bg{plan.base_graph}", plan.lifting_size) == (theirs._bg, theirs.z)
    assert plan.information_columns * plan.lifting_size == theirs.k_ldpc


@pytest.mark.parametrize("edge", [0, 3, 40, -2])
def test_a_shift_off_by_one_is_detected(edge: int) -> None:
    plan = plan_ldpc(1000, 2000, bits_per_symbol=2)
    shift = plan.shift.copy()
    shift[edge] = (shift[edge] + 1) % plan.lifting_size
    bits = random_bits(3, 1000)
    wrong = LdpcEncoder(replace(plan, shift=shift)).encode(bits)
    assert not np.array_equal(wrong, LdpcEncoder(plan).encode(bits))


def lifted(plan: LdpcPlan) -> NDArray[np.uint8]:
    """The parity checks of a plan in full, by the definition of 5.3.2."""
    size = plan.lifting_size
    checks = np.zeros((plan.num_layers * size, plan.num_columns * size), np.uint8)
    for layer in range(plan.num_layers):
        for edge in range(plan.layer_start[layer], plan.layer_start[layer + 1]):
            rows = np.arange(size)
            checks[layer * size + rows, plan.column[edge] * size + (rows + plan.shift[edge]) % size] = 1
    return checks


@pytest.mark.parametrize(("block_bits", "coded_bits", "bits_per_symbol"), [(12, 60, 1), (293, 400, 2), (300, 401, 1)])
def test_layers_are_the_parity_checks_of_sionna(block_bits: int, coded_bits: int, bits_per_symbol: int) -> None:
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=bits_per_symbol)
    ours = lifted(plan)
    theirs = sionna_encoder(block_bits, coded_bits, bits_per_symbol).pcm.toarray()
    used = ours.any(axis=0)
    assert np.array_equal(ours[:, used], theirs[: ours.shape[0], : ours.shape[1]][:, used])
    # What is left out: columns of nothing but filler, and layers that each have a punctured bit to themselves.
    unused = np.flatnonzero(~used)
    information = plan.information_columns * plan.lifting_size
    assert ((unused >= block_bits) & (unused < information)).all()
    last = 2 * plan.lifting_size + coded_bits + information - block_bits
    assert ours.shape[1] - plan.lifting_size < max(last, information + 4 * plan.lifting_size) <= ours.shape[1]


@pytest.mark.parametrize(
    ("block_bits", "coded_bits", "said"),
    [(11, 33, "blocks from 12"), (8449, 17000, "blocks from 12"), (100, 501, "rates from 1/5"), (96, 100, "to 0.95")],
)
def test_sizes_without_a_code_are_refused(block_bits: int, coded_bits: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_ldpc(block_bits, coded_bits, bits_per_symbol=1)


def test_half_a_symbol_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        plan_ldpc(100, 201, bits_per_symbol=2)
