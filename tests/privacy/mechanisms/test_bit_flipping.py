"""Bit flipping: the digest's table, rates that compose, and credit for noise that is surely there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from privacy.errors import PrivacyError
from privacy.evidence import credited_channel_rate, credited_rate
from privacy.mechanisms import flip_plans
from privacy.mechanisms.bit_flipping import (
    aes_ciphertext_rate,
    aes_plaintext_rate,
    artificial_rate,
    blocks_touched,
    composed_rate,
    epsilon_of,
    recovered_factor,
    target_bit_error_rate,
)
from privacy.mechanisms.flip_plans import CHANNEL_SUFFICES, CLAMP_WORDS, HALF, NO_CLAMP, FlipPlan, plan_flips

DIGEST = {
    0.02: {1: 0.5, 2: 0.3333, 5: 0.1667, 10: 0.0909, 20: 0.0476},
    0.025: {1: 0.5556, 2: 0.3846, 5: 0.2, 10: 0.1111, 20: 0.0588},
}
RATES = st.floats(0.0, 0.5)


def plan(errors: list[int], *, bits: int = 20_000, **change: object) -> FlipPlan:
    given_ = {"target": 1 / 11, "channel": "native", "confidence": 0.99, **change}
    return plan_flips(
        probed_bits=np.full(len(errors), bits),
        probed_errors=np.array(errors),
        **given_,
    )


@pytest.mark.parametrize("kappa", DIGEST)
def test_the_target_rates_are_those_of_the_digest(kappa: float) -> None:
    for epsilon, rate in DIGEST[kappa].items():
        found = target_bit_error_rate(epsilon=epsilon, order=2, num_rounds=50, kappa=kappa)
        assert found.unclamped == pytest.approx(rate, abs=5e-5)
        assert found.rate == min(found.unclamped, 0.5)
        assert found.clamped == (epsilon == 1)


CORRECTED = {1: 1 / 3, 5: 1 / 7, 10: 1 / 12, 20: 1 / 22}
"""With K kappa = 1 and order 2, p = 1 / (2 + epsilon): .333, .143, .0833, .0455."""


def test_the_corrected_target_has_the_plus_one_that_38_drops_and_needs_no_clamp() -> None:
    for epsilon, rate in CORRECTED.items():
        setting = {"order": 2.0, "num_rounds": 50, "kappa": 0.02}
        found = target_bit_error_rate(epsilon=epsilon, form="corrected", **setting)
        assert found.unclamped == pytest.approx(rate, rel=1e-12)
        assert not found.clamped
        assert found.rate < target_bit_error_rate(epsilon=epsilon, **setting).rate
        assert epsilon_of(found.rate, form="corrected", **setting) == pytest.approx(epsilon, rel=1e-12)
    assert epsilon_of(0.5, form="corrected", order=3.0, num_rounds=50, kappa=1.0) == 0.0
    with pytest.raises(PrivacyError, match=r"no corrected target exceeds 0\.5"):
        epsilon_of(0.6, form="corrected", order=3.0, num_rounds=50, kappa=1.0)


@pytest.mark.parametrize("order", [1.5, 2.0, 3.0, 8.0])
@pytest.mark.parametrize(("epsilon", "kappa"), [(0.1, 5.0), (3.0, 0.05), (40.0, 0.02)])
def test_the_corrected_target_is_the_root_of_the_line_before_38(order: float, epsilon: float, kappa: float) -> None:
    """The p at which kappa (((1 - p) / p)^(lam - 1) - 1) / (lam - 1) = eps / K, found by bisection."""
    found = target_bit_error_rate(epsilon=epsilon, order=order, num_rounds=7, kappa=kappa, form="corrected").rate
    root = optimize.brentq(
        lambda p: kappa * (((1 - p) / p) ** (order - 1) - 1) / (order - 1) - epsilon / 7, 1e-12, 0.5, xtol=1e-15
    )
    assert found == pytest.approx(root, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    log_epsilon=st.floats(-6, 5),
    order=st.floats(1.05, 20),
    rounds=st.integers(1, 10_000),
    log_kappa=st.floats(-6, 6),
)
def test_theorem_1_and_its_inverse_undo_each_other(
    log_epsilon: float, order: float, rounds: int, log_kappa: float
) -> None:
    setting = {"order": order, "num_rounds": rounds, "kappa": 10.0**log_kappa}
    p = target_bit_error_rate(epsilon=10.0**log_epsilon, **setting).unclamped
    # Nearer to 0 or 1 a double does not hold p well enough to be inverted.
    if 1e-300 < p < 0.99:
        assert math.log(epsilon_of(p, **setting)) == pytest.approx(log_epsilon * math.log(10), abs=1e-9 * order)


def test_more_budget_asks_for_less_noise_and_more_rounds_or_distance_for_more() -> None:
    def rate(epsilon: float = 5.0, rounds: int = 50, kappa: float = 0.02, order: float = 3.0) -> float:
        return target_bit_error_rate(epsilon=epsilon, order=order, num_rounds=rounds, kappa=kappa).unclamped

    assert np.all(np.diff([rate(epsilon=e) for e in np.geomspace(1e-6, 1e6, 50)]) < 0)
    assert np.all(np.diff([rate(rounds=k) for k in (1, 2, 10, 100, 10_000)]) > 0)
    assert np.all(np.diff([rate(kappa=k) for k in np.geomspace(1e-6, 1e6, 50)]) > 0)


def test_extreme_budgets_neither_overflow_nor_leave_the_interval() -> None:
    for order in (1.0 + 1e-9, 2.0, 1000.0):
        for epsilon in (1e-7, 1e6):
            for kappa in (1e-300, 1e12):
                found = target_bit_error_rate(epsilon=epsilon, order=order, num_rounds=10**6, kappa=kappa)
                assert 0.0 <= found.rate <= 0.5
                assert found.rate <= found.unclamped <= 1.0
    assert epsilon_of(1e-300, order=1000, num_rounds=1, kappa=1.0) == math.inf


@settings(max_examples=200, deadline=None)
@given(target=RATES, share=st.floats(0.0, 0.999999))
def test_what_the_device_adds_completes_the_channel_to_the_target(target: float, share: float) -> None:
    channel = share * target
    added = artificial_rate(target, channel)
    assert 0.0 <= added <= 0.5
    assert float(composed_rate(added, channel)) == pytest.approx(target, abs=1e-15)


@settings(max_examples=100, deadline=None)
@given(first=RATES, second=RATES)
def test_composed_rates_multiply_what_is_recovered(first: float, second: float) -> None:
    both = composed_rate(first, second)
    assert float(recovered_factor(both)) == pytest.approx((1 - 2 * first) * (1 - 2 * second), abs=1e-15)
    assert both >= max(first, second) - 1e-16


def test_a_worse_channel_needs_fewer_flips() -> None:
    added = artificial_rate(0.2, np.linspace(0.0, 1.0, 101))
    assert added[0] == 0.2
    assert np.all(np.diff(added) <= 0)
    assert np.all(added[20:] == 0.0)
    np.testing.assert_array_equal(artificial_rate([0.5, 0.7], [0.1, 0.1]), 0.5)


def test_flipped_bits_are_wrong_as_often_as_composed() -> None:
    rng = np.random.default_rng(7)
    n = 400_000
    wrong = (rng.random(n) < 0.07) ^ (rng.random(n) < 0.12)
    p = float(composed_rate(0.07, 0.12))
    assert wrong.mean() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n))


@settings(max_examples=100, deadline=None)
@given(rate=st.floats(0.0, 0.4999), bits=st.sampled_from([64, 128]))
def test_the_rates_before_and_after_decryption_undo_each_other(rate: float, bits: int) -> None:
    before = aes_ciphertext_rate(rate, block_bits=bits)
    assert float(aes_plaintext_rate(before, block_bits=bits)) == pytest.approx(rate, rel=1e-10, abs=1e-300)


def test_decryption_amplifies_errors_as_printed() -> None:
    p = np.array([0.0, 1e-6, 1e-3, 0.01, 0.5, 1.0])
    np.testing.assert_allclose(aes_plaintext_rate(p), 0.5 * (1 - (1 - p) ** 128), rtol=1e-9)
    assert aes_ciphertext_rate(0.5) == 0.5
    assert float(aes_plaintext_rate(1e-18)) == pytest.approx(64e-18, rel=1e-12)


def test_the_credit_is_the_exact_binomial_limit() -> None:
    errors, bits = np.array([1, 3, 40, 300]), np.array([100, 1000, 1000, 1000])
    low = credited_channel_rate(errors, bits, confidence=0.99)
    # At the limit itself, so many errors or more come by chance with exactly 1 - confidence.
    np.testing.assert_allclose(stats.binom.sf(errors - 1, bits, low), 0.01, rtol=1e-9)


@settings(max_examples=200, deadline=None)
@given(bits=st.integers(1, 10**9), share=st.floats(0, 1), confidence=st.floats(0.5, 0.9999), deff=st.floats(1, 100))
def test_the_credit_never_exceeds_the_point_estimate_and_bursts_lower_it(
    bits: int, share: float, confidence: float, deff: float
) -> None:
    errors = round(bits * share)
    low = credited_channel_rate(errors, bits, confidence=confidence)
    assert 0.0 <= low <= min(errors, bits - errors) / bits
    assert credited_channel_rate(errors, bits, confidence=confidence, design_effect=deff) <= low + 1e-15


def test_a_channel_that_inverts_every_bit_counts_as_no_noise() -> None:
    inverted = plan([20_000, 19_000, 10_000])
    np.testing.assert_allclose(inverted.probed_low, credited_channel_rate([0, 1000, 10_000], 20_000, confidence=0.99))
    assert inverted.flip_probability[0] == pytest.approx(1 / 11)
    assert list(inverted.clamp) == [NO_CLAMP, NO_CLAMP, CHANNEL_SUFFICES]


def test_errors_that_come_in_groups_are_credited_by_the_limit_that_holds_inside_a_group() -> None:
    grouped = plan([2000], errors_together=100)
    expected = credited_rate([2000], 20_000, failure_probability=0.01, design_effect=100)
    np.testing.assert_allclose(grouped.probed_low, expected)
    # Less than what counts divided by the size of a group would give, which only holds for groups that err as a whole.
    divided = credited_channel_rate([2000], 20_000, confidence=0.99, design_effect=100)
    assert float(grouped.probed_low[0]) < 0.98 * float(divided[0])


@pytest.mark.parametrize("bits", [1, 8, 10, 23, 32, 128, 200])
def test_blocks_that_a_number_lies_in_are_those_of_its_worst_place(bits: int) -> None:
    first = bits * np.arange(128)
    met = (first + bits - 1) // 128 - first // 128 + 1
    assert blocks_touched(bits) == met.max()


def shortfalls(rounds: int, *, target: float, channel: float, bits: int, confidence: float) -> tuple[float, float]:
    """Share of rounds with less noise than promised: by the plan, and by crediting the point estimate."""
    errors = np.random.default_rng(11).binomial(bits, channel, size=rounds)
    planned = plan(list(errors), bits=bits, target=target, confidence=confidence)
    naive = artificial_rate(target, errors / bits)
    short = [composed_rate(added, channel) < target - 1e-12 for added in (planned.flip_probability, naive)]
    return float(short[0].mean()), float(short[1].mean())


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("channel", [2e-4, 0.01])
def test_crediting_the_lower_limit_breaks_the_promise_as_rarely_as_it_says(channel: float, confidence: float) -> None:
    rounds, bits = 40_000, 20_000
    lower, point = shortfalls(rounds, target=1 / 11, channel=channel, bits=bits, confidence=confidence)
    assert lower <= 1 - confidence + 4 * math.sqrt(confidence * (1 - confidence) / rounds)
    # Too much is credited exactly if more errors than the mean were seen.
    half = float(stats.binom.sf(math.floor(bits * channel), bits, channel))
    assert 0.3 < half < 0.55
    assert point == pytest.approx(half, abs=4 * 0.5 / math.sqrt(rounds))


def test_the_count_of_broken_promises_catches_a_credited_point_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    def estimate(errors: np.ndarray, bits: np.ndarray, **_: object) -> np.ndarray:
        return np.asarray(errors / bits)

    monkeypatch.setattr(flip_plans, "credited_rate", estimate)
    lower, _ = shortfalls(2_000, target=1 / 11, channel=0.01, bits=20_000, confidence=0.99)
    assert lower > 0.3


def test_a_plan_counts_the_channel_up_to_the_target() -> None:
    found = plan([0, 200, 3000])
    assert [CLAMP_WORDS[code] for code in found.clamp] == ["none", "none", "channel alone suffices"]
    np.testing.assert_allclose(found.credited[:2], 1 / 11)
    assert found.credited[2] == found.probed_low[2] > 1 / 11
    np.testing.assert_allclose(found.flip_probability[[0, 2]], [1 / 11, 0.0])
    assert found.expected[1] == pytest.approx(float(composed_rate(found.flip_probability[1], 0.01)))
    assert np.all(found.expected >= found.credited - 1e-15)


def test_an_agnostic_plan_adds_flips_to_the_channel_errors() -> None:
    found = plan([0, 200, 19_999], channel="agnostic")
    np.testing.assert_array_equal(found.flip_probability, 1 / 11)
    np.testing.assert_array_equal(found.credited, 1 / 11)
    np.testing.assert_allclose(found.expected, composed_rate(1 / 11, [0.0, 0.01, 0.99995]))
    assert np.all(found.clamp == NO_CLAMP)


def test_a_clamped_target_flips_with_one_half_unless_the_channel_does() -> None:
    found = plan([0, 200, 10_000], target=0.5)
    np.testing.assert_array_equal(found.flip_probability, 0.5)
    np.testing.assert_allclose(found.credited, 0.5)
    assert [CLAMP_WORDS[code] for code in found.clamp] == [CLAMP_WORDS[HALF]] * 3


def test_with_aes_the_flips_are_those_of_the_ciphertext() -> None:
    found = plan([0, 5, 400], cipher="aes")
    on_air = 1 - (1 - 2 / 11) ** (1 / 128)
    assert found.flip_probability[0] == pytest.approx(on_air, rel=1e-9)
    np.testing.assert_allclose(found.credited[:2], 1 / 11)
    assert list(found.clamp) == [NO_CLAMP, NO_CLAMP, CHANNEL_SUFFICES]
    assert found.expected[2] == pytest.approx(0.5 * (1 - 0.98**128), rel=1e-9)
    np.testing.assert_array_equal(plan([0], cipher="aes", target=0.5).flip_probability, 0.5)


def test_a_device_that_was_not_probed_gets_no_credit() -> None:
    found = plan([0, 0], bits=0)
    np.testing.assert_allclose(found.flip_probability, 1 / 11)
    np.testing.assert_allclose(found.expected, 1 / 11)


def test_no_target_is_no_flip() -> None:
    found = plan([0, 200], target=0.0)
    np.testing.assert_array_equal(found.flip_probability, 0.0)
    assert list(found.clamp) == [NO_CLAMP, CHANNEL_SUFFICES]


def test_the_series_of_a_plan_are_one_number_per_device() -> None:
    series = plan([0, 200, 3000]).series()
    assert {"probed_bits", "probed_errors", "probed_low", "flip_probability", "target", "clamp"} <= set(series)
    assert all(values.shape == (3,) for values in series.values())


def test_impossible_rates_and_counts_are_refused() -> None:
    with pytest.raises(PrivacyError, match=r"order is 1\.0"):
        target_bit_error_rate(epsilon=1.0, order=1.0, num_rounds=1, kappa=1.0)
    with pytest.raises(PrivacyError, match="kappa is nan"):
        epsilon_of(0.1, order=2.0, num_rounds=1, kappa=math.nan)
    with pytest.raises(PrivacyError, match=r"channel is 1\.5"):
        composed_rate(0.1, [0.2, 1.5])
    with pytest.raises(PrivacyError, match="target is nan"):
        artificial_rate(math.nan, 0.1)
    with pytest.raises(PrivacyError, match=r"plaintext_rate is 0\.6"):
        aes_ciphertext_rate(0.6)
    with pytest.raises(PrivacyError, match="between 0 and the probed bits"):
        plan([20_001])
    with pytest.raises(PrivacyError, match=r"target is 0\.6"):
        plan([1], target=0.6)
    with pytest.raises(PrivacyError, match="'native' or 'agnostic'"):
        plan([1], channel="blind")
    with pytest.raises(PrivacyError, match="'none', 'stream' or 'aes'"):
        plan([1], cipher="rot13")
    with pytest.raises(PrivacyError, match="design effect"):
        plan([1], errors_together=0.5)
    with pytest.raises(PrivacyError, match="one pair per device"):
        plan_flips(
            probed_bits=np.array([1, 2]), probed_errors=np.array([1]), target=0.1, channel="native", confidence=0.9
        )
