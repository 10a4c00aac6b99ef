"""Which privacy mechanism goes with which algorithm, codec and radio."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import AggregatorConfig, Binary32Config, FedAvgConfig, FixedPointConfig, FlmcConfig
from privacy.config import (
    AmplitudeBudget,
    BitFlippingBudget,
    BitFlippingConfig,
    GaussianBudget,
    GaussianConfig,
    PrivacyConfig,
    SchemeBudget,
)
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario


def mechanism_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Mechanisms that the algorithm does not know, or whose privacy would mean nothing."""
    learning, privacy = scenario.learning, scenario.privacy
    if privacy == "none":
        return
    if isinstance(learning, FlmcConfig):
        if not isinstance(privacy, PrivacyConfig | AmplitudeBudget):
            yield Conflict(
                keys=("privacy.mechanism", "privacy", "learning.algorithm"),
                problem=f"mechanism {privacy.mechanism} protects the uploads of fedavg; flmc bounds the amplitude of "
                "every round instead",
                remedy="leave mechanism out and write {epsilon: 5, delta: 0.01}, or use algorithm: fedavg",
            )
    elif not isinstance(learning, FedAvgConfig):
        yield Conflict(
            keys=("privacy", "learning.algorithm"),
            problem=f"{learning.algorithm} studies a codec on numbers of its own, which nothing has to protect",
            remedy="write privacy: none",
        )
    elif isinstance(privacy, PrivacyConfig | AmplitudeBudget):
        yield Conflict(
            keys=("privacy", "learning.algorithm"),
            problem="a privacy bound without a mechanism is that on the amplitudes of flmc, the algorithm is fedavg",
            remedy="add mechanism: bit-flipping or mechanism: gaussian",
        )
    elif isinstance(privacy, SchemeBudget):
        pass  # what such a scheme may be, `budget_conflicts` knows
    elif isinstance(learning.aggregation, AggregatorConfig):  # bits of their own are protected on their own
        yield from _sensitivity(learning, privacy)
        if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
            yield from _bit_flipping(learning, privacy, scenario)


def _sensitivity(
    learning: FedAvgConfig, privacy: BitFlippingConfig | GaussianConfig | BitFlippingBudget | GaussianBudget
) -> Iterator[Conflict]:
    """Both mechanisms stand on 2 eta G / |D_n|, Li et al. 2025 (13)."""
    local, name = learning.local, privacy.mechanism
    if local.clip is None:
        yield Conflict(
            keys=("privacy.mechanism", "privacy"),
            problem=f"mechanism {name} needs every sample's gradient clipped, for else one sample can change a model "
            "without limit, and learning.local.clip is left out",
            remedy="write learning.local.clip: 1",
        )
    if local.optimizer != "gd":
        yield Conflict(
            keys=("learning.local.optimizer", "privacy.mechanism"),
            problem="the sensitivity 2 eta G / |D_n| holds for full-batch gradient descent, the optimizer is "
            f"{local.optimizer}",
            remedy="write optimizer: gd and leave batch_size out, or privacy: none",
        )


def _bit_flipping(
    learning: FedAvgConfig, privacy: BitFlippingConfig | BitFlippingBudget, scenario: Scenario
) -> Iterator[Conflict]:
    codec, link = learning.codec, scenario.link
    codec_keys = ("learning.codec.name", "learning.codec", "privacy.mechanism", "privacy")
    if isinstance(codec, Binary32Config):
        yield Conflict(
            keys=codec_keys,
            problem="flipped exponent bits of binary32 turn weights into anything up to 1e38",
            remedy="write codec: fixed-point or codec: uniform",
        )
    elif (
        isinstance(privacy, BitFlippingConfig)
        and privacy.kappa == "measured"
        and not isinstance(codec, FixedPointConfig)
    ):
        yield Conflict(
            keys=("privacy.kappa", *codec_keys),
            problem=f"kappa is measured on the fraction bits of codec fixed-point, the codec is {codec.name}",
            remedy="write codec: fixed-point, or give kappa as a number",
        )
    if privacy.channel == "native" and link.packets.policy != "accept" and link.error_model != "error_free":
        yield Conflict(
            keys=("link.packets.policy", "privacy.channel", "privacy.mechanism"),
            problem="channel native counts bit errors of the channel as flips, and under packets.policy "
            f"{link.packets.policy} packets with errors are dropped or sent again instead",
            remedy="write packets.policy: accept, or channel: agnostic",
        )
