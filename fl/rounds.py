"""All rounds of a batch of trials, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.flmc import RoundOutcome, build_flmc
from fl.config import FlmcConfig
from fl.metrics import SampleMoments
from fl.results import LINK_COUNTS, TrialResult
from fl.tasks import PosteriorTask, build_task
from phy.burstiness import Burstiness
from phy.channels import UplinkContext
from phy.config import LinkConfig
from privacy import AmplitudePrivacy, NoPrivacy, PrivacyConfig

_DIVERGED = 1e100

SPENT = {"airtime_s": "elapsed_s", "energy_j": "spent_j"}
"""What every round costs, and what it is called when added up from the first round on."""


def run_trials(
    learning: FlmcConfig,
    *,
    link: LinkConfig,
    privacy: PrivacyConfig | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
) -> list[TrialResult]:
    """Run the trials side by side; each one's numbers are those it has alone.

    `link` names access and modulation explicitly. `on_round` hears the number of rounds done. A trial
    that meets a value that is not finite ends as failed at that round, keeps the rounds before it, and
    the others go on.
    """
    batch = tuple(trials)
    task = build_task(learning.task, num_devices=learning.num_devices, seed=seed, trials=batch)
    algorithm = build_flmc(learning, link=link, privacy=privacy, task=task)
    moments = SampleMoments(task.posterior)
    record = _Record(learning.rounds, len(batch))
    theta = np.zeros((len(batch), task.dimension))
    for index in range(learning.rounds):
        context = UplinkContext(seed=seed, trials=batch, round_index=index)
        outcome = algorithm.round(theta, context=context)
        theta = record.note(index, outcome, task)
        if index >= learning.burn_in:
            moments.add(theta)
        on_round(index + 1)
    return record.results(batch, moments=moments, privacy=algorithm.privacy, config=privacy)


class _Record:
    """Arrays over rounds and trials, filled as the rounds pass."""

    def __init__(self, num_rounds: int, num_trials: int) -> None:
        self._num_rounds = num_rounds
        self._rounds: dict[str, NDArray[Any]] = {}
        self._link: dict[str, NDArray[Any]] = {}
        self._bursts: Burstiness | None = None
        self._failed_at = np.full(num_trials, num_rounds)

    def note(self, index: int, outcome: RoundOutcome, task: PosteriorTask) -> NDArray[np.float64]:
        """Keep the round; returns the state to go on with (zero for trials that have failed)."""
        # Up to 1e100 the moments of the samples stay finite; far beyond any posterior all the same.
        with np.errstate(invalid="ignore"):
            finite = np.asarray((np.abs(outcome.theta) < _DIVERGED).all(axis=1))
        self._failed_at = np.where(finite, self._failed_at, np.minimum(self._failed_at, index))
        theta = np.where(finite[:, None], outcome.theta, 0.0)
        squared_error = ((theta - task.posterior.mean) ** 2).sum(axis=1)
        for name, values in {"squared_error": squared_error, **outcome.observed}.items():
            self._row(self._rounds, name, values)[index] = values
        if outcome.counts is not None:
            measured = {name: getattr(outcome.counts, name) for name in LINK_COUNTS}
            if outcome.power_db is not None:
                measured["power_db"] = outcome.power_db
            for name, values in measured.items():
                self._row(self._link, name, values)[index] = values
        if outcome.bursts is not None:
            going_on = outcome.bursts.of_trials(self._failed_at > index)
            self._bursts = going_on if self._bursts is None else self._bursts + going_on
        return theta

    def _row(self, store: dict[str, NDArray[Any]], name: str, values: NDArray[Any]) -> NDArray[Any]:
        if name not in store:
            store[name] = np.zeros((self._num_rounds, *values.shape), values.dtype)
        return store[name]

    def _failure(self, row: int) -> str | None:
        """Why a trial has no result, None if it has one."""
        if self._failed_at[row] < self._num_rounds:
            return f"round {self._failed_at[row]}: the parameter has diverged or is not a number"
        if "num_active" in self._rounds and not self._rounds["num_active"][:, row].any():
            return "no device transmitted in any round: all stayed below link.power.cutoff_db"
        return None

    def results(
        self,
        trials: tuple[int, ...],
        *,
        moments: SampleMoments,
        privacy: AmplitudePrivacy,
        config: PrivacyConfig | None,
    ) -> list[TrialResult]:
        """One result per trial."""
        summary = moments.summary()
        spent = {}
        for name, total in SPENT.items():
            if name in self._rounds:
                self._rounds[total] = np.cumsum(self._rounds[name], axis=0)
                summary[f"total_{name}"] = self._rounds[total][-1]
        if "amplitude" in self._rounds:
            amplitude, cap = self._rounds["amplitude"], self._rounds["active_cap"]
            on_air = np.maximum((amplitude > 0).sum(axis=0), 1)
            # Summed trial by trial: over `[num_rounds, 1]` NumPy would add in another order than over many.
            summary["amplitude"] = np.ascontiguousarray(amplitude.T).sum(axis=1) / on_air
            summary["active_cap"] = np.stack([(cap == code).sum(axis=0) for code in range(4)]).argmax(axis=0)
            if config is not None and not isinstance(privacy, NoPrivacy):
                spent = {
                    "epsilon": np.full(amplitude.shape, config.epsilon),
                    "delta_target": np.full(amplitude.shape, config.delta),
                    "delta_spent": privacy.delta_spent(np.ascontiguousarray(self._rounds["peak_amplitude"].T)).T,
                }
        out = []
        for row, trial in enumerate(trials):
            kept = int(self._failed_at[row])
            failed = self._failure(row) is not None
            out.append(
                TrialResult(
                    trial=trial,
                    metrics={} if failed else {name: float(values[row]) for name, values in summary.items()},
                    rounds={name: values[:kept, row].copy() for name, values in self._rounds.items()},
                    link={name: values[:kept, row].copy() for name, values in self._link.items()},
                    privacy={name: values[:kept, row].copy() for name, values in spent.items()},
                    bursts={} if self._bursts is None else self._bursts.of_trial(row),
                    failure=self._failure(row),
                )
            )
        return out
