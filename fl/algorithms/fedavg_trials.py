"""All rounds of federated averaging, trial by trial, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg import Federation, RoundReport
from fl.algorithms.flmc_trials import SPENT
from fl.checkpoints import NO_CHECKPOINTS, Checkpoints, State, kept_number, kept_rows, resumed
from fl.config import FedAvgConfig
from fl.local.divergence import DivergedError
from fl.results import OnAir, TrialResult
from fl.schemes.cpa.cpa_theory import coded_snr_of_run_db
from fl.tasks.base import LearningError
from fl.theory.convergence import Convergence
from phy.config import LinkConfig
from phy.measure.burstiness import Burstiness
from privacy.config import UploadPrivacy
from privacy.errors import PrivacyError

_TESTED = ("test_loss", "test_accuracy")
_ON_AIR = ("rounds", "link", "devices")


def run_fedavg(
    learning: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> list[TrialResult]:
    """Run the trials one after the other; `on_round` hears the number of rounds done, added up over the trials.

    `checkpoints` keep the state of one trial: with them, hand in one trial at a time. A trial whose model is no longer
    finite, or lies too far beyond its codec, ends as failed at that round and keeps the rounds before it; one that a
    budget stops ends as done. Raises LearningError for data or a model that cannot be had.
    """
    results = []
    for row, trial in enumerate(trials):
        start = row * learning.rounds

        def told(rounds_done: int, start: int = start) -> None:
            on_round(start + rounds_done)

        def build(trial: int = trial) -> _Trial:
            return _Trial(learning, link=link, privacy=privacy, seed=seed, trial=trial)

        try:
            one, rounds_done = resumed(build, num_rounds=learning.rounds, checkpoints=checkpoints)
        except (DivergedError, PrivacyError) as error:
            results.append(TrialResult(trial=trial, metrics={}, rounds={}, failure=f"before round 0: {error}"))
            continue
        results.append(one.run(rounds_done, on_round=told, checkpoints=checkpoints))
    return results


class _Trial:
    """One trial and what is kept of it."""

    def __init__(
        self, learning: FedAvgConfig, *, link: LinkConfig, privacy: UploadPrivacy | None, seed: int, trial: int
    ) -> None:
        self._learning, self._number = learning, trial
        self._federation = Federation(learning, link=link, privacy=privacy, seed=seed, trial=trial)
        self._record = _Record(learning.rounds, learning.num_devices, seats=self._federation.seats)
        self._convergence: Convergence | None = None
        if learning.convergence_bound:
            self._convergence = Convergence(learning, federation=self._federation, privacy=privacy)
        self._stops = privacy is not None and privacy.budget is not None and privacy.budget.action == "stop"

    def run(self, first: int, *, on_round: Callable[[int], None], checkpoints: Checkpoints) -> TrialResult:
        """All rounds from `first` on; `on_round` hears those done."""
        learning, federation, failure = self._learning, self._federation, None
        for index in range(first, learning.rounds):
            try:
                report = federation.round(index)
            except LearningError as error:
                failure = f"round {index}: {error}"
                break
            if report.failure is not None:
                failure = f"round {index}: {report.failure}"
                self._record.cut_short(report)
                break
            last = index + 1 == learning.rounds or (self._stops and federation.spent_up(index + 1))
            self._note(index, report, test=(index + 1) % learning.test_every == 0 or last)
            if not last and checkpoints.due(index + 1):
                checkpoints.save(index + 1, self.state())
            on_round(index + 1)
            if last:
                for unsent in range(index + 1, learning.rounds):
                    on_round(unsent + 1)
                break
        return self._record.result(self._number, federation=federation, convergence=self._convergence, failure=failure)

    def _note(self, index: int, report: RoundReport, *, test: bool) -> None:
        federation, tested = self._federation, {}
        if test:
            tested = dict(zip(_TESTED, federation.test(), strict=True))
            validated = federation.validate()
            if validated is not None:
                tested["validation_accuracy"] = validated[1]
        if self._convergence is not None:
            tested["distance_sq"] = self._convergence.distance_sq(federation.weights)
        self._record.note(index, report, tested, at_home=_at_home(federation) if test else {})

    def state(self) -> State:
        """See `fl.checkpoints.Resumable`."""
        return {"federation": self._federation.state(), "record": self._record.state()}

    def restore(self, state: State) -> None:
        """See `fl.checkpoints.Resumable`."""
        self._federation.restore(state["federation"])
        self._record.restore(state["record"])


class _Record:
    """Arrays over rounds, filled as the rounds pass; what was not measured in a round is NaN."""

    def __init__(self, num_rounds: int, num_devices: int, *, seats: int) -> None:
        self._num_rounds, self._num_devices, self._seats = num_rounds, num_devices, seats
        self._kept = 0
        self._last: RoundReport | None = None
        self._bursts: Burstiness | None = None
        self._rounds: dict[str, NDArray[np.float64]] = {name: np.full(num_rounds, np.nan) for name in _TESTED}
        self._series: dict[str, dict[str, NDArray[Any]]] = {"devices": {}, "link": {}}

    def note(
        self, index: int, report: RoundReport, tested: dict[str, float], *, at_home: dict[str, NDArray[np.float64]]
    ) -> None:
        """Keep one round; `at_home` `[num_devices]`: how devices did on samples of their own."""
        self._count(report)
        tested = tested | {name: float(np.mean(values)) for name, values in at_home.items()}
        for name, value in {**report.rounds, **tested}.items():
            if name not in self._rounds:
                self._rounds[name] = np.full(self._num_rounds, np.nan)
            self._rounds[name][index] = value
        for table, found in (("devices", {**report.devices, **at_home}), ("link", report.link)):
            for name, values in found.items():
                kept = self._series[table]
                if name not in kept:
                    nothing = np.nan if values.dtype.kind == "f" else 0
                    kept[name] = np.full((self._num_rounds, self._num_devices), nothing, values.dtype)
                kept[name][index] = values
        self._kept = index + 1

    def cut_short(self, report: RoundReport) -> None:
        """A round in which everybody sent and nothing came of it."""
        self._count(report)
        self._last = report

    def _count(self, report: RoundReport) -> None:
        if report.bursts is not None:
            self._bursts = report.bursts if self._bursts is None else self._bursts + report.bursts

    def state(self) -> State:
        """What rounds have left; of the arrays, as many rows as there were rounds."""
        return {
            "kept": self._kept,
            "rounds": {name: values[: self._kept] for name, values in self._rounds.items()},
            **{
                table: {name: values[: self._kept] for name, values in found.items()}
                for table, found in self._series.items()
            },
            "bursts": None if self._bursts is None else self._bursts.state(),
        }

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError, LinkError for the state of another trial."""
        self._kept = kept_number(state, "kept", most=self._num_rounds)
        self._rounds = kept_rows(state["rounds"], num_rounds=self._num_rounds, shape=(), unmeasured=np.nan)
        for table in self._series:
            self._series[table] = kept_rows(
                state[table], num_rounds=self._num_rounds, shape=(self._num_devices,), unmeasured=np.nan
            )
        bursts = state["bursts"]
        self._bursts = None if bursts is None else Burstiness.restored(bursts, shape=(1, self._seats))

    def result(
        self, trial: int, *, federation: Federation, convergence: Convergence | None, failure: str | None
    ) -> TrialResult:
        """What is kept of the trial."""
        kept = self._kept
        rounds = {name: values[:kept].copy() for name, values in self._rounds.items()}
        series = {
            table: {name: values[:kept].copy() for name, values in found.items()}
            for table, found in self._series.items()
        }
        for name, total in SPENT.items():
            if name in rounds:
                rounds[total] = np.cumsum(rounds[name])
        if convergence is not None:
            bound = convergence.bound(rounds, series=series)
            if bound is not None:
                rounds["bound"] = bound
        metrics = {}
        if failure is None:
            accuracy = rounds["test_accuracy"]
            metrics = {
                "test_accuracy": float(accuracy[-1]),
                "best_accuracy": float(np.nanmax(accuracy)),
                "test_loss": float(rounds["test_loss"][-1]),
                "train_loss": float(rounds["train_loss"][-1]),
                "num_parameters": float(federation.model.num_parameters),
                "upload_bits": float(federation.upload_bits),
                "empty_rounds": float((rounds["num_active"] == 0).sum()),
                **_at_best_validation(rounds),
                **{name: float(rounds[name][-1]) for name in AT_HOME if name in rounds},
                **_aggregation(rounds),
                **{f"total_{name}": float(rounds[total][-1]) for name, total in SPENT.items() if total in rounds},
                **federation.facts,
                **federation.budget,
                **({"rounds_sent": float(federation.allowance.rounds_sent)} if federation.allowance.watched else {}),
                **({} if convergence is None else convergence.metrics()),
            }
        return TrialResult(
            trial=trial,
            metrics=metrics,
            rounds=rounds,
            link=series["link"],
            devices=series["devices"],
            on_air=OnAir(
                num_values=federation.model.num_parameters,
                num_bits=federation.upload_bits,
                bursts={} if self._bursts is None else self._bursts.of_trial(0),
                **({} if self._last is None else {name: getattr(self._last, name) for name in _ON_AIR}),
            ),
            failure=failure,
        )


AT_HOME = ("personal_accuracy", "personal_loss", "global_accuracy_at_home")
"""Of personalised learning: personal models, and the global one, on the devices' own held-out samples."""


def _at_home(federation: Federation) -> dict[str, NDArray[np.float64]]:
    if federation.personal is None:
        return {}
    own, shared = federation.personal.scores(), federation.personal.scores_of(federation.weights)
    return dict(zip(AT_HOME, (own.accuracy, own.loss, shared.accuracy), strict=True))


def _aggregation(rounds: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Means over the rounds in which somebody sent: of decibels, and of ratios under the 20 log10 of the CPA code."""
    if "aggregation_snr_db" not in rounds:
        return {}
    return {
        "aggregation_snr_db": _finite_mean(rounds["aggregation_snr_db"]),
        "aggregation_snr_20log_db": coded_snr_of_run_db(rounds["aggregation_snr_20log_db"]),
        "aggregation_mse": _finite_mean(rounds["aggregation_mse"]),
    }


def _finite_mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")


def _at_best_validation(rounds: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Test accuracy of the round that the held-out images speak for; nothing where none were held out."""
    if "validation_accuracy" not in rounds:
        return {}
    best = int(np.nanargmax(rounds["validation_accuracy"]))
    return {"validated_accuracy": float(rounds["test_accuracy"][best])}
