"""Theorem 2 against brute-force recursions and a strongly convex run over flipped bits."""

from __future__ import annotations

import numpy as np
import pytest
from bounds_setting import a_task, recovered
from numpy.typing import NDArray

from fl.algorithms.fedavg.convergence import (
    bit_flipping_noise,
    theorem2_bound,
)
from fl.algorithms.fedavg.softmax_optimum import ConvexTask, convex_task, softmax_loss

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
    assert bound.valid


def test_noise_of_zero_mean_adds_up_without_youngs_inequality() -> None:
    found = theorem2_bound(**{**SETTING, "flip_probability_max": 0.0}).values
    quiet = theorem2_bound(**{**SETTING, "flip_probability_max": 0.0, "noise_term": 0.0}).values
    shrink = (1 - 0.05 * 0.5) ** 5
    wanted = [0.02 * sum(shrink**i for i in range(k)) for k in range(13)]
    np.testing.assert_allclose(found - quiet, wanted, atol=1e-12)
    assert (found < theorem2_bound(**SETTING).values)[1:].all()


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.07},
        {"learning_rate": 3.0},
        {"clipped_share": 0.031},
        {"gradient_bound": 0.0},
        {"strong_convexity": 0.0},
        {"flip_probability_max": 0.2},
    ],
)
def test_a_bound_beyond_an_assumption_is_not_valid(change: dict[str, float]) -> None:
    with np.errstate(all="raise"):
        bound = theorem2_bound(**{**SETTING, **change})
    assert not bound.valid
    assert bound.values.shape == (13,)
    assert not np.isnan(bound.values).any()


def test_below_the_largest_probability_it_names_the_bound_is_valid() -> None:
    most = ((1 - 0.05 * 0.5) ** -5 - 1) ** 2
    assert theorem2_bound(**{**SETTING, "flip_probability_max": most * 0.999}).valid
    assert not theorem2_bound(**{**SETTING, "flip_probability_max": most * 1.001}).valid


def fedavg_distances(
    task: ConvexTask, *, rate: float, steps: int, p: float, runs: int
) -> tuple[NDArray[np.float64], float, float]:
    """Mean over runs of ||w_k - w*||^2, with the largest gradient and the largest norm of weights that were met."""
    x, y, devices, shares = a_task()
    rng = np.random.default_rng(17)
    paths, steepest, longest = [], 0.0, 0.0
    for _ in range(runs):
        w = np.full(21, 0.8)
        path = [((w - task.optimum) ** 2).sum()]
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
            path.append(((w - task.optimum) ** 2).sum())
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
    assert bound.valid
    assert (measured <= bound.values * (1 + 1e-12)).all()
    # The run does approach the optimum, so that staying below the bound means something.
    assert measured[-1] < 0.5 * measured[0]
