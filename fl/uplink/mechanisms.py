"""From the `privacy:` part to what protects uploads, and the privacy numbers of a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.accounting.uploads import training_of, upload_parameters
from fl.tasks.base import LearningError
from fl.uplink.channel_credit import errors_arrive, errors_together
from fl.uplink.protection import BitFlipping, GaussianNoise, Protection
from phy.config import LinkConfig
from phy.numerics.random import Purpose, generator
from privacy.config import FlippedBits, Mechanism, NoisyNumbers
from privacy.mechanisms.bit_distance import measure_kappa

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig

Budget = dict[str, float]
"""Privacy numbers of a trial by name: what was asked for, and what follows from it."""


def build_protection(
    privacy: Mechanism | None,
    *,
    config: FedAvgConfig,
    sizes: NDArray[np.float64],
    link: LinkConfig,
    local_models: Callable[[], NDArray[np.float32]],
    seed: int,
    trial: int,
) -> tuple[Protection, Budget]:
    """Return the protection of a trial and its numbers; `sizes` `[num_devices]` are |D_n|.

    `local_models()` `[n, M]`: uploads to measure kappa on. Raises LearningError without a sensitivity, and for a kappa
    that cannot be measured; PrivacyError for a budget that holds nothing.
    """
    mechanism = None if privacy is None else privacy.for_uploads
    if mechanism is None:
        return Protection(), {}
    training = training_of(config)
    if training.clip is None:
        raise LearningError(f"mechanism {mechanism.mechanism} needs a sensitivity; set learning.local.clip")
    distance = mechanism.distance(training, num_samples=sizes)
    found = upload_parameters(config, link=link, privacy=privacy)
    if isinstance(mechanism, NoisyNumbers):
        sigma, numbers = mechanism.noise(training, distance=distance, found=found)
        return GaussianNoise(sigma, by_round=found), numbers
    assert isinstance(mechanism, FlippedBits)
    farthest, kappa = float(distance.max()), None
    fractions = config.codec.as_fractions()
    if mechanism.pairs is not None and fractions is not None:
        kappa = measure_kappa(
            local_models(),
            sensitivity=farthest,
            num_pairs=mechanism.pairs,
            fraction_bits=fractions.fraction_bits,
            value_range=fractions.value_range,
            generator=generator(seed, trial, Purpose.BIT_DISTANCE),
        )
    target, numbers = mechanism.target(training, sensitivity=farthest, kappa=kappa, found=found)
    if target is None:
        raise LearningError("kappa can be measured on fixed-point bits only; write codec: fixed-point, or give kappa")
    flipping = BitFlipping(
        mechanism,
        target=target,
        probe_bits=link.probe_bits,
        errors_arrive=errors_arrive(link),
        errors_together=errors_together(link),
    )
    return flipping, numbers
