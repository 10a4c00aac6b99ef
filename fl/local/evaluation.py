"""Loss and accuracy of one set of weights on many samples, in slices of bounded memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.local.forward import Pass, can_walk, walk
from fl.local.gradients import forward_bytes
from fl.local.linear import linear_classes
from fl.local.samples import slices
from fl.local.samplewise.by_sample import logits_of
from fl.local.samplewise.loss import by_identity, cross_entropy, split_weights, unit_pixels
from fl.models.federated import FederatedModel

_MEMORY_BYTES = 128 << 20
_MOST_ROWS = 2048


def evaluate(
    model: FederatedModel,
    weights: NDArray[np.float32],
    x: NDArray[np.uint8],
    y: NDArray[np.int64],
    *,
    scale: float,
    shift: float = 0.0,
) -> tuple[float, float]:
    """Mean cross-entropy (without any l2 term) and share of right labels of `weights` `[M]` on `x` `[N, H, W, C]`.

    Dropout is off. Pixels are taken times `scale`, plus `shift`. A logit beyond the classes that wins counts as wrong.
    """
    classes = _classes(SameModel(model))
    if classes is not None:
        return _evaluate_linear(np.asarray(weights, np.float32), x, y, classes=classes, scale=scale, shift=shift)
    import tensorflow as tf

    call, sample_bytes = _compiled(SameModel(model))
    rows = min(_MOST_ROWS, max(1, _MEMORY_BYTES // sample_bytes))
    part = slices(len(y), rows_at_once=rows)
    given = tf.constant(np.asarray(weights, np.float32)[None])
    loss, right = 0.0, 0
    for start in range(0, len(y), part.rows):
        labels = np.asarray(y[start : start + part.rows], np.int32)
        filler = part.rows - len(labels)
        images = np.concatenate([x[start : start + part.rows], x[:1].repeat(filler, axis=0)])
        losses, hits = call(given, images, np.pad(labels, (0, filler)), tf.constant([scale, shift], tf.float32))
        loss += float(losses.numpy()[: len(labels)].sum(dtype=np.float64))
        right += int(hits.numpy()[: len(labels)].sum())
    return loss / len(y), right / len(y)


def _evaluate_linear(
    weights: NDArray[np.float32],
    x: NDArray[np.uint8],
    y: NDArray[np.int64],
    *,
    classes: int,
    scale: float,
    shift: float,
) -> tuple[float, float]:
    """Without a function that TensorFlow would trace anew for the model of every trial."""
    from fl.local.linear_kernel import score_linear

    images, labels = x.reshape(len(x), -1), np.asarray(y, np.int32)
    losses, hits = score_linear(weights, images, labels, classes=classes, scale=scale, shift=shift)
    return float(losses.sum(dtype=np.float64)) / len(y), int(np.count_nonzero(hits)) / len(y)


class SameModel:
    """A model by identity, for the cache of compiled functions."""

    def __init__(self, model: FederatedModel) -> None:
        self.model = model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameModel) and other.model.network is self.model.network

    def __hash__(self) -> int:
        return id(self.model.network)


@lru_cache(maxsize=2)
def _classes(same: SameModel) -> int | None:
    return linear_classes(same.model)


@lru_cache(maxsize=2)
def _compiled(same: SameModel) -> tuple[Any, int]:
    import tensorflow as tf

    model = same.model
    walks = can_walk(model.network)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, line: Any) -> tuple[Any, Any]:
        pixels = unit_pixels(images, scale=line[0], shift=line[1])
        parts = split_weights(model, weights)
        if walks:
            logits = walk(model.network, pixels, Pass(parts=by_identity(model, parts), num_devices=1))
        else:
            logits = logits_of(model, [part[0] for part in parts], pixels, seed=None, training=False)
        hits = tf.argmax(logits, axis=1, output_type=tf.int32) == labels
        return cross_entropy(labels, logits), hits

    return call, forward_bytes(model)
