"""Distance of an ensemble of trials to their posteriors, round by round: one number of all trials together.

A trial's sample is whitened by its own posterior, so that exact ones are N(0, I). The samples of n trials at one round
are n independent draws of the law of the chain at that round, which one chain over its rounds is not. Their Gaussian
fit, of mean a and covariance C, lies at the 2-Wasserstein distance W from N(0, I) (Givens and Shortt 1984):

    W^2 = |a|^2 + sum_i (sqrt(c_i) - 1)^2,  c_i the eigenvalues of C.

W is in standard deviations of the posterior. Of n exact samples of m entries W^2 is about m (m + 5) / (4 n) on average,
not 0: scheme `exact` draws that floor. Intervals: 95 % by the jackknife over trials, at the deviation of n - 1 degrees
of freedom (Efron and Stein 1981).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fl.base.measured import SAMPLE
from scenarios.report.figures.drawing import Spot
from scenarios.report.tables.summaries import CONFIDENCE
from scenarios.store.store import Series

_COLUMN = re.compile(rf"{SAMPLE}(\d+)")


def samples_of(rounds: Series) -> NDArray[np.float64] | None:
    """Whitened samples of a trial `[num_rounds, m]`; None where none were recorded."""
    entries = sorted((int(found[1]), name) for name in rounds if (found := _COLUMN.fullmatch(name)))
    return np.stack([rounds[name] for _, name in entries], axis=1) if entries else None


def ensemble_distances(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """W of samples `[..., num_trials, m]`, `[...]`; of two trials or more."""
    mean = samples.mean(axis=-2, keepdims=True)
    away = samples - mean
    covariance = np.swapaxes(away, -1, -2) @ away / (samples.shape[-2] - 1)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance), 0.0))
    return np.asarray(np.sqrt((mean[..., 0, :] ** 2).sum(axis=-1) + ((spread - 1.0) ** 2).sum(axis=-1)))


def ensemble_spots(
    at: NDArray[np.float64], samples: Sequence[NDArray[np.float64]], *, drawn: NDArray[np.intp]
) -> list[Spot]:
    """The spots of rounds `drawn`, at places `at` `[num_rounds]`, of trials' `samples` `[num_rounds, m]`."""
    from scipy import special

    count = len(samples)
    if count < 2:
        return []
    every = np.stack(samples, axis=1)[drawn]
    found = ensemble_distances(every)
    left_out = (
        np.stack([ensemble_distances(np.delete(every, one, axis=1)) for one in range(count)]) if count > 2 else None
    )
    spots = []
    for place, index in enumerate(drawn):
        low = high = None
        if left_out is not None:
            ones = left_out[:, place]
            deviation = float(np.sqrt((count - 1) / count * ((ones - ones.mean()) ** 2).sum()))
            half = float(special.stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * deviation
            low, high = max(float(found[place]) - half, 0.0), float(found[place]) + half
        if np.isfinite(found[place]):
            spots.append(Spot(x=float(at[index]), y=float(found[place]), low=low, high=high, n=count))
    return spots
