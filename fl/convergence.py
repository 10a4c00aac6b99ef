"""The distance to the optimum of a strongly convex task, and Theorem 2's bound on it, beside the measured run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.bounds import ConvergenceBound, bit_flipping_noise, theorem2_bound
from fl.config import FedAvgConfig, FixedPointConfig
from fl.softmax_optimum import convex_task

if TYPE_CHECKING:
    from fl.federation import Federation


class Convergence:
    """Follows ||w_k - w*||^2 of one trial; the optimum and the constants of the task are found on its data."""

    def __init__(self, config: FedAvgConfig, *, federation: Federation) -> None:
        self._config, self._codec = config, config.codec
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

    def distance_sq(self, weights: NDArray[np.float32]) -> float:
        """||w - w*||^2 of a model `[M]`."""
        return float(((weights.astype(np.float64) - self._task.optimum.weights) ** 2).sum())

    def bound(
        self, rounds: Mapping[str, NDArray[np.float64]], *, flips: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Theorem 2 after each round `[num_rounds]`, from what the run measured; None where it says nothing at all.

        `flips` `[num_rounds, num_devices]`: rates of wrong bits end to end. The theorem knows fraction bits only.
        """
        if not isinstance(self._codec, FixedPointConfig) or not len(flips):
            return None
        noise = bit_flipping_noise(
            shares=self._shares,
            flip_probability=flips,
            num_parameters=self._task.optimum.weights.size,
            value_range=self._codec.value_range,
            norm_bound=float(np.max(rounds["model_norm"])),
            fraction_bits=self._codec.fraction_bits,
        )
        local = self._config.local
        self._outcome = theorem2_bound(
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
        return self._outcome.values[1:]

    def metrics(self) -> dict[str, float]:
        """What of the task and of the bound is one number: `bound_valid` is 1 where all of its assumptions hold."""
        task = self._task
        found = {
            "strong_convexity": task.strong_convexity,
            "smoothness": task.smoothness,
            "heterogeneity": task.heterogeneity,
        }
        if self._outcome is not None:
            found |= {"bound_valid": float(self._outcome.valid), "bound_contraction": self._outcome.contraction}
        return found
