"""Who takes part in a round: chosen by a selection, some of them late, some of them never heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fl.base.arrays import F64, I64, Bools
from fl.base.checkpoints import Kept
from fl.base.errors import LearningError, of_shape
from fl.base.fields import Count, Frozen, Probability
from fl.uplink.selection import RoundKnowledge, SelectionConfig, selections
from phy.measure.counts import LinkCounts
from phy.numerics.draws import round_generator
from phy.numerics.random import Purpose


class ParticipationConfig(Frozen):
    """Devices that take part in a round."""

    devices_per_round: Count | None = Field(
        default=None, description="number of devices chosen for each round; left out: all"
    )
    selection: SelectionConfig = Field(
        default_factory=lambda: selections.read("random"), description="which devices are chosen for a round"
    )
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=0.0, description="probability that a device that trained never sends; 0: all of them send"
    )
    straggling: Probability = Field(
        default=0.0,
        description="probability that a device finishes only 1 .. E - 1 of its E steps, uniformly; 0: all of them "
        "finish",
    )


@dataclass(frozen=True, kw_only=True)
class Participants:
    """The devices of one round.

    - `devices` int64 `[K']`: who trains, ascending;
    - `sends` bool `[K']`: who of them uploads in the end;
    - `steps` int64 `[K']`: local iterations that each gets through.
    """

    devices: I64
    sends: Bools
    steps: I64


class Participation(Kept):
    """Participants of the rounds of one trial; E = `steps` local iterations.

    `probe(round_index)`: counts of known bits that all devices send over the channel of a round; `snr_max_db` is
    P0 / N0 [dB], for all or of each. Only selections by channel need them. A probe takes no time and no energy in the
    results.
    """

    kept = ("_last", "_times", "_served", "_loss", "_update_norm")

    def __init__(
        self,
        config: ParticipationConfig,
        *,
        samples: F64,
        steps: int,
        seed: int,
        trial: int,
        probe: Callable[[int], LinkCounts] | None = None,
        snr_max_db: float | F64 = 0.0,
    ) -> None:
        self._config, self._selection, self._samples = config, config.selection, samples
        self._steps, self._seed, self._trial, self._probe, self._snr_max_db = steps, seed, trial, probe, snr_max_db
        num_devices = len(samples)
        self._num_chosen = min(config.devices_per_round or num_devices, num_devices)
        self._last, self._times = np.zeros((2, num_devices), np.int64)
        self._served = np.zeros(num_devices)
        self._loss, self._update_norm = np.full((2, num_devices), np.nan)
        self._probed: tuple[int, F64] | None = None

    @property
    def chooses(self) -> bool:
        """True if some devices are left out of a round."""
        return self._num_chosen < len(self._samples)

    def of(self, round_index: int, *, busy: Bools | None = None) -> Participants:
        """Return who takes part in a round, once all rounds before it have ended; asked again it is the same.

        Devices `busy` `[num_devices]` with an earlier round count among those of this one, and do not begin anew.

        Every draw is made for all devices, so that another probability of one thing does not shift the others. Raises
        LearningError for scores that are NaN or of another shape.
        """
        drawn = round_generator(self._seed, self._trial, Purpose.PARTICIPATION, round_index)
        order = drawn.permutation(len(self._samples))
        dropped, straggling, done = drawn.random((3, len(self._samples)))
        if self.chooses and not self._selection.uniform:
            order = self._ranked(order, round_index)
        if busy is None:
            chosen = np.sort(order[: self._num_chosen])
        else:
            chosen = np.sort(order[~busy[order]][: max(self._num_chosen - int(busy.sum()), 0)])
        late = straggling[chosen] < self._config.straggling
        partial = 1 + np.floor(done[chosen] * (self._steps - 1)).astype(np.int64)
        sends = dropped[chosen] >= self._config.dropout
        return Participants(devices=chosen, sends=sends, steps=np.where(late, partial, self._steps))

    def note(self, devices: I64, *, loss: F64, update_norm: Callable[[], F64]) -> None:
        """Note what devices `[D]` report of their training in a round; a norm is computed where it is asked for."""
        self._loss[devices] = loss
        if "update_norm" in self._selection.asks:
            self._update_norm[devices] = update_norm()

    def end(self, who: Participants, round_index: int) -> dict[str, float]:
        """End a round; return its numbers, where some devices are left out."""
        if self._selection.by_channel:
            rate = np.log2(1.0 + 10.0 ** (np.nan_to_num(self._snr_db(round_index), nan=-np.inf) / 10.0))
            part = 1.0 / self._selection.window_rounds
            self._served *= 1.0 - part
            self._served[who.devices] += part * rate[who.devices]
        self._last[who.devices] = round_index + 1
        self._times[who.devices] += 1
        return {"participation_age": float(np.mean(round_index + 1 - self._last))} if self.chooses else {}

    def metrics(self) -> dict[str, float]:
        """Return Jain's index of how often each device was chosen; empty where all are in every round."""
        if not self.chooses or not self._times.any():
            return {}
        return {"participation_fairness": jain(self._times)}

    def _ranked(self, order: I64, round_index: int) -> I64:
        """Return all devices, the largest scores first, equal ones in this order."""
        unknown, selection = np.full(len(order), np.nan), self._selection
        known = RoundKnowledge(
            round_index=round_index,
            num_chosen=self._num_chosen,
            samples=self._samples,
            age=(round_index + 1 - self._last).astype(np.float64),
            snr_db=self._snr_db(round_index) if selection.by_channel else unknown,
            served=self._served.copy() if selection.by_channel else unknown,
            loss=self._loss.copy() if "loss" in selection.asks else unknown,
            update_norm=self._update_norm.copy() if "update_norm" in selection.asks else unknown,
        )
        scores = of_shape(selection.scores(known), order.shape, whose=f"selection {selection.name}")
        if np.isnan(scores).any():
            raise LearningError(f"selection {selection.name} gives NaN as a score", "return a number for every device")
        return np.asarray(order[np.argsort(-scores[order], kind="stable")])

    def _snr_db(self, round_index: int) -> F64:
        """P0 |h|^2 / N0 `[K]` as the server knows it in a round [dB]; NaN before the first probe has arrived."""
        at = round_index - self._selection.delay_rounds
        if at < 0 or self._probe is None:
            return np.full(len(self._samples), np.nan)
        if self._probed is None or self._probed[0] != at:
            counts = self._probe(at)
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.nan_to_num(counts.signal_energy[0] / counts.transmit_energy[0])  # 0 / 0 of a silent device
                self._probed = at, self._snr_max_db + 10.0 * np.log10(gain)
        return self._probed[1]


def jain(times: I64) -> float:
    """(sum_k n_k)^2 / (K sum_k n_k^2) of counts n `[K]`, 1 if all are equal, Jain et al. 1984."""
    counts = times.astype(np.float64)
    return float(counts.sum() ** 2 / (len(counts) * (counts**2).sum()))
