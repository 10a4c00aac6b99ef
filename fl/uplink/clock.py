"""Clock of the rounds of one trial: who is under way, whose upload arrives in a round, and how old it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.base.arrays import F32, F64, I64, Bools
from fl.base.checkpoints import Kept, State
from fl.base.errors import LearningError
from fl.uplink.participation import Participants, jain
from fl.uplink.timing import TimingConfig, compute_times, round_duration, upload_ends
from phy.numerics.draws import round_generator
from phy.numerics.random import Purpose


class RoundClock(Kept):
    """Times of all devices, counted from the beginning of the round, and what becomes of them when it ends.

    - `per_step` `[num_devices]`: samples that a device processes in a local step;
    - `airtime_s` of one upload sent once: it decides who can still send;
    - `in_turn`: uploads take turns; else those of a round add up at once.
    """

    kept = ("_ready_s", "_started", "_free_s", "_arrived")

    def __init__(
        self, config: TimingConfig, *, per_step: F64, airtime_s: float, in_turn: bool, seed: int, trial: int
    ) -> None:
        self._config, self._per_step, self._airtime_s, self._in_turn = config, per_step, airtime_s, in_turn
        self._seed, self._trial = seed, trial
        self._ready_s = np.full(len(per_step), np.inf)
        self._started, self._arrived = np.zeros((2, len(per_step)), np.int64)
        self._free_s = np.zeros(1)
        self._duration_s = 0.0

    @property
    def busy(self) -> Bools:
        """Devices `[num_devices]` that compute or wait to send."""
        return np.asarray(np.isfinite(self._ready_s))

    def begin(self, who: Participants, round_index: int) -> Participants:
        """Let `who` begin to compute; return who sends in this round: those of `who`, or of all under way.

        Every draw is made for all devices, so that no other setting shifts it.
        """
        drawn = round_generator(self._seed, self._trial, Purpose.COMPUTE, round_index)
        steps = np.zeros(len(self._ready_s))
        steps[who.devices] = who.steps
        times = compute_times(
            self._config.compute, processed=steps * self._per_step, exponential=drawn.exponential(size=len(steps))
        )
        sends = who.devices[who.sends]
        self._ready_s[sends], self._started[sends] = times[sends], round_index
        (under_way,) = np.nonzero(self.busy)
        ends = self._ends(under_way, self._airtime_s)
        self._duration_s = round_duration(
            np.append(ends, np.full((~who.sends).sum(), np.inf)),  # the server does not know that they never send
            deadline_s=self._config.deadline_s,
            arrivals=self._config.arrivals,
        )
        arriving = under_way[ends <= self._duration_s]
        if self._config.keeps:
            return Participants(devices=arriving, sends=np.ones(len(arriving), bool), steps=np.zeros_like(arriving))
        return replace(who, sends=np.isin(who.devices, arriving))

    def weights(self, devices: I64, round_index: int) -> F64:
        """(1 + tau)^-alpha `[S]` of updates that `devices` began tau rounds ago, Xie et al. 2019."""
        return np.asarray((1.0 + self._ages(devices, round_index)) ** -self._config.staleness_exponent)

    def end(self, devices: I64, round_index: int, *, airtime_s: F64 | None) -> dict[str, float]:
        """End a round in which `devices` have sent; return its numbers.

        `airtime_s` `[S]` that their uploads took, where packets are sent again: what was begun is sent to the end.
        """
        took = self._airtime_s if airtime_s is None else airtime_s
        ends = self._ends(devices, took)
        if airtime_s is not None:
            self._duration_s = max(self._duration_s, float(ends.max(initial=0.0)))
        ages = self._ages(devices, round_index)
        self._arrived[devices] += 1
        self._ready_s[devices] = np.inf
        numbers = {
            "round_s": self._duration_s,
            "num_late": float(self.busy.sum()),
            "staleness": float(ages.mean()) if len(ages) else float("nan"),
        }
        if self._config.keeps:
            self._ready_s -= self._duration_s
            if self._in_turn:
                self._free_s[0] = max(self._free_s[0], ends.max(initial=-np.inf)) - self._duration_s
        else:
            self._ready_s[:] = np.inf
        return numbers

    def metrics(self) -> dict[str, float]:
        """Return Jain's index of how many uploads of each device were in time."""
        return {"arrival_fairness": jain(self._arrived)} if self._arrived.any() else {}

    def _ends(self, devices: I64, airtime_s: F64 | float) -> F64:
        return upload_ends(
            self._ready_s[devices], airtime_s=airtime_s, free_s=float(self._free_s[0]), in_turn=self._in_turn
        )

    def _ages(self, devices: I64, round_index: int) -> I64:
        return np.asarray(round_index - self._started[devices])


class UpdatesUnderWay:
    """Updates that devices have computed and not yet delivered; memory of as many as there are devices under way."""

    def __init__(self, num_values: int) -> None:
        self._num_values, self._of = num_values, dict[int, F32]()

    def put(self, devices: I64, updates: F32) -> None:
        """Keep the updates `[D, M]` of devices."""
        self._of |= {int(device): row.copy() for device, row in zip(devices, updates, strict=True)}

    def take(self, devices: I64) -> F32:
        """Return the updates `[S, M]` of devices, and forget them."""
        taken = [self._of.pop(int(device)) for device in devices]
        return np.stack(taken) if taken else np.zeros((0, self._num_values), np.float32)

    def state(self) -> State:
        """Return the devices `[F]` and their updates `[F, M]`."""
        rows = [*self._of.values()] or [np.zeros((0, self._num_values), np.float32)]
        return {"devices": np.array([*self._of], np.int64), "updates": np.vstack(rows)}

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError for updates of other models."""
        devices, updates = state["devices"], state["updates"]
        if updates.shape != (len(devices), self._num_values) or updates.dtype != np.float32:
            raise LearningError(f"updates under way are {updates.dtype} {updates.shape}, of {len(devices)} devices")
        self._of = {}
        self.put(devices, updates)
