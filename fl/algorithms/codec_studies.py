"""What flipped bits do to numbers, and how far apart neighbours' bits lie, without any training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.codecs import build_codec
from fl.config import BitDistanceConfig, FixedPointConfig, FlipMomentsConfig
from fl.results import LINK_COUNTS, TrialResult
from fl.theory.bounds import recovered_moments
from fl.uplink.exchange import Exchange, digital_link
from fl.uplink.protection import FixedFlips
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, generator
from privacy.mechanisms.bit_distance import measure_kappa


def run_flip_moments(
    learning: FlipMomentsConfig,
    *,
    link: LinkConfig,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
) -> list[TrialResult]:
    """Mean and variance of every value once its bits were flipped, over all devices and draws, beside Lemma 1.

    The rate of Lemma 1 is the one counted end to end on the very bits of the round.
    """
    codec = build_codec(learning.codec)
    exchange = Exchange(
        digital_link(link),
        codec=codec,
        protection=FixedFlips(learning.flip_probability, num_devices=learning.num_devices),
        num_devices=learning.num_devices,
        num_values=learning.draws,
        receiver_limit=None,
    )
    devices = np.arange(learning.num_devices)
    values = np.linspace(-learning.largest, learning.largest, learning.rounds)
    results = []
    for row, trial in enumerate(trials):
        rounds: dict[str, list[float]] = {}
        tables: dict[str, dict[str, list[NDArray[Any]]]] = {"link": {}, "devices": {}}
        for index, value in enumerate(values):
            upload = exchange.carry(
                np.full((learning.num_devices, learning.draws), value, np.float32),
                devices=devices,
                context=UplinkContext(seed=seed, trials=(trial,), round_index=index),
            )
            known = True if upload.known is None else upload.known
            heard = upload.values[np.broadcast_to(known, upload.values.shape)]
            errors, bits = (float(upload.observed[name].sum()) for name in ("end_errors", "end_bits"))
            found = {"value": float(value), **_moments(heard)}
            if isinstance(learning.codec, FixedPointConfig) and bits:
                found |= _lemma1(value, errors / bits, learning.codec)
            for name, number in {**found, **exchange.pipe.spent(upload.heard, devices)}.items():
                rounds.setdefault(name, []).append(number)
            for name in LINK_COUNTS:
                tables["link"].setdefault(name, []).append(getattr(upload.heard.counts, name)[0])
            for name, numbers in upload.observed.items():
                tables["devices"].setdefault(name, []).append(numbers)
            on_round(row * learning.rounds + index + 1)
        arrays = {name: np.asarray(column) for name, column in rounds.items()}
        results.append(
            TrialResult(
                trial=trial,
                metrics={"largest_mean_gap": _gap(arrays, "mean"), "largest_variance_gap": _gap(arrays, "variance")},
                rounds=arrays,
                link={name: np.stack(column) for name, column in tables["link"].items()},
                devices={name: np.stack(column) for name, column in tables["devices"].items()},
            )
        )
    return results


def _lemma1(value: float, flip_probability: float, codec: FixedPointConfig) -> dict[str, float]:
    mean, variance = recovered_moments(
        value, flip_probability=flip_probability, value_range=codec.value_range, fraction_bits=codec.fraction_bits
    )
    return {"lemma1_mean": float(mean), "lemma1_variance": float(variance)}


def _moments(values: NDArray[Any]) -> dict[str, float]:
    if values.size < 2:
        return {"recovered_mean": np.nan, "recovered_variance": np.nan}
    return {
        "recovered_mean": float(np.mean(values, dtype=np.float64)),
        "recovered_variance": float(np.var(values.astype(np.float64), ddof=1)),
    }


def _gap(arrays: Mapping[str, NDArray[np.float64]], moment: str) -> float:
    """Largest distance between what was measured and Lemma 1; NaN where there is no lemma."""
    if f"lemma1_{moment}" not in arrays:
        return float("nan")
    return float(np.max(np.abs(arrays[f"recovered_{moment}"] - arrays[f"lemma1_{moment}"])))


def run_bit_distance(
    learning: BitDistanceConfig,
    *,
    seed: int,
    trials: Sequence[int],
    on_round: Callable[[int], None] = lambda _: None,
) -> list[TrialResult]:
    """kappa of Li et al. 2025 (15) by (26), one estimate per trial."""
    results = []
    for row, trial in enumerate(trials):
        drawn = generator(seed, trial, Purpose.BIT_DISTANCE)
        shape = (1, learning.dimension)
        if learning.weights == "uniform":
            weights = (2.0 * drawn.random(shape, np.float32) - 1.0) * np.float32(learning.codec.value_range)
        else:
            weights = drawn.standard_normal(shape, np.float32) * np.float32(learning.weight_std)
        found = measure_kappa(
            weights,
            sensitivity=learning.sensitivity,
            num_pairs=learning.num_pairs,
            fraction_bits=learning.codec.fraction_bits,
            value_range=learning.codec.value_range,
            generator=drawn,
        )
        metrics = {"kappa": found.mean, "kappa_standard_error": found.standard_error, "l1_distance": found.l1_mean}
        results.append(TrialResult(trial=trial, metrics=metrics, rounds={}))
        on_round(row + 1)
    return results
