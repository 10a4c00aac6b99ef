"""Flipped bits by what they prove: the carry chain, the exact sum, and the table beside Theorem 1."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from privacy.accounting.flipped_bits import (
    AccountRow,
    StatedSensitivity,
    bit_epsilon,
    bit_flipping_rows,
    composed_epsilon,
    epsilon_from_renyi,
    reachable_bits,
)
from privacy.ciphers import build_cipher
from privacy.errors import PrivacyError
from privacy.mechanisms.bit_flipping import epsilon_of
from privacy.mechanisms.gaussian_mechanism import delta_from_renyi

L2 = StatedSensitivity(steps=419.43, norm="l2", on_grid=True)
PAPER = {
    "flip_probability": 1 / 11,
    "order": 2.0,
    "num_rounds": 50,
    "kappa": 0.02,
    "num_numbers": 1_206_590,
    "bits": 23,
    "sensitivity": L2,
    "delta": 1e-5,
}


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 10])
def test_one_step_of_the_code_can_change_every_bit(bits: int) -> None:
    codes = np.arange(2**bits - 1)
    one_step = StatedSensitivity(steps=1.0, norm="l1", on_grid=True)
    assert np.bitwise_count(codes ^ (codes + 1)).max() == reachable_bits(one_step, num_numbers=1, bits=bits) == bits


def worst_numbers(num_numbers: int, norm: str, steps: float) -> int:
    """The most entries other than 0 of a whole vector within `steps` in `norm`, by trying all with entries 0, 1, 2."""
    vectors = np.array(list(itertools.product((0, 1, 2), repeat=num_numbers)))
    order = {"l1": 1, "l2": 2, "linf": math.inf}[norm]
    within = np.linalg.norm(vectors, ord=order, axis=1) <= steps
    return int(np.count_nonzero(vectors[within], axis=1).max())


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_a_distance_of_codes_bounds_how_many_numbers_differ(norm: str) -> None:
    for steps in (0.0, 0.4, 1.0, 1.5, 2.0, 3.0, 10.0):
        stated = StatedSensitivity(steps=steps, norm=norm, on_grid=True)
        assert stated.numbers(5) == worst_numbers(5, norm, steps)
        assert reachable_bits(stated, num_numbers=5, bits=23) == 23 * stated.numbers(5)


def test_a_distance_before_rounding_gives_no_bound() -> None:
    tiny = StatedSensitivity(steps=1e-6, norm="l2", on_grid=False)
    assert tiny.numbers(1_000_000) == 1_000_000
    # Numbers near a threshold: moved by a millionth of a step in all, every code differs, and in every bit.
    values = np.full(1000, 2.0**22 - 0.5 - 1e-9)
    moved = values + 1e-6 / math.sqrt(values.size)
    assert np.linalg.norm(moved - values) == pytest.approx(1e-6, rel=1e-2)
    codes, others = (np.rint(v).astype(np.int64) for v in (values, moved))
    assert np.bitwise_count(codes ^ others).sum() == 23 * values.size
    assert StatedSensitivity(steps=0.0, norm="l2", on_grid=False).numbers(7) == 0


def test_a_sensitivity_is_counted_in_steps_of_the_code() -> None:
    stated = StatedSensitivity.of(1e-4, value_range=1.0, bits=23, norm="l2", on_grid=True)
    assert stated.steps == pytest.approx(1e-4 * 2**22)
    whole = StatedSensitivity.of(3 * 0.1, value_range=0.05 * 2**23, bits=23, norm="l1", on_grid=True)
    assert whole.numbers(10) == 3


@pytest.mark.parametrize("flip_probability", [0.02, 1 / 11, 0.4])
@pytest.mark.parametrize("num_bits", [1, 2, 23, 115])
def test_the_composed_epsilon_is_the_first_that_keeps_delta_by_the_binomial_sum(
    num_bits: int, flip_probability: float
) -> None:
    each, wrong = bit_epsilon(flip_probability), np.arange(num_bits + 1)
    loss, weight = each * (num_bits - 2.0 * wrong), binom.pmf(wrong, num_bits, flip_probability)

    def spent(epsilon: float) -> float:
        return float(np.sum(weight * np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)))

    for delta in (0.1, 1e-3, 1e-9):
        epsilon = composed_epsilon(flip_probability, num_bits=num_bits, delta=delta)
        assert spent(epsilon) <= delta * (1 + 1e-9)
        assert epsilon <= num_bits * each
        if epsilon > 0.0:
            assert spent(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


def test_no_flip_gives_infinity_one_half_gives_zero_and_p_equals_1_minus_p() -> None:
    assert composed_epsilon(0.0, num_bits=1, delta=0.1) == math.inf
    assert composed_epsilon(1.0, num_bits=1, delta=0.1) == math.inf
    assert composed_epsilon(0.0, num_bits=0, delta=0.1) == 0.0
    assert composed_epsilon(0.5, num_bits=10**9, delta=1e-9) == 0.0
    assert bit_epsilon(0.9) == pytest.approx(bit_epsilon(0.1))


def test_renyi_and_delta_undo_each_other() -> None:
    for order, epsilon, delta in itertools.product((1.5, 2.0, 30.0), (0.1, 5.0), (0.2, 1e-6)):
        found = epsilon_from_renyi(order=order, epsilon=epsilon, delta=delta)
        if found > 0.0:
            assert delta_from_renyi(order=order, epsilon=epsilon, epsilon_prime=found) == pytest.approx(delta)


def rows(**change: object) -> tuple[AccountRow, ...]:
    return bit_flipping_rows(**{**PAPER, **change})


def test_the_table_holds_theorem_1_beside_what_is_proved() -> None:
    theorem, converted, bit, number, every, stated = rows()
    assert theorem.claim.epsilon == pytest.approx(10.0)
    assert theorem.claim.order == 2.0
    assert {row.claim.standing for row in (theorem, converted)} == {"as published"}
    assert converted.claim.epsilon == pytest.approx(10.0 + math.log(1e5) + 2 * math.log(0.5))
    assert bit.claim.epsilon == pytest.approx(math.log(10))
    assert number.claim.epsilon == pytest.approx(23 * math.log(10))
    assert {row.claim.standing for row in (bit, number, every, stated)} == {"proved"}
    assert every.claim.scope == stated.claim.scope == "run"
    # 419^2 numbers of 23 bits in 50 rounds; the loss of so many is near its mean.
    count = 50 * 23 * math.floor(419.43**2)
    assert stated.claim.epsilon == pytest.approx(count * math.log(10) * (9 / 11), rel=1e-3)
    assert every.claim.epsilon == pytest.approx(50 * 23 * 1_206_590 * math.log(10) * (9 / 11), rel=1e-3)
    assert L2.words() in stated.claim.assumptions
    assert all(row.worth.endswith(".") and row.claim.label() for row in rows())


def test_under_a_block_cipher_one_bit_is_worth_its_block_as_two_real_ciphertexts_tell() -> None:
    sound = {"block_bits": 128, "flip_probability": 1e-3, "num_numbers": 40}
    theorem, _, bit, number, every, stated = rows(**sound)
    plain = np.random.default_rng(2).integers(0, 256, (1, 1, 16), dtype=np.uint8)
    other = plain.copy()
    other[0, 0, 0] ^= 1
    keys = np.array([[3, 4]], np.uint32)
    one, two = (build_cipher("aes").encrypt(each, keys=keys) for each in (plain, other))
    differ = int(np.bitwise_count(one ^ two).sum())
    assert 1 < differ <= 128
    # Whoever has the key is told by every bit in which the two differ: more than a single response, not more than 128.
    each = bit_epsilon(1e-3)
    assert each < differ * each <= bit.claim.epsilon
    assert bit.claim.epsilon == pytest.approx(128 * each)
    # 23 bits may lie across two blocks; 40 numbers of 23 bits take 7.2 blocks, that is 8.
    assert number.claim.epsilon == pytest.approx(256 * each)
    assert every.claim.epsilon == composed_epsilon(1e-3, num_bits=50 * 8 * 128, delta=1e-5)
    assert stated.claim.epsilon == every.claim.epsilon
    # Theorem 1 speaks of the bits of the numbers, which after decryption are wrong far more often.
    after = 0.5 * (1.0 - (1.0 - 1e-3) ** 128)
    assert theorem.claim.epsilon == pytest.approx(epsilon_of(after, order=2.0, num_rounds=50, kappa=0.02))


def test_what_is_proved_of_a_run_is_never_below_theorem_1_and_more_noise_lowers_all() -> None:
    epsilons = np.array([[row.claim.epsilon for row in rows(flip_probability=p)] for p in (0.05, 0.2, 0.4, 0.4999)])
    assert np.all(np.diff(epsilons, axis=0) < 0.0)
    assert np.all(epsilons[:3, 4:] > epsilons[:3, :1])
    assert np.all(epsilons[:, 5] <= epsilons[:, 4])


def test_without_flips_the_table_says_infinity_and_with_fair_coins_zero() -> None:
    assert all(row.claim.epsilon == math.inf for row in rows(flip_probability=0.0))
    theorem, *_, every, stated = rows(flip_probability=0.5)
    assert theorem.claim.epsilon == epsilon_of(0.5, order=2.0, num_rounds=50, kappa=0.02) == 1.0
    assert every.claim.epsilon == stated.claim.epsilon == 0.0


def test_evidence_costs_delta_and_the_claim_says_so() -> None:
    free, paid = (rows(num_numbers=40, delta=0.01, delta_evidence=d)[4].claim for d in (0.0, 0.009))
    assert paid.epsilon > free.epsilon
    assert (paid.delta, paid.delta_evidence) == (0.01, 0.009)
    assert paid.epsilon == composed_epsilon(1 / 11, num_bits=40 * 23 * 50, delta=0.01 - 0.009)
    with pytest.raises(PrivacyError, match="give a larger delta"):
        rows(delta=0.01, delta_evidence=0.01)


def test_a_sensitivity_before_rounding_excludes_no_bit() -> None:
    *_, every, stated = rows(sensitivity=StatedSensitivity(steps=1e-3, norm="l2", on_grid=False), num_numbers=100)
    assert stated.claim.epsilon == every.claim.epsilon
    assert "excludes no bit" in stated.worth
    assert "nothing differs" in rows(sensitivity=StatedSensitivity(steps=0.5, norm="l1", on_grid=True))[-1].worth


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(PrivacyError, match="bits is 60"):
        reachable_bits(L2, num_numbers=1, bits=60)
    with pytest.raises(PrivacyError, match="steps is -1"):
        StatedSensitivity(steps=-1.0, norm="l2", on_grid=True)
    with pytest.raises(PrivacyError, match="'l1', 'l2' or 'linf'"):
        StatedSensitivity(steps=1.0, norm="l3", on_grid=True)
    with pytest.raises(PrivacyError, match=r"flip_probability is 1\.1"):
        bit_epsilon(1.1)
    with pytest.raises(PrivacyError, match=r"num_bits is -1"):
        composed_epsilon(0.1, num_bits=-1, delta=0.1)
    with pytest.raises(PrivacyError, match="delta is 0"):
        composed_epsilon(0.1, num_bits=1, delta=0.0)
