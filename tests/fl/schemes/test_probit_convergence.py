"""Bounds b_i of their own per coordinate, and Lemma 1 and Theorem 3 of Lan et al. for inexact local solutions."""

from __future__ import annotations

from dataclasses import dataclass, field

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
class Opposed:
    """f_m(w) = ||w -+ s u||^2 / 2 of half of the devices each, with local solutions at the limit of gamma.

    Where w is orthogonal to the unit vector u, all gradients have the same norm, and errors gamma ||grad f_m|| in
    direction w reduce the descent most. Lemma 1 then holds with equality up to terms of order 1 / lam^2.
    """

    lam: float = 1000.0
    gamma: float = 0.1
    spread: float = 3.0
    direction: Array = field(default_factory=lambda: np.resize([1.0, -1.0], NUM_VALUES) / np.sqrt(NUM_VALUES))

    def gradients(self, w: Array) -> Array:
        """grad f_m(w), `[2, d]`, of the two kinds of devices."""
        return w - np.outer([self.spread, -self.spread], self.direction)

    def updates(self, w: Array) -> Array:
        """w_m - w, `[2, d]`, with grad h_m(w_m) = e_m."""
        gradients = self.gradients(w)
        errors = self.gamma * np.outer(np.linalg.norm(gradients, axis=1), w / np.linalg.norm(w))
        return (errors - gradients) / (1.0 + self.lam)

    def cost(self, w: Array) -> float:
        return float((w**2).sum() + self.spread**2) / 2.0

    def rho(self, w: Array) -> float:
        """The rate of Lemma 1 with L = 1, L_- = 0 and the least B of Assumption 1 at w."""
        b = float(np.sqrt((self.gradients(w) ** 2).sum(axis=1).mean() / (w**2).sum()))
        lam, gamma = self.lam, self.gamma
        return (1 - gamma * b) / lam - b * (1 + gamma) / lam**2 - ((1 + gamma) * b / lam) ** 2 / 2


TASK, START = Opposed(), np.ones(NUM_VALUES)


def test_lemma_1_holds_and_is_reached_by_local_solutions_at_the_limit_of_gamma() -> None:
    w = START
    for _ in range(20):
        mean = w + TASK.updates(w).mean(axis=0)
        descent = (TASK.cost(w) - TASK.cost(mean)) / (TASK.rho(w) * (w**2).sum())
        # The slack of Lemma 1 is of order L / lam, 0.1 %.
        assert 1.0 <= descent < 1.005
        w = mean


def test_theorem_3_holds_and_is_reached_where_devices_are_many() -> None:
    count, rounds, runs = 10_000, 5, 4
    bounds = 1.05 * np.abs(TASK.updates(START)).max(axis=0)
    squares, ends, rhos = [], [], []
    for run in range(runs):
        w = START
        for index in range(rounds):
            squares.append((w**2).sum())
            rhos.append(TASK.rho(w))
            updates = np.repeat(TASK.updates(w), count // 2, axis=0)
            w = w + sent(updates, bounds=bounds, context=UplinkContext(seed=run, trials=(1,), round_index=index))
        ends.append(TASK.cost(w))
    # L_0 E||theta - theta^|| by the safe form of Lemma 2.
    noise = np.sqrt(max(squares)) * np.linalg.norm(bounds) / np.sqrt(count)
    bound = ((TASK.cost(START) - np.mean(ends)) / rounds + noise) / min(rhos)
    # The noise is some 1.5 % of the descent.
    assert 0.975 * bound < np.mean(squares) <= bound


def test_the_noise_floor_of_theorem_3_is_reached_in_one_round_from_the_tip_of_a_cone() -> None:
    # F(w) = sqrt(||w||^2 + c^2) has L_0 = 1. At w = 0 no device moves, so that the round is noise alone.
    width, runs = 1e-3, 200
    rounds = [UplinkContext(seed=9, trials=(1,), round_index=index) for index in range(runs)]
    errors = [sent(np.zeros((NUM_DEVICES, NUM_VALUES)), bounds=BOUNDS, context=context) for context in rounds]
    rise = np.mean([np.sqrt((error**2).sum() + width**2) - width for error in errors])
    noise = np.linalg.norm(BOUNDS) / np.sqrt(NUM_DEVICES)
    # E||e|| is below sqrt(E||e||^2) by the spread of ||e||, 2 to 3 % with 30 bounds; 200 rounds err by 1 %.
    assert 0.94 * noise < rise <= noise


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_lemma_2_as_printed_holds_at_the_b_of_theorem_2_for_clipped_updates(epsilon: float) -> None:
    """b_i^2 - theta_i^2 <= 2 (1 + 1 / eps) Delta_1 b_i of (28), b_i as small as Theorem 2 allows, Delta_1 = 2 C.

    The limit of Lemma 2 is then reached from below by 3/4 at most: b_i <= C + (1 + 1 / eps) 2 C.
    """
    rng, clip = np.random.default_rng(7), 0.3
    reach = (1.0 + 1.0 / epsilon) * 2.0 * clip
    for _ in range(200):
        updates = rng.laplace(size=(NUM_DEVICES, NUM_VALUES)) * (rng.random(NUM_VALUES) < rng.uniform(0.02, 1.0))
        updates *= clip / np.maximum(np.abs(updates).sum(axis=1, keepdims=True), 1e-9)
        updates[::2] = -updates[1::2]  # theta = 0, the worst mean
        bounds = np.abs(updates).max(axis=0) + reach
        assert (bounds**2 - updates.mean(axis=0) ** 2 <= 0.75 * 2.0 * reach * bounds * (1.0 + 1e-12)).all()


def test_lemma_2_as_printed_fails_at_the_b_of_theorem_2_where_updates_are_long_for_their_sensitivity() -> None:
    """max |delta| above (1 + 1 / eps) Delta_1, and devices that cancel: b_i exceeds 2 (1 + 1 / eps) Delta_1."""
    reach = 2.0 * 0.3
    bound = 1.01 * reach + reach
    assert bound**2 > 2.0 * reach * bound
