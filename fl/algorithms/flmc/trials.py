"""All rounds of a batch of trials, and what is kept of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fl.algorithms.flmc.account import AmplitudeAllowance, flmc_account
from fl.algorithms.flmc.kernels import SampleMoments, distances, whitening
from fl.algorithms.flmc.mixing import ChainMixing
from fl.algorithms.flmc.rounds import RoundOutcome, build_flmc
from fl.algorithms.flmc.tasks import build_task
from fl.base.arrays import F64, Bools
from fl.base.checkpoints import Trials
from fl.base.measured import SAMPLE
from fl.base.recorder import SPENT, Recorder, with_totals
from fl.base.results import CAP_NAMES, LINK_COUNTS, PrivacyAccount, TrialResult
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import TrialNumbers
from privacy.config import AmplitudeMechanism
from privacy.mechanisms.amplitude_privacy import NoPrivacy

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig

_DIVERGED = 1e100
_ZERO_IF_SILENT = ("amplitude", "peak_amplitude", "num_active", "airtime_s", "energy_j")


class FlmcTrials(Trials):
    """Trials of federated Langevin Monte Carlo side by side.

    `link` names access and modulation explicitly. A trial that meets a value that is not finite fails at that round and
    keeps the rounds before it; one that a budget stops ends as done. The others go on.
    """

    kept = ("_theta", "_moments", "_mixing", "record", "_failed_at", "_stopped_at", "_allowance", "_algorithm")

    def __init__(
        self,
        learning: FlmcConfig,
        *,
        link: LinkConfig,
        privacy: AmplitudeMechanism | None,
        seed: int,
        trials: tuple[int, ...],
    ) -> None:
        self._learning, self._link, self._privacy = learning, link, privacy
        self._seed, self._trials = seed, TrialNumbers(trials)
        self._task = build_task(learning.task, num_devices=learning.num_devices, seed=seed, trials=self._trials)
        self._bound = None if privacy is None else privacy.of_rounds
        self._algorithm = build_flmc(learning, link=link, privacy=self._bound, task=self._task)
        self._allowance: AmplitudeAllowance | None = None
        if privacy is not None and privacy.budget is not None and learning.uses_radio:
            sampling = self._algorithm.sampling
            caps = np.minimum(sampling.lmc, sampling.privacy.amplitude_cap())
            self._stops = privacy.budget.action == "stop"
            self._allowance = AmplitudeAllowance(learning, link=link, privacy=privacy, caps=caps)
        self._moments = SampleMoments(self._task.posterior)
        self._mixing = ChainMixing(self._task.posterior.mean, num_samples=learning.rounds - learning.burn_in)
        self._whitening = whitening(self._task.posterior) if learning.record_samples else None
        self.record = Recorder(
            learning.rounds, num_devices=learning.num_devices, num_trials=len(trials), unmeasured=0.0
        )
        self._failed_at, self._stopped_at = (np.full(len(trials), learning.rounds) for _ in range(2))
        self._theta = np.zeros((len(trials), self._task.dimension))
        self._last_account: tuple[F64, PrivacyAccount] | None = None

    @property
    def _goes_on(self) -> Bools:
        return np.asarray(self._stopped_at == self._learning.rounds)

    def round(self, index: int) -> None:
        """Compute one round of all trials."""
        context, allowance = UplinkContext(seed=self._seed, trials=self._trials, round_index=index), self._allowance
        if allowance is None:
            outcome = self._algorithm.round(self._theta, context=context)
        else:  # no trial spends more than is left of its budget
            caps = allowance.caps(index)
            if self._stops:
                self._stopped_at = np.where(caps == 0.0, np.minimum(self._stopped_at, index), self._stopped_at)
                self.ended = not self._goes_on.any()
            outcome = self._algorithm.round(self._theta, context=context, budget=caps)
            outcome = _silenced(outcome, self._theta, silent=caps == 0.0)
            allowance.note(outcome.observed["peak_amplitude"])
        self._theta = self._note(index, outcome)
        self.record.finish(index)
        if index >= self._learning.burn_in:
            self._moments.add(self._theta, counted=self._goes_on)
            self._mixing.add(index - self._learning.burn_in, self._theta, counted=self._goes_on)

    def _note(self, index: int, outcome: RoundOutcome) -> F64:
        """Record a round; return the state to go on with (zero for trials that have failed)."""
        theta, target = outcome.theta, self._task.posterior.mean
        # Up to 1e100 the moments of the samples stay finite; far beyond any posterior all the same.
        squared_error, finite, everywhere = distances(theta, target, limit=_DIVERGED)
        if not everywhere:
            self._failed_at = np.where(finite, self._failed_at, np.minimum(self._failed_at, index))
            theta = np.where(finite[:, None], theta, 0.0)
            squared_error, _, _ = distances(theta, target, limit=_DIVERGED)
        samples: dict[str, F64] = {}
        if self._whitening is not None:
            whitened = np.einsum("tij,tj->ti", self._whitening, theta - target)
            samples = {f"{SAMPLE}{entry + 1}": whitened[:, entry] for entry in range(theta.shape[1])}
        rounds = {"squared_error": squared_error, **outcome.observed, **samples}
        self.record.note(index, rounds=rounds, link=outcome.link)
        if outcome.bursts is not None:
            self.record.note_bursts(outcome.bursts.of_trials(self._failed_at > index))
        return theta

    def results(self, failure: str | None) -> list[TrialResult]:
        """See `fl.base.checkpoints.Trials.results`; a `failure` of a round is one of all trials."""
        num_rounds = self._learning.rounds
        rounds = self.record.table("rounds", rounds=num_rounds)
        totals, summary = with_totals(rounds), self._moments.summary() | self._mixing.summary()
        summary |= {f"total_{name}": totals[total][-1] for name, total in SPENT.items() if total in totals}
        spent: dict[str, F64] = {}
        if "amplitude" in rounds:
            spent = self._amplitudes(rounds, summary)
        silent = np.zeros(len(self._trials), bool)
        if "num_active" in rounds:
            silent |= ~rounds["num_active"].any(axis=0)
        ended = np.minimum(self._failed_at, self._stopped_at)
        silences, metrics, failures = silent.tolist(), [], []
        of_trial = zip(*(values.astype(float).tolist() for values in summary.values()), strict=True)
        for row, values in enumerate(of_trial):
            measured = dict(zip(summary, values, strict=True))
            if self._allowance is not None:
                # A trial that stopped before there were samples has no metrics of them.
                measured = {name: value for name, value in measured.items() if not np.isnan(value)}
                measured["rounds_sent"] = float(self._allowance.rounds_sent[row])
            metrics.append(measured)
            failures.append(failure or self._failure(row, silent=silences[row]))
        return self.record.results(
            self._trials,
            metrics=metrics,
            failures=failures,
            kept=ended,
            sent_last=(ended == self._failed_at) & (ended < num_rounds),
            more_rounds=totals,
            privacy=spent,
            account=self._account,
        )

    def _account(self, sent: TrialResult) -> PrivacyAccount | None:
        """Return the account of a trial; trials side by side that sent the same share one."""
        peak = sent.rounds.get("peak_amplitude")
        if peak is None:
            return None
        if self._last_account is None or not np.array_equal(self._last_account[0], peak):
            spent = sent.privacy.get("delta_spent")
            account = flmc_account(self._learning, link=self._link, privacy=self._privacy, peak=peak, spent=spent)
            self._last_account = peak, account
        return self._last_account[1]

    def _amplitudes(self, rounds: Mapping[str, F64], summary: dict[str, F64]) -> dict[str, F64]:
        """Add the amplitude of a run and the limit that held it down to `summary`; return the table of privacy."""
        amplitude, cap = rounds["amplitude"], rounds["active_cap"]
        kept = np.arange(len(cap))[:, None] < self._stopped_at
        on_air = np.maximum((amplitude > 0).sum(axis=0), 1)
        # Summed trial by trial: over `[num_rounds, 1]` NumPy would add in another order than over many.
        summary["amplitude"] = np.ascontiguousarray(amplitude.T).sum(axis=1) / on_air
        summary["active_cap"] = np.stack([((cap == code) & kept).sum(axis=0) for code in range(len(CAP_NAMES))]).argmax(
            axis=0
        )
        bound, privacy = self._bound, self._algorithm.sampling.privacy
        if bound is None or isinstance(privacy, NoPrivacy):
            return {}
        return {
            "epsilon": np.broadcast_to(np.float64(bound.epsilon), amplitude.shape),
            "delta_target": np.broadcast_to(np.float64(bound.delta), amplitude.shape),
            "delta_spent": privacy.delta_spent(np.ascontiguousarray(rounds["peak_amplitude"].T)).T,
        }

    def _failure(self, row: int, *, silent: bool) -> str | None:
        """Why a trial, `silent` if nobody ever sent, has no result, None if it has one."""
        if self._stopped_at[row] == 0:
            return "round 1: one round alone would break the budget for the run"
        if self._failed_at[row] < self._learning.rounds:
            return f"round {self._failed_at[row] + 1}: the parameter has diverged or is not a number"
        if silent:
            return "no device transmitted in any round: all stayed below link.power.cutoff_db"
        return None


def _silenced(outcome: RoundOutcome, theta: F64, *, silent: Bools) -> RoundOutcome:
    """The outcome of a round in which the `silent` trials `[num_trials]` sent nothing: they stay at `theta`."""
    if not silent.any():
        return outcome
    observed = {
        name: np.where(silent, 0.0, values) if name in _ZERO_IF_SILENT else values
        for name, values in outcome.observed.items()
    }
    link = {name: values * ~silent[:, None] if name in LINK_COUNTS else values for name, values in outcome.link.items()}
    bursts = None if outcome.bursts is None else outcome.bursts.of_trials(~silent)
    still = np.where(silent[:, None], theta, outcome.theta)
    return replace(outcome, theta=still, observed=observed, link=link, bursts=bursts)
