"""What a round of federated averaging tells of its devices, whose updates pass and are forgotten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.update_kernels import add_weighted_rows


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Of devices that trained: loss and share of clipped gradients, and ||w||^2 of those who send."""

    loss: NDArray[np.float64]
    clipped_share: NDArray[np.float64]
    squares: NDArray[np.float64]


class RoundTally:
    """What a round tells of its devices, added up as they pass: in their order, so that blocks change no bit."""

    def __init__(self, *, num_values: int) -> None:
        self._total, self._weight, self.any = np.zeros(num_values), 0.0, False
        self._trained: list[Trained] = []
        self._samples: list[NDArray[np.float64]] = []

    def note(
        self,
        trained: Trained,
        numbers: NDArray[np.float32],
        *,
        weights: NDArray[np.float64],
        samples: NDArray[np.float64],
    ) -> None:
        """Devices with so many `samples`, and the numbers of those who send, with weights q."""
        self._trained.append(trained)
        self._samples.append(samples)
        if len(numbers):
            add_weighted_rows(numbers, weights, out=self._total)
            self._weight += float(weights.sum())
            self.any = True

    def mean(self) -> NDArray[np.float32]:
        """sum_k q_k x_k / sum_k q_k, `[M]`; zeros where nobody sent."""
        return np.asarray(self._total / self._weight if self._weight else self._total, np.float32)

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the round."""
        samples = np.concatenate(self._samples)

        def averaged(parts: list[NDArray[np.float64]]) -> float:
            return float((np.concatenate(parts) * samples).sum() / samples.sum())

        return {
            "train_loss": averaged([one.loss for one in self._trained]),
            "clipped_gradients": averaged([one.clipped_share for one in self._trained]),
            "model_norm": float(np.sqrt(max(one.squares.max(initial=0.0) for one in self._trained))),
        }
