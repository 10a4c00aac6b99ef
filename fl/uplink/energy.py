"""Transmit energy that devices have for all rounds, and the power that it leaves them in the next one."""

from __future__ import annotations

import numpy as np

from fl.base.arrays import F64, I64
from fl.base.checkpoints import Kept
from phy.config import LinkConfig
from phy.config.levels import sent_watts
from phy.config.power import EnergyBudget
from phy.links.airtime import superposed_seconds

_SPENT = 1e-4
"""Share of the budget below which a device has nothing left."""
_ROUNDING = 1e-5
"""Relative error of energies that are added up in float32: as much is kept back."""


class EnergyLeft(Kept):
    """What is left of `phy.config.power.EnergyBudget`, `left_j` `[num_devices]` [J].

    With n rounds left, and weights of the rounds that grow by the factor q from one to the next, a round may take

        E_l / sum_{i < n} q^i,    q = 1 (even), 0 (greedy), d / sqrt(rho) (convergence),

    with d the factor per round by which the norm of the largest update is taken to change: as per round so far, but by
    no more in all n rounds than it has changed so far, because a trend of few rounds is mostly noise.
    """

    kept = ("left_j", "_first_size")

    def __init__(
        self, budget: EnergyBudget, *, link: LinkConfig, num_symbols: int, num_devices: int, num_rounds: int
    ) -> None:
        self._budget, self._num_rounds = budget, num_rounds
        self._seconds, pilots_s = superposed_seconds(link, num_symbols)
        self._pilots_j = pilots_s * link.max_power * sent_watts(link, num_devices)
        self.left_j = np.full(num_devices, budget.energy_j)
        self._first_size = np.zeros(())

    def max_power(self, round_index: int, *, size: float) -> F64:
        """Largest mean transmit power in a round `[num_devices]` [W]; 0 for a device that has spent its energy.

        `size`: norm of the largest update, or 1 for symbols that do not scale with it.
        """
        if not self._first_size:
            self._first_size = np.array(size)
        rounds = np.arange(self._num_rounds - round_index, dtype=np.float64)
        with np.errstate(over="ignore"):
            share = 1.0 / np.power(self._growth(round_index, size), rounds).sum()
        round_j = self.left_j * share * (1.0 - _ROUNDING) - self._pilots_j
        return np.where(self.left_j > _SPENT * self._budget.energy_j, np.maximum(round_j, 0.0), 0.0) / self._seconds

    def _growth(self, round_index: int, size: float) -> float:
        if self._budget.spread != "convergence":
            return 1.0 if self._budget.spread == "even" else 0.0
        known = round_index > 0 and size > 0.0 and self._first_size > 0.0
        per_rounds = max(round_index, self._num_rounds - round_index)
        trend = (size / float(self._first_size)) ** (1.0 / per_rounds) if known else 1.0
        return float(trend / np.sqrt(self._budget.contraction))

    def spend(self, devices: I64, energy_j: F64) -> None:
        """Take off the energy that `devices` have sent."""
        self.left_j = self.left_j.copy()
        self.left_j[devices] = np.maximum(self.left_j[devices] - energy_j, 0.0)
