"""Choices that look at nobody's data or channel."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fl.base.arrays import F64
from fl.uplink.selection import RoundKnowledge, Selection, selections


@selections.register
class RandomDraw(Selection):
    """Devices are drawn anew in each round, without replacement, all with one probability (McMahan et al. 2017)."""

    name: Literal["random"] = "random"
    uniform: ClassVar[bool] = True
    label: ClassVar[str] = "at random"

    def scores(self, known: RoundKnowledge) -> F64:
        """The same for all."""
        return np.zeros(len(known.age))


@selections.register
class RoundRobin(Selection):
    """Devices take turns in the order of their numbers."""

    name: Literal["round-robin"] = "round-robin"
    label: ClassVar[str] = "round robin"

    def scores(self, known: RoundKnowledge) -> F64:
        """Return minus the places until a device has its turn."""
        num_devices = len(known.age)
        return -((np.arange(num_devices) - known.round_index * known.num_chosen) % num_devices).astype(np.float64)


@selections.register
class ByAge(Selection):
    """Devices that were left out longest; among those of one age at random."""

    name: Literal["by-age"] = "by-age"
    label: ClassVar[str] = "oldest first"

    def scores(self, known: RoundKnowledge) -> F64:
        """Return the age."""
        return known.age
