"""The paper's setting, its data, and the two or three steps that most tests of `fl/` begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.algorithms.flmc.config import FlmcConfig
from fl.algorithms.flmc.rounds import build_flmc
from fl.algorithms.flmc.tasks import build_task
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from phy.config import ChannelConfig, LinkConfig, PowerConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, generator
from privacy.config import PrivacyConfig

SEED = 2022
PAPER_PARAMETER = np.array([0.418, -0.289, 0.3982, 0.8231, 0.5251])
STEP = {"analog": 1.28e-4, "noiseless": 1.28e-4, "exact": 1.28e-4, "digital": 8.28e-3}
RAYLEIGH = {"fading": "rayleigh", "gain": 1.0}


def paper_config(scheme: str, **changes: Any) -> FlmcConfig:
    """The paper's learning part for one scheme."""
    settings = {"scheme": scheme, "step_size": STEP.get(scheme, STEP["digital"])}
    return FlmcConfig(**(settings | changes))


def paper_link(scheme: str, *, snr_max_db: float = 25.0, channel: dict | None = None, **changes: Any) -> LinkConfig:
    """The paper's radio (h = 0.04, N0 = 1, inversion), or the given channel, with `auto` spelt out."""
    power = {"policy": "inversion", "snr_max_db": snr_max_db} | changes.pop("power", {})
    settings = {
        "modulation": "analog" if scheme == "analog" else "bpsk",
        "access": "orthogonal" if scheme == "digital-orthogonal" else "superposition",
        "channel": ChannelConfig(**(channel or {"gain": 0.04})),
        "power": PowerConfig(**power),
    }
    return LinkConfig(**(settings | changes))


def printed_bound(epsilon: float) -> PrivacyConfig:
    """The bound on a round by the equations of the paper, (16) and the corrected (21)."""
    return PrivacyConfig(epsilon=epsilon, digital_cap="printed", analog_cap="corrected")


def run_paper(
    scheme: str,
    *,
    trials: range | tuple[int, ...],
    snr_max_db: float = 25.0,
    epsilon: float | None = 5.0,
    **learning: Any,
) -> list[TrialResult]:
    """Trials of one point of the paper's sweeps; `epsilon` None: without privacy."""
    return run_trials(
        paper_config(scheme, **learning),
        link=paper_link(scheme, snr_max_db=snr_max_db),
        privacy=None if epsilon is None else printed_bound(epsilon),
        seed=SEED,
        trials=trials,
    )


def metric(results: list[TrialResult], name: str) -> np.ndarray:
    """One metric of all trials, `[num_trials]`."""
    return np.array([result.metrics[name] for result in results])


def standard_error(values: np.ndarray) -> float:
    """Of the mean over trials."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def trajectory(
    config: FlmcConfig,
    *,
    link: LinkConfig,
    trials: tuple[int, ...],
    privacy: PrivacyConfig | None = None,
    seed: int = SEED,
) -> np.ndarray:
    """States `[num_rounds, num_trials, m]`, one after each round."""
    task = build_task(config.task, num_devices=config.num_devices, seed=seed, trials=trials)
    algorithm = build_flmc(config, link=link, privacy=privacy, task=task)
    theta = np.zeros((len(trials), task.dimension))
    states = []
    for index in range(config.rounds):
        context = UplinkContext(seed=seed, trials=trials, round_index=index)
        theta = algorithm.round(theta, context=context).theta
        states.append(theta)
    return np.array(states)


def dataset(seed: int, trial: int, *, num_samples: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of one trial of the paper's regression, redrawn as `GaussianLinear` promises."""
    rng = generator(seed, trial, Purpose.DATA)
    inputs = rng.standard_normal((num_samples, len(PAPER_PARAMETER)))
    return inputs, inputs @ PAPER_PARAMETER + rng.standard_normal(num_samples)


def dealt(inputs: np.ndarray, labels: np.ndarray, num_devices: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each device's (inputs, labels)."""
    return list(zip(np.array_split(inputs, num_devices), np.array_split(labels, num_devices), strict=True))


def assert_same_bits(one: TrialResult, other: TrialResult) -> None:
    """Every number of two results is equal to the last bit; NaN equals NaN."""
    assert (one.trial, one.failure) == (other.trial, other.failure)
    for part in ("metrics", "rounds", "link", "privacy", "bursts"):
        left, right = getattr(one, part), getattr(other, part)
        assert left.keys() == right.keys(), part
        for name in left:
            place = f"{part}.{name} of trial {one.trial}"
            np.testing.assert_array_equal(left[name], right[name], err_msg=place)
