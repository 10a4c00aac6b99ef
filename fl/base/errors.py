"""Errors of learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config.conflict import RemediedError


class LearningError(RemediedError):
    """A state of learning that cannot be: the sentence says which and what to do."""


class DivergedError(LearningError):
    """Training went where numbers end: the trial has failed, others need not."""


def of_shape(found: NDArray[Any], shape: tuple[int, ...], *, whose: str) -> NDArray[Any]:
    """Return `found`, which `whose` method gave. Raises LearningError for another shape."""
    if np.shape(found) != shape:
        problem = f"{whose} gives an array of shape {np.shape(found)}, and {shape} is needed"
        raise LearningError(problem, "phyloop check-plugin tests the plug-ins")
    return found
