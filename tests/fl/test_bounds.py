"""Lemma 1, Lemma 2 and Theorem 2 against flipped bits, brute-force recursions and a strongly convex run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.bounds import (
    bit_flipping_noise,
    flipped_mean,
    flipped_variance,
    gaussian_noise,
    local_bias_variance,
    recovered_moments,
    theorem2_bound,
)
from fl.softmax_optimum import ConvexTask, convex_task, smoothness_bound, softmax_loss, softmax_optimum
from fl.tasks.base import LearningError

FORMATS = {10: (np.float16, np.uint16), 23: (np.float32, np.uint32), 52: (np.float64, np.uint64)}


def fractions_flipped(
    values: NDArray[np.float64], *, p: NDArray[np.float64] | float, bits: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The slow way: numbers in their own format, every fraction bit flipped by itself."""
    number, word = FORMATS[bits]
    pattern = values.astype(number).view(word)
    for bit in range(bits):
        pattern = pattern ^ ((rng.random(values.shape) < p).astype(word) << word(bit))
    return pattern.view(number).astype(np.float64)


def recovered(
    weights: NDArray[np.float64], *, p: NDArray[np.float64] | float, value_range: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Li et al. 2025 (7) and back, over flipped bits of binary32."""
    return fractions_flipped(weights + 3 * value_range, p=p, bits=23, rng=rng) - 3 * value_range


def within_four_standard_errors(drawn: NDArray[np.float64], mean: object, variance: object) -> None:
    """Mean and variance of the draws along the last axis."""
    count = drawn.shape[-1]
    centred = drawn - drawn.mean(axis=-1, keepdims=True)
    spread = (centred**2).mean(axis=-1)
    assert (np.abs(drawn.mean(axis=-1) - mean) < 4 * np.sqrt(spread / count)).all()
    error_of_spread = np.sqrt(((centred**4).mean(axis=-1) - spread**2) / count)
    assert (np.abs(spread - variance) < 4 * error_of_spread).all()


@pytest.mark.parametrize("bits", [10, 23, 52])
@pytest.mark.parametrize("p", [0.02, 0.3])
def test_flipped_numbers_have_the_mean_and_variance_of_lemma_1(bits: int, p: float) -> None:
    values = np.array([0.1, -0.75, 1.0, 3.999, -2.0, 100.0]).astype(FORMATS[bits][0]).astype(np.float64)
    drawn = fractions_flipped(np.tile(values[:, None], 20_000), p=p, bits=bits, rng=np.random.default_rng(bits))
    within_four_standard_errors(
        drawn,
        flipped_mean(values, flip_probability=p, fraction_bits=bits),
        flipped_variance(values, flip_probability=p, fraction_bits=bits),
    )


@pytest.mark.parametrize("bits", [10, 23])
def test_lemma_1_is_exact_for_certain_flips_and_for_none(bits: int) -> None:
    values = np.array([1.25, -6.0])
    flipped = fractions_flipped(values, p=1.0, bits=bits, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(flipped_mean(values, flip_probability=1.0, fraction_bits=bits), flipped)
    np.testing.assert_array_equal(flipped_mean(values, flip_probability=0.0, fraction_bits=bits), values)
    np.testing.assert_array_equal(flipped_variance(values, flip_probability=[0.0, 1.0], fraction_bits=bits), 0.0)


def test_recovered_weights_shrink_by_1_minus_2p_and_scatter_as_the_paper_says() -> None:
    weights = np.array([-1.0, -0.3125, 0.0, 0.5, 0.984375])
    p = 0.1
    drawn = recovered(np.tile(weights[:, None], 40_000), p=p, value_range=1.0, rng=np.random.default_rng(3))
    mean, variance = recovered_moments(weights, flip_probability=p, value_range=1.0)
    within_four_standard_errors(drawn, mean, variance)
    # (20) prints +2 p w for the bias, some 200 standard errors away for the last weight.
    assert np.abs(drawn[-1].mean() - (1 + 2 * p) * weights[-1]) > 100 * drawn[-1].std() / np.sqrt(40_000)
    np.testing.assert_allclose(mean, (1 - 2 * p) * weights, atol=2**-22)
    # The digest: 0.120 at p = 0.1 and nu_inf = 0.5; Li et al. 2025 (21) prints it as 2^(2 e - 250) with e = 126.
    assert variance[0] == pytest.approx((1 - 4.0**-23) / 3 * 0.1 * 0.9 * 2.0 ** (2 * 126 - 250), rel=1e-12)
    assert variance[0] == pytest.approx(0.120, abs=5e-4)


def test_of_ten_bits_the_step_of_the_grid_shows_in_the_mean() -> None:
    value_range, p = 0.25, 0.5
    weights = np.array([-0.25, 0.125])
    # At p = 1/2 every point of the grid is as likely: their mean is half a step below 0.
    grid = np.arange(-512, 512) * value_range / 512
    mean, variance = recovered_moments(weights, flip_probability=p, value_range=value_range, fraction_bits=10)
    np.testing.assert_allclose(mean, grid.mean(), rtol=1e-12)
    np.testing.assert_allclose(variance, grid.var(), rtol=1e-12)


def test_local_bias_variance_is_that_of_all_weights_together() -> None:
    rng = np.random.default_rng(5)
    weights = rng.uniform(-0.5, 0.5, 400)
    noise = recovered(np.tile(weights, (2000, 1)), p=0.2, value_range=0.5, rng=rng) - weights
    squares = ((noise - noise.mean(axis=0)) ** 2).sum(axis=1)
    wanted = local_bias_variance(flip_probability=0.2, num_parameters=400, value_range=0.5)
    # Centring by the sample mean takes one of 2000 degrees of freedom.
    assert abs(squares.mean() * 2000 / 1999 - wanted) < 4 * squares.std() / np.sqrt(2000)


def squared_bias(
    weights: NDArray[np.float64], *, shares: NDArray[np.float64], p: NDArray[np.float64], divided: bool = False
) -> NDArray[np.float64]:
    """Draws of ||sum_n q_n (w~_n - w_n)||^2."""
    rng = np.random.default_rng(7)
    draws = []
    for _ in range(400):
        back = recovered(weights, p=p[:, None], value_range=1.0, rng=rng)
        if divided:
            back = back / (1 - 2 * p[:, None])
        draws.append(((shares @ (back - weights)) ** 2).sum())
    return np.array(draws)


@pytest.mark.parametrize("divided", [False, True])
def test_the_noise_term_bounds_the_aggregated_bias_where_the_printed_one_does_not(divided: bool) -> None:
    # The worst that is allowed: all devices alike and all weights at the edge, so that Cauchy's inequality is tight.
    shares, p = np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 0.2)
    weights = np.full((4, 300), -1.0)
    measured = squared_bias(weights, shares=shares, p=p, divided=divided)
    known = {
        "shares": shares,
        "flip_probability": p,
        "num_parameters": 300,
        "value_range": 1.0,
        "norm_bound": float(np.sqrt(300)),
    }
    bound = bit_flipping_noise(**known, divided=divided)
    error = measured.std() / np.sqrt(len(measured))
    assert measured.mean() < bound + 4 * error
    # Here it is an equality, so a bound with a spare factor would be found out as well.
    assert measured.mean() > bound - 4 * error
    if not divided:
        assert bit_flipping_noise(**known, printed=True) < measured.mean() - 40 * error


def test_the_noise_term_holds_for_devices_that_differ() -> None:
    rng = np.random.default_rng(2)
    shares, p = rng.dirichlet(np.ones(6)), rng.uniform(0.01, 0.3, 6)
    weights = rng.uniform(-0.9, 0.9, (6, 200))
    norm_bound = float(np.linalg.norm(weights, axis=1).max())
    bound = bit_flipping_noise(
        shares=shares, flip_probability=p, num_parameters=200, value_range=1.0, norm_bound=norm_bound
    )
    assert squared_bias(weights, shares=shares, p=p).mean() < bound


def test_the_printed_noise_term_is_that_of_the_paper_round_by_round() -> None:
    shares, p = np.array([0.25, 0.75]), np.array([[0.1, 0.02], [0.0, 0.5], [0.0, 0.0]])
    found = bit_flipping_noise(
        shares=shares, flip_probability=p, num_parameters=50, value_range=2.0, norm_bound=16.0, printed=True
    )
    for round_index in range(3):
        # (22) with e = 127, for nu_inf = 1: values in [-2, 2).
        first = (
            (1 - 4.0**-23)
            * 50
            / 3
            * sum(q**2 * r * (1 - r) * 2.0 ** (2 * 127 - 250) for q, r in zip(shares, p[round_index], strict=True))
        )
        second = sum(q * r**2 * 16.0**2 for q, r in zip(shares, p[round_index], strict=True))
        assert found[round_index] == pytest.approx(first + second, rel=1e-12)
    assert found[2] == 0.0


def test_division_at_one_half_knows_no_bound() -> None:
    found = bit_flipping_noise(
        shares=[1.0], flip_probability=[0.5], num_parameters=5, value_range=1.0, norm_bound=1.0, divided=True
    )
    assert found == np.inf


def test_the_gaussian_noise_term_is_that_of_the_paper() -> None:
    shares, sizes = np.array([0.4, 0.6]), np.array([40, 60])
    eta, clip, rounds, epsilon, delta, m = 0.1, 1.0, 50, 5.0, 0.01, 7850
    std = 2 * eta * clip / sizes * rounds * np.sqrt(2 * np.log(1.25 / delta)) / epsilon
    printed = sum(
        q**2 * m * (2 * eta * clip * rounds) ** 2 * 2 * np.log(1.25 / delta) / (size**2 * epsilon**2)
        for q, size in zip(shares, sizes, strict=True)
    )
    assert gaussian_noise(shares=shares, noise_std=std, num_parameters=m) == pytest.approx(printed, rel=1e-12)


SETTING = {
    "initial_distance_sq": 4.0,
    "num_rounds": 12,
    "local_steps": 5,
    "learning_rate": 0.05,
    "strong_convexity": 0.5,
    "smoothness": 4.0,
    "heterogeneity": 0.3,
    "gradient_bound": 2.0,
    "flip_probability_max": 0.003,
    "noise_term": 0.02,
}


def by_recursion(**setting: float) -> list[float]:
    """(45a) and (45b), step after step."""
    eta, mu, p = setting["learning_rate"], setting["strong_convexity"], setting["flip_probability_max"]
    b = 6 * setting["smoothness"] * setting["heterogeneity"]
    b += 8 * (setting["local_steps"] - 1) ** 2 * setting["gradient_bound"] ** 2
    distances = [setting["initial_distance_sq"]]
    for _ in range(int(setting["num_rounds"])):
        distance = distances[-1]
        for _ in range(int(setting["local_steps"])):
            distance = (1 - eta * mu) * distance + eta**2 * b
        distance += setting["noise_term"] / np.sqrt(p) if p > 0 else 0.0
        distances.append((1 + np.sqrt(p)) * distance)
    return distances


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"local_steps": 1},
        {"flip_probability_max": 0.2},  # r > 1: it grows
        {"flip_probability_max": 1e-12, "noise_term": 1e-12},
        {"flip_probability_max": 0.0, "noise_term": 0.0},
        {"strong_convexity": 1e-9},
        {"num_rounds": 0},
        # r = 1 to 15 digits, where 1 - r^k and 1 - r are both rounding errors.
        {"local_steps": 1, "flip_probability_max": (1 / (1 - 0.05 * 0.5) - 1) ** 2},
    ],
)
def test_theorem_2_is_its_recursion_in_closed_form(change: dict[str, float]) -> None:
    setting = {**SETTING, **change}
    np.testing.assert_allclose(theorem2_bound(**setting).values, by_recursion(**setting), rtol=1e-9)


def test_theorem_2_is_what_the_paper_prints() -> None:
    bound = theorem2_bound(**SETTING)
    k, e, eta, mu, root = 12, 5, 0.05, 0.5, np.sqrt(0.003)
    zeta1 = (1 + root) ** k * (1 - eta * mu) ** (k * e)
    zeta3 = (1 - (1 - eta * mu) ** (k * e) * (1 + root) ** k) / (1 - (1 - eta * mu) ** e * (1 + root)) * (1 + root)
    zeta2 = zeta3 * (1 - (1 - eta * mu) ** e) / (eta * mu)
    b = 6 * 4.0 * 0.3 + 8 * 4**2 * 2.0**2
    assert bound.values[-1] == pytest.approx(zeta1 * 4.0 + zeta2 * eta**2 * b + zeta3 * 0.02 / root, rel=1e-12)
    assert bound.contraction == pytest.approx((1 + root) * (1 - eta * mu) ** e, rel=1e-12)
    assert (bound.valid, bound.reason) == (True, "")


def test_noise_of_zero_mean_adds_up_without_youngs_inequality() -> None:
    found = theorem2_bound(**{**SETTING, "flip_probability_max": 0.0}).values
    quiet = theorem2_bound(**{**SETTING, "flip_probability_max": 0.0, "noise_term": 0.0}).values
    shrink = (1 - 0.05 * 0.5) ** 5
    wanted = [0.02 * sum(shrink**i for i in range(k)) for k in range(13)]
    np.testing.assert_allclose(found - quiet, wanted, atol=1e-12)
    assert (found < theorem2_bound(**SETTING).values)[1:].all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"learning_rate": 0.07}, r"learning_rate 0.07 exceeds 1 / \(4 L\) = 0.0625"),
        ({"learning_rate": 3.0}, r"learning_rate 3 exceeds"),
        ({"clipped_share": 0.031}, "3.10% of the gradients were clipped"),
        ({"gradient_bound": 0.0}, "5 local steps drift apart by what no gradient bound limits; write local.clip"),
        ({"strong_convexity": 0.0}, "not strongly convex; write local.l2"),
        ({"flip_probability_max": 0.2}, "= 1.275 is not below 1, .* it would take p_max < 0.0182 in the place of 0.2"),
    ],
)
def test_a_bound_that_says_nothing_says_why(change: dict[str, float], sentence: str) -> None:
    with np.errstate(all="raise"):
        bound = theorem2_bound(**{**SETTING, **change})
    assert not bound.valid
    assert re.search(sentence, bound.reason)
    assert bound.values.shape == (13,)
    assert not np.isnan(bound.values).any()


def test_below_the_largest_probability_it_names_the_bound_is_valid() -> None:
    most = ((1 - 0.05 * 0.5) ** -5 - 1) ** 2
    assert theorem2_bound(**{**SETTING, "flip_probability_max": most * 0.999}).valid
    assert not theorem2_bound(**{**SETTING, "flip_probability_max": most * 1.001}).valid


@pytest.mark.parametrize(
    "change",
    [
        {"flip_probability_max": 1.5},
        {"learning_rate": 0.0},
        {"strong_convexity": 5.0},
        {"noise_term": -1.0},
        {"heterogeneity": float("nan")},
    ],
)
def test_arguments_of_no_problem_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(LearningError, match="no problem has"):
        theorem2_bound(**{**SETTING, **change})


@pytest.mark.parametrize("value", [0.0, 1e-40, np.inf, np.nan])
def test_lemma_1_refuses_what_has_no_such_exponent(value: float) -> None:
    with pytest.raises(LearningError, match="normalised numbers"):
        flipped_mean([1.0, value], flip_probability=0.1)


def test_probabilities_and_formats_are_checked() -> None:
    with pytest.raises(LearningError, match=r"lie in \[0, 1\], found 0.1 to 1.2"):
        flipped_mean(1.0, flip_probability=[0.1, 1.2])
    with pytest.raises(LearningError, match="fraction_bits 7 is of no IEEE 754 format"):
        flipped_variance(1.0, flip_probability=0.1, fraction_bits=7)


def a_task() -> tuple[NDArray[np.float64], NDArray[np.int64], list[NDArray[np.int64]], NDArray[np.float64]]:
    """Three noisy classes of 6 features; devices hold different mixtures."""
    rng = np.random.default_rng(11)
    y = rng.integers(3, size=120)
    x = 0.6 * rng.normal(size=(120, 6)) + np.eye(3, 6)[y]
    devices = [part.astype(np.int64) for part in np.array_split(np.argsort(y + 1.5 * rng.random(120)), 6)]
    shares = np.array([len(part) for part in devices]) / 120
    return x, y, devices, shares


def test_the_gradient_of_softmax_regression_is_that_of_its_loss() -> None:
    x, y, _, _ = a_task()
    rng = np.random.default_rng(1)
    weights, sample_weights = rng.normal(size=21), rng.dirichlet(np.ones(120))
    value, gradient = softmax_loss(weights, x, y, sample_weights=sample_weights, l2=0.3)
    probability = np.exp(x @ weights.reshape(7, 3)[:6] + weights.reshape(7, 3)[6])
    probability /= probability.sum(axis=1, keepdims=True)
    wanted = -sample_weights @ np.log(probability[np.arange(120), y]) + 0.15 * (weights**2).sum()
    assert value == pytest.approx(wanted, rel=1e-12)
    for direction in np.eye(21):
        ends = [
            softmax_loss(weights + h * direction, x, y, sample_weights=sample_weights, l2=0.3)[0] for h in (1e-5, -1e-5)
        ]
        # Central differences: h^2 from the third derivative, rounding 1e-16 / h.
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient @ direction, abs=1e-8)


def test_the_optimum_is_where_slow_gradient_descent_ends() -> None:
    x, y, _, _ = a_task()
    found = softmax_optimum(x, y, num_outputs=3, l2=0.1)
    weights, rate = np.zeros(21), 1 / smoothness_bound(x, l2=0.1)
    for _ in range(2000):
        weights = weights - rate * softmax_loss(weights, x, y, sample_weights=np.full(120, 1 / 120), l2=0.1)[1]
    # Gradient descent shrinks the distance by 1 - mu / L a step, to nothing after 2000.
    assert np.linalg.norm(found.weights - weights) < found.distance + 1e-9
    assert found.distance < 1e-5


def test_few_samples_in_many_dimensions_are_solved_in_their_span() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(9, 40)), rng.integers(4, size=9)
    found = softmax_optimum(x, y, num_outputs=4, l2=0.05)
    value, gradient = softmax_loss(found.weights, x, y, sample_weights=np.full(9, 1 / 9), l2=0.05)
    assert value == pytest.approx(found.value, rel=1e-12)
    assert np.linalg.norm(gradient) / 0.05 < 1e-5


def test_no_device_curves_more_than_its_smoothness() -> None:
    x, _, devices, _ = a_task()
    for indices in devices:
        limit = smoothness_bound(x[indices], l2=0.1)
        ones = np.column_stack([x[indices], np.ones(len(indices))])
        assert limit <= 0.1 + 0.5 * (ones**2).sum(axis=1).max()
        # At w = 0 of two classes diag(s) - s s^T has the eigenvalue 1/2, so that the bound is met.
        hessian = np.kron(np.array([[0.25, -0.25], [-0.25, 0.25]]), ones.T @ ones / len(indices))
        assert np.linalg.eigvalsh(hessian)[-1] + 0.1 == pytest.approx(limit, rel=1e-12)


def test_heterogeneity_is_what_devices_would_gain_alone() -> None:
    x, y, devices, shares = a_task()
    task = convex_task(x, y, devices=devices, shares=shares, num_outputs=3, l2=0.1)
    alone = [softmax_optimum(x[part], y[part], num_outputs=3, l2=0.1).value for part in devices]
    together = softmax_optimum(x, y, num_outputs=3, l2=0.1).value
    assert task.heterogeneity == pytest.approx(together - shares @ alone, abs=1e-10)
    assert task.heterogeneity > 0.05
    same = convex_task(x, y, devices=[np.arange(120)] * 3, shares=np.full(3, 1 / 3), num_outputs=3, l2=0.1)
    assert same.heterogeneity < 1e-10


def test_what_has_no_optimum_is_refused() -> None:
    x, y, _, _ = a_task()
    with pytest.raises(LearningError, match="l2 0 leaves softmax regression without a unique optimum"):
        softmax_optimum(x, y, num_outputs=3, l2=0.0)
    with pytest.raises(LearningError, match="labels 0 to 2 do not fit 2 outputs"):
        softmax_optimum(x, y, num_outputs=2, l2=0.1)
    with pytest.raises(LearningError, match="without samples"):
        convex_task(x, y, devices=[np.arange(3), np.arange(0)], shares=np.ones(2) / 2, num_outputs=3, l2=0.1)


def fedavg_distances(
    task: ConvexTask, *, rate: float, steps: int, p: float, runs: int
) -> tuple[NDArray[np.float64], float, float]:
    """Mean over runs of ||w_k - w*||^2, with the largest gradient and the largest norm of weights that were met."""
    x, y, devices, shares = a_task()
    rng = np.random.default_rng(17)
    paths, steepest, longest = [], 0.0, 0.0
    for _ in range(runs):
        w = np.full(21, 0.8)
        path = [((w - task.optimum.weights) ** 2).sum()]
        for _ in range(15):
            local = np.tile(w, (len(devices), 1))
            for device, part in enumerate(devices):
                for _ in range(steps):
                    uniform = np.full(len(part), 1 / len(part))
                    gradient = softmax_loss(local[device], x[part], y[part], sample_weights=uniform, l2=0.1)[1]
                    steepest = max(steepest, float(np.linalg.norm(gradient)))
                    local[device] -= rate * gradient
            longest = max(longest, float(np.linalg.norm(local, axis=1).max()))
            assert np.abs(local).max() < 2.0
            w = shares @ recovered(local, p=p, value_range=2.0, rng=rng)
            path.append(((w - task.optimum.weights) ** 2).sum())
        paths.append(path)
    return np.mean(paths, axis=0), steepest, longest


def test_federated_averaging_over_flipped_bits_stays_below_theorem_2() -> None:
    x, y, devices, shares = a_task()
    task = convex_task(x, y, devices=devices, shares=shares, num_outputs=3, l2=0.1)
    rate, p = 0.25 / task.smoothness, 1e-3
    measured, steepest, longest = fedavg_distances(task, rate=rate, steps=3, p=p, runs=12)
    noise = bit_flipping_noise(
        shares=shares, flip_probability=np.full(6, p), num_parameters=21, value_range=2.0, norm_bound=longest
    )
    bound = theorem2_bound(
        initial_distance_sq=measured[0],
        num_rounds=15,
        local_steps=3,
        learning_rate=rate,
        strong_convexity=task.strong_convexity,
        smoothness=task.smoothness,
        heterogeneity=task.heterogeneity,
        gradient_bound=steepest,
        flip_probability_max=p,
        noise_term=float(noise),
    )
    assert bound.valid, bound.reason
    assert (measured <= bound.values * (1 + 1e-12)).all()
    # The run does approach the optimum, so that staying below the bound means something.
    assert measured[-1] < 0.5 * measured[0]
