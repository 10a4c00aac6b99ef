"""All rounds of a batch of trials, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_amplitudes import AmplitudeAllowance, amplitude_allowance, silenced
from fl.algorithms.flmc import Algorithm, RoundOutcome, build_flmc
from fl.algorithms.posterior_metrics import SampleMoments
from fl.algorithms.round_series import RoundSeries, of_trials, running_total
from fl.checkpoints import NO_CHECKPOINTS, Checkpoints, State, kept_array, kept_number, kept_rows, resumed
from fl.config import FlmcConfig
from fl.results import CAP_NAMES, LINK_COUNTS, OnAir, TrialResult
from fl.tasks import PosteriorTask, build_task
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.measure.burstiness import Burstiness
from phy.numerics.random import Trials
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
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> list[TrialResult]:
    """Run the trials side by side; each one's numbers are those it has alone.

    `link` names access and modulation explicitly. `on_round` hears the number of rounds done, `checkpoints` keep the
    state of all trials. A trial that meets a value that is not finite ends as failed at that round, keeps the rounds
    before it, and the others go on. So does one that a budget stops, which ends as done. Raises PrivacyError for a
    budget that holds nothing.
    """
    batch, rounds_done = resumed(
        lambda: _Batch(learning, link=link, privacy=privacy, seed=seed, trials=Trials(trials)),
        num_rounds=learning.rounds,
        checkpoints=checkpoints,
    )
    for index in range(rounds_done, learning.rounds):
        batch.round(index)
        if index + 1 < learning.rounds and checkpoints.due(index + 1):
            checkpoints.save(index + 1, batch.state())
        on_round(index + 1)
    return batch.results()


class _Batch:
    """Trials side by side, and what is kept of them."""

    def __init__(
        self,
        learning: FlmcConfig,
        *,
        link: LinkConfig,
        privacy: PrivacyConfig | AmplitudeBudget | None,
        seed: int,
        trials: tuple[int, ...],
    ) -> None:
        self._learning, self._seed, self._trials = learning, seed, trials
        self._task = build_task(learning.task, num_devices=learning.num_devices, seed=seed, trials=trials)
        self._bound = privacy if isinstance(privacy, PrivacyConfig) else None
        self._algorithm = build_flmc(learning, link=link, privacy=self._bound, task=self._task)
        self._allowance = amplitude_allowance(
            learning, link=link, privacy=privacy, task=self._task, bound=self._algorithm.privacy
        )
        self._moments = SampleMoments(self._task.posterior)
        self._record = _Record(learning.rounds, len(trials), learning.num_devices)
        self._theta = np.zeros((len(trials), self._task.dimension))

    def round(self, index: int) -> None:
        """One round of all trials that go on."""
        allowance, record = self._allowance, self._record
        context = UplinkContext(seed=self._seed, trials=self._trials, round_index=index)
        if allowance is None:
            outcome = self._algorithm.round(self._theta, context=context)
        elif record.going_on:
            outcome = _within(allowance, self._algorithm, self._theta, context=context, record=record)
        else:  # of trials that have all stopped only the clock goes on
            return
        self._theta = record.note(index, outcome, self._task)
        if index >= self._learning.burn_in:
            self._moments.add(self._theta, counted=None if allowance is None else record.goes_on)

    def results(self) -> list[TrialResult]:
        """One result per trial."""
        return self._record.results(
            self._trials,
            moments=self._moments,
            privacy=self._algorithm.privacy,
            config=self._bound,
            allowance=self._allowance,
        )

    def state(self) -> State:
        """See `fl.checkpoints.Resumable`."""
        return {
            "theta": self._theta,
            "moments": self._moments.state(),
            "record": self._record.state(),
            "allowance": None if self._allowance is None else self._allowance.state(),
            "algorithm": self._algorithm.state(),
        }

    def restore(self, state: State) -> None:
        """See `fl.checkpoints.Resumable`."""
        self._theta = kept_array(state, "theta", like=self._theta)
        self._moments.restore(state["moments"])
        self._record.restore(state["record"])
        if self._allowance is not None:
            self._allowance.restore(state["allowance"])
        self._algorithm.restore(state["algorithm"])


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


def _delta_spent(privacy: AmplitudePrivacy, amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of amplitudes `[num_rounds, num_trials]`; rounds that are all the same are asked for once."""
    some = amplitude[:1] if amplitude.strides[0] == 0 else amplitude
    return np.broadcast_to(privacy.delta_spent(np.ascontiguousarray(some.T)).T, amplitude.shape)


class _Record:
    """Arrays over rounds and trials, filled as the rounds pass."""

    def __init__(self, num_rounds: int, num_trials: int, num_devices: int) -> None:
        self._num_rounds, self._num_devices = num_rounds, num_devices
        self._kept = 0
        self._rounds: dict[str, RoundSeries] = {}
        self._link: dict[str, RoundSeries] = {}
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
        # Here, because numba takes a while to import.
        from fl.algorithms.flmc_kernels import distances

        theta, target = outcome.theta, task.posterior.mean
        # Up to 1e100 the moments of the samples stay finite; far beyond any posterior all the same.
        squared_error, finite, everywhere = distances(theta, target, limit=_DIVERGED)
        if not everywhere:
            self._failed_at = np.where(finite, self._failed_at, np.minimum(self._failed_at, index))
            theta = np.where(finite[:, None], theta, 0.0)
            squared_error, _, _ = distances(theta, target, limit=_DIVERGED)
        for name, values in {"squared_error": squared_error, **outcome.observed}.items():
            self._series(self._rounds, name).note(index, values)
        if outcome.counts is not None:
            measured = {name: getattr(outcome.counts, name) for name in LINK_COUNTS}
            if outcome.power_db is not None:
                measured["power_db"] = outcome.power_db
            for name, values in measured.items():
                self._series(self._link, name).note(index, values)
        if outcome.bursts is not None:
            going_on = outcome.bursts.of_trials(self._failed_at > index)
            self._bursts = going_on if self._bursts is None else self._bursts + going_on
        self._kept = index + 1
        return theta

    def state(self) -> State:
        """What rounds have left; of the arrays, as many rows as there were rounds."""
        return {
            "rounds": {name: series.first(self._kept) for name, series in self._rounds.items()},
            "link": {name: series.first(self._kept) for name, series in self._link.items()},
            "bursts": None if self._bursts is None else self._bursts.state(),
            "failed_at": self._failed_at,
            "stopped_at": self._stopped_at,
            "kept": self._kept,
        }

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError, LinkError for the state of other trials."""
        shape = self._failed_at.shape
        self._rounds, self._link = (
            {
                name: RoundSeries(self._num_rounds, rows=rows)
                for name, rows in kept_rows(state[table], num_rounds=self._num_rounds, shape=whole).items()
            }
            for table, whole in (("rounds", shape), ("link", (*shape, self._num_devices)))
        )
        bursts = state["bursts"]
        self._bursts = None if bursts is None else Burstiness.restored(bursts, shape=(*shape, self._num_devices))
        self._failed_at = kept_array(state, "failed_at", like=self._failed_at)
        self._stopped_at = kept_array(state, "stopped_at", like=self._stopped_at)
        self._kept = kept_number(state, "kept", most=self._num_rounds)

    def _series(self, store: dict[str, RoundSeries], name: str) -> RoundSeries:
        if name not in store:
            store[name] = RoundSeries(self._num_rounds)
        return store[name]

    def _failure(self, row: int, *, silent: bool) -> str | None:
        """Why a trial, `silent` if nobody ever sent, has no result, None if it has one."""
        if self._stopped_at[row] == 0:
            return "round 0: one round alone would break the budget for the run"
        if self._failed_at[row] < self._num_rounds:
            return f"round {self._failed_at[row]}: the parameter has diverged or is not a number"
        if silent:
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
        rounds, link = (
            {name: series.first(self._num_rounds) for name, series in some.items()}
            for some in (self._rounds, self._link)
        )
        spent = {}
        for name, total in SPENT.items():
            if name in rounds:
                rounds[total] = running_total(rounds[name])
                summary[f"total_{name}"] = rounds[total][-1]
        if "amplitude" in rounds:
            amplitude, cap = rounds["amplitude"], rounds["active_cap"]
            kept = np.arange(len(cap))[:, None] < self._stopped_at
            on_air = np.maximum((amplitude > 0).sum(axis=0), 1)
            # Summed trial by trial: over `[num_rounds, 1]` NumPy would add in another order than over many.
            summary["amplitude"] = np.ascontiguousarray(amplitude.T).sum(axis=1) / on_air
            summary["active_cap"] = np.stack(
                [((cap == code) & kept).sum(axis=0) for code in range(len(CAP_NAMES))]
            ).argmax(axis=0)
            if config is not None and not isinstance(privacy, NoPrivacy):
                spent = {
                    "epsilon": np.broadcast_to(np.float64(config.epsilon), amplitude.shape),
                    "delta_target": np.broadcast_to(np.float64(config.delta), amplitude.shape),
                    "delta_spent": _delta_spent(privacy, rounds["peak_amplitude"]),
                }
        silent = np.zeros(len(trials), bool)
        if "num_active" in rounds:
            silent |= ~rounds["num_active"].any(axis=0)
        ended = np.minimum(self._failed_at, self._stopped_at)
        kept_rounds, kept_link, kept_spent = (of_trials(some, ended=ended) for some in (rounds, link, spent))
        of_trial = zip(*(values.astype(float).tolist() for values in summary.values()), strict=True)
        never = OnAir()
        silences, ends, failed_at = silent.tolist(), ended.tolist(), self._failed_at.tolist()
        out = []
        for row, (trial, metrics) in enumerate(zip(trials, of_trial, strict=True)):
            failure = None
            if ends[row] < self._num_rounds or silences[row]:
                failure = self._failure(row, silent=silences[row])
            measured = dict(zip(summary, metrics, strict=True))
            if allowance is not None:
                # A trial that stopped before there were samples has no metrics of them.
                measured = {name: value for name, value in measured.items() if not np.isnan(value)}
                measured["rounds_sent"] = float(allowance.rounds_sent[row])
            out.append(
                TrialResult(
                    trial=trial,
                    metrics={} if failure else measured,
                    rounds=kept_rounds[row],
                    link=kept_link[row],
                    privacy=kept_spent[row],
                    bursts={} if self._bursts is None else self._bursts.of_trial(row),
                    on_air=OnAir(rounds={name: float(values[ends[row], row]) for name, values in rounds.items()})
                    if ends[row] == failed_at[row] < self._num_rounds
                    else never,
                    failure=failure,
                )
            )
        return out
