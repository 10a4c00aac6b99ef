"""The fused LDPC decoder against Sionna on the same LLRs, and against itself whatever the grouping; planted faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pace import fastest_s
from radio import ERRORS_OF_A_CHECK

from phy.coding.byte_vectors import WIDTH
from phy.coding.ldpc import decoder as ldpc_decoder
from phy.coding.ldpc.decoder import LdpcDecoder
from phy.coding.ldpc.encoder import LdpcEncoder
from phy.coding.ldpc.plan import LdpcPlan, plan_ldpc

Sent = tuple[NDArray[np.uint8], NDArray[np.float32]]


def sent_over_noise(plan: LdpcPlan, noise: float, *, frames: int, seed: int = 4) -> Sent:
    """Random blocks and the LLRs of their bits as BPSK in noise of standard deviation `noise`."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (frames, plan.block_bits), dtype=np.uint8)
    signs = 2.0 * LdpcEncoder(plan).encode(bits).astype(np.float32) - 1.0
    received = signs + np.float32(noise) * rng.standard_normal(signs.shape, np.float32)
    return bits, (2.0 * received / np.float32(noise**2)).astype(np.float32)


def wrong_blocks(decoder: LdpcDecoder, sent: Sent) -> NDArray[np.bool_]:
    wrong: NDArray[np.bool_] = (decoder.decode(sent[1])[0] != sent[0]).any(axis=1)
    return wrong


def wrong_by_sionna(plan: LdpcPlan, sent: Sent, *, iterations: int) -> Any:
    import tensorflow as tf
    from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder

    encoder = LDPC5GEncoder(plan.block_bits, plan.coded_bits, num_bits_per_symbol=2)
    decoder = LDPC5GDecoder(encoder, cn_update="boxplus-phi", num_iter=iterations)
    decided = tf.function(decoder.__call__, jit_compile=True)(tf.constant(sent[1])).numpy()
    return (decided != sent[0]).any(axis=1)


def lost_and_won(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> tuple[int, int]:
    """Blocks that only they decode, and blocks that only we do."""
    return int((ours & ~theirs).sum()), int((theirs & ~ours).sum())


# Both base graphs, rates 1/5 to 8/9, noise at which Sionna loses about a tenth of the blocks.
@pytest.mark.parametrize(
    ("block_bits", "coded_bits", "noise"),
    [(100, 500, 1.36), (300, 600, 0.83), (600, 676, 0.465)],
    ids=("1/5", "1/2", "8/9"),
)
def test_no_more_blocks_are_lost_than_by_twenty_flooding_iterations(
    block_bits: int, coded_bits: int, noise: float
) -> None:
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=2)
    sent = sent_over_noise(plan, noise, frames=800)
    theirs = wrong_by_sionna(plan, sent, iterations=20)
    assert 0.03 < theirs.mean() < 0.3
    # McNemar: blocks that both lose or both decode say nothing.
    lost, won = lost_and_won(wrong_blocks(LdpcDecoder(plan=plan, iterations=20), sent), theirs)
    assert lost - won < ERRORS_OF_A_CHECK * np.sqrt(lost + won + 1)


def test_a_decoder_that_stops_too_early_is_detected() -> None:
    plan = plan_ldpc(300, 600, bits_per_symbol=2)
    sent = sent_over_noise(plan, 0.84, frames=800)
    full, short = (wrong_blocks(LdpcDecoder(plan=plan, iterations=iterations), sent) for iterations in (20, 4))
    lost, won = lost_and_won(short, full)
    assert lost - won > ERRORS_OF_A_CHECK * np.sqrt(lost + won + 1)


@pytest.mark.parametrize("edge", [0, 25, -1])
def test_a_shift_off_by_one_is_detected(edge: int) -> None:
    plan = plan_ldpc(300, 600, bits_per_symbol=2)
    sent = sent_over_noise(plan, 0.8, frames=200)
    shift = plan.shift.copy()
    shift[edge] = (shift[edge] + 1) % plan.lifting_size
    assert wrong_blocks(LdpcDecoder(plan=plan, iterations=10), sent).mean() < 0.05
    assert wrong_blocks(LdpcDecoder(plan=replace(plan, shift=shift), iterations=10), sent).mean() > 0.3


# One frame in 112 of 128 lanes, three in 312 of 320.
@pytest.mark.parametrize(("block_bits", "coded_bits", "noise"), [(1100, 2200, 0.75), (1000, 1500, 0.55)])
def test_columns_that_end_within_a_vector_are_decoded(block_bits: int, coded_bits: int, noise: float) -> None:
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=2)
    decoder = LdpcDecoder(plan=plan, iterations=10)
    assert plan.lifting_size * decoder.frames_per_group % WIDTH
    assert not wrong_blocks(decoder, sent_over_noise(plan, noise, frames=60)).any()


@pytest.mark.parametrize(("block_bits", "coded_bits"), [(20, 60), (100, 200), (1100, 2200), (4200, 8400)])
@pytest.mark.parametrize("early_stop", [True, False])
def test_a_block_does_not_depend_on_its_neighbours(block_bits: int, coded_bits: int, early_stop: bool) -> None:
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=2)
    decoder = LdpcDecoder(plan=plan, iterations=6, early_stop=early_stop)
    _, llrs = sent_over_noise(plan, 0.9, frames=2 * decoder.frames_per_group + 1)
    bits, used = decoder.decode(llrs)
    for block in {0, 1, decoder.frames_per_group, len(llrs) - 1}:
        alone, alone_used = decoder.decode(llrs[block : block + 1])
        assert np.array_equal(alone[0], bits[block])
        assert alone_used[0] == used[block]


def test_one_thread_and_three_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_ldpc(100, 200, bits_per_symbol=2)
    _, llrs = sent_over_noise(plan, 0.9, frames=301)
    results = []
    for threads in (1, 3):
        monkeypatch.setattr(ldpc_decoder, "available_threads", lambda threads=threads: threads)
        results.append(LdpcDecoder(plan=plan, iterations=10).decode(llrs)[0])
    assert np.array_equal(results[0], results[1])


def test_stopping_at_a_code_word_saves_iterations_and_no_blocks() -> None:
    plan = plan_ldpc(300, 600, bits_per_symbol=2)
    sent = sent_over_noise(plan, 0.84, frames=800)
    stopping, patient = (LdpcDecoder(plan=plan, iterations=20, early_stop=stop) for stop in (True, False))
    lost, won = lost_and_won(wrong_blocks(stopping, sent), wrong_blocks(patient, sent))
    assert lost - won < ERRORS_OF_A_CHECK * np.sqrt(lost + won + 1)
    assert (patient.decode(sent[1])[1] == 20).all()
    assert stopping.decode(sent[1])[1].mean() < 12


def test_early_stopping_ends_at_a_code_word() -> None:
    plan = plan_ldpc(100, 200, bits_per_symbol=2)
    _, llrs = sent_over_noise(plan, 0.85, frames=300)
    bits, used = LdpcDecoder(plan=plan, iterations=20).decode(llrs)
    again = LdpcEncoder(plan).encode(bits)
    disagree = (again != (llrs > 0)).mean(axis=1)
    # A word of the code differs from the hard decisions of the channel by its raw error rate, Q(1 / 0.85) = 12 %.
    assert disagree[used < 20].max() < 0.25
    assert 0 < (used < 20).mean() < 1


@pytest.mark.parametrize("certainty", [1e4, np.inf])
def test_a_bit_received_wrong_with_certainty_is_corrected(certainty: float) -> None:
    plan = plan_ldpc(300, 600, bits_per_symbol=2)
    bits, llrs = sent_over_noise(plan, 0.4, frames=200)
    hard = np.where(llrs > 0, certainty, -certainty).astype(np.float32)
    # Q(1 / 0.4) = 0.6 %: all but a few of the blocks hold a bit that is certain and wrong.
    assert ((hard > 0) != LdpcEncoder(plan).encode(bits)).any(axis=1).mean() > 0.9
    assert not wrong_blocks(LdpcDecoder(plan=plan, iterations=20), (bits, hard)).any()


def test_silence_decodes_to_zeros_at_once() -> None:
    plan = plan_ldpc(100, 200, bits_per_symbol=2)
    bits, used = LdpcDecoder(plan=plan, iterations=5).decode(np.zeros((3, 200), np.float32))
    assert not bits.any()
    assert (used == 1).all()


def test_no_block_at_all_is_no_problem() -> None:
    plan = plan_ldpc(100, 200, bits_per_symbol=2)
    assert LdpcDecoder(plan=plan, iterations=5).decode(np.zeros((0, 200), np.float32))[0].shape == (0, 100)
    assert LdpcEncoder(plan).encode(np.zeros((0, 100), np.uint8)).shape == (0, 200)


@pytest.mark.parametrize(("block_bits", "coded_bits"), [(8448, 16896), (100, 200)])
def test_decoding_runs_in_vectors(block_bits: int, coded_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldpc_decoder, "available_threads", lambda: 1)
    plan = plan_ldpc(block_bits, coded_bits, bits_per_symbol=2)
    short, long = (LdpcDecoder(plan=plan, iterations=count, early_stop=False) for count in (1, 11))
    _, llrs = sent_over_noise(plan, 0.9, frames=max(40_000 // block_bits, 2))
    updates = 10 * len(llrs) * plan.num_edges * plan.lifting_size
    old, new = np.zeros(1 << 20, np.int8), np.ones(1 << 20, np.int8)
    short.decode(llrs)
    spent = fastest_s(lambda: long.decode(llrs)) - fastest_s(lambda: short.decode(llrs))
    # Adding 8-bit numbers in NumPy is a loop of vectors over memory. Updating a message takes about five times as long;
    # one step that is not in 8-bit vectors any more and it is fifteen times.
    addition = fastest_s(lambda: np.add(old, new, out=old)) / old.size
    assert spent / updates < 10 * addition
