"""Federated averaging of softmax regression in plain NumPy, device by device: slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def softmax_gradient(
    weights: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.int64], *, clip: float | None, l2: float
) -> NDArray[np.float64]:
    """Mean over samples of (clipped) gradients; `weights` `[d * c + c]`: kernel row by row, then bias."""
    num_classes = len(weights) // (x.shape[1] + 1)
    kernel, bias = weights[:-num_classes].reshape(-1, num_classes), weights[-num_classes:]
    total = np.zeros_like(weights)
    for sample, label in zip(x, y, strict=True):
        z = sample @ kernel + bias
        p = np.exp(z - z.max())
        p /= p.sum()
        p[label] -= 1.0
        gradient = np.concatenate([np.outer(sample, p).ravel(), p]) + l2 * weights
        if clip is not None:
            gradient *= min(1.0, clip / np.linalg.norm(gradient))
        total += gradient
    return total / len(x)


def federated_softmax(
    weights: NDArray[np.float64],
    *,
    x: Sequence[NDArray[np.float64]],
    y: Sequence[NDArray[np.int64]],
    rounds: int,
    steps: int,
    learning_rate: float,
    clip: float | None = None,
    l2: float = 0.0,
) -> NDArray[np.float64]:
    """The server's model after `rounds`; `x` and `y` hold one array per device, weighed by their sizes."""
    sizes = np.array([len(one) for one in y], float)
    for _ in range(rounds):
        models = []
        for images, labels in zip(x, y, strict=True):
            own = weights.copy()
            for _ in range(steps):
                own -= learning_rate * softmax_gradient(own, images, labels, clip=clip, l2=l2)
            models.append(own)
        weights = np.average(models, axis=0, weights=sizes)
    return weights
