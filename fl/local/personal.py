"""Personalised learning: every device has a model of its own, and samples of its own to measure it on. Lan et al.

    h_k(w; w_t) = f_k(w) + lam/2 ||w - w_t||^2

is what device k brings down by its local steps from the global model w_t. The w it ends with is its personal model, and
delta_k = w - w_t its update. Some of its samples are held out of f_k, to test the model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fl.data.arrays import ImageData
from fl.local.evaluation import evaluate_stacked
from fl.models.federated import FederatedModel
from fl.partition.split import Partition
from fl.tasks.base import LearningError


def hold_out(partition: Partition, *, test_share: float, generator: np.random.Generator) -> tuple[Partition, Partition]:
    """What every device trains on, and what it is tested on: `test_share` of its samples, drawn at random.

    A device with n samples holds out `test_share` n, rounded, but at least one and not all. Where the partition lets
    devices share samples, one may train on what another is tested on. Raises LearningError for a single sample.
    """
    sizes = partition.sizes
    if sizes.min() < 2:
        raise LearningError(
            f"device {int(np.argmin(sizes))} has {int(sizes.min())} sample, none of which it can hold out; give every "
            "device at least 2"
        )
    held = np.clip(np.rint(test_share * sizes).astype(np.int64), 1, sizes - 1)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.lexsort((generator.random(len(owner)), owner))
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.zeros(len(owner), bool)
    chosen[rank[place < held[owner]]] = True
    samples = np.concatenate(partition.devices)
    train = np.split(samples[~chosen], np.cumsum(sizes - held)[:-1])
    test = np.split(samples[chosen], np.cumsum(held)[:-1])
    return replace(partition, devices=tuple(train)), replace(partition, devices=tuple(test))


class PersonalModels:
    """The personal models of all devices of one trial, `[num_devices, M]` float32, and their test sets.

    A device that has not trained yet has the model that all start from.
    """

    def __init__(self, model: FederatedModel, *, data: ImageData, test: Partition) -> None:
        self._model, self._data, self._test = model, data, test
        self.weights: NDArray[np.float32] = np.tile(model.initial_weights(), (len(test.devices), 1))

    def keep(self, weights: NDArray[np.float32], *, devices: NDArray[np.int64]) -> None:
        """Make `weights` `[K', M]`, with which `devices` `[K']` ended this round, their personal models."""
        self.weights[devices] = weights

    def scores(self, weights: NDArray[np.float32] | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean cross-entropy and accuracy `[K]` of the personal models, each on its own held-out samples.

        With `weights` `[M]`: those of the global model on the same samples.
        """
        return evaluate_stacked(
            self._model, self.weights if weights is None else weights, data=self._data, partition=self._test
        )
