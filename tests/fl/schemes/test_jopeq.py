"""JoPEQ: the moments of its error, its lattices and bits, and the privacy of the noise that is left to add."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from baseline_setting import round_of, there_and_back

from fl.schemes import jopeq
from fl.schemes.coders.value_coder import ValueCoder
from fl.schemes.jopeq import JopeqScheme


def scheme(**settings: Any) -> JopeqScheme:
    return JopeqScheme(name="jopeq", **settings)


@pytest.fixture
def radius(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set gamma over the root mean square of what is quantised."""
    return lambda factor: monkeypatch.setattr(jopeq, "RADIUS_FACTOR", factor)


def inputs(num_devices: int, num_values: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(-1, 1, (num_devices, num_values)).astype(np.float32)


def errors(code: JopeqScheme, x: np.ndarray) -> np.ndarray:
    return there_and_back(code, x).astype(float) - x


def test_levels_are_those_of_the_reference_code() -> None:
    code = scheme(epsilon=0.5, rate_bits=1)
    gamma = 1.5 * math.sqrt(1 + 2 * (2 / 0.5) ** 2)
    spacing = 2 * gamma / 3
    np.testing.assert_allclose(code.quantizer.points[:, 0], [-spacing, 0.0, spacing])
    assert code.target_variance == pytest.approx(32.0)
    assert code.noise_variance == pytest.approx(32.0 - spacing**2 / 12)


@pytest.mark.parametrize(
    ("rate_bits", "dimension", "levels", "bits"),
    [(1, 1, 3, 2), (2, 1, 5, 3), (4, 1, 17, 5), (1, 2, 7, 3), (2, 2, 19, 5)],
)
def test_a_code_takes_the_bits_that_tell_its_levels_apart(
    rate_bits: int, dimension: int, levels: int, bits: int
) -> None:
    code = scheme(epsilon=0.5, rate_bits=rate_bits, dimension=dimension)
    assert (len(code.quantizer.points), code.bits_per_block, code.block) == (levels, bits, dimension)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_scalar_error_has_the_variance_of_eps_private_laplace_noise(
    epsilon: float, radius: Callable[[float], None]
) -> None:
    # A radius of 12 root mean squares: 17 scales of the Laplace noise, which one in 10^7 exceeds. No overload.
    radius(12.0)
    code = scheme(epsilon=epsilon, rate_bits=4)
    x = inputs(400, 1000)
    error = errors(code, x)
    n, noise, cell = x.size, code.noise_variance, code.quantizer.cell_moment
    variance = 2 * (2 / epsilon) ** 2
    assert noise + cell == pytest.approx(variance)
    assert cell > 0.1 * variance  # quantisation has its part in it
    # Laplace has the fourth moment 6 sigma^4, the uniform 9/5 sigma^4; independent, so is their sum's known.
    fourth = 6 * noise**2 + 6 * noise * cell + 1.8 * cell**2
    assert abs(error.mean()) < 4 * math.sqrt(variance / n)
    assert abs((error**2).mean() - variance) < 4 * math.sqrt((fourth - variance**2) / n)
    assert abs((error**4).mean() / fourth - 1) < 0.1
    # Subtractive dither: the error does not know the input.
    assert abs((error * x).mean()) < 4 * math.sqrt(variance / 3 / n)
    assert abs((error**2 * (x**2 - 1 / 3)).mean()) < 4 * math.sqrt(fourth * 4 / 45 / n)


def test_the_error_of_a_pair_has_the_variance_of_eps_private_t_noise(radius: Callable[[float], None]) -> None:
    radius(8.0)
    code = scheme(epsilon=0.5, dimension=2, rate_bits=4)
    x = inputs(50, 4000)
    error = errors(code, x)
    n, noise, cell = x.size, code.noise_variance, code.quantizer.cell_moment / 2
    assert noise + cell == pytest.approx(code.target_variance)
    assert cell > 0.05 * noise
    # An entry of t noise with nu = 6 has the fourth moment 3 (nu - 2) / (nu - 4) sigma^4; the hexagon's is below 3.
    fourth = 6 * noise**2 + 6 * noise * cell + 3 * cell**2
    assert abs(error.mean()) < 4 * math.sqrt(code.target_variance / n)
    assert abs((error**2).mean() - code.target_variance) < 4 * math.sqrt((fourth - code.target_variance**2) / n)
    # Isotropic: entries of a pair are not correlated, and neither is the error with the input.
    assert abs((error[:, 0::2] * error[:, 1::2]).mean()) < 4 * math.sqrt(2 * fourth / 3 / n)
    assert abs((error * x).mean()) < 4 * math.sqrt(code.target_variance / 3 / n)


@pytest.mark.parametrize("dimension", [1, 2])
def test_without_overload_and_noise_the_error_is_uniform_over_the_cell(
    dimension: int, radius: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JopeqScheme, "_noise", lambda _self, words: np.zeros(words.shape, np.float32))
    radius(4.0)
    code = scheme(epsilon=1.0, dimension=dimension, rate_bits=2)
    error = errors(code, inputs(50, 2000)).reshape(-1, dimension)
    spacing = code.quantizer.spacing
    # Nearest to 0 of all its neighbours on the lattice, and so over the whole cell: the covering radius is reached.
    angles = np.pi / 3 * np.arange(6) if dimension == 2 else np.array([0.0, np.pi])
    neighbours = spacing * np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :dimension]
    assert (error @ neighbours.T <= spacing**2 / 2 * (1 + 1e-4)).all()
    moment = (error**2).sum(axis=1)
    assert abs(moment.mean() - code.quantizer.cell_moment) < 4 * moment.std() / math.sqrt(len(moment))
    radius = spacing / 2 if dimension == 1 else spacing / math.sqrt(3)
    assert moment.max() > (0.97 * radius) ** 2


def test_the_dither_is_that_of_the_shared_seed(radius: Callable[[float], None]) -> None:
    radius(12.0)
    code = scheme(epsilon=0.5, rate_bits=4)
    x = inputs(100, 1000)
    coder = ValueCoder(code, num_values=1000)
    devices = np.arange(100)
    payload = coder.encode(x, devices=devices, context=round_of())
    right = coder.decode(payload, devices=devices, context=round_of()) - x
    for where, who in ((round_of(1), devices), (round_of(), devices + 1), (round_of(seed=4), devices)):
        # Another dither is not the one that was added: its own variance comes on top, twice.
        wrong = coder.decode(payload, devices=who, context=where) - x
        assert wrong.var() == pytest.approx(right.var() + 2 * code.quantizer.cell_moment, rel=0.05)


@pytest.mark.parametrize("dimension", [1, 2])
def test_the_noise_alone_gives_little_more_than_epsilon(dimension: int) -> None:
    code = scheme(epsilon=0.5, dimension=dimension)
    assert 0.5 < code.sure_epsilon < 0.6
    fine = scheme(epsilon=0.5, dimension=dimension, rate_bits=6)
    assert fine.sure_epsilon == pytest.approx(0.5, rel=2e-3)


def test_where_the_quantiser_hides_more_than_was_asked_for_it_is_refused() -> None:
    # R = 1: D^2 / 12 = (1 + V) / 12 reaches V = 8 / eps^2 at eps = sqrt(88).
    edge = math.sqrt(88.0)

    def problems(one: JopeqScheme) -> list[str]:
        return [found.remedy for found in one.conflicts(num_rounds=50, num_values=9, calibrated=False)]

    assert problems(scheme(epsilon=edge * 0.999)) == []
    assert problems(scheme(epsilon=edge * 1.001)) == ["write rate_bits: 2, or a smaller epsilon"]
    assert problems(scheme(epsilon=edge * 1.001, rate_bits=2)) == []
    for epsilon in (5600.0, 5700.0, 1e6):  # sinh(epsilon / 8) is beyond float64
        (remedy,) = problems(scheme(epsilon=epsilon, dimension=2))
        assert problems(scheme(epsilon=float(remedy.removeprefix("write epsilon: ")), dimension=2)) == []


def test_any_bits_are_some_number_within_the_radius() -> None:
    for dimension in (1, 2):
        code = scheme(epsilon=0.5, dimension=dimension)
        coder = ValueCoder(code, num_values=999)
        rng = np.random.default_rng(3)
        payload = rng.integers(0, 256, (1, 20, -(-coder.num_bits // 8)), dtype=np.uint8)
        read = coder.decode(payload, devices=np.arange(20), context=round_of())
        reach = np.abs(code.quantizer.points).max() + code.quantizer.spacing / 2
        assert np.abs(read).max() <= reach * (1 + 1e-6)


def test_numbers_beyond_the_range_are_clipped_but_not_in_the_reference(radius: Callable[[float], None]) -> None:
    x = np.full((100, 1000), 3.0, np.float32)
    deviation = math.sqrt(8.0 / x.size)
    radius(12.0)
    clipped = there_and_back(scheme(epsilon=1.0, rate_bits=4), x).mean()
    assert clipped == pytest.approx(1.0, abs=4 * deviation)
    as_coded = there_and_back(scheme(epsilon=1.0, rate_bits=4, as_coded=True), x).mean()
    assert as_coded == pytest.approx(3.0, abs=4 * deviation)
