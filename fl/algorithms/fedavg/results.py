"""Numbers of a round of federated averaging, and the result of a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fl.base.arrays import F32, F64
from fl.base.measured import AT_HOME
from fl.base.recorder import SPENT, with_totals
from fl.base.results import PrivacyAccount, TrialResult
from fl.schemes.aggregation.update_kernels import add_weighted_rows
from fl.schemes.cpa.cpa_theory import coded_snr_of_run_db

if TYPE_CHECKING:
    from fl.algorithms.fedavg.federation import Federation
    from fl.local.evaluation import PersonalModels
    from fl.local.trainer import LocalOutcome


class RoundTally:
    """What a round reports of its devices, added up as they pass: in their order, so that blocks change no bit."""

    def __init__(self, *, num_values: int) -> None:
        self._total, self._weight, self.any, self._largest = np.zeros(num_values), 0.0, False, 0.0
        self._trained: list[tuple[F64, F64, F64]] = []

    def note(self, trained: LocalOutcome, *, samples: F64, squares: F64) -> None:
        """Note devices that trained, and ||w||^2 of those who send."""
        self._trained.append((samples, trained.loss, trained.clipped_share))
        self._largest = max(self._largest, squares.max(initial=0.0))

    def add(self, numbers: F32, *, weights: F64) -> None:
        """Add the numbers of those who send, with weights q."""
        if len(numbers):
            add_weighted_rows(numbers, weights, out=self._total)
            self._weight += float(weights.sum())
            self.any = True

    def mean(self) -> F32:
        """sum_k q_k x_k / sum_k q_k, `[M]`; zeros where nobody sent."""
        return np.asarray(self._total / self._weight if self._weight else self._total, np.float32)

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the round; none where nobody has trained."""
        if not self._trained:
            return {}
        samples, loss, clipped_share = map(np.concatenate, zip(*self._trained, strict=True))
        return {
            "train_loss": float((loss * samples).sum() / samples.sum()),
            "clipped_gradients": float((clipped_share * samples).sum() / samples.sum()),
            "model_norm": float(np.sqrt(self._largest)),
        }


def fedavg_result(
    federation: Federation, *, failure: str | None, account: Callable[[TrialResult], PrivacyAccount | None]
) -> TrialResult:
    """Return the result of one trial; `failure`: the reason why it ended early; `account` as for `Recorder.results`."""
    record = federation.record
    more = with_totals(record.table("rounds"))
    rounds = record.of_trial("rounds") | {name: values[:, 0] for name, values in more.items()}
    convergence, metrics = federation.convergence, dict[str, float]()
    if convergence is not None:
        series = {"devices": record.of_trial("devices"), "link": record.of_trial("link")}
        bound = convergence.bound(rounds, series=series)
        if bound is not None:
            more["bound"] = bound[:, None]
    num_values, bits = federation.model.num_parameters, federation.uplink.upload_bits
    if failure is None:
        metrics = {
            **_scores(rounds),
            "test_loss": float(rounds["test_loss"][-1]),
            "train_loss": float(rounds["train_loss"][-1]),
            "num_parameters": float(num_values),
            **({} if bits is None else {"upload_bits": float(bits)}),
            "empty_rounds": float((rounds["num_active"] == 0).sum()),
            **_at_best_validation(rounds),
            **{name: float(rounds[name][-1]) for name in AT_HOME if name in rounds},
            **_aggregation(rounds),
            **_votes(rounds),
            **_over_air(rounds),
            **{f"total_{name}": float(rounds[total][-1]) for name, total in SPENT.items() if total in rounds},
            **_arrived(federation),
            **federation.participation.metrics(),
            **({} if federation.clock is None else federation.clock.metrics()),
            **federation.uplink.facts,
            **federation.budget,
            **({"rounds_sent": float(federation.allowance.rounds_sent)} if federation.allowance.watched else {}),
            **({} if convergence is None else convergence.metrics()),
        }
    (result,) = record.results(
        (federation.trial,),
        metrics=(metrics,),
        failures=(failure,),
        more_rounds=more,
        account=account,
        keeps_bursts=False,
    )
    return result


def _arrived(federation: Federation) -> dict[str, float]:
    """Return right bits that arrived per second on the air, and the mean MCS of those who sent, where they exist."""
    record, found = federation.record, dict[str, float]()
    link, mcs = record.of_trial("link"), record.of_trial("devices").get("mcs")
    on_air_s = float(np.nansum(record.of_trial("rounds").get("airtime_s", 0.0)))
    if federation.drops and on_air_s > 0.0:
        found["goodput_bps"] = float((link["bits"] - link["bit_errors"]).sum()) / on_air_s
    if mcs is not None and not np.isnan(mcs).all():
        found["mean_mcs"] = float(np.nanmean(mcs))
    return found


def _scores(rounds: dict[str, F64]) -> dict[str, float]:
    """Return the last and the best score on the test set."""
    if "test_rmse" in rounds:
        found = {name: float(rounds[name][-1]) for name in ("test_rmse", "test_r2")}
        return found | {"best_rmse": float(np.nanmin(rounds["test_rmse"]))}
    accuracy = rounds["test_accuracy"]
    return {"test_accuracy": float(accuracy[-1]), "best_accuracy": float(np.nanmax(accuracy))}


def scores_at_home(personal: PersonalModels | None, weights: F32) -> dict[str, F64]:
    """Return scores of personal models, and of the global one, on the devices' own samples, `[num_devices]` each."""
    if personal is None:
        return {}
    (own_loss, own), (_, shared) = personal.scores(), personal.scores(weights)
    return dict(zip(AT_HOME, (own, own_loss, shared), strict=True))


def _aggregation(rounds: dict[str, F64]) -> dict[str, float]:
    """Means over the rounds in which somebody sent: of decibels, and of ratios under the 20 log10 of the CPA code."""
    if "aggregation_snr_db" not in rounds:
        return {}
    means = {}
    for name in ("aggregation_snr_db", "aggregation_mse"):
        finite = rounds[name][np.isfinite(rounds[name])]
        means[name] = float(finite.mean()) if finite.size else float("nan")
    return means | {"aggregation_snr_20log_db": coded_snr_of_run_db(rounds["aggregation_snr_20log_db"])}


def _over_air(rounds: dict[str, F64]) -> dict[str, float]:
    """Means over the rounds with somebody on the air of the error that power control lets expect."""
    names = [name for name in ("alignment_mse", "expected_mse", "aggregation_bias") if name in rounds]
    return {name: float(np.nanmean(rounds[name])) for name in names}


def _votes(rounds: dict[str, F64]) -> dict[str, float]:
    """Share of votes that came out wrong in all rounds; nothing where no votes added up in the air."""
    votes = float(np.nansum(rounds.get("votes", 0.0)))
    return {"vote_error_rate": float(np.nansum(rounds["wrong_votes"])) / votes} if votes else {}


def _at_best_validation(rounds: dict[str, F64]) -> dict[str, float]:
    """Test accuracy of the round that the held-out images speak for; nothing where none were held out."""
    if "validation_accuracy" not in rounds:
        return {}
    best = int(np.nanargmax(rounds["validation_accuracy"]))
    return {"validated_accuracy": float(rounds["test_accuracy"][best])}
