"""Bounds b_i of their own per coordinate, and Lemma 1 and Theorem 3 of Lan et al. for inexact local solutions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from probit_setting import CONTEXT, Array, equal, probit

from fl.schemes.coders.coder import Senders
from phy.fading.block_taps import UplinkContext

NUM_DEVICES, NUM_VALUES = 50, 30
BOUNDS = np.geomspace(0.05, 0.4, NUM_VALUES)
"""b_i of each coordinate."""


def sent(updates: Array, *, bounds: Array, context: UplinkContext = CONTEXT) -> Array:
    """The estimate with b_i: bits depend on delta_i / b_i alone, so that the coder at b = 1 takes updates over b_i."""
    coder, devices = probit(updates.shape[1], b=1.0), np.arange(len(updates))
    bits = coder.encode((updates / bounds).astype(np.float32), devices=devices, context=context)
    senders = Senders(devices=devices, context=context, weights=equal(len(updates)), factor=np.ones(len(updates)))
    return bounds * coder.aggregate(bits, senders)


def test_theorem_1_holds_with_a_bound_per_coordinate() -> None:
    updates = np.random.default_rng(3).uniform(-1.0, 1.0, (NUM_DEVICES, NUM_VALUES)) * 0.9 * BOUNDS
    draws, mean = 2000, updates.mean(axis=0)
    rounds = [UplinkContext(seed=8, trials=(1,), round_index=i) for i in range(draws)]
    errors = np.array([sent(updates, bounds=BOUNDS, context=context) - mean for context in rounds])
    wanted = (BOUNDS**2 - (updates**2).mean(axis=0)) / NUM_DEVICES
    # A variance of 2000 nearly normal draws errs by sqrt(2 / 2000) = 3 %; 30 of them, k = 4.
    np.testing.assert_allclose((errors**2).mean(axis=0), wanted, rtol=4 * np.sqrt(2 / draws))
    assert (np.abs(errors.mean(axis=0)) < 4 * np.sqrt(wanted / draws)).all()


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_theorem_2_holds_with_a_bound_per_coordinate(epsilon: float) -> None:
    rng, sensitivity = np.random.default_rng(5), 0.3
    for _ in range(200):
        delta = rng.uniform(-1.0, 1.0, NUM_VALUES) * rng.exponential(0.1, NUM_VALUES)
        change = rng.laplace(size=NUM_VALUES) * (rng.random(NUM_VALUES) < rng.uniform(0.02, 1.0))
        other = delta + sensitivity * change / max(np.abs(change).sum(), 1e-9)
        bounds = np.maximum(np.abs(delta), np.abs(other)) + (1.0 + 1.0 / epsilon) * sensitivity
        losses = [np.abs(np.log((bounds + sign * other) / (bounds + sign * delta))) for sign in (1.0, -1.0)]
        assert np.maximum(*losses).sum() <= epsilon


@dataclass(frozen=True, kw_only=True)
class Quadratics:
    """f_m(w) = a_m ||w||^2 / 2 with a_m of 0.5 .. 1.5: L = 1.5, L_- = 0, B^2 = E a^2 / (E a)^2."""

    curvatures: Array
    lam: float
    gamma: float

    def local(self, w: Array) -> Array:
        """gamma-inexact w_m `[M, d]`: gradient steps on h_m until ||grad h_m|| <= gamma ||grad f_m(w)||."""
        models, a = np.tile(w, (len(self.curvatures), 1)), self.curvatures[:, None]
        while True:
            gradient = a * models + self.lam * (models - w)
            limit = self.gamma * np.linalg.norm(a * w, axis=1)
            far = np.linalg.norm(gradient, axis=1) > limit
            if not far.any():
                return models
            models = models - np.where(far[:, None], 0.5 / self.lam * gradient, 0.0)

    def cost(self, w: Array) -> float:
        return float(0.5 * self.curvatures.mean() * (w**2).sum())

    def gradient_sq(self, w: Array) -> float:
        return float(((self.curvatures.mean() * w) ** 2).sum())

    @property
    def rho(self) -> float:
        smooth, b = self.curvatures.max(), np.sqrt((self.curvatures**2).mean()) / self.curvatures.mean()
        lam, gamma = self.lam, self.gamma
        return float(
            (1 - gamma * b) / lam - smooth * b * (1 + gamma) / lam**2 - smooth * ((1 + gamma) * b / lam) ** 2 / 2
        )


TASK = Quadratics(curvatures=np.linspace(0.5, 1.5, NUM_DEVICES), lam=10.0, gamma=0.1)


def test_lemma_1_holds_for_inexact_local_solutions() -> None:
    assert TASK.rho > 0.0
    w = np.random.default_rng(1).normal(size=NUM_VALUES)
    for _ in range(100):
        models = TASK.local(w)
        assert (np.linalg.norm(TASK.curvatures[:, None] * models + TASK.lam * (models - w), axis=1) > 0.0).all()
        mean = models.mean(axis=0)
        assert TASK.cost(mean) <= TASK.cost(w) - TASK.rho * TASK.gradient_sq(w)
        w = mean


def test_theorem_3_holds_with_the_safe_form_of_lemma_2() -> None:
    start, rounds, runs = np.full(NUM_VALUES, 1.0), 60, 10
    bounds = np.full(NUM_VALUES, 0.3)
    squares, ends, longest = [], [], 0.0
    for run in range(runs):
        w = start
        for index in range(rounds):
            updates = TASK.local(w) - w
            assert np.abs(updates).max() < bounds.min()
            w = w + sent(updates, bounds=bounds, context=UplinkContext(seed=run, trials=(1,), round_index=index))
            squares.append(TASK.gradient_sq(w))
            longest = max(longest, np.sqrt(TASK.gradient_sq(w)))
        ends.append(TASK.cost(w))
    noise = longest * np.linalg.norm(bounds) / np.sqrt(NUM_DEVICES)  # L_0 E||theta - theta^||
    assert np.mean(squares) <= ((TASK.cost(start) - np.mean(ends)) / rounds + noise) / TASK.rho
