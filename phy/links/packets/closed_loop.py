"""Closed-loop power control: each device's power follows the error rate measured on it in the last round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LoopConfig
from phy.links.link import LinkError
from phy.measure.counts import LinkCounts


def adapt_power(
    snr_db: NDArray[np.float64], counts: LinkCounts, *, loop: LoopConfig, snr_max_db: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Transmit power over N0 of the next round, `[num_trials, num_devices]` [dB].

    With r the error rate measured and r0 its target,

        P <- clip(P + clip(s log10(r / r0), -d, d), P_min, P_max),   s = `db_per_decade`, d = `max_step_db`

    Over a channel whose error rate falls by one decade per s dB or less the fixed point r = r0 is approached without
    overshoot. A round without errors counts as half an error, r = (1/2) / (n + 1). Where the target is too small to
    show in one round, n r0 < 1, such a round steps down by P / (1 - P) of what a single error would step up,
    P = 1 - (1 - r0)^n, so that both balance at the target, as in the outer loop of link adaptation. Without a
    measurement the power stays.
    """
    if loop.target == "ber":
        errors, observed = counts.bit_errors, counts.bits
    else:
        errors, observed = counts.packet_errors, counts.packets
    seen, target = np.maximum(observed, 1).astype(float), loop.target_rate
    erring = np.maximum(errors, 1) / seen
    upwards = np.clip(loop.db_per_decade * np.log10(1.0 / (seen * target)), 0.0, loop.max_step_db)
    # Where one error is within the target there is nothing to balance, and the odds would overflow.
    odds = np.expm1(-np.where(upwards > 0, seen, 0.0) * np.log1p(-target))
    clean = np.minimum(loop.db_per_decade * np.log10(0.5 / (seen + 1.0) / target), -odds * upwards)
    step = np.where(errors > 0, loop.db_per_decade * np.log10(erring / target), clean)
    moved = np.clip(snr_db + np.clip(step, -loop.max_step_db, loop.max_step_db), loop.min_snr_db, snr_max_db)
    return np.asarray(np.where(observed > 0, moved, snr_db))


class PowerLoop:
    """The powers of one batch of trials, round by round.

    `snr_db(round)` is the power of a round; `update(round, counts)` sets that of the next one. A round may be queried
    again. A round without counts of the round before it starts at the initial power.
    """

    def __init__(self, loop: LoopConfig, *, snr_max_db: float | NDArray[np.float64], shape: tuple[int, int]) -> None:
        start = snr_max_db if loop.initial_snr_db is None else loop.initial_snr_db
        self._loop, self._snr_max_db = loop, snr_max_db
        self._initial = np.full(shape, start)
        self._known: dict[int, NDArray[np.float64]] = {}

    def snr_db(self, round_index: int) -> NDArray[np.float64]:
        """Transmit power over N0 in this round, `[num_trials, num_devices]` [dB]."""
        return self._known.get(round_index, self._initial)

    def update(self, round_index: int, counts: LinkCounts) -> None:
        """Set the powers of the next round from the counts of this one."""
        following = adapt_power(self.snr_db(round_index), counts, loop=self._loop, snr_max_db=self._snr_max_db)
        self._known = {round_index: self.snr_db(round_index), round_index + 1: following}

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Powers `[num_trials, num_devices]` [dB] of the last round and of the next one, by their numbers."""
        return {str(number): powers for number, powers in self._known.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of `state`. Raises LinkError for powers of other devices."""
        for number, powers in state.items():
            fits = isinstance(powers, np.ndarray) and powers.dtype == np.float64
            if not (number.isdecimal() and fits and powers.shape == self._initial.shape):
                raise LinkError(f"powers of round {number} must be of {self._initial.shape} trials and devices")
        self._known = {int(number): powers.copy() for number, powers in state.items()}
