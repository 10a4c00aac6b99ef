"""What flipped bits do to numbers, and how far apart neighbours' bits lie, without any training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fl.algorithms.fedavg.convergence import recovered_moments
from fl.base.arrays import F64
from fl.base.checkpoints import Trials
from fl.base.recorder import Recorder, link_columns
from fl.base.results import TrialResult
from fl.uplink.protection import Protection, RoundPlan
from fl.uplink.transport import NumberTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, generator
from privacy.mechanisms.bit_distance import measure_kappa

if TYPE_CHECKING:
    from fl.algorithms.codec_studies.config import BitDistanceConfig, FlipMomentsConfig


class FlipMoments(Trials):
    """Mean and variance of every value once its bits were flipped, over all devices and draws, beside Lemma 1.

    One trial. The rate of Lemma 1 is the one counted end to end on the very bits of the round.
    """

    kept = ("_record", "_link")

    def __init__(self, learning: FlipMomentsConfig, *, link: LinkConfig, privacy: None, seed: int, trial: int) -> None:
        self._learning, self._seed, self._trial = learning, seed, trial
        self._transport = NumberTransport(
            link.resolve_digital(),
            codec=learning.codec,
            protection=Protection(RoundPlan(flip_probability=np.full(learning.num_devices, learning.flip_probability))),
            num_devices=learning.num_devices,
            num_values=learning.draws,
            receiver_limit=None,
        )
        self._devices = np.arange(learning.num_devices)
        self._values = np.linspace(-learning.largest, learning.largest, learning.rounds)
        self._link = self._transport.bits.link
        self._record = Recorder(learning.rounds, num_devices=learning.num_devices)

    def round(self, index: int) -> None:
        """Send one value from all devices."""
        learning, value = self._learning, self._values[index]
        values, known, reception, observed = self._transport.send(
            np.full((learning.num_devices, learning.draws), value, np.float32),
            devices=self._devices,
            context=UplinkContext(seed=self._seed, trials=(self._trial,), round_index=index),
        )
        errors, bits = (float(observed[name].sum()) for name in ("end_errors", "end_bits"))
        arrived = values[np.broadcast_to(True if known is None else known, values.shape)]
        found = {"value": float(value), "recovered_mean": np.nan, "recovered_variance": np.nan}
        if arrived.size > 1:
            found["recovered_mean"] = float(np.mean(arrived, dtype=np.float64))
            found["recovered_variance"] = float(np.var(arrived.astype(np.float64), ddof=1))
        if (codec := learning.codec.as_fractions()) and bits:
            rate, limit, length = errors / bits, codec.value_range, codec.fraction_bits
            mean, variance = recovered_moments(value, flip_probability=rate, value_range=limit, fraction_bits=length)
            found |= {"lemma1_mean": float(mean), "lemma1_variance": float(variance)}
        found |= self._transport.bits.spent(reception, self._devices)
        self._record.note(index, rounds=found, link=link_columns(reception.counts), devices=observed)
        self._record.finish(index)

    def results(self, failure: str | None) -> list[TrialResult]:
        rounds = self._record.of_trial("rounds")
        gaps = {f"largest_{moment}_gap": _gap(rounds, moment) for moment in ("mean", "variance")}
        return self._record.results((self._trial,), metrics=(gaps,), failures=(failure,))


def _gap(arrays: Mapping[str, F64], moment: str) -> float:
    """Largest distance between what was measured and Lemma 1; NaN where there is no lemma."""
    if f"lemma1_{moment}" not in arrays:
        return float("nan")
    return float(np.max(np.abs(arrays[f"recovered_{moment}"] - arrays[f"lemma1_{moment}"])))


class BitDistance(Trials):
    """kappa of Li et al. 2025 (15) by (26), one estimate per trial."""

    def __init__(self, learning: BitDistanceConfig, *, link: LinkConfig, privacy: None, seed: int, trial: int) -> None:
        self._learning, self._seed, self._trial = learning, seed, trial
        self._metrics: dict[str, float] = {}

    def round(self, index: int) -> None:
        """Estimate it in the only round."""
        learning, drawn = self._learning, generator(self._seed, self._trial, Purpose.BIT_DISTANCE)
        codec = learning.codec.as_fractions()
        assert codec is not None
        shape = (1, learning.dimension)
        if learning.weights == "uniform":
            weights = (2.0 * drawn.random(shape, np.float32) - 1.0) * np.float32(codec.value_range)
        else:
            weights = drawn.standard_normal(shape, np.float32) * np.float32(learning.weight_std)
        found = measure_kappa(
            weights,
            sensitivity=learning.sensitivity,
            num_pairs=learning.num_pairs,
            fraction_bits=codec.fraction_bits,
            value_range=codec.value_range,
            generator=drawn,
        )
        spread, l1_mean = found.standard_error, found.l1_mean
        self._metrics = {"kappa": found.mean, "kappa_standard_error": spread, "l1_distance": l1_mean}

    def results(self, failure: str | None) -> list[TrialResult]:
        return [TrialResult(trial=self._trial, metrics=self._metrics, rounds={}, failure=failure)]
