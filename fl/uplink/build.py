"""From the `aggregation:` and `privacy:` of a scenario to the uplink and to what protects uploads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.accounting.fedavg import training_of, upload_parameters
from fl.config.scheme import Scheme
from fl.models.federated import FederatedModel
from fl.tasks.base import LearningError
from fl.uplink.protection import BitFlipping, GaussianNoise, Protection, RandomizedResponse
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import BitTransport, NumberTransport
from fl.uplink.uplink import DeviceAttack, NumberUplink, SchemeUplink, Uplink
from phy.config import LinkConfig
from phy.numerics.random import Purpose, generator
from privacy.config import FlippedBits, Mechanism, NoisyNumbers
from privacy.mechanisms.bit_distance import measure_kappa

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig


def build_uplink(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    model: FederatedModel,
    index: SenderIndex,
    protection: Protection,
    attack: DeviceAttack = lambda payload, **_: payload,
) -> Uplink:
    """Return the uplink for updates of `model` over `link`; `protection` is that of plain numbers.

    Raises LearningError for a scheme that cannot be built for the model.
    """
    on_air, scheme = link.resolve_digital(), config.aggregation
    if scheme.uses_codec:
        transport = NumberTransport(
            on_air,
            codec=config.codec,
            protection=protection,
            num_devices=index.count,
            num_values=model.num_parameters,
            receiver_limit=config.receiver_limit,
        )
        return NumberUplink(transport, index=index, codec=config.codec, scheme=scheme, attack=attack)
    bits = BitTransport(
        on_air,
        protection=build_response(scheme, link=link),
        num_devices=index.count,
        num_bits=scheme.upload_bits(model.num_parameters),
    )
    coder = scheme.build(pieces=model.pieces, receiver_limit=config.receiver_limit)
    return SchemeUplink(coder, transport=bits, index=index, scheme=scheme, attack=attack)


def build_response(scheme: Scheme, *, link: LinkConfig) -> Protection:
    """Return the randomized response of a scheme that flips bits or undoes the channel's flips; else no protection."""
    response = scheme.response
    if response is None or (response.flip_target is None and response.channel == "agnostic"):
        return Protection()
    return RandomizedResponse(response, link=link)


def build_protection(
    privacy: Mechanism | None,
    *,
    config: FedAvgConfig,
    sizes: NDArray[np.float64],
    link: LinkConfig,
    local_models: Callable[[], NDArray[np.float32]],
    seed: int,
    trial: int,
) -> tuple[Protection, dict[str, float]]:
    """Return the protection of a trial, and its privacy numbers by name; `sizes` `[num_devices]` are |D_n|.

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
    return BitFlipping(mechanism, target=target, link=link), numbers
