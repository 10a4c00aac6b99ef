"""Posteriors to sample from: their local gradients, and their true moments."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from fl.algorithms.flmc.tasks.config import GaussianLinearConfig, TaskConfig
from fl.algorithms.flmc.tasks.posterior import Posterior

if TYPE_CHECKING:
    from fl.algorithms.flmc.tasks.regression import PosteriorTask

__all__ = ["Posterior", "build_task"]


@lru_cache(maxsize=4)
def build_task(config: TaskConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]) -> PosteriorTask:
    """The task of these trials; kept, because the points of a sweep share their data (paired comparison)."""
    from fl.algorithms.flmc.tasks.regression import GaussianLinear, Logistic  # numba and SciPy take a while to import

    if isinstance(config, GaussianLinearConfig):
        return GaussianLinear(config, num_devices=num_devices, seed=seed, trials=trials)
    return Logistic(config, num_devices=num_devices, seed=seed, trials=trials)
