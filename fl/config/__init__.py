"""Parts of the `learning:` section of a scenario, checked once, immutable, free of TensorFlow."""

from __future__ import annotations

from fl.config.base import Frozen, PositiveFloat
from fl.config.data import DataConfig, ParticipationConfig, PartitionConfig
from fl.config.learning import Learning, LearningConfig, algorithms
from fl.config.local import LocalConfig, PersonalConfig
from fl.config.task import GaussianLinearConfig, LmcCap, LogisticConfig, TaskConfig

__all__ = [
    "DataConfig",
    "Frozen",
    "GaussianLinearConfig",
    "Learning",
    "LearningConfig",
    "LmcCap",
    "LocalConfig",
    "LogisticConfig",
    "ParticipationConfig",
    "PartitionConfig",
    "PersonalConfig",
    "PositiveFloat",
    "TaskConfig",
    "algorithms",
]
