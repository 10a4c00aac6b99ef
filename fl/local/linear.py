"""Local training of softmax regression without TensorFlow: which models it is for, and its batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config.local import LocalConfig
from fl.data.arrays import ImageData
from fl.local.forward import can_walk
from fl.local.samples import Batches
from fl.models.federated import FederatedModel
from phy.engines.choice import sees_gpu

_PLACES_AT_ONCE = 1 << 21


@dataclass(frozen=True, kw_only=True)
class LinearSteps:
    """All steps of some devices: see `fl.local.linear_kernel`."""

    classes: int
    config: LocalConfig
    data: ImageData
    labels: NDArray[np.int32]

    def train(
        self,
        weights: NDArray[np.float32],
        *,
        devices: NDArray[np.int64],
        sizes: NDArray[np.int64],
        steps: NDArray[np.int64],
        key: NDArray[np.uint32],
        samples: NDArray[np.int64],
        starts: NDArray[np.int64],
        velocity: NDArray[np.float32] | None,
        out: NDArray[np.float32],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends `[D, M]` into `out`; loss of the first batch and share of clipped gradients `[D]`.

        `velocity` `[num_devices, M]` moves.
        """
        from fl.local.linear_kernel import Rule, Task, train_linear

        config, data = self.config, self.data
        rule = Rule(
            rate=np.float32(config.learning_rate),
            momentum=np.float32(config.momentum),
            l2=np.float32(config.l2),
            proximal=np.float32(config.proximal),
            clip=np.float32(np.inf if config.clip is None else config.clip),
            scale=np.float32(data.scale),
            shift=np.float32(data.shift),
        )
        images = data.x_train.reshape(len(data.x_train), -1)
        losses, clipped = np.empty(len(devices)), np.empty(len(devices))
        for rows in self._parts(sizes, steps):
            mine = devices[rows]
            batches = Batches(key=key, devices=mine, sizes=sizes[rows], batch_size=config.batch_size)
            width = int(sizes[rows].max() if config.batch_size is None else min(sizes[rows].max(), config.batch_size))
            taken = self._batches(int(steps[rows].max()))
            places, counts = zip(*(batches.at(step, width=width) for step in range(taken)), strict=True)
            task = Task(
                images=images,
                labels=self.labels,
                start=weights[None] if weights.ndim == 1 else weights[rows],
                samples=samples[starts[rows][:, None] + np.stack(places)],
                counts=np.stack(counts),
                steps=steps[rows],
            )
            moving = None if velocity is None else velocity[mine]
            losses[rows], clipped[rows] = train_linear(rule, task, classes=self.classes, velocity=moving, out=out[rows])
            if velocity is not None:
                velocity[mine] = moving
        return losses, clipped

    def _batches(self, steps: int) -> int:
        """Batches that differ: a full batch is the same in every step."""
        return steps if self.config.batch_size is not None else 1

    def _parts(self, sizes: NDArray[np.int64], steps: NDArray[np.int64]) -> Iterator[slice]:
        """Devices whose places among their samples are held at once."""
        if not len(sizes):
            return
        widest = int(sizes.max() if self.config.batch_size is None else min(sizes.max(), self.config.batch_size))
        height = max(_PLACES_AT_ONCE // (widest * self._batches(int(steps.max()))), 1)
        for first in range(0, len(sizes), height):
            yield slice(first, min(first + height, len(sizes)))


def linear_steps(model: FederatedModel, *, config: LocalConfig, data: ImageData) -> LinearSteps | None:
    """What trains `model` in a kernel: one dense layer on plain pixels, gradient descent, clipped or not, on a CPU.

    None for everything else, which TensorFlow trains.
    """
    classes = None if config.optimizer == "adam" else linear_classes(model)
    if classes is None:
        return None
    return LinearSteps(classes=classes, config=config, data=data, labels=np.asarray(data.y_train, np.int32))


def linear_classes(model: FederatedModel) -> int | None:
    """Logits of softmax regression on plain pixels, where kernels do it; None for what TensorFlow does."""
    if sees_gpu() or not _is_linear(model.network):
        return None
    return int(model.network.output_shape[-1])


def _is_linear(network: Any) -> bool:
    """Whether this is a chain of an input, perhaps a flattening, and one dense layer without activation."""
    import keras

    kinds = keras.layers
    if not can_walk(network):
        return False
    layers = [layer for layer in network.layers if type(layer) is not kinds.InputLayer]
    dense: Any = layers[-1] if layers else None
    return (
        type(dense) is kinds.Dense
        and all(type(layer) is kinds.Flatten for layer in layers[:-1])
        and dense.activation is keras.activations.linear
        and len(network.inputs) == len(network.outputs) == 1
        and [id(variable) for variable in network.trainable_variables]
        == [id(variable) for variable in (dense.kernel, dense.bias) if variable is not None]
        and len(network.variables) == len(network.trainable_variables)
        and int(np.prod(network.input_shape[1:])) == dense.kernel.shape[0]
    )
