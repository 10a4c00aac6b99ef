"""Loss and accuracy of many sets of weights, each on samples of its own, many in each compiled call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.data.arrays import ImageData
from fl.local.evaluation import SameModel
from fl.local.forward import Pass, can_walk, has_convolutions, walk
from fl.local.gradients import forward_bytes
from fl.local.samples import padded_size
from fl.local.samplewise.by_sample import logits_of
from fl.local.samplewise.loss import by_identity, cross_entropy, split_weights, unit_pixels
from fl.models.federated import FederatedModel
from fl.partition.split import Partition
from fl.tasks.base import LearningError

_MEMORY_BYTES = 128 << 20
_MOST_ROWS = 512
_MOST_DEVICES = 256


def evaluate_stacked(
    model: FederatedModel, weights: NDArray[np.float32], *, data: ImageData, partition: Partition
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean cross-entropy `[K]` and share of right labels `[K]` of every device's weights on its own training images.

    `weights` `[K, M]`, or `[M]` for all; `partition` of K devices says which of `data.x_train` are whose. Dropout is
    off, there is no l2 term, and a logit beyond the classes that wins counts as wrong. Dense networks are one product
    over stacked weights; convolutions, and networks that are not known inside, go device by device inside the compiled
    call. Raises LearningError for weights that do not fit.
    """
    import tensorflow as tf

    sizes = np.asarray(partition.sizes, np.int64)
    count, length = len(sizes), model.num_parameters
    if weights.shape not in ((length,), (count, length)):
        raise LearningError(
            f"weights have shape {weights.shape}; {count} devices take ({length},) or ({count}, {length})"
        )
    call, sample_bytes = _compiled(SameModel(model))
    line = tf.constant([data.scale, data.shift], tf.float32)
    samples = np.concatenate(partition.devices)
    starts = np.cumsum(sizes) - sizes
    labels = np.asarray(data.y_train, np.int32)
    each = np.broadcast_to(weights, (count, length))
    loss, right = np.zeros(count), np.zeros(count, np.int64)
    for crew, first, rows in _calls(sizes, sample_bytes=sample_bytes, device_bytes=8 * length):
        column = first + np.arange(rows)
        counts = column < sizes[crew][:, None]
        part = samples[starts[crew][:, None] + np.where(counts, column, 0)]
        losses, hits = call(np.asarray(each[crew], np.float32), data.x_train[part], labels[part], line)
        # The last devices of a crew are repeats, which must not add up.
        own, place = np.unique(crew, return_index=True)
        loss[own] += np.where(counts, losses.numpy().astype(np.float64), 0.0).sum(axis=1)[place]
        right[own] += (counts & hits.numpy()).sum(axis=1)[place]
    return loss / sizes, right / sizes


def _calls(
    sizes: NDArray[np.int64], *, sample_bytes: int, device_bytes: int
) -> list[tuple[NDArray[np.int64], int, int]]:
    """(devices `[D]`, their first sample, samples each) of every call: few shapes, devices of like size together."""
    calls = []
    padded = np.array([padded_size(int(size)) for size in sizes], np.int64)
    for size in np.unique(padded):
        rows = int(min(size, _MOST_ROWS, max(1, _MEMORY_BYTES // sample_bytes)))
        room = _MEMORY_BYTES // (device_bytes + rows * sample_bytes)
        width = int(min(max(1, room), _MOST_DEVICES, 1 << (len(sizes) - 1).bit_length()))
        devices = np.flatnonzero(padded == size)
        for start in range(0, len(devices), width):
            crew = devices[start : start + width]
            crew = np.concatenate([crew, np.repeat(crew[:1], width - len(crew))])
            calls += [(crew, first, rows) for first in range(0, int(size), rows)]
    return calls


@lru_cache(maxsize=2)
def _compiled(same: SameModel) -> tuple[Any, int]:
    """(weights `[D, M]`, images `[D, m, H, W, C]`, labels `[D, m]`, line) to losses and hits `[D, m]`."""
    import tensorflow as tf

    model = same.model
    walks = can_walk(model.network)
    stacks = walks and not has_convolutions(model.network)

    def logits(weights: Any, images: Any, line: Any) -> Any:
        """Logits `[D m, outputs]` of D devices, one where they do not stack."""
        devices, rows = images.shape[:2]
        pixels = unit_pixels(tf.reshape(images, [devices * rows, *images.shape[2:]]), scale=line[0], shift=line[1])
        parts = split_weights(model, weights)
        if walks:
            return walk(model.network, pixels, Pass(parts=by_identity(model, parts), num_devices=devices))
        return logits_of(model, [part[0] for part in parts], pixels, seed=None, training=False)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, line: Any) -> tuple[Any, Any]:
        devices, rows = images.shape[:2]
        if stacks:
            found = logits(weights, images, line)
        else:
            found = tf.map_fn(
                lambda one: logits(one[0][None], one[1][None], line),
                (weights, images),
                fn_output_signature=tf.float32,
            )
        found = tf.reshape(found, [devices * rows, model.network.output_shape[-1]])
        flat = tf.reshape(labels, [-1])
        hits = tf.argmax(found, axis=1, output_type=tf.int32) == flat
        return tuple(tf.reshape(values, [devices, rows]) for values in (cross_entropy(flat, found), hits))

    return call, forward_bytes(model)
