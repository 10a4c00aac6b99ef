"""Robust aggregators: what they are by slow oracles, and where they break."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

from fl.schemes.aggregation import estimates
from fl.schemes.aggregation.estimates import geometric_median
from fl.schemes.mean import MeanScheme

RNG = np.random.default_rng(5)
NAMES = ("mean", "median", "trimmed-mean", "geometric-median", "rsa")


def aggregate(
    name: str,
    values: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    known: np.ndarray | None = None,
    otherwise: float = 0.0,
    trim: float = 0.1,
    step: float = 0.01,
) -> np.ndarray:
    return MeanScheme(name=name, trim=trim, step=step).aggregate(
        values,
        weights=np.full(len(values), 1 / len(values)) if weights is None else weights,
        known=known,
        otherwise=np.full(values.shape[1], otherwise, np.float32),
    )


@pytest.mark.parametrize("num_devices", [1, 2, 7, 10])
def test_of_equal_weights_median_and_trimmed_mean_are_the_usual_ones(num_devices: int) -> None:
    values = RNG.normal(size=(num_devices, 33)).astype(np.float32)
    np.testing.assert_allclose(aggregate("median", values), np.median(values, axis=0), rtol=1e-6)
    for trim in (0.0, 0.1, 0.3, 0.49):
        wanted = stats.trim_mean(values.astype(float), trim, axis=0)
        np.testing.assert_allclose(aggregate("trimmed-mean", values, trim=trim), wanted, rtol=1e-6)


def test_missing_values_do_not_count() -> None:
    values = RNG.normal(size=(9, 200)).astype(np.float32)
    known = RNG.random(values.shape) < 0.6
    known[:, 3] = False
    known[5] = False
    heard = np.where(known, values.astype(float), np.nan)
    rest = np.arange(200) != 3
    found = aggregate("median", values, known=known, otherwise=7.0)
    np.testing.assert_allclose(found[rest], np.nanmedian(heard[:, rest], axis=0), rtol=1e-6)
    trimmed = aggregate("trimmed-mean", values, known=known, otherwise=7.0, trim=0.25)
    wanted = [stats.trim_mean(column[~np.isnan(column)], 0.25) for column in heard.T[rest]]
    np.testing.assert_allclose(trimmed[rest], wanted, rtol=1e-6)
    signs = np.nanmean(np.sign(heard[:, rest] - 7.0), axis=0)
    rsa = aggregate("rsa", values, known=known, otherwise=7.0)
    np.testing.assert_allclose(rsa[rest], 7.0 + 0.01 * signs, rtol=1e-6)
    for name in NAMES:
        assert aggregate(name, values, known=known, otherwise=7.0)[3] == 7.0
        # What is missing may be anything, and what is not a number is missing (the mean leaves that to its caller).
        poisoned = np.where(known, values, np.float32(np.nan))
        kept = aggregate(name, values, known=known)
        np.testing.assert_array_equal(aggregate(name, poisoned, known=known), kept)
        if name != "mean":
            np.testing.assert_array_equal(aggregate(name, poisoned), kept)


def test_a_weight_of_three_is_three_devices() -> None:
    values = RNG.normal(size=(6, 40)).astype(np.float32)
    weights = np.array([1.0, 3.0, 2.0, 1.0, 0.0, 4.0])
    copies = np.repeat(values, weights.astype(int), axis=0)
    for name in ("mean", "median", "geometric-median", "rsa"):
        found = aggregate(name, values, weights=weights / 11)
        np.testing.assert_allclose(found, aggregate(name, copies), rtol=2e-5, atol=1e-6)


def test_a_weighted_trimmed_mean_cuts_whole_devices_while_their_weight_allows() -> None:
    values = RNG.normal(size=(8, 50)).astype(np.float32)
    weights = np.array([0.3, 0.05, 0.05, 0.1, 0.2, 0.1, 0.15, 0.05])
    wanted = []
    for column in values.T.astype(float):
        order = list(np.argsort(column))
        kept = set(order)
        for side in (order, order[::-1]):
            spent = 0.0
            for device in side:
                spent += weights[device]
                if spent > 0.2 + 1e-9:
                    break
                kept.discard(device)
        rows = sorted(kept)
        wanted.append(np.average(column[rows], weights=weights[rows]))
    np.testing.assert_allclose(aggregate("trimmed-mean", values, weights=weights, trim=0.2), wanted, rtol=1e-5)


@pytest.mark.parametrize("missing", [False, True])
def test_the_geometric_median_minimises_the_sum_of_distances(missing: bool) -> None:
    values = RNG.normal(size=(9, 4)).astype(np.float32)
    weights = RNG.random(9)
    known = RNG.random(values.shape) < 0.8 if missing else np.ones(values.shape, bool)
    known[4] &= not missing  # a device of which nothing came

    def cost(z: np.ndarray) -> float:
        return float(weights @ np.sqrt((np.where(known, values - z, 0.0) ** 2).sum(axis=1)))

    found = aggregate("geometric-median", values, weights=weights, known=known if missing else None)
    best = optimize.minimize(cost, np.zeros(4), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert cost(found) <= best.fun * (1 + 1e-7)


def test_the_geometric_median_can_be_a_device_and_can_leave_one() -> None:
    # More than half of the weight in one place holds the minimum there.
    values = np.array([[1.0, 2.0], [5.0, 5.0], [-3.0, 8.0]], np.float32)
    np.testing.assert_allclose(
        aggregate("geometric-median", values, weights=np.array([0.6, 0.2, 0.2])), [1.0, 2.0], atol=1e-6
    )
    # The coordinate median (0, 0) is a device, but not the minimum: by symmetry that lies on the diagonal.
    corner = np.array([[0.0, 0.0], [4.0, -1.0], [-1.0, 4.0], [0.0, 6.0], [6.0, 0.0]], np.float32)
    np.testing.assert_array_equal(aggregate("median", corner), [0.0, 0.0])
    along = optimize.minimize_scalar(
        lambda t: np.linalg.norm(corner - t, axis=1).sum(), bounds=(0, 3), method="bounded"
    )
    assert along.x > 0.1
    np.testing.assert_allclose(aggregate("geometric-median", corner), [along.x, along.x], atol=1e-3)


@pytest.mark.parametrize("lie", [1e6, 1e30, -np.inf, np.nan])
def test_a_minority_cannot_move_what_a_majority_agrees_on(lie: float) -> None:
    honest = RNG.normal(size=(60, 30)).astype(np.float32)
    values = np.concatenate([honest, np.full((40, 30), lie, np.float32)])
    low, high = honest.min(axis=0), honest.max(axis=0)
    for name in ("median", "trimmed-mean"):
        found = aggregate(name, values, trim=0.4)
        assert ((found >= low) & (found <= high)).all()
    # Lopuhaa and Rousseeuw 1991: with a share beta of liars the geometric median lies within
    # 2 (1 - beta) / (1 - 2 beta) of the largest distance among honest ones of any centre.
    centre = honest.mean(axis=0)
    away = np.linalg.norm(aggregate("geometric-median", values) - centre)
    assert away <= 2 * 0.6 / 0.2 * np.linalg.norm(honest - centre, axis=1).max()
    assert (np.abs(aggregate("rsa", values)) <= 0.01 + 1e-9).all()
    # The mean is moved by one device alone, and the median by a majority.
    if np.isfinite(lie):
        assert np.abs(aggregate("mean", values[:61])).min() > 1e4
        assert np.abs(aggregate("median", values[31:])).min() > 1e4


def test_rsa_moves_by_the_weighted_majority_of_signs() -> None:
    values = np.array([[1.0, -2.0, 0.5], [3.0, -9.0, -0.5], [-1.0, 4.0, 0.0]], np.float32)
    weights = np.array([0.5, 0.25, 0.25])
    found = aggregate("rsa", values, weights=weights, step=0.2)
    np.testing.assert_allclose(found, 0.2 * np.array([0.5, -0.5, 0.25]), rtol=1e-6)
    # Of models instead of updates: towards them from the server's own.
    found = aggregate("rsa", values + 10, weights=weights, step=0.2, otherwise=10.0)
    np.testing.assert_allclose(found, 10 + 0.2 * np.array([0.5, -0.5, 0.25]), rtol=1e-6)


def test_of_nobody_the_result_is_what_was_before() -> None:
    values = RNG.normal(size=(3, 5)).astype(np.float32)
    for name in NAMES:
        np.testing.assert_array_equal(aggregate(name, values, weights=np.zeros(3), otherwise=2.5), np.full(5, 2.5))


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = RNG.normal(size=(11, 333)).astype(np.float32)
    known = RNG.random(values.shape) < 0.9
    weights = RNG.random(11)
    config, otherwise = MeanScheme(name=name), np.zeros(333, np.float32)
    whole = config.aggregate(values, weights=weights, known=known, otherwise=otherwise)
    monkeypatch.setattr(estimates, "_VALUES_AT_ONCE", 700)
    small = config.aggregate(values, weights=weights, known=known, otherwise=otherwise)
    # Sums in another order: 53 bits, then rounded to 24.
    np.testing.assert_allclose(small, whole, rtol=3e-7, atol=1e-9)


def test_weiszfelds_iteration_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = itertools.count()
    real = estimates._weiszfeld

    def counted(*given: object) -> object:
        next(steps)
        return real(*given)

    monkeypatch.setattr(estimates, "_weiszfeld", counted)
    monkeypatch.setattr(estimates, "_CLOSE", -1.0)
    values = RNG.normal(size=(5, 3)).astype(np.float32)
    geometric_median(values, weights=np.ones(5), otherwise=np.zeros(3, np.float32))
    assert next(steps) == 100
