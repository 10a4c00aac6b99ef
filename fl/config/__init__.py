"""The `learning:` part of a scenario, checked once, immutable, free of TensorFlow."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from fl.config.base import Frozen, PositiveFloat
from fl.config.codec import Binary32Config, CodecConfig, FixedPointConfig, UniformConfig
from fl.config.data import DataConfig, PartitionConfig
from fl.config.fedavg import FedAvgConfig, ParticipationConfig
from fl.config.flmc import FlmcConfig, GaussianLinearConfig, LmcCap, LogisticConfig, Scheme, TaskConfig
from fl.config.local import LocalConfig
from fl.config.model import ModelConfig
from fl.config.reconstruction import ReconstructionConfig
from fl.config.scheme import (
    AggregationConfig,
    AggregatorConfig,
    AttackConfig,
    CpaScheme,
    JopeqScheme,
    LaplaceScheme,
    MvuScheme,
    PersonalConfig,
    ProbitScheme,
    SignScheme,
)
from fl.config.studies import BitDistanceConfig, FlipMomentsConfig

ALGORITHMS = ("flmc", "fedavg", "flip-moments", "bit-distance", "reconstruction")


def _algorithm(value: Any) -> str:
    """`flmc` where none is named: it was there first."""
    return str(value.get("algorithm", "flmc") if isinstance(value, dict) else getattr(value, "algorithm", "flmc"))


LearningConfig = Annotated[
    Annotated[FlmcConfig, Tag("flmc")]
    | Annotated[FedAvgConfig, Tag("fedavg")]
    | Annotated[FlipMomentsConfig, Tag("flip-moments")]
    | Annotated[BitDistanceConfig, Tag("bit-distance")]
    | Annotated[ReconstructionConfig, Tag("reconstruction")],
    Discriminator(_algorithm),
]
"""One class per algorithm, told apart by `algorithm`."""

__all__ = [
    "ALGORITHMS",
    "AggregationConfig",
    "AggregatorConfig",
    "AttackConfig",
    "Binary32Config",
    "BitDistanceConfig",
    "CodecConfig",
    "CpaScheme",
    "DataConfig",
    "FedAvgConfig",
    "FixedPointConfig",
    "FlipMomentsConfig",
    "FlmcConfig",
    "Frozen",
    "GaussianLinearConfig",
    "JopeqScheme",
    "LaplaceScheme",
    "LearningConfig",
    "LmcCap",
    "LocalConfig",
    "LogisticConfig",
    "ModelConfig",
    "MvuScheme",
    "ParticipationConfig",
    "PartitionConfig",
    "PersonalConfig",
    "PositiveFloat",
    "ProbitScheme",
    "ReconstructionConfig",
    "Scheme",
    "SignScheme",
    "TaskConfig",
    "UniformConfig",
]
