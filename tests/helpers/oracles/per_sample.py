"""Clipped gradients of a Keras network, one sample and one tape at a time: slow, and sharing nothing with ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sample_gradients(network: Any, images: NDArray[np.float32], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Gradient of the cross-entropy of each sample at the network's own weights, `[N, M]`."""
    import keras
    import tensorflow as tf

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rows = []
    for image, label in zip(images, labels, strict=True):
        with tf.GradientTape() as tape:
            value = loss(np.array([label]), network(image[None], training=False))
        gradients = tape.gradient(value, network.trainable_variables)
        rows.append(np.concatenate([tf.convert_to_tensor(one).numpy().reshape(-1) for one in gradients]))
    return np.stack(rows).astype(np.float64)


def clipped_mean(
    gradients: NDArray[np.float64], weights: NDArray[np.float64], *, clip: float | None, l2: float
) -> NDArray[np.float64]:
    """Mean over samples of min(1, G / ||v||) v with v = gradient + mu w, `[M]`."""
    total = np.zeros(gradients.shape[1])
    for gradient in gradients:
        v = gradient + l2 * weights
        norm = np.sqrt(np.sum(v**2))
        total += v if clip is None or norm <= clip else v * (clip / norm)
    return total / len(gradients)


def softmax_regression_gradients(
    inputs: NDArray[np.float64], labels: NDArray[np.integer], kernel: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Gradients of the cross-entropy of x W + b per sample in pure NumPy, kernel `[d, o]` row by row, then bias."""
    logits = inputs @ kernel + bias
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    residual = probability - np.eye(len(bias))[labels]
    return np.stack([np.concatenate([np.outer(x, r).reshape(-1), r]) for x, r in zip(inputs, residual, strict=True)])
