"""Convergence of Li et al. 2025 under flipped bits: bounds, and the distance to the optimum beside the run.

Errata of the paper, found by its own appendix and by simulation: (20) prints the bias of a recovered weight as +2 p w
where Appendix C derives -2 p w; and (22) bounds its square by p^2 ||w||^2 where it is 4 p^2 ||w||^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.algorithms.fedavg.softmax_optimum import convex_task
from fl.base.arrays import F32, F64, I64
from privacy.config import Mechanism

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig
    from fl.algorithms.fedavg.federation import Federation


def recovered_moments(
    weights: ArrayLike, *, flip_probability: ArrayLike, value_range: float, fraction_bits: int = 23
) -> tuple[F64, F64]:
    """Mean and variance of weights that the fixed-point codec recovers, Li et al. 2025 Appendix C below (39), and (41).

    E(w~) = (1 - 2 p) w - p R 2^(1-b), R = `value_range` = 2^(e-126): weights of [-R, R) travel as the fractions of
    numbers in [2 R, 4 R). The last term is p times a step of the grid, dropped in the paper; for 10 bits it shows.
    Var(w~) = (1 - 4^-b) / 3 p (1 - p) (2 R)^2, the same for all. Exact for weights on the codec's grid; float64.
    """
    p, w = np.asarray(flip_probability, np.float64), np.asarray(weights, np.float64)
    mean = (1.0 - 2.0 * p) * w - p * value_range * 2.0 ** (1 - fraction_bits)
    variance = _fraction_variance(p, fraction_bits) * (2.0 * value_range) ** 2
    return np.asarray(mean), np.broadcast_to(variance, mean.shape)


def bit_flipping_noise(
    *,
    shares: ArrayLike,
    flip_probability: ArrayLike,
    num_parameters: int,
    value_range: float,
    norm_bound: float,
    fraction_bits: int = 23,
    divided: bool = False,
) -> F64:
    """X^BF, the bound on E ||z_G||^2 of the aggregated weights, Li et al. 2025 (22) with its factor 4 put right.

    X = sum_n q_n^2 V_n + sum_n q_n ||E z_n||^2, with V_n of (21), M times (41), and
    ||E z_n|| <= 2 p_n nu_2 + p_n R 2^(1-b) sqrt(M). `divided`: recovered weights are divided by 1 - 2 p_n, which takes
    the bias in w and raises the variance.

    `shares` q `[N]` add up to 1, `flip_probability` end to end `[..., N]`, `norm_bound` nu_2 over all devices' weights.
    Returns `[...]`: the largest over rounds is the X^BF of Theorem 2.
    """
    q, p = np.asarray(shares, np.float64), np.asarray(flip_probability, np.float64)
    variance = num_parameters * _fraction_variance(p, fraction_bits) * (2.0 * value_range) ** 2
    step = p * value_range * 2.0 ** (1 - fraction_bits) * np.sqrt(num_parameters)
    bias = 2.0 * p * norm_bound + step
    if divided:
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(p == 0.5, np.inf, 1.0 / np.abs(1.0 - 2.0 * p))
        bias, variance = step * factor, variance * factor**2
    return np.asarray((q**2 * variance + q * bias**2).sum(axis=-1))


def gaussian_noise(*, shares: ArrayLike, noise_std: ArrayLike, num_parameters: int) -> F64:
    """X^Gauss, E ||z_G||^2 of the Gaussian mechanism, Li et al. 2025 (24): M sum_n q_n^2 sigma_n^2.

    There sigma_n = (2 eta G / |D_n|) K sqrt(2 ln(1.25 / delta)) / epsilon; `noise_std` `[..., N]` is what was added.
    """
    q, sigma = np.asarray(shares, np.float64), np.asarray(noise_std, np.float64)
    return np.asarray(num_parameters * (q**2 * sigma**2).sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class ConvergenceBound:
    """The bound on E ||w_k - w*||^2 after k rounds, and whether it may be trusted.

    `values` `[K + 1]`; `contraction` (1 + sqrt(p_max)) (1 - eta mu)^E, by which a round shrinks what was there.
    """

    values: F64
    contraction: float
    valid: bool


def theorem2_bound(
    *,
    initial_distance_sq: float,
    num_rounds: int,
    local_steps: int,
    learning_rate: float,
    strong_convexity: float,
    smoothness: float,
    heterogeneity: float,
    gradient_bound: float,
    flip_probability_max: float,
    noise_term: float,
    clipped_share: float = 0.0,
) -> ConvergenceBound:
    """Theorem 2 of Li et al. 2025, (25), after each of 0 .. K rounds.

    E ||w_k - w*||^2 <= zeta_1 ||w_0 - w*||^2 + zeta_2 eta^2 B + zeta_3 X / sqrt(p_max),
    r = (1 + sqrt(p_max)) (1 - eta mu)^E, zeta_1 = r^k, zeta_3 = (1 + sqrt(p_max)) (1 - r^k) / (1 - r),
    zeta_2 = zeta_3 (1 - (1 - eta mu)^E) / (eta mu), B = 6 L Gamma + 8 (E - 1)^2 G^2.

    With `flip_probability_max` 0 the noise is taken to have zero mean (none, Gaussian, or flips divided by 1 - 2 p) and
    adds without Young's inequality (46): zeta_3 X / sqrt(p_max) becomes X (1 - r^k) / (1 - r).

    It is valid for eta <= 1 / (4 L), which (44) takes from Li et al. 2020 Lemma 1; if no gradient was clipped
    (`clipped_share` of the run), since clipped ones belong to another problem; with a bound G on every gradient where
    E > 1; for mu > 0; and for r < 1, beyond which it grows without limit and says nothing.
    """
    eta, mu, p = learning_rate, strong_convexity, flip_probability_max
    rounds = np.arange(num_rounds + 1)
    if eta * mu >= 1.0:
        values = np.where(rounds == 0, initial_distance_sq, np.inf)
        return ConvergenceBound(values=values, contraction=np.inf, valid=False)
    log_step, log_young = np.log1p(-eta * mu), np.log1p(np.sqrt(p))
    log_round = local_steps * log_step + log_young
    contraction = float(np.exp(log_round))
    limited = clipped_share == 0.0 and (local_steps == 1 or gradient_bound > 0.0)
    valid = eta <= 1.0 / (4.0 * smoothness) and mu > 0.0 and limited and contraction < 1.0
    drift = eta**2 * (6.0 * smoothness * heterogeneity + 8.0 * (local_steps - 1) ** 2 * gradient_bound**2)
    noise = noise_term if p == 0.0 else noise_term / np.sqrt(p)
    per_round = np.exp(log_young) * (drift * _geometric(log_step, np.array(local_steps)) + noise)
    with np.errstate(over="ignore"):
        values = np.exp(rounds * log_round) * initial_distance_sq + _geometric(log_round, rounds) * per_round
    return ConvergenceBound(values=values, contraction=contraction, valid=valid)


def _geometric(log_ratio: float, count: I64) -> F64:
    """sum_{i < count} ratio^i, without cancellation where the ratio is near 1."""
    if log_ratio == 0.0:
        return count.astype(np.float64)
    return np.asarray(np.expm1(count * log_ratio) / np.expm1(log_ratio))


def _fraction_variance(p: F64, fraction_bits: int) -> F64:
    return np.asarray((1.0 - 4.0**-fraction_bits) / 3.0 * p * (1.0 - p))


class Convergence:
    """Follows ||w_k - w*||^2 of one trial; the optimum and the constants of the task are found on its data."""

    def __init__(self, config: FedAvgConfig, *, federation: Federation, privacy: Mechanism | None = None) -> None:
        self._config = config
        self._divided = getattr(privacy, "debias", False)
        self._noise_std = federation.budget.get("sigma", 0.0)
        data, parts = federation.data, federation.partition
        sizes = np.asarray(parts.sizes, np.float64)
        self._shares = sizes / sizes.sum() if config.weighting == "samples" else np.full(len(sizes), 1.0 / len(sizes))
        self._task = convex_task(
            data.x_train.reshape(len(data.x_train), -1) * np.float64(data.scale) + data.shift,
            data.y_train,
            devices=parts.devices,
            shares=self._shares,
            num_outputs=data.num_classes if config.model.outputs is None else config.model.outputs,
            l2=config.local.l2,
        )
        self._start = self.distance_sq(federation.weights)
        self._outcome: ConvergenceBound | None = None

    def distance_sq(self, weights: F32) -> float:
        """||w - w*||^2 of a model `[M]`."""
        return float(((weights.astype(np.float64) - self._task.optimum) ** 2).sum())

    def bound(self, rounds: Mapping[str, F64], *, series: Mapping[str, Mapping[str, NDArray[Any]]]) -> F64 | None:
        """Theorem 2 after each round `[num_rounds]`, from what the run measured; None where it says nothing at all.

        `series`: tables `devices` and `link` of `fl.base.results.TrialResult`. The theorem knows fraction bits only.
        """
        codec = self._config.codec.as_fractions()
        if codec is None or not series["devices"]:
            return None
        devices, link = series["devices"], series["link"]
        # Wrong bits per bit, end to end where that was counted, else on the air.
        ends = "end_bits" in devices
        errors, bits = (devices["end_errors"], devices["end_bits"]) if ends else (link["bit_errors"], link["bits"])
        flips, shares, size = np.asarray(errors / np.maximum(bits, 1)), self._shares, self._task.optimum.size
        noise = bit_flipping_noise(
            shares=shares,
            flip_probability=flips,
            num_parameters=size,
            value_range=codec.value_range,
            norm_bound=float(np.max(rounds["model_norm"])),
            fraction_bits=codec.fraction_bits,
            divided=self._divided,
        )
        noise = noise + gaussian_noise(
            shares=shares, noise_std=np.full(len(shares), self._noise_std), num_parameters=size
        )
        local = self._config.local
        outcome = theorem2_bound(
            initial_distance_sq=self._start,
            num_rounds=len(flips),
            local_steps=local.steps,
            learning_rate=local.learning_rate,
            strong_convexity=self._task.strong_convexity,
            smoothness=self._task.smoothness,
            heterogeneity=self._task.heterogeneity,
            gradient_bound=float(local.clip or 0.0),
            flip_probability_max=float(flips.max()),
            noise_term=float(noise.max()),
            clipped_share=float(np.max(rounds["clipped_gradients"])),
        )
        self._outcome = replace(outcome, valid=outcome.valid and self._as_assumed(rounds, series))
        return self._outcome.values[1:]

    def _as_assumed(self, rounds: Mapping[str, F64], series: Mapping[str, Mapping[str, NDArray[Any]]]) -> bool:
        """Return True if every device trains E steps on w and is received in full, as in Theorem 2."""
        config, devices = self._config, series["devices"]
        complete = (rounds["num_active"] == config.num_devices).all() and not series["link"]["dropped"].any()
        unlimited = config.receiver_limit is None and not devices["clipped_values"].any()
        alike = config.participation.straggling == 0.0 and config.downlink == "ideal"
        plain = config.local.proximal == 0.0 and config.local.decay_steps is None
        return bool(complete and unlimited and alike and config.upload == "model" and plain)

    def metrics(self) -> dict[str, float]:
        """What of the task and of the bound is one number: `bound_valid` is 1 where all of its assumptions hold."""
        found = {name: getattr(self._task, name) for name in ("strong_convexity", "smoothness", "heterogeneity")}
        if self._outcome is not None:
            found |= {"bound_valid": float(self._outcome.valid), "bound_contraction": self._outcome.contraction}
        return found
