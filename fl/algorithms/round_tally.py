"""Sums of a round of federated averaging over its devices, whose updates pass block by block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.update_kernels import add_weighted_rows

Floats = NDArray[np.float64]


class RoundTally:
    """What a round reports of its devices, added up as they pass: in their order, so that blocks change no bit."""

    def __init__(self, *, num_values: int) -> None:
        self._total, self._weight, self.any, self._largest = np.zeros(num_values), 0.0, False, 0.0
        self._trained: list[tuple[Floats, Floats, Floats]] = []

    def note(self, *, samples: Floats, loss: Floats, clipped_share: Floats, squares: Floats) -> None:
        """Note devices that trained, and ||w||^2 of those who send."""
        self._trained.append((samples, loss, clipped_share))
        self._largest = max(self._largest, squares.max(initial=0.0))

    def add(self, numbers: NDArray[np.float32], *, weights: Floats) -> None:
        """Add the numbers of those who send, with weights q."""
        if len(numbers):
            add_weighted_rows(numbers, weights, out=self._total)
            self._weight += float(weights.sum())
            self.any = True

    def mean(self) -> NDArray[np.float32]:
        """sum_k q_k x_k / sum_k q_k, `[M]`; zeros where nobody sent."""
        return np.asarray(self._total / self._weight if self._weight else self._total, np.float32)

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the round."""
        samples, loss, clipped_share = map(np.concatenate, zip(*self._trained, strict=True))
        return {
            "train_loss": float((loss * samples).sum() / samples.sum()),
            "clipped_gradients": float((clipped_share * samples).sum() / samples.sum()),
            "model_norm": float(np.sqrt(self._largest)),
        }
