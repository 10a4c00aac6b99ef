"""The exact law of a round of levels: against quadrature in two dimensions, Fourier inversion, counting and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from privacy.errors import PrivacyError
from privacy.events.superposed import SuperposedBit
from privacy.mechanisms.flmc_digital import digital_amplitude_cap
from privacy.mechanisms.superposition.gaussian import gaussian_cap, gaussian_delta
from privacy.mechanisms.superposition.levels import (
    LevelPair,
    largest_amplitude,
    one_bit_pair,
    round_delta,
    round_epsilon,
    round_tail,
)

BIT = one_bit_pair(entry_bound=1.5)
"""The paper's a l = 0.05 x 30."""
THREE = LevelPair(levels=(-1.0, 0.25, 1.0), one=(0.1, 0.3, 0.6), other=(0.5, 0.35, 0.15))
"""Not symmetric: the two ways differ."""
ENTRIES = 5


def densities(pair: LevelPair, y: np.ndarray, amplitude: float) -> tuple[np.ndarray, np.ndarray]:
    at = norm.pdf(y[:, None] - amplitude * np.array(pair.levels))
    return at @ np.array(pair.one), at @ np.array(pair.other)


# --- oracles of other methods ---------------------------------------------------------------------


def by_quadrature(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int) -> float:
    """The integral of (p - e^epsilon q)_+ over one or two received numbers, by sums over a plane."""
    y = np.linspace(amplitude * pair.levels[0] - 8, amplitude * pair.levels[-1] + 8, 2001)
    p, q = densities(pair, y, amplitude)
    if dimension == 1:
        return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (y[1] - y[0]))
    rows = (np.maximum(p * one - math.exp(epsilon) * q * other, 0.0).sum() for one, other in zip(p, q, strict=True))
    return float(sum(rows) * (y[1] - y[0]) ** 2)


def tail_by_inversion(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int, other: bool) -> float:
    """Pr(L > epsilon) of m entries by Gil-Pelaez: no grid of losses, no convolution."""
    y = np.linspace(amplitude * pair.levels[0] - 9, amplitude * pair.levels[-1] + 9, 501)
    p, q = densities(pair, y, amplitude)
    loss, weight = np.log(p / q), (q if other else p) * (y[1] - y[0])
    u = (np.arange(2500) + 0.5) * 0.05
    law = (np.exp(1j * u[:, None] * loss) @ weight) ** dimension
    return float(0.5 + np.sum(np.imag(np.exp(-1j * u * epsilon) * law) / u) * 0.05 / math.pi)


def by_inversion(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int) -> float:
    """P(L > epsilon) - e^epsilon Q(L > epsilon), the larger of both ways."""
    return max(
        tail_by_inversion(one, epsilon, amplitude=amplitude, dimension=dimension, other=False)
        - math.exp(epsilon) * tail_by_inversion(one, epsilon, amplitude=amplitude, dimension=dimension, other=True)
        for one in (pair, pair.swapped)
    )


@pytest.mark.parametrize("pair", [BIT, THREE], ids=["one bit", "three levels"])
@pytest.mark.parametrize(
    ("dimension", "amplitude", "epsilon"), [(1, 0.4, 0.2), (1, 1.0, 0.9), (2, 0.3, 0.4), (2, 1.2, 1.5)]
)
def test_one_and_two_entries_are_those_of_the_integral(
    pair: LevelPair, dimension: int, amplitude: float, epsilon: float
) -> None:
    setting = {"amplitude": amplitude, "dimension": dimension}
    slow = max(by_quadrature(one, epsilon, **setting) for one in (pair, pair.swapped))
    # The kinks of the integrand cost the sum over the plane some 1e-6; ours is from above.
    assert round_delta(pair, epsilon, **setting) == pytest.approx(slow, rel=3e-5)


@pytest.mark.parametrize("pair", [BIT, THREE], ids=["one bit", "three levels"])
@pytest.mark.parametrize(("dimension", "amplitude", "epsilon"), [(5, 0.33, 2.0), (5, 0.779, 5.0), (12, 0.2, 1.0)])
def test_many_entries_are_those_of_fourier_inversion(
    pair: LevelPair, dimension: int, amplitude: float, epsilon: float
) -> None:
    setting = {"amplitude": amplitude, "dimension": dimension}
    slow = by_inversion(pair, epsilon, **setting)
    assert round_delta(pair, epsilon, **setting) == pytest.approx(slow, rel=1e-4)
    ways = [
        tail_by_inversion(one, epsilon, other=False, **setting)
        + tail_by_inversion(back, epsilon, other=True, **setting)
        for one, back in ((pair, pair.swapped), (pair.swapped, pair))
    ]
    assert round_tail(pair, epsilon, **setting) == pytest.approx(max(ways), rel=1e-4)


def test_it_is_what_counting_over_drawn_rounds_gives() -> None:
    rng, rounds, amplitude = np.random.default_rng(5), 400_000, 0.467
    x = rng.choice(BIT.levels, p=BIT.one, size=(rounds, ENTRIES))
    y = amplitude * x + rng.standard_normal(x.shape)
    p, q = densities(BIT, y.ravel(), amplitude)
    loss = np.log(p / q).reshape(y.shape).sum(axis=1)
    for found, counted in (
        (round_delta(BIT, 3.0, amplitude=amplitude, dimension=ENTRIES), np.maximum(-np.expm1(3.0 - loss), 0.0)),
        (round_tail(BIT, 3.0, amplitude=amplitude, dimension=ENTRIES), (np.abs(loss) > 3.0).astype(float)),
    ):
        assert abs(found - counted.mean()) < 4 * counted.std() / math.sqrt(rounds)


# --- the paper's setting --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "printed", "cancelled", "exact"),
    [(1, 0.066, 0.135, 0.190), (2, 0.104, 0.266, 0.330), (3, 0.135, 0.396, 0.467), (5, 0.194, 0.682, 0.779)],
)
def test_the_largest_amplitudes_of_the_papers_setting(
    epsilon: float, printed: float, cancelled: float, exact: float
) -> None:
    setting = {"epsilon": epsilon, "delta": 0.01, "dimension": ENTRIES}
    assert largest_amplitude(BIT, **setting) == pytest.approx(exact, abs=5e-4)
    assert largest_amplitude(BIT, spent=round_tail, **setting) == pytest.approx(cancelled, abs=5e-4)
    paper = {"dimension": ENTRIES, "gradient_bound": 30.0, "quantizer_slope": 0.05, "noise_power": 1.0}
    assert digital_amplitude_cap(epsilon, 0.01, num_devices=20, **paper) == pytest.approx(printed, abs=1e-3)


def test_at_epsilon_5_of_16_a_digital_round_truly_spends_1_03_and_an_analog_one_4_4() -> None:
    assert round_epsilon(BIT, 0.01, amplitude=0.194, dimension=ENTRIES) == pytest.approx(1.03, abs=5e-3)
    # mu = 2 A l sqrt(m): at the LMC cap 0.0080, and at the analog scheme's own cap 0.01192.
    for amplitude, epsilon in ((0.0080, 2.549), (0.01192, 4.391)):
        distance = 60.0 * amplitude * math.sqrt(ENTRIES)
        below, above = (float(gaussian_delta(epsilon + less, distance)) for less in (-1e-3, 1e-3))
        assert above < 0.01 < below


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 7.4])
def test_the_cap_keeps_the_bound_and_a_little_more_amplitude_breaks_it(epsilon: float) -> None:
    for spent in (round_delta, round_tail):
        cap = largest_amplitude(BIT, epsilon=epsilon, delta=0.01, dimension=ENTRIES, spent=spent)
        assert spent(BIT, epsilon, amplitude=cap, dimension=ENTRIES) <= 0.01
        assert spent(BIT, epsilon, amplitude=1.001 * cap, dimension=ENTRIES) > 0.01


def test_from_the_largest_loss_on_no_amplitude_is_too_large() -> None:
    for spent in (round_delta, round_tail):
        setting = {"delta": 0.01, "dimension": ENTRIES, "spent": spent}
        assert largest_amplitude(BIT, epsilon=ENTRIES * 1.5, **setting) == math.inf
        assert largest_amplitude(BIT, epsilon=ENTRIES * 1.5 - 0.05, **setting) < math.inf


# --- limits ---------------------------------------------------------------------------------------


@given(amplitude=st.floats(1e-4, 30.0), epsilon=st.floats(0.0, 1.4))
@settings(deadline=None, max_examples=40)
def test_one_entry_is_the_event_of_the_ledger(amplitude: float, epsilon: float) -> None:
    exact = float(SuperposedBit(amplitude=amplitude, entry_bound=1.5).delta(np.array([epsilon]))[0])
    found = round_delta(BIT, epsilon, amplitude=amplitude, dimension=1)
    assert exact * (1.0 - 1e-9) - 1e-17 <= found <= exact * (1.0 + 1e-3) + 1e-16


def test_without_noise_it_is_randomized_response() -> None:
    keep, count = 1.0 / (1.0 + math.exp(-1.5)), np.arange(ENTRIES + 1)
    loss, weight = 1.5 * (2 * count - ENTRIES), binom.pmf(count, ENTRIES, keep)
    for epsilon in (0.5, 3.0, 6.0):
        expected = float(np.sum(weight * np.maximum(-np.expm1(epsilon - loss), 0.0)))
        for amplitude in (math.inf, 60.0):
            found = round_delta(BIT, epsilon, amplitude=amplitude, dimension=ENTRIES)
            assert found == pytest.approx(expected, rel=1e-4)


def test_levels_without_a_draw_are_the_gaussian_mechanism() -> None:
    ends = LevelPair(levels=(-1.0, 0.5, 1.0), one=(0.0, 0.0, 1.0), other=(1.0, 0.0, 0.0))
    for amplitude, epsilon in ((0.1, 0.5), (0.3, 2.0), (1.0, 9.0)):
        distance = 2.0 * amplitude * math.sqrt(ENTRIES)
        found = round_delta(ends, epsilon, amplitude=amplitude, dimension=ENTRIES)
        assert found == pytest.approx(float(gaussian_delta(epsilon, distance)), rel=1e-4)
    cap = largest_amplitude(ends, epsilon=2.0, delta=1e-6, dimension=ENTRIES)
    assert cap == pytest.approx(gaussian_cap(2.0, 1e-6) / (2.0 * math.sqrt(ENTRIES)), rel=1e-4)


@given(epsilon=st.floats(0.05, 7.0), log_delta=st.floats(-25.0, -1.0), entries=st.sampled_from([1, 5, 64]))
@settings(deadline=None, max_examples=8)
def test_the_exact_cap_is_the_largest_and_what_it_spends_is_its_epsilon(
    epsilon: float, log_delta: float, entries: int
) -> None:
    setting = {"epsilon": epsilon, "delta": math.exp(log_delta), "dimension": entries}
    exact, cancelled = (largest_amplitude(BIT, spent=spent, **setting) for spent in (round_delta, round_tail))
    assert cancelled <= exact * (1.0 + 1e-5)
    if math.isfinite(exact):
        spent = round_epsilon(BIT, setting["delta"], amplitude=exact, dimension=entries)
        assert spent == pytest.approx(epsilon, rel=1e-3)


def test_delta_rises_with_the_amplitude_and_falls_with_epsilon() -> None:
    rising = [round_delta(THREE, 1.0, amplitude=a, dimension=3) for a in np.geomspace(0.01, 50.0, 40)]
    assert (np.diff(rising) >= -1e-9).all()
    falling = [round_delta(THREE, e, amplitude=0.5, dimension=3) for e in np.linspace(0.0, 5.0, 40)]
    assert (np.diff(falling) <= 1e-12).all()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "one", "other", "words"),
    [
        ((1.0, -1.0), (0.5, 0.5), (0.5, 0.5), "must be finite and rise"),
        ((-1.0, 1.0), (0.5, 0.6), (0.5, 0.5), "add up to 1"),
        ((-1.0, 1.0), (0.9, 0.1), (0.1, 0.9), "odds of a level fall"),
        ((-1.0, 1.0), (1.0,), (0.5, 0.5), "equally many"),
    ],
)
def test_what_is_no_pair_of_levels_is_refused(levels: tuple, one: tuple, other: tuple, words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        LevelPair(levels=levels, one=one, other=other)


@pytest.mark.parametrize("change", [{"amplitude": -1.0}, {"amplitude": math.nan}, {"dimension": 0}])
def test_an_impossible_round_is_refused(change: dict) -> None:
    with pytest.raises(PrivacyError, match=next(iter(change))):
        round_delta(BIT, 1.0, **({"amplitude": 1.0, "dimension": 5} | change))
    with pytest.raises(PrivacyError, match="epsilon"):
        round_delta(BIT, -1.0, amplitude=1.0, dimension=5)
