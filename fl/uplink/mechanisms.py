"""From the `privacy:` part to what protects uploads, and the privacy numbers of a trial."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_found import upload_parameters
from fl.config import FedAvgConfig, FixedPointConfig
from fl.tasks.base import LearningError
from fl.uplink.channel_credit import errors_arrive, errors_together
from fl.uplink.protection import BitFlipping, GaussianNoise, NoProtection, Protection
from phy.config import LinkConfig
from phy.numerics.random import Purpose, generator
from privacy.config import (
    BitFlippingBudget,
    BitFlippingConfig,
    GaussianBudget,
    GaussianConfig,
    SchemeBudget,
    UploadPrivacy,
)
from privacy.mechanisms.bit_distance import measure_kappa
from privacy.mechanisms.bit_flipping import target_bit_error_rate
from privacy.mechanisms.gaussian_mechanism import (
    calibrated_sigma,
    delta_from_renyi,
    printed_sigma,
    sensitivity,
    spent_epsilon,
)

Budget = dict[str, float]
"""Privacy numbers of a trial by name: what was asked for, and what follows from it."""


def build_protection(
    privacy: UploadPrivacy | None,
    *,
    config: FedAvgConfig,
    sizes: NDArray[np.float64],
    link: LinkConfig,
    local_models: Callable[[], NDArray[np.float32]],
    seed: int,
    trial: int,
) -> tuple[Protection, Budget]:
    """The protection of a trial and its numbers; `sizes` `[num_devices]` are |D_n|.

    `local_models()` `[n, M]`: uploads to measure kappa on. Raises LearningError where the sensitivity has no meaning.
    """
    if privacy is None or isinstance(privacy, SchemeBudget):
        return NoProtection(), {}
    if config.local.clip is None:
        raise LearningError(f"mechanism {privacy.mechanism} needs a sensitivity; set learning.local.clip")
    every_step = isinstance(privacy, GaussianConfig | GaussianBudget) and privacy.sensitivity == "all-steps"
    steps = config.local.steps if every_step else 1
    distance = sensitivity(
        learning_rate=config.local.learning_rate, clip=config.local.clip, num_samples=sizes, steps=steps
    )
    if isinstance(privacy, GaussianConfig):
        return _gaussian(privacy, config=config, distance=distance)
    if isinstance(privacy, GaussianBudget | BitFlippingBudget):
        return _within(privacy, config=config, distance=distance, link=link)
    return _bit_flipping(
        privacy,
        config=config,
        distance=float(distance.max()),
        link=link,
        local_models=local_models,
        numbers=generator(seed, trial, Purpose.BIT_DISTANCE),
    )


def _gaussian(
    privacy: GaussianConfig, *, config: FedAvgConfig, distance: NDArray[np.float64]
) -> tuple[Protection, Budget]:
    delta = privacy.delta
    if delta is None:
        delta = delta_from_renyi(order=privacy.order, epsilon=privacy.epsilon, epsilon_prime=privacy.epsilon)
    printed = printed_sigma(sensitivity=distance, num_rounds=config.rounds, epsilon=privacy.epsilon, delta=delta)
    calibrated = calibrated_sigma(sensitivity=distance, num_rounds=config.rounds, epsilon=privacy.epsilon, delta=delta)
    sigma = printed if privacy.calibration == "printed" else calibrated
    spent = spent_epsilon(sigma=sigma, sensitivity=distance, num_rounds=config.rounds, delta=delta)
    return GaussianNoise(sigma), {
        "sigma": float(sigma.max()),
        "sigma_printed": float(printed.max()),
        "sigma_calibrated": float(calibrated.max()),
        "epsilon_accounted": float(np.max(spent)),
        "delta": delta,
        "sensitivity": float(distance.max()),
    }


def _within(
    privacy: GaussianBudget | BitFlippingBudget,
    *,
    config: FedAvgConfig,
    distance: NDArray[np.float64],
    link: LinkConfig,
) -> tuple[Protection, Budget]:
    """What the budget for the run leaves for every round; numbers of the most noisy one."""
    found = upload_parameters(config, link=link, privacy=privacy)
    budget: Budget = {"sensitivity": float(distance.max()), "delta": privacy.budget.delta}
    if isinstance(privacy, GaussianBudget):
        return GaussianNoise(distance, by_round=found), {**budget, "sigma": float(distance.max() * found.max())}
    flipping = BitFlipping(
        privacy,
        target=found,
        probe_bits=link.probe_bits,
        errors_arrive=errors_arrive(link),
        errors_together=errors_together(link),
    )
    return flipping, {**budget, "target_bit_error_rate": float(found.max())}


def _bit_flipping(
    privacy: BitFlippingConfig,
    *,
    config: FedAvgConfig,
    distance: float,
    link: LinkConfig,
    local_models: Callable[[], NDArray[np.float32]],
    numbers: np.random.Generator,
) -> tuple[Protection, Budget]:
    budget: Budget = {"sensitivity": distance}
    if isinstance(config.codec, FixedPointConfig):
        measured = measure_kappa(
            local_models(),
            sensitivity=distance,
            num_pairs=privacy.kappa_pairs,
            fraction_bits=config.codec.fraction_bits,
            value_range=config.codec.value_range,
            generator=numbers,
        )
        budget |= {"kappa_measured": measured.mean, "kappa_standard_error": measured.standard_error}
    if privacy.kappa != "measured":
        kappa = privacy.kappa
    elif "kappa_measured" in budget:
        kappa = budget["kappa_measured"]
    else:
        raise LearningError("kappa can be measured on fixed-point bits only; write codec: fixed-point, or give kappa")
    target = target_bit_error_rate(epsilon=privacy.epsilon, order=privacy.order, num_rounds=config.rounds, kappa=kappa)
    budget |= {"kappa": kappa, "target_bit_error_rate": target.rate, "target_unclamped": target.unclamped}
    flipping = BitFlipping(
        privacy,
        target=target.rate,
        probe_bits=link.probe_bits,
        errors_arrive=errors_arrive(link),
        errors_together=errors_together(link),
    )
    return flipping, budget
