"""All rounds of a batch of trials, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.flmc import Algorithm, RoundOutcome, build_flmc
from fl.budgets.amplitudes import AmplitudeAllowance, amplitude_allowance, silenced
from fl.config import FlmcConfig
from fl.metrics import SampleMoments
from fl.results import CAP_NAMES, LINK_COUNTS, OnAir, TrialResult
from fl.tasks import PosteriorTask, build_task
from phy.burstiness import Burstiness
from phy.channels import UplinkContext
from phy.config import LinkConfig
from privacy import AmplitudePrivacy, NoPrivacy, PrivacyConfig
from privacy.config import AmplitudeBudget

_DIVERGED = 1e100

SPENT = {"airtime_s": "elapsed_s", "energy_j": "spent_j"}
"""What every round costs, and what it is called when added up from the first round on."""


def run_trials(
    learning: FlmcConfig,
    *,
    link: LinkConfig,
    privacy: PrivacyConfig | AmplitudeBudget | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
) -> list[TrialResult]:
    """Run the trials side by side; each one's numbers are those it has alone.

    `link` names access and modulation explicitly. `on_round` hears the number of rounds done. A trial
    that meets a value that is not finite ends as failed at that round, keeps the rounds before it, and
    the others go on. So does one that a budget stops, which ends as done. Raises PrivacyError for a budget that holds
    nothing.
    """
    batch = tuple(trials)
    task = build_task(learning.task, num_devices=learning.num_devices, seed=seed, trials=batch)
    bound = privacy if isinstance(privacy, PrivacyConfig) else None
    algorithm = build_flmc(learning, link=link, privacy=bound, task=task)
    allowance = amplitude_allowance(learning, link=link, privacy=privacy, task=task, bound=algorithm.privacy)
    moments = SampleMoments(task.posterior)
    record = _Record(learning.rounds, len(batch))
    theta = np.zeros((len(batch), task.dimension))
    for index in range(learning.rounds):
        context = UplinkContext(seed=seed, trials=batch, round_index=index)
        if allowance is None:
            outcome = algorithm.round(theta, context=context)
        elif record.going_on:
            outcome = _within(allowance, algorithm, theta, context=context, record=record)
        else:  # of trials that have all stopped only the clock goes on
            on_round(index + 1)
            continue
        theta = record.note(index, outcome, task)
        if index >= learning.burn_in:
            moments.add(theta, counted=None if allowance is None else record.goes_on)
        on_round(index + 1)
    return record.results(batch, moments=moments, privacy=algorithm.privacy, config=bound, allowance=allowance)


def _within(
    allowance: AmplitudeAllowance,
    algorithm: Algorithm,
    theta: NDArray[np.float64],
    *,
    context: UplinkContext,
    record: _Record,
) -> RoundOutcome:
    """One round in which no trial spends more than is left of its budget."""
    caps = allowance.caps(context.round_index)
    if allowance.action == "stop":
        record.stop(context.round_index, caps == 0.0)
    outcome = algorithm.round(theta, context=context, budget=caps)
    outcome = silenced(outcome, theta, silent=caps == 0.0)
    allowance.note(outcome.observed["peak_amplitude"])
    return outcome


class _Record:
    """Arrays over rounds and trials, filled as the rounds pass."""

    def __init__(self, num_rounds: int, num_trials: int) -> None:
        self._num_rounds = num_rounds
        self._rounds: dict[str, NDArray[Any]] = {}
        self._link: dict[str, NDArray[Any]] = {}
        self._bursts: Burstiness | None = None
        self._failed_at = np.full(num_trials, num_rounds)
        self._stopped_at = np.full(num_trials, num_rounds)

    @property
    def goes_on(self) -> NDArray[np.bool_]:
        """Trials that no budget has stopped, `[num_trials]`."""
        return np.asarray(self._stopped_at == self._num_rounds)

    @property
    def going_on(self) -> bool:
        """Whether there are any."""
        return bool(self.goes_on.any())

    def stop(self, index: int, stopped: NDArray[np.bool_]) -> None:
        """End the `stopped` trials `[num_trials]` before this round."""
        self._stopped_at = np.where(stopped, np.minimum(self._stopped_at, index), self._stopped_at)

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
        if self._stopped_at[row] == 0:
            return "round 0: one round alone would break the budget for the run"
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
        allowance: AmplitudeAllowance | None,
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
            kept = np.arange(len(cap))[:, None] < self._stopped_at
            on_air = np.maximum((amplitude > 0).sum(axis=0), 1)
            # Summed trial by trial: over `[num_rounds, 1]` NumPy would add in another order than over many.
            summary["amplitude"] = np.ascontiguousarray(amplitude.T).sum(axis=1) / on_air
            summary["active_cap"] = np.stack(
                [((cap == code) & kept).sum(axis=0) for code in range(len(CAP_NAMES))]
            ).argmax(axis=0)
            if config is not None and not isinstance(privacy, NoPrivacy):
                spent = {
                    "epsilon": np.full(amplitude.shape, config.epsilon),
                    "delta_target": np.full(amplitude.shape, config.delta),
                    "delta_spent": privacy.delta_spent(np.ascontiguousarray(self._rounds["peak_amplitude"].T)).T,
                }
        out = []
        for row, trial in enumerate(trials):
            ended = int(min(self._failed_at[row], self._stopped_at[row]))
            failed = self._failure(row) is not None
            measured = {name: float(values[row]) for name, values in summary.items()}
            if allowance is not None:
                # A trial that stopped before there were samples has no metrics of them.
                measured = {name: value for name, value in measured.items() if not np.isnan(value)}
                measured["rounds_sent"] = float(allowance.rounds_sent[row])
            out.append(
                TrialResult(
                    trial=trial,
                    metrics={} if failed else measured,
                    rounds={name: values[:ended, row].copy() for name, values in self._rounds.items()},
                    link={name: values[:ended, row].copy() for name, values in self._link.items()},
                    privacy={name: values[:ended, row].copy() for name, values in spent.items()},
                    bursts={} if self._bursts is None else self._bursts.of_trial(row),
                    on_air=OnAir(rounds={name: float(values[ended, row]) for name, values in self._rounds.items()})
                    if ended == self._failed_at[row] < self._num_rounds
                    else OnAir(),
                    failure=self._failure(row),
                )
            )
        return out
