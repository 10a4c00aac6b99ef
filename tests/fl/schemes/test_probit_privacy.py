"""The b that keeps the promise of epsilon: likelihood ratios by enumeration, the channel credited, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracles.probit_estimate import estimate_variance, influence_bound
from probit_setting import CONTEXT, MANY, Array, equal, probit

from fl.base.errors import LearningError
from fl.schemes.coders.coder import Senders
from fl.schemes.probit.probit import Probit
from fl.schemes.probit.scheme import ProbitScheme
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose
from privacy.mechanisms.probit import dp_bound, privacy_loss

BALLS = [
    {"l1_clip": 0.2, "clip": None},
    {"l1_clip": 0.2, "clip": 0.1},
    {"l1_clip": 0.2, "clip": 0.08},
]


def in_ball(rng: np.random.Generator, num_values: int, *, l1_clip: float, clip: float | None) -> Array:
    update = rng.dirichlet(np.full(num_values, 0.4)) * rng.choice([-1.0, 1.0], num_values) * l1_clip
    return update if clip is None else np.clip(update, -clip, clip)


def worst_loss(one: Array, other: Array, *, b: float, flip: float) -> float:
    """Largest ln of the ratio of probabilities, over all words of bits."""
    plus = [(1.0 - flip) * (b + d) / (2.0 * b) + flip * (b - d) / (2.0 * b) for d in (one, other)]
    worst = -np.inf
    for word in itertools.product([0, 1], repeat=len(one)):
        sent = np.array(word, bool)
        first, second = (np.where(sent, p, 1.0 - p).prod() for p in plus)
        worst = max(worst, np.log(first) - np.log(second))
    return float(worst)


def extremes(num_values: int, *, l1_clip: float, clip: float | None) -> tuple[Array, Array]:
    """An update spread evenly, and one of the other sign on as few entries as can be."""
    largest = l1_clip if clip is None else clip
    spread = np.full(num_values, min(l1_clip / num_values, largest))
    packed = np.zeros(num_values)
    rest = l1_clip
    for place in range(num_values):
        packed[place] = -min(largest, rest)
        rest = max(rest + packed[place], 0.0)
    return spread, packed


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("flip", [0.0, 0.12])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("form", ["printed", "exact"])
def test_the_likelihood_ratio_of_any_two_updates_is_at_most_e_to_the_epsilon(
    ball: dict[str, Any], flip: float, epsilon: float, form: Any
) -> None:
    num_values = 4
    b = float(dp_bound(epsilon=epsilon, flip_rate=flip, form=form, num_values=num_values, **ball))
    rng = np.random.default_rng(12)
    pairs = [(in_ball(rng, num_values, **ball), in_ball(rng, num_values, **ball)) for _ in range(60)]
    found = [worst_loss(one, other, b=b, flip=flip) for one, other in pairs]
    extreme = worst_loss(*extremes(num_values, **ball), b=b, flip=flip)
    assert max(found) < epsilon
    assert extreme <= epsilon * (1.0 + 1e-9)
    assert extreme == pytest.approx(privacy_loss(b / (1.0 - 2.0 * flip), num_values=num_values, **ball), rel=1e-9)
    assert max(found) <= extreme
    if form == "exact" and b > (ball["clip"] or ball["l1_clip"]) * 1.001:
        assert extreme == pytest.approx(epsilon, rel=1e-6)
    else:
        assert extreme < epsilon


def test_the_printed_bound_spends_about_half_of_what_it_may() -> None:
    printed, exact = (float(dp_bound(epsilon=1.0, l1_clip=1.0, form=form)) for form in ("printed", "exact"))
    # C / b - ln(1 - C / b) = 1 has the solution C / b = 1 - W(1), W(1) = 0.567143 of Lambert.
    assert printed == 5.0
    assert exact == pytest.approx(1.0 / (1.0 - 0.567143), rel=1e-5)
    assert privacy_loss(printed, l1_clip=1.0) == pytest.approx(0.2 - np.log(0.8))


def test_flips_of_the_channel_let_b_be_smaller_by_their_factor_and_no_smaller_than_updates() -> None:
    asked = float(dp_bound(epsilon=1.0, l1_clip=0.1))
    np.testing.assert_allclose(
        dp_bound(epsilon=1.0, l1_clip=0.1, flip_rate=np.array([0.0, 0.1, 0.3, 0.5])),
        [asked, 0.8 * asked, 0.4 * asked, 0.1],
    )
    scheme = probit(3, b=asked, epsilon=1.0, l1_clip=0.1)
    devices = np.array([2, 5, 9])
    scheme.begin(CONTEXT, devices=devices, flip_rate=np.array([0.0, 0.1, 0.5]))
    np.testing.assert_allclose(scheme.device_bounds(devices), [asked, 0.8 * asked, 0.1])
    np.testing.assert_allclose(scheme.device_bounds(devices[1:]), [0.8 * asked, 0.1])


@pytest.mark.parametrize("flip", [0.0, 0.04])
def test_bits_that_devices_really_send_over_the_channel_keep_epsilon(flip: float) -> None:
    epsilon, ball = 2.0, {"l1_clip": 0.2, "clip": 0.15}
    count = MANY
    b = float(dp_bound(epsilon=epsilon, form="exact", num_values=2, **ball))
    settings: dict[str, Any] = {"bound": "clip", "epsilon": epsilon, "form": "exact", **ball}
    scheme = Probit(ProbitScheme(name="probit", **settings), num_values=2, b=b)
    scheme.begin(CONTEXT, devices=np.arange(count), flip_rate=np.full(count, flip))
    probabilities = []
    # Both are longer than the clips allow, and must be cut to the extremes of the ball.
    for update in ([7.0, 7.0], [-0.45, -0.15 / 2.25]):
        updates = np.tile(np.array(update, np.float32), (count, 1))
        sent = scheme.encode(updates, devices=np.arange(count), context=CONTEXT)
        heard = flip_bits(sent, probability=np.full((1, count), flip), num_bits=2, keys=CONTEXT.keys(Purpose.BIT_FLIPS))
        words = heard[0, :, 0] >> 6
        probabilities.append(np.bincount(words, minlength=4) / count)
    ratio = np.log(probabilities[0] / probabilities[1])
    error = np.sqrt(((1.0 / probabilities[0]) + (1.0 / probabilities[1])) / count)
    assert np.all(np.abs(ratio) <= epsilon + 4.0 * error)
    shares = np.array([0.15, 0.15 / 2.25]) * 0.2 / max(0.15 + 0.15 / 2.25, 0.2)
    expected = worst_loss(np.array([0.1, 0.1]), -shares, b=b, flip=0.0)
    assert (1.0 - 2.0 * flip) * b > 0.15
    assert abs(ratio.max() - expected) < 4.0 * error.max()
    assert expected > 0.8 * epsilon


def test_crediting_the_channel_makes_the_estimate_better_than_ignoring_it() -> None:
    count, flip, epsilon = 50, 0.2, 1.0
    num_values = 4000
    rng = np.random.default_rng(3)
    updates = rng.normal(size=(count, num_values)).astype(np.float32) * 1e-4
    scheme = probit(num_values, bound="adaptive", b=1e-9, epsilon=epsilon, l1_clip=0.05)
    errors = []
    for rate in (0.0, flip):
        given: Any = {"devices": np.arange(count), "context": CONTEXT}
        scheme.begin(**given, flip_rate=np.full(count, rate))
        sent = scheme.encode(updates, **given)
        heard = flip_bits(
            sent, probability=np.full((1, count), flip), num_bits=num_values, keys=CONTEXT.keys(Purpose.BIT_FLIPS)
        )
        found = scheme.aggregate(heard, Senders(weights=equal(count), factor=np.full(count, 1.0 - 2.0 * flip), **given))
        errors.append(np.mean(found.astype(float) ** 2))
    # The same b' for an observer, and 1 / (1 - 2 p)^2 = 2.78 times the variance; 4 standard errors of a ratio.
    assert errors[0] / errors[1] == pytest.approx(1.0 / 0.6**2, rel=4.0 * np.sqrt(4.0 / num_values))


def test_the_exact_bound_of_a_scenario_spends_its_epsilon_and_is_refused_below() -> None:
    config = ProbitScheme(name="probit", bound="adaptive", b=1e-9, epsilon=1.0, l1_clip=0.1, form="exact")
    exact = Probit(config, num_values=10)
    printed = Probit(config.model_copy(update={"form": "printed"}), num_values=10)
    assert privacy_loss(exact.b, l1_clip=0.1, num_values=10) == pytest.approx(1.0, rel=1e-6)
    assert privacy_loss(printed.b, l1_clip=0.1, num_values=10) < 0.5
    assert exact.b < 0.5 * printed.b
    # What the adaptive rule may not fall below is the same b.
    given: Any = {"devices": np.arange(4), "context": CONTEXT}
    exact.learn(np.full(10, 1e-9), Senders(weights=equal(4), factor=np.ones(4), **given), arrived=np.ones(4))
    assert exact.state() == {"next_b": exact.b}
    fixed = config.model_copy(update={"bound": "fixed", "b": 0.99 * exact.b})
    assert "(epsilon, 0)-DP asks for" in problem(fixed)
    assert problem(fixed.model_copy(update={"b": exact.b})) == ""
    # Of more numbers an update may be spread over more of them: more b is asked for, most where none is known.
    assert exact.b < config.first_bound(10_000) < config.first_bound(None)


def problem(config: ProbitScheme) -> str:
    found = config.conflicts(num_rounds=50, num_values=10, calibrated=False)
    return "; ".join(f"{one.problem}; {one.remedy}" for one in found)


def test_b_below_what_privacy_asks_for_is_refused_in_one_sentence() -> None:
    config = ProbitScheme(name="probit", b=0.05, epsilon=1.0, l1_clip=0.1)
    assert problem(config).startswith("b 0.05 is below 0.5, ")
    assert "write b: " in problem(config)
    enough = config.model_copy(update={"b": 0.5})
    assert problem(enough) == ""
    assert enough.first_bound(10) == 0.5
    assert config.model_copy(update={"bound": "adaptive"}).first_bound(10) == pytest.approx(0.5)
    clipped = ProbitScheme(name="probit", bound="clip", clip=0.02, epsilon=1.0, l1_clip=0.1)
    assert clipped.first_bound(10) == pytest.approx(0.42)
    assert ProbitScheme(name="probit", bound="clip", clip=0.02).first_bound(10) == 0.02


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: influence_bound(1.5, b=1.0), "share of 1.5"),
        (lambda: estimate_variance(np.ones((2, 3)), b=0.5), "update 0 has entries beyond b"),
    ],
)
def test_numbers_that_cannot_be_are_refused(call: Any, sentence: str) -> None:
    with pytest.raises(LearningError, match=sentence):
        call()


def test_what_is_really_spent_is_told_beside_what_was_asked() -> None:
    spent = privacy_loss(0.5, l1_clip=0.1, num_values=50)
    assert spent == pytest.approx(50 * np.log1p(0.1 / 50 / 0.5) - np.log(0.8))
    assert ProbitScheme(name="probit").response.flip_target is None
