"""All rounds of federated averaging, trial by trial, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config import FedAvgConfig
from fl.convergence import Convergence
from fl.federation import DivergedError, Federation, RoundReport
from fl.results import TrialResult
from fl.rounds import SPENT
from fl.tasks.base import LearningError
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig, GaussianConfig

_TESTED = ("test_loss", "test_accuracy")


def run_fedavg(
    learning: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: BitFlippingConfig | GaussianConfig | None,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
) -> list[TrialResult]:
    """Run the trials one after the other; `on_round` hears the number of rounds done, averaged over the trials.

    A trial whose model is no longer finite, or lies too far beyond its codec, ends as failed at that round and keeps
    the rounds before it. Raises LearningError for data or a model that cannot be had.
    """
    results = []
    for row, trial in enumerate(trials):
        try:
            federation = Federation(learning, link=link, privacy=privacy, seed=seed, trial=trial)
        except DivergedError as error:
            results.append(TrialResult(trial=trial, metrics={}, rounds={}, failure=f"before round 0: {error}"))
            continue
        record = _Record(learning.rounds, learning.num_devices)
        convergence = None
        if learning.convergence_bound:
            convergence = Convergence(learning, federation=federation, privacy=privacy)
        failure = None
        for index in range(learning.rounds):
            try:
                report = federation.round(index)
            except LearningError as error:
                failure = f"round {index}: {error}"
                break
            tested = {}
            if (index + 1) % learning.test_every == 0 or index + 1 == learning.rounds:
                tested = dict(zip(_TESTED, federation.test(), strict=True))
                validated = federation.validate()
                if validated is not None:
                    tested["validation_accuracy"] = validated[1]
            if convergence is not None:
                tested["distance_sq"] = convergence.distance_sq(federation.weights)
            record.note(index, report, tested)
            on_round(row * learning.rounds + index + 1)
        results.append(record.result(trial, federation=federation, convergence=convergence, failure=failure))
    return results


class _Record:
    """Arrays over rounds, filled as the rounds pass; what was not measured in a round is NaN."""

    def __init__(self, num_rounds: int, num_devices: int) -> None:
        self._num_rounds, self._num_devices = num_rounds, num_devices
        self._kept = 0
        self._rounds: dict[str, NDArray[np.float64]] = {name: np.full(num_rounds, np.nan) for name in _TESTED}
        self._series: dict[str, dict[str, NDArray[Any]]] = {"devices": {}, "link": {}}

    def note(self, index: int, report: RoundReport, tested: dict[str, float]) -> None:
        """Keep one round."""
        for name, value in {**report.rounds, **tested}.items():
            self._rounds.setdefault(name, np.full(self._num_rounds, np.nan))[index] = value
        for table, found in (("devices", report.devices), ("link", report.link)):
            for name, values in found.items():
                kept = self._series[table]
                if name not in kept:
                    kept[name] = np.zeros((self._num_rounds, self._num_devices), values.dtype)
                kept[name][index] = values
        self._kept = index + 1

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
                **_at_best_validation(rounds),
                **{f"total_{name}": float(rounds[total][-1]) for name, total in SPENT.items() if total in rounds},
                **federation.budget,
                **({} if convergence is None else convergence.metrics()),
            }
        return TrialResult(
            trial=trial,
            metrics=metrics,
            rounds=rounds,
            link=series["link"],
            devices=series["devices"],
            failure=failure,
        )


def _at_best_validation(rounds: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Test accuracy of the round that the held-out images speak for; nothing where none were held out."""
    if "validation_accuracy" not in rounds:
        return {}
    best = int(np.nanargmax(rounds["validation_accuracy"]))
    return {"validated_accuracy": float(rounds["test_accuracy"][best])}
