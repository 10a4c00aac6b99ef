"""One-bit gradients detected device by device: here the bit error rate acts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from flmc_setting import SEED, metric, paper_config, paper_link, standard_error
from scipy.stats import norm

from fl.algorithms.flmc.rounds import build_flmc
from fl.algorithms.flmc.tasks import build_task
from fl.algorithms.run import run_trials
from phy.config import CsiError
from phy.fading.block_taps import UplinkContext

MODELS = ("measured", "iid", "analytic")


def points(error_model: str, *, snr_max_db: float, num_trials: int = 100, debias: bool = False) -> list:
    return run_trials(
        paper_config("digital-orthogonal", rounds=160, burn_in=60, debias=debias),
        link=paper_link("digital-orthogonal", channel={"gain": 1.0}, snr_max_db=snr_max_db, error_model=error_model),
        privacy=None,
        seed=SEED,
        trials=range(num_trials),
    )


@pytest.mark.parametrize("error_model", MODELS)
def test_the_bits_counted_wrong_are_those_of_the_closed_form(error_model: str) -> None:
    results = points(error_model, snr_max_db=-1.0, num_trials=10)
    bits = sum(int(result.link["bits"].sum()) for result in results)
    wrong = sum(int(result.link["bit_errors"].sum()) for result in results)
    assert bits == 10 * 160 * 20 * 5
    # BPSK at amplitude A in noise of variance N0 per dimension: Q(A / sqrt(N0)). The probe behind `iid` has
    # 4096 bits per device and trial, and measures a channel that stays: its own error comes on top.
    rate = norm.sf(10 ** (-1.0 / 20))
    variance = rate * (1 - rate) * (1 / bits + (error_model == "iid") / (10 * 20 * 4096))
    assert wrong / bits == pytest.approx(rate, abs=4 * np.sqrt(variance))


def test_the_error_models_agree_on_a_channel_without_memory_and_error_free_is_better() -> None:
    mse = {model: metric(points(model, snr_max_db=-1.0), "mse") for model in (*MODELS, "error_free")}
    for model in MODELS[1:]:
        difference = mse[model] - mse["measured"]
        assert abs(difference.mean()) < 4 * standard_error(difference)
    for model in MODELS:
        difference = mse[model] - mse["error_free"]
        assert difference.mean() > 4 * standard_error(difference)
        # Flips shrink the drift by 1 - 2 p, not the variance of a bit (near 1): about 1 / (1 - 2 p) = 1.59.
        assert mse[model].mean() / mse["error_free"].mean() == pytest.approx(1.6, rel=0.15)


def test_the_mse_falls_with_snr_down_to_that_of_the_quantiser() -> None:
    falling = [metric(points("measured", snr_max_db=snr), "mse") for snr in (-6.0, 0.0, 14.0)]
    floor = metric(points("error_free", snr_max_db=0.0), "mse")
    for worse, better in pairwise(falling):
        difference = worse - better
        assert difference.mean() > 4 * standard_error(difference)
    # At 14 dB the error rate is 3e-7, a bit or so of all that are sent.
    np.testing.assert_allclose(falling[-1].mean(), floor.mean(), rtol=0.01)


def estimates(*, debias: bool, num_trials: int = 400, **link: object) -> tuple[np.ndarray, np.ndarray]:
    """(estimated, expected error-free) sums of signs of the first round, `[num_trials, m]` each."""
    config = paper_config("digital-orthogonal", debias=debias, rounds=2, burn_in=0)
    trials = tuple(range(num_trials))
    task = build_task(config.task, num_devices=20, seed=SEED, trials=trials)
    options = {"channel": {"gain": 1.0}, "snr_max_db": 0.0} | link
    algorithm = build_flmc(config, link=paper_link("digital-orthogonal", **options), privacy=None, task=task)
    start = np.zeros((num_trials, 5))
    moved = algorithm.round(start, context=UplinkContext(seed=SEED, trials=trials)).theta
    gradients = np.clip(task.gradients(start), -30.0, 30.0)
    return -moved / config.step_size, np.tanh(0.05 * gradients / 2.0).sum(axis=1)


def slope_and_error(estimated: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Least squares through the origin, and the standard error of its slope."""
    slope = (estimated * expected).sum() / (expected**2).sum()
    residual = estimated - slope * expected
    return slope, float(np.sqrt(((residual * expected) ** 2).sum()) / (expected**2).sum())


@pytest.mark.parametrize("error_model", MODELS)
def test_dividing_by_one_minus_twice_the_rate_removes_the_bias(error_model: str) -> None:
    biased, error = slope_and_error(*estimates(debias=False, error_model=error_model))
    assert biased == pytest.approx(1 - 2 * norm.sf(1.0), abs=4 * error)
    assert biased < 1 - 10 * error
    debiased, error = slope_and_error(*estimates(debias=True, error_model=error_model))
    # 4096 probed bits know 1 - 2 p to 0.01, averaged over 20 devices and 400 trials: nothing beside `error`.
    assert debiased == pytest.approx(1.0, abs=4 * error)


def test_under_fading_each_round_is_debiased_by_its_own_channel() -> None:
    # Only with the channel of the very round is the sum over unequal devices right.
    fading = {
        "channel": {"gain": 1.0, "fading": "rayleigh"},
        "csi": CsiError(error_variance=0.02),
        "power": {"policy": "fixed"},
        "snr_max_db": 6.0,
    }
    biased, error = slope_and_error(*estimates(debias=False, **fading))
    assert biased < 1 - 10 * error
    debiased, error = slope_and_error(*estimates(debias=True, **fading))
    # The floor of 0.05 under 1 - 2 p and the curvature of 1 / (1 - 2 p) cost a little in deep fades.
    assert abs(debiased - 1.0) < max(4 * error, 0.05)
    assert abs(debiased - 1.0) < 0.5 * abs(biased - 1.0)


def test_debiasing_an_error_free_link_changes_nothing() -> None:
    one, other = (points("error_free", snr_max_db=0.0, num_trials=3, debias=debias) for debias in (False, True))
    np.testing.assert_array_equal(metric(one, "mse"), metric(other, "mse"))
