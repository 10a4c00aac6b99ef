"""Choices by what devices reported of their training when they last took part."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fl.base.arrays import F64
from fl.uplink.selection import Asked, RoundKnowledge, Selection, selections


def _unknown_first(values: F64) -> F64:
    return np.where(np.isnan(values), np.inf, values)


@selections.register
class ByLoss(Selection):
    """Devices with the largest training loss when they last took part, those without one first.

    Power-of-choice (Cho et al. 2022) asks candidates for their loss on the model of the round; here the server knows
    the last reports alone, which cost nothing.
    """

    name: Literal["by-loss"] = "by-loss"
    asks: ClassVar[tuple[Asked, ...]] = ("loss",)
    label: ClassVar[str] = "largest loss"

    def scores(self, known: RoundKnowledge) -> F64:
        """Return the loss."""
        return _unknown_first(known.loss)


@selections.register
class ByUpdateNorm(Selection):
    """Devices with the largest update when they last took part, those without one first."""

    name: Literal["by-update-norm"] = "by-update-norm"
    asks: ClassVar[tuple[Asked, ...]] = ("update_norm",)
    label: ClassVar[str] = "largest update"

    def scores(self, known: RoundKnowledge) -> F64:
        """Return the norm of the update."""
        return _unknown_first(known.update_norm)
