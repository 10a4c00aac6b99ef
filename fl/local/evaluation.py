"""Loss and accuracy of one set of weights, or of many on samples of their own; personalised learning. Lan et al.

    h_k(w; w_t) = f_k(w) + lam/2 ||w - w_t||^2

is what device k brings down by its local steps from the global model w_t. The w it ends with is its personal model, and
delta_k = w - w_t its update. Some of its samples are held out of f_k, to test the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U8
from fl.base.checkpoints import Kept
from fl.base.errors import LearningError
from fl.data.arrays import ImageData
from fl.data.partition.split import Partition
from fl.local.forward import can_walk, has_convolutions
from fl.local.gradients import cross_entropy, forward_bytes, logits_at_test, unit_pixels
from fl.local.samples import padded_size, slices
from fl.models.federated import FederatedModel
from fl.models.layer_stack import LayerStack
from phy.numerics.lazy_tensorflow import tf

_MEMORY_BYTES = 128 << 20
_MOST_ROWS = 2048
_MOST_ROWS_OF_A_DEVICE = 512
_MOST_DEVICES = 256


def evaluate(
    model: FederatedModel, weights: F32, x: U8 | F32, y: I64 | F32, *, scale: float, shift: float = 0.0
) -> tuple[float, float]:
    """Mean cross-entropy (without any l2 term) and share of right labels of `weights` `[M]` on `x` `[N, H, W, C]`.

    Dropout is off, and a logit beyond the classes that wins counts as wrong. Where numbers are predicted, `y` float32,
    half the mean squared error, and 0.
    """
    classes = model.linear_classes
    if classes is not None:  # TensorFlow would trace a function anew for the model of every trial
        from fl.local.linear_kernel import score_linear

        images, labels = x.reshape(len(x), -1), np.asarray(y, np.int32)
        losses, hits = score_linear(
            np.asarray(weights, np.float32), images, labels, classes=classes, scale=scale, shift=shift
        )
        return float(losses.sum(dtype=np.float64)) / len(y), int(np.count_nonzero(hits)) / len(y)
    if (stack := model.layer_stack) is not None:
        means, shares = _scores(stack, np.asarray(weights)[None], x, y, [np.arange(len(y))], line=(scale, shift))
        return float(means[0]), float(shares[0])
    call, sample_bytes = _compiled(model)
    rows = slices(len(y), rows_at_once=min(_MOST_ROWS, max(1, _MEMORY_BYTES // sample_bytes))).rows
    given, line = tf.constant(np.asarray(weights, np.float32)[None]), tf.constant([scale, shift], tf.float32)
    loss, right = 0.0, 0
    for start in range(0, len(y), rows):
        labels = np.asarray(y[start : start + rows], np.int32)
        filler = rows - len(labels)
        images = np.concatenate([x[start : start + rows], x[:1].repeat(filler, axis=0)])
        losses, hits = call(given, images[None], np.pad(labels, (0, filler))[None], line)
        loss += float(losses[0].numpy()[: len(labels)].sum(dtype=np.float64))
        right += int(hits[0].numpy()[: len(labels)].sum())
    return loss / len(y), right / len(y)


def evaluate_stacked(model: FederatedModel, weights: F32, *, data: ImageData, partition: Partition) -> tuple[F64, F64]:
    """`evaluate` of every device's weights, `[K, M]` or `[M]` for all, on its own training images: `[K]` each.

    Stacks of layers are scored in kernels; in TensorFlow dense ones are one product over stacked weights, and others
    go device by device inside the compiled call.
    """
    if (stack := model.layer_stack) is not None:
        line, given = (data.scale, data.shift), np.atleast_2d(weights)
        return _scores(stack, given, data.x_train, data.y_train, partition.devices, line=line)
    sizes = np.asarray(partition.sizes, np.int64)
    count, length = len(sizes), model.num_parameters
    call, sample_bytes = _compiled(model)
    scaling = tf.constant([data.scale, data.shift], tf.float32)
    samples = np.concatenate(partition.devices)
    starts = np.cumsum(sizes) - sizes
    labels = np.asarray(data.y_train, np.int32)
    each = np.broadcast_to(weights, (count, length))
    loss, right = np.zeros(count), np.zeros(count, np.int64)
    for crew, first, rows in _calls(sizes, sample_bytes=sample_bytes, device_bytes=8 * length):
        column = first + np.arange(rows)
        counts = column < sizes[crew][:, None]
        part = samples[starts[crew][:, None] + np.where(counts, column, 0)]
        losses, hits = call(np.asarray(each[crew], np.float32), data.x_train[part], labels[part], scaling)
        # The last devices of a crew are repeats, which must not add up.
        own, place = np.unique(crew, return_index=True)
        loss[own] += np.where(counts, losses.numpy().astype(np.float64), 0.0).sum(axis=1)[place]
        right[own] += (counts & hits.numpy()).sum(axis=1)[place]
    return loss / sizes, right / sizes


def _scores(
    stack: LayerStack, weights: F32, x: U8 | F32, y: I64 | F32, samples: Sequence[I64], *, line: tuple[float, float]
) -> tuple[F64, F64]:
    """Mean loss and share of right labels of `weights` `[K or 1, M]` on `samples` of each device: `[K]` each."""
    from fl.local.layer_kernel import score_layers

    sizes = np.array([len(own) for own in samples])
    answers: NDArray[Any] = y.astype(np.float32 if y.dtype.kind == "f" else np.int32)
    losses, hits = score_layers(
        stack,
        np.asarray(weights, np.float32),
        x.reshape(len(x), -1),
        answers,
        samples=np.concatenate(samples),
        sizes=sizes,
        line=line,
    )
    starts = np.cumsum(sizes) - sizes
    loss, right = np.add.reduceat(losses.astype(np.float64), starts), np.add.reduceat(hits.astype(np.int64), starts)
    return loss / sizes, right / sizes


def _calls(sizes: I64, *, sample_bytes: int, device_bytes: int) -> list[tuple[I64, int, int]]:
    """(devices `[D]`, their first sample, samples each) of every call: few shapes, devices of like size together."""
    calls = []
    padded = np.array([padded_size(int(size)) for size in sizes], np.int64)
    for size in np.unique(padded):
        rows = int(min(size, _MOST_ROWS_OF_A_DEVICE, max(1, _MEMORY_BYTES // sample_bytes)))
        room = _MEMORY_BYTES // (device_bytes + rows * sample_bytes)
        width = int(min(max(1, room), _MOST_DEVICES, 1 << (len(sizes) - 1).bit_length()))
        devices = np.flatnonzero(padded == size)
        for start in range(0, len(devices), width):
            crew = devices[start : start + width]
            crew = np.concatenate([crew, np.repeat(crew[:1], width - len(crew))])
            calls += [(crew, first, rows) for first in range(0, int(size), rows)]
    return calls


@lru_cache(maxsize=2)
def _compiled(model: FederatedModel) -> tuple[Any, int]:
    """(weights `[D, M]`, images `[D, m, H, W, C]`, labels `[D, m]`, line) to losses, hits `[D, m]`; bytes a sample."""
    stacks = can_walk(model.network) and not has_convolutions(model.network)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, line: Any) -> tuple[Any, Any]:
        devices, rows = images.shape[:2]

        def logits(weights: Any, images: Any) -> Any:
            flat = tf.reshape(images, [-1, *images.shape[-3:]])
            return logits_at_test(model, weights, unit_pixels(flat, scale=line[0], shift=line[1]))

        if stacks or devices == 1:
            found = logits(weights, images)
        else:
            found = tf.map_fn(
                lambda one: logits(one[0][None], one[1]), (weights, images), fn_output_signature=tf.float32
            )
        found = tf.reshape(found, [devices * rows, model.outputs])
        flat = tf.reshape(labels, [-1])
        hits = tf.argmax(found, axis=1, output_type=tf.int32) == flat
        return tuple(tf.reshape(values, [devices, rows]) for values in (cross_entropy(flat, found), hits))

    return call, forward_bytes(model)


def hold_out(partition: Partition, *, test_share: float, generator: np.random.Generator) -> tuple[Partition, Partition]:
    """What every device trains on, and what it is tested on: `test_share` of its samples, drawn at random.

    A device with n samples holds out `test_share` n, rounded, but at least one and not all. Where the partition lets
    devices share samples, one may train on what another is tested on. Raises LearningError for a single sample.
    """
    sizes = partition.sizes
    if sizes.min() < 2:
        raise LearningError(
            f"device {int(np.argmin(sizes))} has {int(sizes.min())} sample, none of which it can hold out",
            "give every device at least 2",
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


class PersonalModels(Kept):
    """The personal models of all devices of one trial, `[num_devices, M]` float32, and their test sets.

    A device that has not trained yet has the model that all start from.
    """

    kept = ("weights",)

    def __init__(self, model: FederatedModel, *, data: ImageData, test: Partition) -> None:
        self._model, self._data, self._test = model, data, test
        self.weights: F32 = np.tile(model.initial_weights(), (len(test.devices), 1))

    def keep(self, weights: F32, *, devices: I64) -> None:
        """Make `weights` `[K', M]`, with which `devices` `[K']` ended this round, their personal models."""
        self.weights[devices] = weights

    def scores(self, weights: F32 | None = None) -> tuple[F64, F64]:
        """Return mean cross-entropy and accuracy `[K]` of the personal models, each on its own held-out samples.

        With `weights` `[M]`: those of the global model on the same samples.
        """
        return evaluate_stacked(
            self._model, self.weights if weights is None else weights, data=self._data, partition=self._test
        )
