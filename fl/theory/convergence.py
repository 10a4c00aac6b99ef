"""The distance to the optimum of a strongly convex task, and Theorem 2's bound on it, beside the measured run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.theory.bounds import ConvergenceBound, bit_flipping_noise, gaussian_noise, theorem2_bound
from fl.theory.softmax_optimum import convex_task
from privacy.config import UploadPrivacy

if TYPE_CHECKING:
    from fl.algorithms.fedavg import Federation
    from fl.learning.fedavg import FedAvgConfig


class Convergence:
    """Follows ||w_k - w*||^2 of one trial; the optimum and the constants of the task are found on its data."""

    def __init__(
        self,
        config: FedAvgConfig,
        *,
        federation: Federation,
        privacy: UploadPrivacy | None = None,
    ) -> None:
        self._config, self._codec = config, config.codec
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

    def distance_sq(self, weights: NDArray[np.float32]) -> float:
        """||w - w*||^2 of a model `[M]`."""
        return float(((weights.astype(np.float64) - self._task.optimum) ** 2).sum())

    def bound(
        self, rounds: Mapping[str, NDArray[np.float64]], *, series: Mapping[str, Mapping[str, NDArray[Any]]]
    ) -> NDArray[np.float64] | None:
        """Theorem 2 after each round `[num_rounds]`, from what the run measured; None where it says nothing at all.

        `series`: tables `devices` and `link` of `fl.results.TrialResult`. The theorem knows fraction bits only.
        """
        codec = self._codec.as_fractions()
        if codec is None or not series["devices"]:
            return None
        devices, link = series["devices"], series["link"]
        # Wrong bits per bit, end to end where that was counted, else on the air.
        ends = "end_bits" in devices
        errors, bits = (devices["end_errors"], devices["end_bits"]) if ends else (link["bit_errors"], link["bits"])
        flips = np.asarray(errors / np.maximum(bits, 1))
        noise = bit_flipping_noise(
            shares=self._shares,
            flip_probability=flips,
            num_parameters=self._task.optimum.size,
            value_range=codec.value_range,
            norm_bound=float(np.max(rounds["model_norm"])),
            fraction_bits=codec.fraction_bits,
            divided=self._divided,
        ) + gaussian_noise(
            shares=self._shares,
            noise_std=np.full(len(self._shares), self._noise_std),
            num_parameters=self._task.optimum.size,
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
        beyond = self._beyond_the_theorem(rounds, series)
        reason = "; ".join([*([outcome.reason] if outcome.reason else []), *beyond])
        self._outcome = replace(outcome, valid=not reason, reason=reason)
        return self._outcome.values[1:]

    def _beyond_the_theorem(
        self, rounds: Mapping[str, NDArray[np.float64]], series: Mapping[str, Mapping[str, NDArray[Any]]]
    ) -> list[str]:
        """What happened that Theorem 2 has no term for: every device trains E steps on w and is heard in full."""
        config = self._config
        happened = {
            "a device was not heard in some round": bool((rounds["num_active"] < config.num_devices).any()),
            "packets were dropped": bool(series["link"]["dropped"].any()),
            "received values were disbelieved": config.receiver_limit is not None,
            "the codec clipped values": bool(series["devices"]["clipped_values"].any()),
            "stragglers left steps out": config.participation.straggling > 0.0,
            "devices start from what a noisy downlink brought": config.downlink != "ideal",
            "updates were sent in the place of models": config.upload == "update",
            "the proximal term makes another problem of it": config.local.proximal > 0.0,
        }
        return [what for what, so in happened.items() if so]

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
